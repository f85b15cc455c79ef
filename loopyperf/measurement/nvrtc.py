"""NVIDIA's compiler as a library, NVRTC: it needs neither a device nor a toolkit."""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from loopyperf.errors import CompilerError

WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
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
        raise CompilerError("NVRTC is not installed; run: pip install nvidia-cuda-nvrtc")
    nvrtc = ctypes.CDLL(str(path))
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    if created:
        raise CompilerError(f"NVRTC cannot begin a program: error {created}")
    try:
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0")
        code = b"" if failed else _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise CompilerError(f"NVRTC refuses the source: {log.decode(errors='replace').strip()[-500:]}")
    return log.decode(errors="replace"), code


def _read(size: Callable[..., Any], content: Callable[..., Any], program: ctypes.c_void_p) -> bytes:
    """Return what *content* writes into a buffer of the length that *size* tells."""
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    content(program, buffer)
    return buffer.raw[: length.value]
