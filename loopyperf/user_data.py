"""Where a person's own data lie: fits, measurement archives, device descriptions."""

import os
import warnings
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from time import time_ns

import platformdirs

from loopyperf.errors import LoopyperfError, LoopyperfWarning
from loopyperf.files import is_folder, is_there, said

DATA_VARIABLE = "LOOPYPERF_DATA"
"""Environment variable that names another folder for a person's own data, for tests and clusters."""

LOOKED_UP = ("devices", "fits", "learned")
"""folders of what is found by name"""
SETTLED = 100_000_000
"""nanoseconds after which a file that is written again surely has another time of its last change"""


def user_data() -> Path:
    """Return the folder of a person's own data; it need not exist."""
    return Path(user_data_name())


def user_data_name() -> str:
    """Return :func:`user_data` as a string, which takes less time to make than a path.

    Raises :class:`LoopyperfError` where ``LOOPYPERF_DATA`` names what is there and is no folder.
    """
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return _usual_folder(os.environ.get("HOME"), os.environ.get("XDG_DATA_HOME"))
    if not is_folder(named) and is_there(named):
        raise LoopyperfError(
            f"{DATA_VARIABLE} names {named}, which is no folder; let it name one, or unset it for the usual one"
        )
    return named


@cache
def _usual_folder(*_: str | None) -> str:
    """Return where the system has such data; asked for once for each value of the variables that name a home."""
    return platformdirs.user_data_dir("loopyperf")


def user_data_stamp() -> Hashable | None:
    """Return what differs once a file is added, edited or removed where a person's fits, devices and models lie.

    None where one has changed so recently that its next change may have the same time.
    """
    found: list[object] = [user_data_name()]
    newest = 0
    for name in LOOKED_UP:
        for folder, _, files in os.walk(f"{found[0]}/{name}"):
            for path in (folder, *(f"{folder}/{file}" for file in files)):
                try:
                    state = os.stat(path)  # noqa: PTH116 - a string will do
                except OSError:
                    return None
                newest = max(newest, state.st_mtime_ns, state.st_ctime_ns)
                found.append((path, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(found) if time_ns() - newest > SETTLED else None


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of what is in *folder*, sorted; none where there is no such folder.

    Where it may not be read, that is warned of once, and answers rest on what else there is.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - a string will do
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        own = user_data_name()
        _warn(own if os.fspath(folder).startswith(own) else os.fspath(folder), said(error))
        return []


@cache
def _warn(folder: str, reason: str) -> None:
    warnings.warn(
        f"{folder:.200} cannot be read: {reason}; what is in it is not used. {DATA_VARIABLE} names another folder for "
        "your own data",
        LoopyperfWarning,
        stacklevel=2,
    )


def below_home(path: str | os.PathLike[str]) -> Path:
    """Return *path* with a ``~`` or ``~name`` at its beginning as that folder; as it is where nobody is called so."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
