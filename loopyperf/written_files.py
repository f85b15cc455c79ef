"""Files that answers are written to."""

from os import PathLike
from pathlib import Path

from loopyperf.errors import ParameterError


def write_file(what: str, path: str | PathLike[str], text: str) -> Path:
    """Write *text*, *what* somebody asked for, to *path*, over what is there, and return that.

    Raises :class:`ParameterError` where it cannot be written.
    """
    file = Path(path)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{what} cannot be written to {file}: {error.strerror}; give another path") from error
    return file
