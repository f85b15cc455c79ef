"""Counted kernels in files, a file each in a folder that may be shared by processes and machines.

A file is written beside its place and moved there, so that a reader finds it whole or not at all, over NFS too, and
without a lock; two processes that count the same kernel write the same. It begins with the digest of the rest: one
that is torn, altered or of another version is not there. Its name says under which versions it was counted.
"""

import contextlib
import hashlib
import os
import tempfile
import warnings
from functools import cache
from importlib import metadata
from pathlib import Path

import loopy.version
import platformdirs

from loopyperf.counts.kernel_counts import KernelTallies
from loopyperf.counts.transcription import TranscriptError, read, transcribed
from loopyperf.errors import LoopyperfWarning

CACHE_VARIABLE = "LOOPYPERF_CACHE"
"""Environment variable that turns the files on: a folder, or 1 for that of a person's caches."""

_OFF = {"", "0", "false", "n", "no", "off"}
_ON = {"1", "true", "y", "yes", "on"}


def cache_folder() -> Path | None:
    """Return the folder of the files, None where nobody asked for them; it need not exist."""
    asked = os.environ.get(CACHE_VARIABLE, "")
    if asked.lower() in _OFF:
        return None
    if asked.lower() in _ON:
        return Path(platformdirs.user_cache_dir("loopyperf"), "analyses")
    return Path(asked).expanduser()


def find(folder: Path, key: str) -> KernelTallies | None:
    """Return the counted kernel that is filed under *key*, None where there is none that can be read."""
    try:
        digest, _, transcript = _file(folder, key).read_bytes().partition(b"\n")
        return read(transcript) if digest == _digest(transcript) else None
    except (OSError, TranscriptError):
        return None


def file(folder: Path, key: str, counted: KernelTallies) -> None:
    """File *counted* under *key*; what cannot be written is warned of once, since it costs time, not the answer."""
    try:
        _write(_file(folder, key), transcribed(counted))
    except OSError as error:
        _warn(folder, f"{error.strerror}")


def _file(folder: Path, key: str) -> Path:
    return folder / f"{hashlib.sha256(f'{key} {_versions()}'.encode()).hexdigest()}.txt"


def _digest(transcript: bytes) -> bytes:
    return hashlib.sha256(transcript).hexdigest().encode()


def _write(path: Path, transcript: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".writing-", delete=False) as temporary:
        try:
            temporary.write(_digest(transcript) + b"\n" + transcript)
            temporary.close()
            Path(temporary.name).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(temporary.name).unlink()
            raise


@cache
def _warn(folder: Path, reason: str) -> None:
    warnings.warn(
        f"counted kernels cannot be kept in {folder}: {reason}; set {CACHE_VARIABLE} to a folder that can be written",
        LoopyperfWarning,
        stacklevel=2,
    )


# {{{ under which versions


@cache
def _versions() -> str:
    """Return everything beside a kernel and the options that its counts depend on."""
    ours = f"loopyperf {metadata.version('loopyperf')} {_source()}"
    theirs = ", ".join(f"{name} {metadata.version(name)}" for name in ("pymbolic", "numpy"))
    return f"{ours}, loopy {loopy.version.DATA_MODEL_VERSION}, {theirs}"


def _source() -> str:
    """Return the digest of the source that counts: while it is worked on, its version stays what it is."""
    package = Path(__file__).parents[1]
    parts = [*package.glob("*.py"), *package.glob("counts/*.py"), *package.glob("properties/*.py")]
    return hashlib.sha256(b"".join(_digest(path.read_bytes()) for path in sorted(parts))).hexdigest()


# }}}
