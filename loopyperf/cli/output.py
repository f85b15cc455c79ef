"""Files that commands write: where they cannot be written, it is said before there is anything to write."""

import os
from pathlib import Path
from typing import Any

import click

from loopyperf.errors import LoopyperfError


class Output(click.Path):
    """The path of a file that a command writes, or of a folder for several; it need not exist.

    Where *makes_folders* is stated, the folders that it is in are made when it is written.
    """

    def __init__(self, *, makes_folders: bool = False, is_folder: bool = False) -> None:
        super().__init__(path_type=Path)
        self.makes_folders, self.is_folder = makes_folders, is_folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises :class:`LoopyperfError` where it cannot be written."""
        path = Path(value)
        reason = _refusal(path, self.is_folder, self.makes_folders)
        if reason:
            option = "the output" if param is None else f"--{param.name}"
            raise LoopyperfError(f"{option} {path} cannot be written: {reason}; give another path")
        return path


def _refusal(path: Path, is_folder: bool, makes_folders: bool) -> str:
    """Return why *path* cannot be written, as far as that is told without writing; empty where it can."""
    if path.exists():
        if path.is_dir() != is_folder:
            return "it is a folder" if path.is_dir() else "it is no folder"
        return "" if os.access(path, os.W_OK) else "it is not writable"
    folder = path.absolute().parent
    while makes_folders and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable"
