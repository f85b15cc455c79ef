"""Resources of device functions as NVIDIA's compiler reports them: registers, stack, spills, instruction mix.

The report is that of ptxas (``-Xptxas -v``), run by the library NVRTC from the extra ``cuda-compiler``, which needs no
device. Without it, use estimates (:func:`loopyperf.compiler.registers.estimated_registers`).

The instruction mix is read from the cubin without a disassembler. A cubin is an ELF file with a section ``.text.NAME``
for each device function. From Volta on, an instruction has 128 bits: the lowest nine encode the opcode, the next three
the form of its operands; bits 73 to 75 encode the access width per lane. NVIDIA does not document this: the table is
derived from nvdisasm, and a test compares both.
"""

import ctypes
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import MappingProxyType

from loopyperf.errors import CompilerError

VOLTA = 70
"""the first architecture with 128-bit instructions"""
ELF = b"\x7fELF\x02\x01"
"""magic bytes of a 64-bit little-endian ELF file"""
SECTION = "<IIQQQQ"
"""layout of a section header: name, type, flags, address, offset and size"""
_TABLE = """
002:MOV 004:R2P 005:CS2R 007:SEL 008:FSEL 009:FMNMX 00a:FSET 00b:FSETP 00c:ISETP 010:IADD3 011:LEA
012:LOP3 013:IABS 017:IMNMX 019:SHF 01c:PLOP3 020:FMUL 021:FADD 023:FFMA 024:IMAD 025:IMAD 027:IMAD
028:DMUL 029:DADD 02a:DSETP 02b:DFMA 031:HFMA2 035:HFMA2 036:VIADD 045:I2FP 046:VIADDMNMX 048:VIMNMX
082:UMOV 087:USEL 08c:UISETP 090:UIADD3 091:ULEA 092:ULOP3 099:USHF 09c:UPLOP3 0a4:UIMAD 0a5:UIMAD
0b9:ULDC 0ca:R2UR 100:FLO 102:FCHK 105:F2I 106:I2F 107:FRND 108:MUFU 110:F2F 111:F2I 112:I2F 113:FRND
118:NOP 119:S2R 11d:BAR 141:BSYNC 142:BREAK 144:CALL 145:BSSY 147:BRA 148:WARPSYNC 14d:EXIT 150:RET
155:BMOV 181:LDG 182:LDC 183:LDL 184:LDS 186:STG 187:STL 188:STS 189:SHFL 1ac:LDCU 1c3:S2UR
"""
OPCODES: Mapping[int, str] = MappingProxyType({int(each[:3], 16): each[4:] for each in _TABLE.split()})
"""lowest nine bits of an instruction -> opcode without modifiers"""
ACCESSES = frozenset({"LDG", "STG", "LDS", "STS", "LDL", "STL"})
"""accesses to memory that CUDA calls global, shared and local"""
WIDTHS = (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", "")
"""suffix for the access width per lane, as nvdisasm writes it; none for 32 bits"""


def instruction_mixes(cubin: bytes) -> dict[str, dict[str, int]]:
    """Return, for each device function in *cubin*, the number of instructions of each opcode, without padding.

    Accesses include their widths, e.g. ``"LDG.128"``; unknown opcodes appear as numbers, e.g. ``"0x18e"``. Raises
    :class:`CompilerError` if *cubin* is not a cubin.
    """
    return {name: dict(Counter(_opcodes(text))) for name, text in _functions(cubin)}


def _functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (name, machine code) of each device function."""
    try:
        if not cubin.startswith(ELF):
            raise ValueError
        start, size, number, names = struct.unpack_from("<Q", cubin, 40) + struct.unpack_from("<HHH", cubin, 58)
        headers = [struct.unpack_from(SECTION, cubin, start + place * size) for place in range(number)]
        for name, *_, begin, length in headers:
            letters = headers[names][4] + name
            title = cubin[letters : cubin.index(b"\0", letters)].decode()
            if title.startswith(".text."):
                yield title.removeprefix(".text."), cubin[begin : begin + length]
    except (struct.error, ValueError, IndexError) as error:
        raise CompilerError(f"not a cubin: expected an ELF file with sections, got {cubin[:16]!r}...") from error


def _opcodes(text: bytes) -> Iterator[str]:
    """Yield the opcode of each instruction except NOPs, which pad the code."""
    for low, high in struct.iter_unpack("<QQ", text):
        number = low & 0x1FF
        name = OPCODES.get(number, f"{number:#05x}")
        if name != "NOP":
            yield name + (WIDTHS[high >> 9 & 7] if name in ACCESSES else "")


# {{{ NVIDIA's compiler as a library, NVRTC: needs neither a device nor a CUDA toolkit


WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
"""newest first; the second one still supports devices before Turing"""
PROGRAM = str(Path(__file__).with_name("nvrtc.py"))
TIMEOUT = 300
"""time limit of one compilation, in seconds"""
INSTALL = "run: pip install 'loopyperf[cuda-compiler]'"
ALONE = "libnvrtc.so"
"""start of the file name of the library itself, unlike those of the parts that it loads"""


@lru_cache
def library(wheels: Sequence[str] = WHEELS) -> Path | None:
    """Return the library file of the first installed wheel among *wheels*; None if none is installed."""
    for wheel in wheels:
        try:
            inside = files(wheel) or []
        except PackageNotFoundError:
            continue
        paths = (Path(str(file.locate())) for file in inside if file.name.startswith(ALONE))
        found = next((path for path in paths if path.exists()), None)
        if found is not None:
            return found
    return None


@lru_cache
def architectures(path: Path) -> tuple[int, ...]:
    """Return the architectures that the library at *path* supports, e.g. 90 for ``sm_90``."""
    nvrtc, number = ctypes.CDLL(str(path)), ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(number))
    found = (ctypes.c_int * number.value)()
    nvrtc.nvrtcGetSupportedArchs(found)
    return tuple(found)


def library_for(architecture: str) -> Path:
    """Return the first installed library that supports *architecture*, e.g. ``"sm_70"``.

    Raises :class:`CompilerError` if no library is installed, or none supports the architecture.
    """
    installed = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    if not installed:
        raise CompilerError(f"NVRTC is not installed; {INSTALL}")
    for path in installed:
        if architecture in {f"sm_{each}" for each in architectures(path)}:
            return path
    known = [each for path in installed for each in architectures(path)]
    raise CompilerError(
        f"NVRTC does not compile for {architecture}; the installed one supports sm_{min(known)} to sm_{max(known)}, "
        "the extra cuda-compiler sm_50 and later"
    )


def compilation_log(source: str, options: Sequence[str]) -> str:
    """Return the compiler log for the CUDA *source* compiled with *options*.

    Raises :class:`CompilerError` if the library is missing, or rejects the source or an option.
    """
    return _compiled(source, options, library())[0]


def machine_code(source: str, options: Sequence[str], wheels: Sequence[str] = WHEELS) -> bytes:
    """Return the cubin of the CUDA *source*, compiled with *options* by the first installed wheel among *wheels*.

    Raises the errors of :func:`compilation_log`.
    """
    return _compiled(source, options, library(tuple(wheels)))[1]


def _compiled(source: str, options: Sequence[str], path: Path | None) -> tuple[str, bytes]:
    if path is None:
        raise CompilerError(f"NVRTC is not installed; {INSTALL}")
    command = [sys.executable, "-I", "-S", PROGRAM, str(path), *options]
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompilerError(f"NVRTC took more than {TIMEOUT} s and was stopped") from error
    if done.returncode:
        raise CompilerError(f"NVRTC crashed on the source (exit status {done.returncode}); try another release")
    end = 8 + int.from_bytes(done.stdout[:8], "little")
    log, code = done.stdout[8:end].decode(errors="replace"), done.stdout[end:]
    if not code:
        lines = log.splitlines()
        first = next((line for line in lines if "error" in line), "".join(lines[:1]))
        raise CompilerError(f"NVRTC rejected the source: {first.strip():.300}")
    return log, code


# }}}


# {{{ resources


VERBOSE = "-Xptxas=-v"
FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\S+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?:[^\n]*?(?P<local>\d+) bytes smem)?",
    re.DOTALL,
)
REPORTED = ("registers", "stack", "stores", "loads")


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one device function."""

    function: str
    """name in the object code"""
    registers: int
    """32-bit registers per work-item"""
    stack_frame: int
    """bytes of local (stack) memory per work-item: arrays that are not in registers, and spills"""
    spill_stores: int
    """bytes stored by spill instructions, each instruction counted once"""
    spill_loads: int
    """bytes loaded by spill instructions, each instruction counted once"""
    local_memory: int = 0
    """bytes of local memory per work-group that the source declares, which CUDA calls shared memory"""
    instructions: Mapping[str, int] = field(default_factory=dict[str, int])
    """opcode, e.g. ``"LDG.128"`` -> instructions in the machine code, not executions; empty if only a report was read,
    and before Volta"""
    is_by_another: bool = False
    """whether another compiler builds the launched kernel, such as an OpenCL driver's, which may place private arrays
    elsewhere"""


def compiled(source: str, architecture: str = "sm_80", options: Sequence[str] = ()) -> tuple[Resources, ...]:
    """Return the resources of the device functions in the CUDA *source*, compiled by NVRTC, with instruction mixes.

    Raises :class:`CompilerError` if NVRTC is not installed, or rejects the source or the *architecture*.
    """
    path = library_for(architecture)
    log, cubin = _compiled(source, [f"-arch={architecture}", VERBOSE, *options], path)
    mixes = instruction_mixes(cubin) if int(architecture[3:]) >= VOLTA else {}
    return tuple(replace(each, instructions=mixes.get(each.function, {})) for each in read_report(log))


def read_report(report: str) -> tuple[Resources, ...]:
    """Return the resources in a *report* of ptxas; raises :class:`CompilerError` if it lists no function."""
    found = tuple(
        Resources(each["name"], *map(int, each.group(*REPORTED)), local_memory=int(each["local"] or 0))
        for each in FUNCTION.finditer(report)
    )
    if not found:
        raise CompilerError(f"the ptxas report lists no function with registers: {report.strip()[-300:]!r}")
    return found


# }}}
