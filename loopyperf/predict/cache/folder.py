"""The folder of what was found of kernels: what lies in it, how much it may hold, and what goes where it holds more.

It may be shared by processes and machines, none of which knows of the others, and nothing is locked. Who has written a
file may look through the folder: the larger the file, the more likely. So it is looked through as often while as many
bytes are written as it may hold, whether one process writes them or a thousand. A look removes the files that nobody
has used for longest, until there is room for many more. Two that look at once remove the same ones.

Only files are seen, and removed, whose names are those that loopyperf gives.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOKS = 64
"""times that the folder is looked through while as many bytes are written as it may hold, in the mean"""
FILLED = 0.75
"""of what the folder may hold, left by a look: sixteen more are due, in the mean, while the rest is written"""
LEFT_OVER = 3600.0
"""seconds after which nobody is still writing a file"""
WRITING = ".writing-"
"""with which the names of files begin that are not whole yet"""
BLOCK = 4096
"""bytes of disk that most file systems take at a time"""

_NAMES = re.compile(rf"[0-9a-f]{{64}}(-[0-9a-f]{{16}})?\.txt|{re.escape(WRITING)}[a-z0-9_]{{8}}")
"""of files, with the versions that found what is in them; those of loopyperf's first schema do not say them"""


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
        """Return whether it was written to its end."""
        return not self.path.name.startswith(WRITING)


def entries(folder: Path) -> tuple[Entry, ...]:
    """Return our files in *folder*; none where it cannot be read, or is not there."""
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
    """Remove files; return those that are still there, since they may not be removed."""
    return tuple(each for each in gone if not _is_removed(each))


def _is_removed(entry: Entry) -> bool:
    try:
        entry.path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def use(path: Path) -> None:
    """Take note that *path* was read: it is among the last that go."""
    with suppress(OSError):  # another has removed it, or only they may write there
        os.utime(path)


def make_room(written: Path, nbytes: int, limit: int) -> None:
    """Look through the folder of a file of *nbytes* that was *written*, now and then: see above. *limit* is in bytes.

    Whether it is now is told from the name, which is a digest, and so as good as a die.
    """
    if int(written.name[:8], 16) < 2**32 * LOOKS * on_disk(nbytes) / limit:
        trim(written.parent, limit)


def trim(folder: Path, limit: int) -> None:
    """Remove what was left half written, and the files used longest ago where all have more than :data:`FILLED`."""
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
