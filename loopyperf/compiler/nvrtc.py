"""A program that compiles CUDA by NVRTC: ``python nvrtc.py LIBRARY OPTION ... < SOURCE``.

It is run in a process of its own, since NVRTC ends the process on some kernels, and takes minutes on others. It writes
the length of the log in eight bytes, lowest first, the log, and the cubin; that is empty where the source is refused.
It imports nothing of loopyperf, so that it starts in hundredths of a second.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any


def nvrtc_output(source: bytes, path: str, options: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the log and the cubin of *source*, which is empty where the library at *path* refuses it."""
    nvrtc = ctypes.CDLL(path)
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None):
        return b"error: NVRTC cannot begin a program", b""
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0")
    return log, b"" if failed else _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)


def _read(size: Callable[..., Any], content: Callable[..., Any], program: ctypes.c_void_p) -> bytes:
    """Return what *content* writes into a buffer of the length that *size* tells."""
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    content(program, buffer)
    return buffer.raw[: length.value]


if __name__ == "__main__":
    found_log, found_cubin = nvrtc_output(sys.stdin.buffer.read(), sys.argv[1], sys.argv[2:])
    sys.stdout.buffer.write(len(found_log).to_bytes(8, "little") + found_log + found_cubin)
