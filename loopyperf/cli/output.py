"""Files that commands write: where they cannot be written, it is said before there is anything to write.

As with compilers, a file that is named is written over. One that nobody named, since its name is the default, is
written over where it is an earlier one of ours; anything else of that name is left alone.
"""

from itertools import chain, count
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from loopyperf.errors import LoopyperfError
from loopyperf.files import is_there, read_bytes, why_unwritable

MOST = 2**30
"""bytes of a file of ours, at most"""


class Output(click.Path):
    """The path of a file that a command writes, or of a folder for several; it need not exist.

    Where *makes_folders* is stated, the folders that it is in are made when it is written. Files of ours have the
    *mark* in them, by which one of the default name is known.
    """

    def __init__(self, *, makes_folders: bool = False, is_folder: bool = False, mark: str = "") -> None:
        super().__init__(path_type=Path)
        self.makes_folders, self.is_folder, self.mark = makes_folders, is_folder, mark

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises :class:`LoopyperfError` where it cannot, or is not to be, written."""
        option = "the output" if param is None else f"--{param.name}"
        return self.checked(Path(value), option, is_named=_is_named(param, ctx))

    def checked(self, path: Path, option: str, *, is_named: bool) -> Path:
        """Return *path*, or raise :class:`LoopyperfError`; one that is not *named* is overwritten if it is of ours."""
        reason = why_unwritable(path, self.is_folder, self.makes_folders)
        if reason:
            raise LoopyperfError(f"{option} {path} cannot be written: {reason}; give another path")
        if not is_named and is_there(path) and not _has(path, self.mark):
            raise LoopyperfError(
                f"{path} exists and was not written by loopyperf; name it with {option} to overwrite it, or give "
                "another path"
            )
        return path


def free(path: Path) -> Path:
    """Return *path*, or where something is there the first of ``path-2``, ``path-3`` and so on that is free."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(each for each in chain([path], others) if not is_there(each))


def _is_named(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Return whether somebody wrote the path down."""
    if ctx is None or param is None:
        return True
    return ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT


def _has(path: Path, mark: str) -> bool:
    try:
        return mark.encode() in read_bytes(path, MOST)
    except OSError:
        return False
