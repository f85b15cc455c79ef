"""Result cache, in memory and in files.

A transformation search builds the same variant many times, and a script runs again tomorrow. Recent results stay in
memory, and also in files unless the file cache is off. Each kind of result, such as counts or estimates, is a
:class:`ResultKind` with its own file format. :func:`loopyperf.stages.case.found_once` makes the keys of programs.
Nothing else in loopyperf remembers a result for later calls.

Files. Each result is one file, in a folder that processes and machines may share. A file is written under a temporary
name and renamed, so a reader finds it complete or not at all, also over NFS and without a lock. Two processes with the
same result write the same file. A file starts with a digest of its name and content: a truncated, altered or renamed
file is a miss. Its name ends with a digest of all versions on which the content depends.

Size limit. Processes share the folder without a lock or a common counter. After each write, the process checks the
folder with a probability that grows with the size of the file. So the mean number of checks while the folder fills is
the same for one process and for a thousand. A check removes the least recently used files until a quarter of the limit
is free. Two simultaneous checks remove the same files.

Only files with names that loopyperf assigns are listed and removed.
"""

import hashlib
import logging
import os
import re
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

import loopy
import loopy.version
import msgspec
import platformdirs

from loopyperf.display import note_from_json, note_to_json
from loopyperf.errors import LoopyperfWarning, ParameterError
from loopyperf.files import os_reason, read_bytes, write_whole
from loopyperf.stages.cache_keys import content_key
from loopyperf.units import duration

LOG = logging.getLogger("loopyperf")
SLOW_SECONDS = 1.0
"""seconds; longer computations are logged as information, shorter ones for debugging"""

CHECKS_PER_LIMIT = 64
"""mean number of checks while as many bytes are written as the limit"""
KEPT_SHARE = 0.75
"""share of the limit that a check leaves; sixteen more checks are due on average while the rest fills"""
ABANDONED_SECONDS = 3600.0
"""age in seconds after which an incomplete file is considered abandoned"""
WRITING = ".writing-"
"""prefix of the names of incomplete files"""
BLOCK = 4096
"""block size of most file systems, in bytes"""

_NAMES = re.compile(rf"[0-9a-f]{{64}}(-[0-9a-f]{{16}})?\.txt|{re.escape(WRITING)}[a-z0-9_]{{8}}")
"""names of files: digest of the key and digest of the versions, which the first schema did not have"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A cache file."""

    path: Path
    nbytes: int
    """bytes of disk"""
    used: float
    """time of the last write or read, in seconds since the epoch"""

    @property
    def is_whole(self) -> bool:
        """Return whether the file is complete."""
        return not self.path.name.startswith(WRITING)


def entries(folder: Path) -> tuple[Entry, ...]:
    """Return the cache files in *folder*; none if it does not exist or cannot be read."""
    try:
        with os.scandir(folder) as found:
            return tuple(_ours(found))
    except (OSError, ValueError):
        return ()


def _ours(found: Iterable[os.DirEntry[str]]) -> Iterator[Entry]:
    for each in found:
        if _NAMES.fullmatch(each.name):
            with suppress(OSError):  # another process may have removed it
                if each.is_file(follow_symlinks=False):
                    status = each.stat(follow_symlinks=False)
                    yield Entry(Path(each.path), on_disk(status.st_size), status.st_mtime)


def on_disk(nbytes: int) -> int:
    """Return the bytes of disk that a file of *nbytes* and its name occupy, in whole blocks."""
    return nbytes + BLOCK - nbytes % BLOCK


def remove(gone: Iterable[Entry]) -> tuple[Entry, ...]:
    """Remove the files *gone*; return those that could not be removed."""
    return tuple(each for each in gone if not _is_removed(each))


def _is_removed(entry: Entry) -> bool:
    try:
        entry.path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def use(path: Path) -> None:
    """Mark *path* as most recently used."""
    with suppress(OSError):  # the file was removed meanwhile, or is read-only
        os.utime(path)


def make_room(written: Path, nbytes: int, limit: int) -> None:
    """Check the folder after *written*, a file of *nbytes*, with some probability (see above); *limit* is in bytes.

    The file name is a digest, so it serves as the random number.
    """
    if int(written.name[:8], 16) < 2**32 * CHECKS_PER_LIMIT * on_disk(nbytes) / limit:
        trim(written.parent, limit)


def trim(folder: Path, limit: int) -> None:
    """Remove abandoned incomplete files, then least recently used files until :data:`KEPT_SHARE` of *limit* is left."""
    found = entries(folder)
    stale = [each for each in found if not each.is_whole and each.used < time.time() - ABANDONED_SECONDS]
    remove(stale)
    whole = sorted((each for each in found if each.is_whole), key=lambda each: (each.used, each.path))
    excess = sum(each.nbytes for each in whole) - KEPT_SHARE * limit
    for each in whole:
        if excess <= 0:
            break
        if _is_removed(each):
            excess -= each.nbytes


