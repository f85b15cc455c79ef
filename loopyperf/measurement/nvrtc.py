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


@lru_cache(maxsize=1)
def library() -> Path | None:
    """Return the file of the library in its wheel; None where that is not installed."""
    for wheel in WHEELS:
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
    path = library()
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
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise CompilerError(f"NVRTC refuses the source: {log.strip()[-500:]}")
    return log


def _text(size: Callable[..., Any], text: Callable[..., Any], program: ctypes.c_void_p) -> str:
    """Return what *text* writes into a buffer of the length that *size* tells."""
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    text(program, buffer)
    return buffer.value.decode(errors="replace")
