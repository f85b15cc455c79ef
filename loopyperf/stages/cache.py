"""The cache of counts and answers: equal questions about equal programs are answered once.

A transformation search builds the same variant again and again, and a script runs again tomorrow. Recent results are
kept in memory, and in files unless these are turned off (:mod:`loopyperf.stages.cache`). Counts, answers of
models and the like are kinds of results, each with its own form in files. Keys are made by
:func:`loopyperf.stages.case.found_once`.

The cache of counts and answers in files: a file each, in a folder that processes and machines may share.

A file is written under a temporary name and renamed, so that a reader finds it whole or not at all, over NFS too, and
without a lock; two processes with the same result write the same file. It begins with a digest of its name and content:
a file that is torn, altered or renamed is a miss. Its name ends with a digest of all versions that the content depends
on. Kinds of content are :class:`loopyperf.stages.cache.ResultKind`; :mod:`loopyperf.stages.cache` bounds the
folder.

The folder of the cache: which files are in it, how much disk it may take, and which files are removed.

Processes and machines share it without a lock or a common counter. After each write, the process may check the folder,
with a probability that grows with the size of the file. So the number of checks while the folder fills is the same on
average, whether one process writes or a thousand. A check removes the least recently used files until a quarter of the
limit is free. Two checks at once remove the same files.

Only files with names that loopyperf gives are listed and removed.
"""

import hashlib
import os
import re
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import loopy
import loopy.version
import msgspec
import platformdirs

from loopyperf.counts.transcription import TranscriptError
from loopyperf.errors import LoopyperfWarning, ParameterError
from loopyperf.files import os_reason, read_bytes, write_whole

LOOKS = 64
"""checks on average while as many bytes are written as the folder may take"""
FILLED = 0.75
"""of the limit, left by a check: sixteen more are due on average while the rest is written"""
LEFT_OVER = 3600.0
"""seconds after which no process is still writing a file"""
WRITING = ".writing-"
"""prefix of the names of files that are not complete yet"""
BLOCK = 4096
"""bytes of disk that most file systems take at a time"""

_NAMES = re.compile(rf"[0-9a-f]{{64}}(-[0-9a-f]{{16}})?\.txt|{re.escape(WRITING)}[a-z0-9_]{{8}}")
"""of files: a digest of the key, and one of the versions, which the first schema did not have"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of ours in the folder."""

    path: Path
    nbytes: int
    """of disk"""
    used: float
    """when it was written or read last, in seconds since the epoch"""

    @property
    def is_whole(self) -> bool:
        """Return whether it was completed."""
        return not self.path.name.startswith(WRITING)


def entries(folder: Path) -> tuple[Entry, ...]:
    """Return loopyperf's files in *folder*; none where it cannot be read or does not exist."""
    try:
        with os.scandir(folder) as found:
            return tuple(_ours(found))
    except (OSError, ValueError):
        return ()


def _ours(found: Iterable[os.DirEntry[str]]) -> Iterator[Entry]:
    for each in found:
        if _NAMES.fullmatch(each.name):
            with suppress(OSError):  # it may have gone since
                if each.is_file(follow_symlinks=False):
                    status = each.stat(follow_symlinks=False)
                    yield Entry(Path(each.path), on_disk(status.st_size), status.st_mtime)


def on_disk(nbytes: int) -> int:
    """Return the bytes of disk that a file of *nbytes* takes: whole blocks, with its name."""
    return nbytes + BLOCK - nbytes % BLOCK


def remove(gone: Iterable[Entry]) -> tuple[Entry, ...]:
    """Remove files; return those that could not be removed."""
    return tuple(each for each in gone if not _is_removed(each))


def _is_removed(entry: Entry) -> bool:
    try:
        entry.path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def use(path: Path) -> None:
    """Mark *path* as most recently used."""
    with suppress(OSError):  # it was removed meanwhile, or may only be read
        os.utime(path)


def make_room(written: Path, nbytes: int, limit: int) -> None:
    """Check the folder of a file of *nbytes* that was *written*, now and then (see above). *limit* is in bytes.

    The file's name, a digest, decides: it is as good as a random number.
    """
    if int(written.name[:8], 16) < 2**32 * LOOKS * on_disk(nbytes) / limit:
        trim(written.parent, limit)