CACHE_VARIABLE = "LOOPYPERF_CACHE"
"""environment variable with another cache folder, or 0 to disable the file cache"""
LIMIT_VARIABLE = "LOOPYPERF_CACHE_LIMIT"
"""environment variable with the maximum size of the cache folder in bytes"""
LIMIT = 256 * 2**20
"""default maximum size of the cache folder in bytes of disk, about 60,000 files"""

MAX_FILE_BYTES = 64 * 2**20
"""maximum bytes of a file to read; loopyperf writes no larger file"""
BYTES = re.compile("[0-9]{1,18}")
"""syntax of a number of bytes"""

SOURCES = (".py", ".toml", ".c", ".h")
"""extensions of the source files on which results depend"""
LOADED = time.time()
"""time at which this process loaded the source, in seconds since the epoch"""

_OFF = {"0", "false", "n", "no", "off"}
_ON = {"", "1", "true", "y", "yes", "on"}


def cache_folder() -> Path | None:
    """Return the cache folder, which need not exist; None if the file cache is off or the user has no home folder.

    Raises :class:`ParameterError` for a folder below the home folder of an unknown user.
    """
    setting = os.environ.get(CACHE_VARIABLE, "")
    if setting.lower() in _OFF:
        return None
    if setting.lower() in _ON:
        return own_folder() if own_folder().is_absolute() else None
    try:
        return Path(setting).expanduser()
    except RuntimeError:
        raise ParameterError(
            f"{CACHE_VARIABLE}={setting} refers to the home folder of an unknown user; set another folder"
        ) from None


def own_folder() -> Path:
    """Return the default cache folder inside the user's cache folder; it need not exist."""
    return Path(platformdirs.user_cache_dir("loopyperf"), "analyses")


def cache_limit() -> int:
    """Return the maximum size of the cache folder in bytes; raises :class:`ParameterError` for an invalid setting."""
    setting = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not setting:
        return LIMIT
    if not (BYTES.fullmatch(setting) and int(setting) > 0):
        raise ParameterError(f"{LIMIT_VARIABLE} must be a positive number of bytes, e.g. {LIMIT}, got {setting!r:.80}")
    return int(setting)


def read_entry(folder: Path, key: str) -> bytes | None:
    """Return the content stored under *key*; None for a miss."""
    path = _file(folder, key)
    try:
        digest, _, transcript = read_bytes(path, MAX_FILE_BYTES).partition(b"\n")
    except OSError:
        return None
    if digest != _digest(path, transcript):
        return None
    use(path)
    return transcript


def write_entry(folder: Path, key: str, transcript: bytes) -> None:
    """Store *transcript* under *key*; warn once if that fails, since the result itself is not affected."""
    path, limit = _file(folder, key), cache_limit()
    content = _digest(path, transcript) + b"\n" + transcript
    try:
        write_whole(path, content, makes_folders=True, prefix=WRITING, mode=0o600, survives_power=False)
    except OSError as error:
        _warn(folder, os_reason(error))
    else:
        make_room(path, len(content), limit)


def _file(folder: Path, key: str) -> Path:
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}-{_hexadecimal(_versions().encode())[:16].decode()}.txt"


def _digest(path: Path, transcript: bytes) -> bytes:
    """Return the digest of a file's name and content."""
    return _hexadecimal(path.name.encode() + b"\n" + transcript)


