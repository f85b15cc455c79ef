"""What a device function takes of the machine, as NVIDIA's compiler reports it: registers, stack, spills.

The report is that of ptxas (``-Xptxas -v``), by nvcc where that is on the path, otherwise by the library NVRTC from the
wheel nvidia-cuda-nvrtc. Neither is needed for anything else: without them there are estimates
(:func:`loopyperf.compiler.registers.estimated_registers`).
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopyperf.errors import CompilerError
from loopyperf.measurement.nvrtc import compilation_log, library

VERBOSE = "-Xptxas=-v"
TIMEOUT = 300
"""seconds for one compilation"""
FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\S+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


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
        "run: pip install nvidia-cuda-nvrtc, or ask for an estimate (loopyperf.compiler.registers.estimated_registers)"
    )


def read_report(report: str) -> tuple[Resources, ...]:
    """Return what ptxas says in its *report*; raises :class:`CompilerError` where it names no function."""
    found = tuple(
        Resources(each["name"], int(each["registers"]), int(each["stack"]), int(each["stores"]), int(each["loads"]))
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