def trim(folder: Path, limit: int) -> None:
    """Remove abandoned incomplete files, and the least recently used ones until the others take :data:`FILLED`."""
    found = entries(folder)
    stale = [each for each in found if not each.is_whole and each.used < time.time() - LEFT_OVER]
    remove(stale)
    whole = sorted((each for each in found if each.is_whole), key=lambda each: (each.used, each.path))
    excess = sum(each.nbytes for each in whole) - FILLED * limit
    for each in whole:
        if excess <= 0:
            break
        if _is_removed(each):
            excess -= each.nbytes


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


def read_entry(folder: Path, key: str) -> bytes | None:
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


def write_entry(folder: Path, key: str, transcript: bytes) -> None:
    """Write *transcript* under *key*; where it cannot be written, warn once: that costs time, not the answer."""
    path, limit = _file(folder, key), cache_limit()
    try:
        nbytes = _write(path, transcript)
    except OSError as error:
        _warn(folder, os_reason(error))
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
    ours = f"loopyperf {metadata.version('loopyperf')} {_source(Path(__file__).parents[1])}"
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


Found = TypeVar("Found")


@dataclass(frozen=True)
class ResultKind(Generic[Found]):
    """A kind of results. All callers get the same object, which must not be changed."""

    name: str
    """unique, for keys"""
    kept: int
    """results in memory, at most"""
    transcribed: Callable[[Found], bytes]
    """raises :class:`msgspec.ValidationError` for a result that has no form in files: it is kept in memory alone"""
    read: Callable[[bytes], Found]
    """raises :class:`TranscriptError`, :class:`ValueError` or :class:`RecursionError` for bytes that make no sense"""


def json_result_kind(name: str, kept: int, form: Any) -> ResultKind[Any]:
    """Return a kind whose values are plain, or records of plain values, of the type *form*: JSON holds them.

    A value that JSON does not give back as it was, such as an infinite number, is kept in memory alone.
    """
    decoder = msgspec.json.Decoder[Any](form)

    def transcribed(found: object) -> bytes:
        try:
            transcript = msgspec.json.encode(found)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error
        if decoder.decode(transcript) != found:
            raise msgspec.ValidationError(f"JSON does not hold {found!r:.80}")
        return transcript

    return ResultKind(name, kept, transcribed, decoder.decode)


def recalled(kind: ResultKind[Found], key: str, find: Callable[[], Found]) -> Found:
    """Return the result of *find*, from memory or a file if it is there; *key* has all that the result depends on."""
    recent = _recent.setdefault(kind.name, _Recent(kind.kept))
    known = recent.get(key)
    if known is None:
        known = _filed(kind, key, find)
        recent.put(key, known)
    return known


def shared(name: str, kept: int, key: str, value: Found) -> Found:
    """Return what was shared under *key* before, or *value*, which is from now on: in memory, the latest *kept*."""
    recent = _recent.setdefault(name, _Recent(kept))
    known = recent.get(key)
    if known is None:
        recent.put(key, value)
    return value if known is None else known


def clear_memory() -> None:
    """Forget everything that is kept in memory."""
    _recent.clear()


def _filed(kind: ResultKind[Found], key: str, find: Callable[[], Found]) -> Found:
    folder = cache_folder()
    if folder is None:
        return find()
    transcript = read_entry(folder, key)
    if transcript is not None:
        # What cannot be read is computed and replaced; msgspec's errors are ValueErrors.
        with suppress(TranscriptError, ValueError, RecursionError):
            return kind.read(transcript)
    found = find()
    with suppress(msgspec.ValidationError):
        write_entry(folder, key, kind.transcribed(found))
    return found


class _Recent:
    """The most recently used results of one kind."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._by_key: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> Any:
        with self._lock:
            if key in self._by_key:
                self._by_key.move_to_end(key)
            return self._by_key.get(key)

    def put(self, key: str, found: object) -> None:
        with self._lock:
            self._by_key[key] = found
            while len(self._by_key) > self._kept:
                self._by_key.popitem(last=False)


_recent: dict[str, _Recent] = {}
"""by the names of kinds"""
