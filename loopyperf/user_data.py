"""Where a person's own data lie: fits, measurement archives, device descriptions."""

import os
from functools import cache
from pathlib import Path

import platformdirs

from loopyperf.errors import LoopyperfError

DATA_VARIABLE = "LOOPYPERF_DATA"
"""Environment variable that names another folder for a person's own data, for tests and clusters."""


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
    if not os.path.isdir(named) and os.path.exists(named):  # noqa: PTH110, PTH112 - see above
        raise LoopyperfError(
            f"{DATA_VARIABLE} names {named}, which is no folder; let it name one, or unset it for the usual one"
        )
    return named


@cache
def _usual_folder(*_: str | None) -> str:
    """Return where the system has such data; asked for once for each value of the variables that name a home."""
    return platformdirs.user_data_dir("loopyperf")


def below_home(path: str | os.PathLike[str]) -> Path:
    """Return *path* with a ``~`` or ``~name`` at its beginning as that folder; as it is where nobody is called so."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