def _hexadecimal(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


@cache
def _warn(folder: Path, reason: str) -> None:
    warnings.warn(
        f"results cannot be cached in {folder}: {reason}; set {CACHE_VARIABLE} to a writable folder, or to 0",
        LoopyperfWarning,
        stacklevel=2,
    )


# {{{ versions


@cache
def _versions() -> str:
    """Return all versions on which results depend, to the last bit, besides the inputs."""
    ours = f"loopyperf {metadata.version('loopyperf')} {_source(Path(__file__).parents[1])}"
    # In a checkout of Loopy, its version does not change with the code. DATA_MODEL_VERSION includes islpy's version.
    loopys = f"loopy {loopy.version.DATA_MODEL_VERSION} {_source(Path(loopy.__file__).parent)}"
    theirs = ", ".join(f"{name} {_installed(name)}" for name in ("pymbolic", "numpy", "scipy", "scikit-learn"))
    # Since Python 3.12, sum() of floats rounds differently.
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return f"{ours}, {loopys}, {theirs}, {python}"


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _source(package: Path) -> str:
    """Return the digest of the source below *package*; unique to this process if the source was edited after loading.

    It covers all files because results depend on nearly all modules, and on the bundled device files, which provide
    assumed values for numbers that another device file lacks.
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
    """A kind of results. All callers get the same object and must not modify it."""

    name: str
    """unique name, part of keys"""
    kept: int
    """maximum number of results in memory"""
    transcribed: Callable[[Found], bytes] | None = None
    """encodes a result; raises :class:`msgspec.ValidationError` for one that can only be kept in memory. None if no
    result of this kind is stored in files."""
    read: Callable[[bytes], Found] | None = None
    """decodes a result; raises :class:`ValueError` or :class:`RecursionError` if invalid"""
    is_analysis: bool = False
    """whether memory also keeps results for programs that equal only themselves, as for kinds without files"""


def json_result_kind(name: str, kept: int, form: Any) -> ResultKind[Any]:
    """Return a kind of results of type *form* that are stored as JSON: plain values, or records of plain values.

    A value that does not survive a round trip through JSON, such as infinity, stays in memory only.
    """
    decoder = msgspec.json.Decoder[Any](form, dec_hook=note_from_json)

    def transcribed(found: object) -> bytes:
        try:
            transcript = msgspec.json.encode(found, enc_hook=note_to_json)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error
        if decoder.decode(transcript) != found:
            raise msgspec.ValidationError(f"JSON cannot represent {found!r:.80}")
        return transcript

    return ResultKind(name, kept, transcribed, decoder.decode)


class Cache:
    """Results by kind and key: the most recently used ones in memory, over those in files."""

    def __init__(self) -> None:
        self._recent: dict[str, dict[Hashable, Any]] = {}
        """results in memory by name of the kind, the latest last"""
        self._contents: dict[tuple[int, bool], str] = {}
        """content of each live program, since hashing a program's content takes longer than an estimate"""
        self._numbers = count()
        self._lock = Lock()

    def find(self, kind: ResultKind[Found], key: str | None, make: Callable[[], Found]) -> Found:
        """Return the result of *make*, from memory or a file if cached; *key* covers everything that it depends on."""
        lookup = self.look_up(kind, key)
        return lookup.keep(make()) if lookup.found is None else lookup.found

    def look_up(self, kind: ResultKind[Found], key: str | None) -> "Lookup[Found]":
        """Return the cached result for *key*, which covers everything that it depends on, or where to keep it.

        Of keys that start with :data:`OBJECT`, only analyses are cached, in memory. If the key is None, nothing is.
        """
        is_own = key is not None and key.startswith(OBJECT)
        if key is None or (is_own and kind.read is not None and not kind.is_analysis):
            return Lookup(kind)
        if (found := self.get(kind, key)) is not None:
            return Lookup(kind, found=found)
        folder = None if kind.read is None or is_own else cache_folder()
        found = None if folder is None else _read_result(kind, folder, key)
        if found is not None:
            self.put(kind, key, found)
        return Lookup(kind, key, folder, found)

    def get(self, kind: ResultKind[Found], key: Hashable) -> Found | None:
        """Return the result in memory; None if there is none."""
        with self._lock:
            recent = self._recent.setdefault(kind.name, {})
            if (known := recent.pop(key, None)) is not None:
                recent[key] = known  # the latest one is last
            return known

    def put(self, kind: ResultKind[Found], key: Hashable, found: Found) -> None:
        """Keep *found* in memory, and drop the least recently used results of its kind."""
        with self._lock:
            recent = self._recent.setdefault(kind.name, {})
            recent[key] = found
            while len(recent) > kind.kept:
                del recent[next(iter(recent))]

    def content_of(self, program: object) -> str:
        """Return the digest of the content of *program*; the first call for an object takes some milliseconds.

        A program without a content text, or with Loopy's caches off (``LOOPY_NO_CACHE`` or
        ``loopy.set_caching_enabled``), equals only itself: it has a number that starts with :data:`OBJECT`.
        """
        is_on = cast("bool", loopy.CACHING_ENABLED)
        key = object.__hash__(program), is_on
        if key not in self._contents:  # the finalizer may run at any time, so it calls no code of ours
            weakref.finalize(program, self._contents.pop, key, None)
            digest = content_key(program) if is_on else None
            self._contents[key] = digest or f"{OBJECT}{next(self._numbers)}"
        return self._contents[key]

    def clear(self) -> None:
        """Clear the results in memory."""
        with self._lock:
            self._recent.clear()


CACHE = Cache()
"""the only cache of a process"""
OBJECT = "object "
"""start of the key of a program that equals only itself"""


@dataclass(frozen=True)
class Lookup(Generic[Found]):
    """What the cache has for a key."""

    kind: ResultKind[Found]
    key: str | None = None
    """key under which to keep a result; None if it is not cached"""
    folder: Path | None = None
    """folder of its file; None if it is kept in memory only"""
    found: Found | None = None
    """the cached result; None if there is none"""
    started: float = field(default_factory=perf_counter)

    def keep(self, made: Found) -> Found:
        """Return *made*, the missing result; keep it, and log the time since the lookup."""
        if self.key is not None:
            seconds = perf_counter() - self.started
            level = logging.INFO if seconds >= SLOW_SECONDS else logging.DEBUG
            LOG.log(level, "%s: not in the cache, computed in %s", self.kind.name, duration(seconds))
            if self.folder is not None and self.kind.transcribed is not None:
                with suppress(msgspec.ValidationError):
                    write_entry(self.folder, f"{self.kind.name} {self.key}", self.kind.transcribed(made))
            CACHE.put(self.kind, self.key, made)
        return made


def _read_result(kind: ResultKind[Found], folder: Path, key: str) -> Found | None:
    transcript = read_entry(folder, f"{kind.name} {key}")
    # An unreadable file is a miss and will be replaced; msgspec's errors are ValueErrors.
    with suppress(ValueError, RecursionError):
        return None if transcript is None or kind.read is None else kind.read(transcript)
    return None
