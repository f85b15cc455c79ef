"""Resources of device functions as NVIDIA's compiler reports them: registers, stack, spills.

The report is that of ptxas (``-Xptxas -v``), run by the library NVRTC from the extra ``cuda-compiler``, which needs no
device. Without it, use estimates (:func:`loopyperf.compiler.registers.estimated_registers`).
"""

import ctypes
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from loopyperf.errors import CompilerError

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


def machine_code(source: str, architecture: str) -> bytes:
    """Return the cubin of the CUDA *source* for *architecture*, e.g. ``"sm_80"``.

    Raises the errors of :func:`compiled`.
    """
    return _compiled(source, [f"-arch={architecture}"], library_for(architecture))[1]


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
    is_by_another: bool = False
    """whether another compiler builds the launched kernel, such as an OpenCL driver's, which may place private arrays
    elsewhere"""


def compiled(source: str, architecture: str = "sm_80", options: Sequence[str] = ()) -> tuple[Resources, ...]:
    """Return the resources of the device functions in the CUDA *source*, compiled by NVRTC.

    Raises :class:`CompilerError` if NVRTC is not installed, or rejects the source or the *architecture*.
    """
    log, _ = _compiled(source, [f"-arch={architecture}", VERBOSE, *options], library_for(architecture))
    return read_report(log)


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
