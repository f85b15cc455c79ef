"""Files that answers are written to."""

import os
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


def why_unwritable(path: Path, is_folder: bool = False, makes_folders: bool = False) -> str:
    """Return why *path* cannot be written, as far as that is told without writing; empty where it can.

    It is a file unless *is_folder*; with *makes_folders*, those that it is in need not exist.
    """
    if path.exists():
        if path.is_dir() != is_folder:
            return "it is a folder" if path.is_dir() else "it is not a folder"
        return "" if os.access(path, os.W_OK) else "it is not writable"
    folder = path.absolute().parent
    while makes_folders and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable"
