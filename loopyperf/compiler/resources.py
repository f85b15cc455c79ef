"""What a device function takes of the machine, as NVIDIA's compiler reports it: registers, stack, spills, instructions.

The report is that of ptxas (``-Xptxas -v``), by nvcc where that is on the path, otherwise by the library NVRTC from the
extra ``cuda-compiler``. Neither is needed for anything else: without them there are estimates
(:func:`loopyperf.compiler.registers.estimated_registers`). No device is needed either.
"""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from loopyperf.compiler.cubin import VOLTA, instruction_mixes
from loopyperf.errors import CompilerError

# {{{ NVIDIA's compiler as a library, NVRTC: it needs neither a device nor a toolkit


WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
"""the latest first; the second one still compiles for what is older than Turing"""
PROGRAM = str(Path(__file__).with_name("nvrtc.py"))
TIMEOUT = 300
"""seconds for one compilation"""
INSTALL = "run: pip install 'loopyperf[cuda-compiler]'"
ALONE = "libnvrtc.so"
"""as the library's file begins, without the parts that it loads itself"""


@lru_cache
def library(wheels: Sequence[str] = WHEELS) -> Path | None:
    """Return the file of the library in the first of *wheels* that is installed; None where none is."""
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
    """Return the architectures that the library at *path* compiles for, e.g. 90 for ``sm_90``."""
    nvrtc, number = ctypes.CDLL(str(path)), ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(number))
    found = (ctypes.c_int * number.value)()
    nvrtc.nvrtcGetSupportedArchs(found)
    return tuple(found)


def library_for(architecture: str) -> Path:
    """Return the file of the first library installed that compiles for *architecture*, e.g. ``"sm_70"``.

    Raises :class:`CompilerError` where none is installed, and where none of those does.
    """
    installed = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    if not installed:
        raise CompilerError(f"NVRTC is not installed; {INSTALL}")
    for path in installed:
        if architecture in {f"sm_{each}" for each in architectures(path)}:
            return path
    known = [each for path in installed for each in architectures(path)]
    raise CompilerError(
        f"NVRTC does not compile for {architecture}; what is installed does from sm_{min(known)} to sm_{max(known)}, "
        "and the extra cuda-compiler from sm_50"
    )


def compilation_log(source: str, options: Sequence[str]) -> str:
    """Return what the compiler says while it compiles the CUDA *source* with *options*.

    Raises :class:`CompilerError` where the library is missing, or where it refuses the source or an option.
    """
    return _compiled(source, options, library())[0]


def machine_code(source: str, options: Sequence[str], wheels: Sequence[str] = WHEELS) -> bytes:
    """Return the cubin of the CUDA *source*, compiled with *options* by the first of *wheels*.

    Raises what :func:`compilation_log` raises.
    """
    return _compiled(source, options, library(tuple(wheels)))[1]


def _compiled(source: str, options: Sequence[str], path: Path | None) -> tuple[str, bytes]:
    if path is None:
        raise CompilerError(f"NVRTC is not installed; {INSTALL}")
    command = [sys.executable, "-I", "-S", PROGRAM, str(path), *options]
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompilerError(f"NVRTC took more than {TIMEOUT} s, and was ended") from error
    if done.returncode:
        raise CompilerError(
            f"NVRTC crashed on the source, with status {done.returncode}; another release may compile it"
        )
    end = 8 + int.from_bytes(done.stdout[:8], "little")
    log, code = done.stdout[8:end].decode(errors="replace"), done.stdout[end:]
    if not code:
        lines = log.splitlines()
        first = next((line for line in lines if "error" in line), "".join(lines[:1]))
        raise CompilerError(f"NVRTC refuses the source: {first.strip():.300}")
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
    """What one device function takes."""

    function: str
    """its name in the object code"""
    registers: int
    """of 32 bits, for each work-item"""
    stack_frame: int
    """bytes of private memory for each work-item: arrays that are not in registers, and what is spilled"""
    spill_stores: int
    """bytes that the instructions store which spill registers, each counted once"""
    spill_loads: int
    """bytes, likewise"""
    local_memory: int = 0
    """bytes of a work-group that the source declares, which CUDA calls shared memory"""
    instructions: Mapping[str, int] = field(default_factory=dict[str, int])
    """opcode -> how many there are in the machine code, not how often they are executed, e.g. ``"LDG.128"``; none where
    only a report was read, nor before Volta"""
    is_by_another: bool = False
    """another compiler builds what is launched, as a driver's for OpenCL, which may place private arrays elsewhere"""


def nvcc() -> str | None:
    """Return the path of the compiler, None where there is none."""
    return shutil.which("nvcc")


def resources(source: str, architecture: str = "sm_80", options: Sequence[str] = ()) -> tuple[Resources, ...]:
    """Return what the device functions of the CUDA *source* take on *architecture*, in the order of the report.

    *options* are further ones for the compiler, such as ``"-use_fast_math"``. Raises :class:`CompilerError` where there
    is no compiler, or where it refuses the source or the architecture.
    """
    command = [f"-arch={architecture}", VERBOSE, *options]
    compiler = nvcc()
    if compiler is not None:
        return read_report(_by_nvcc(compiler, source, command))
    if library() is not None:
        return read_report(compilation_log(source, command))
    raise CompilerError(
        "no compiler for CUDA: nvcc is not on the path, and NVRTC is not installed; "
        f"{INSTALL}, or ask for an estimate (loopyperf.compiler.registers.estimated_registers)"
    )


def compiled(source: str, architecture: str, options: Sequence[str] = ()) -> tuple[Resources, ...]:
    """Return what the device functions of the CUDA *source* take by NVRTC, with the instructions that they have.

    Raises :class:`CompilerError` where NVRTC is not installed, or refuses the source or the *architecture*.
    """
    path = library_for(architecture)
    log, cubin = _compiled(source, [f"-arch={architecture}", VERBOSE, *options], path)
    mixes = instruction_mixes(cubin) if int(architecture[3:]) >= VOLTA else {}
    return tuple(replace(each, instructions=mixes.get(each.function, {})) for each in read_report(log))


def read_report(report: str) -> tuple[Resources, ...]:
    """Return what ptxas says in its *report*; raises :class:`CompilerError` where it names no function."""
    found = tuple(
        Resources(each["name"], *map(int, each.group(*REPORTED)), local_memory=int(each["local"] or 0))
        for each in FUNCTION.finditer(report)
    )
    if not found:
        raise CompilerError(f"the report of ptxas names no function with its registers: {report.strip()[-300:]!r}")
    return found


def _by_nvcc(compiler: str, source: str, command: Sequence[str]) -> str:
    """Return the report of nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source)
        done = subprocess.run(
            [compiler, "-cubin", *command, str(path), "-o", str(path.with_suffix(".cubin"))],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    if done.returncode:
        raise CompilerError(f"nvcc refuses the source: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stderr + done.stdout


# }}}
