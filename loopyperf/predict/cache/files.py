"""The cache of counts and answers in files: a file each, in a folder that processes and machines may share.

A file is written under a temporary name and renamed, so that a reader finds it whole or not at all, over NFS too, and
without a lock; two processes with the same result write the same file. It begins with a digest of its name and content:
a file that is torn, altered or renamed is a miss. Its name ends with a digest of all versions that the content depends
on. Kinds of content are :class:`loopyperf.predict.cache.recent.Kind`; :mod:`loopyperf.predict.cache.folder` bounds the
folder.
"""

import hashlib
import os
import re
import sys
import time
import warnings
from functools import cache
from importlib import metadata
from pathlib import Path

import loopy
import loopy.version
import platformdirs

from loopyperf.errors import LoopyperfWarning, ParameterError
from loopyperf.files import read_bytes, said, write_whole
from loopyperf.predict.cache.folder import WRITING, make_room, use

CACHE_VARIABLE = "LOOPYPERF_CACHE"
"""Environment variable that names another folder for the files, or turns them off by 0."""
LIMIT_VARIABLE = "LOOPYPERF_CACHE_LIMIT"
"""Environment variable with the bytes that the folder may hold."""
LIMIT = 256 * 2**20
"""bytes of disk that the folder may take, unless :data:`LIMIT_VARIABLE` says otherwise: some 60,000 files"""

MOST = 64 * 2**20
"""bytes of a file that is read; no larger one was written here"""
BYTES = re.compile("[0-9]{1,18}")
"""a number of bytes"""

SOURCES = (".py", ".toml", ".c", ".h")
"""with which the names of files end that answers depend on"""
LOADED = time.time()
"""when this process had loaded the source, in seconds since the epoch"""

_OFF = {"0", "false", "n", "no", "off"}
_ON = {"", "1", "true", "y", "yes", "on"}


def cache_folder() -> Path | None:
    """Return the folder of the files, None where they are turned off or the user has no home; it need not exist.

    Raises :class:`ParameterError` for a folder below the home of a user whom this machine does not know.
    """
    asked = os.environ.get(CACHE_VARIABLE, "")
    if asked.lower() in _OFF:
        return None
    if asked.lower() in _ON:
        return own_folder() if own_folder().is_absolute() else None
    try:
        return Path(asked).expanduser()
    except RuntimeError:
        raise ParameterError(
            f"{CACHE_VARIABLE}={asked} names the home of a user whom this machine does not know; name another folder"
        ) from None


def own_folder() -> Path:
    """Return the folder of the files in the user's cache folder; it need not exist."""
    return Path(platformdirs.user_cache_dir("loopyperf"), "analyses")


def cache_limit() -> int:
    """Return how many bytes of disk the folder may take; raises :class:`ParameterError` for no number of bytes."""
    asked = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not asked:
        return LIMIT
    if not (BYTES.fullmatch(asked) and int(asked) > 0):
        raise ParameterError(
            f"{LIMIT_VARIABLE} is a whole number of bytes above 0, such as {LIMIT}; received {asked!r:.80}"
        )
    return int(asked)


def find(folder: Path, key: str) -> bytes | None:
    """Return what was written under *key*; None for a miss."""
    path = _file(folder, key)
    try:
        digest, _, transcript = read_bytes(path, MOST).partition(b"\n")
    except OSError:
        return None
    if digest != _digest(path, transcript):
        return None
    use(path)
    return transcript


def file(folder: Path, key: str, transcript: bytes) -> None:
    """Write *transcript* under *key*; where it cannot be written, warn once: that costs time, not the answer."""
    path, limit = _file(folder, key), cache_limit()
    try:
        nbytes = _write(path, transcript)
    except OSError as error:
        _warn(folder, said(error))
    else:
        make_room(path, nbytes, limit)


def is_of_these_versions(path: Path) -> bool:
    """Return whether the file at *path* was written by the installed versions; no other file is read again."""
    return path.name.endswith(_ending())


def _file(folder: Path, key: str) -> Path:
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_ending()}"


def _digest(path: Path, transcript: bytes) -> bytes:
    """Return the digest of a file's name, which has that of its key, and of its content."""
    return _hexadecimal(path.name.encode() + b"\n" + transcript)


def _hexadecimal(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _write(path: Path, transcript: bytes) -> int:
    """Write the file, and return how many bytes it has."""
    content = _digest(path, transcript) + b"\n" + transcript
    write_whole(path, content, makes_folders=True, prefix=WRITING, mode=0o600, survives_power=False)
    return len(content)


@cache
def _warn(folder: Path, reason: str) -> None:
    warnings.warn(
        f"answers cannot be cached in {folder}: {reason}; set {CACHE_VARIABLE} to a folder that can be written, or 0",
        LoopyperfWarning,
        stacklevel=2,
    )


# {{{ versions


def _ending() -> str:
    return f"-{_hexadecimal(_versions().encode())[:16].decode()}.txt"


@cache
def _versions() -> str:
    """Return everything that results depend on beside the question, to the last bit."""
    ours = f"loopyperf {metadata.version('loopyperf')} {_source(Path(__file__).parents[2])}"
    # In a checkout of Loopy, the version does not change with the code. It includes the version of islpy.
    loopys = f"loopy {loopy.version.DATA_MODEL_VERSION} {_source(Path(loopy.__file__).parent)}"
    theirs = ", ".join(f"{name} {_installed(name)}" for name in ("pymbolic", "numpy", "scipy", "scikit-learn"))
    # Since Python 3.12, sum() of floats rounds otherwise.
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return f"{ours}, {loopys}, {theirs}, {python}"


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _source(package: Path) -> str:
    """Return the digest of the source below *package*; of this process alone where that was edited since it was loaded.

    It covers all files: results depend on nearly all modules, and on the bundled descriptions of devices, from which
    numbers are assumed that another description lacks.
    """
    walked = os.walk(package)
    paths = sorted(Path(folder, name) for folder, _, names in walked for name in names if name.endswith(SOURCES))
    digest = hashlib.sha256(b"".join(_hexadecimal(path.read_bytes()) for path in paths)).hexdigest()
    is_edited = any(path.stat().st_mtime > LOADED for path in paths)
    return f"{digest} loaded by {os.getpid()} at {LOADED}" if is_edited else digest


# }}}
