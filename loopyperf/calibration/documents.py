"""JSON documents on disk: written whole or not at all, and so that a change shows as few lines in a diff."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from loopyperf.errors import FitFileError
from loopyperf.files import said, write_whole

Document = dict[str, object]
"""A file's contents, as JSON has them."""
_LINE_LENGTH = 120


class Written:
    """How many documents this process has written: who remembers what it found in files sees that there is more."""

    number = 0


def write_document(document: Document, target: Path, what: str) -> None:
    """Write *document* to *target*, making its folder; *what* it holds is said in errors.

    Whoever reads meanwhile finds the old file or the new one, whole. Raises :class:`FitFileError` for a number in it
    that is not finite, and for a file that cannot be written.
    """
    # JSON has no such numbers, and msgspec would write null for them.
    if not _finite(document):
        raise FitFileError(
            f"the {what} for {target} holds a number that is not finite, which no file may; fit it again"
        )
    try:
        text = _text(document) + "\n"
        write_whole(target, text.encode(), makes_folders=True)
        Written.number += 1
    except OSError as error:
        raise FitFileError(
            f"cannot write the {what} file {target}: {said(error)}; choose a path that can be written"
        ) from error


def read_document(source: Path, what: str, remedy: str) -> object:
    """Return what the JSON file *source* holds.

    Raises :class:`FitFileError` for one that is missing or corrupt, with the *remedy*; *what* it should hold is said.
    """
    try:
        return msgspec.json.decode(source.read_bytes())
    except OSError as error:
        raise FitFileError(f"cannot read the {what} file {source}: {error.strerror}; {remedy}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FitFileError(f"the {what} file {source} is corrupt: {error}; restore it, or {remedy}") from error


def _text(value: object, indent: int = 0) -> str:
    """Return *value* as JSON: each entry of the file's own objects and arrays on one line, deeper ones if they fit."""
    line = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    if isinstance(value, dict):
        entries = [f"{_text(key)}: {_text(item, indent + 2)}" for key, item in cast("Document", value).items()]
    elif isinstance(value, (list, tuple)):
        entries = [_text(item, indent + 2) for item in cast("Sequence[object]", value)]
    else:
        return line
    if not entries or (indent > 2 and indent + len(line) <= _LINE_LENGTH):
        return line
    margin = "\n" + " " * indent
    return line[0] + f"{margin}  " + f",{margin}  ".join(entries) + margin + line[-1]


def _finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(_finite(item) for item in cast("Document", value).values())
    if isinstance(value, (list, tuple)):
        return all(_finite(item) for item in cast("Sequence[object]", value))
    return not isinstance(value, float) or math.isfinite(value)
