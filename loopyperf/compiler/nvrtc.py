"""Compile CUDA source with NVRTC: ``python nvrtc.py LIBRARY OPTION ... < SOURCE``.

This program runs in its own process because NVRTC crashes on some kernels and takes minutes on others. It writes the
length of the log (eight bytes, little-endian), the log, and the cubin, which is empty if compilation failed. It imports
nothing from loopyperf, so that it starts within hundredths of a second.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any


def nvrtc_output(source: bytes, path: str, options: Sequence[str]) -> tuple[bytes, bytes]:
    """Return log and cubin of *source*; the cubin is empty if the library at *path* rejects the source."""
    nvrtc = ctypes.CDLL(path)
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None):
        return b"error: NVRTC cannot create a program", b""
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0")
    return log, b"" if failed else _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)


def _read(size: Callable[..., Any], content: Callable[..., Any], program: ctypes.c_void_p) -> bytes:
    """Return the bytes that *content* writes into a buffer of the length that *size* reports."""
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    content(program, buffer)
    return buffer.raw[: length.value]


if __name__ == "__main__":
    found_log, found_cubin = nvrtc_output(sys.stdin.buffer.read(), sys.argv[1], sys.argv[2:])
    sys.stdout.buffer.write(len(found_log).to_bytes(8, "little") + found_log + found_cubin)
