"""The folder of the cache: which files are in it, how much disk it may take, and which files are removed.

Processes and machines share it without a lock or a common counter. After each write, the process may check the folder,
with a probability that grows with the size of the file. So the number of checks while the folder fills is the same on
average, whether one process writes or a thousand. A check removes the least recently used files until a quarter of the
limit is free. Two checks at once remove the same files.

Only files with names that loopyperf gives are listed and removed.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
