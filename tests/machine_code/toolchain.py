"""NVIDIA's compiler and disassembler: compile CUDA source to a listing of machine code, cached on disk."""

import shutil
import subprocess
import tempfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

CACHE = Path(tempfile.gettempdir()) / "loopyperf-machine-code"
"""cache of listings outside pytest"""
NVDISASM_WHEEL = "nvidia-cuda-nvdisasm"
ELF_FLAGS = 48
"""offset of the ELF flags in a cubin; they contain the architecture twice"""
TIMEOUT = 300
"""seconds for one compilation; ptxas takes up to a minute for a kernel unrolled by hand"""


def nvcc() -> str | None:
    """Return the path of nvcc; None if it is not on the path."""
    return shutil.which("nvcc")


def nvdisasm() -> str | None:
    """Return the path of the disassembler, on the path or in its wheel; None if there is none."""
    return shutil.which("nvdisasm") or _from_wheel()


def missing() -> str | None:
    """Return which tool is missing, as a reason for skipping tests; None if all are available."""
    if nvcc() is None:
        return "nvcc is not on the path"
    if nvdisasm() is None:
        return f"nvdisasm is neither on the path nor installed (pip install {NVDISASM_WHEEL})"
    return None


def listing(code: str, architecture: str, options: tuple[str, ...] = (), cache: Path = CACHE) -> str:
    """Return the machine code of the CUDA source *code* as nvdisasm prints it.

    *architecture* is like ``"sm_90"``; *options* are for nvcc. Raises :class:`RuntimeError` with the compiler's
    message.
    """
    version = _output([_tool(nvcc(), "nvcc"), "--version"])
    key = sha256("\0".join([version, architecture, *options, code]).encode()).hexdigest()
    kept = cache / f"{key}.sass"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        text = _compiled(code, architecture, options)
        with tempfile.NamedTemporaryFile("w", dir=cache, delete=False) as file:
            file.write(text)
        Path(file.name).replace(kept)
    return kept.read_text()


def _compiled(code: str, architecture: str, options: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        source.write_text(code)
        _output([_tool(nvcc(), "nvcc"), "-cubin", f"-arch={architecture}", *options, str(source), "-o", str(cubin)])
        return _output([_tool(nvdisasm(), "nvdisasm"), "-c", str(cubin)])


def disassembled(cubin: bytes, architecture: str) -> str:
    """Return the machine code in *cubin* as nvdisasm prints it.

    nvdisasm 13 does not support sm_70, whose instructions have the encoding of sm_75.
    """
    flags = int.from_bytes(cubin[ELF_FLAGS : ELF_FLAGS + 4], "little")
    if architecture == "sm_70":
        flags = flags & ~0xFF00FF | 0x4B004B
    written = cubin[:ELF_FLAGS] + flags.to_bytes(4, "little") + cubin[ELF_FLAGS + 4 :]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(written)
        file.flush()
        return _output([_tool(nvdisasm(), "nvdisasm"), "-c", file.name])


def _tool(path: str | None, name: str) -> str:
    if path is None:
        raise RuntimeError(f"{name} is needed and not there: {missing()}")
    return path


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _from_wheel() -> str | None:
    try:
        inside = files(NVDISASM_WHEEL) or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in inside if file.name == "nvdisasm")
    return next((str(path) for path in paths if path.exists()), None)
