"""JSON documents on disk: written whole or not at all, and so that a change shows as few lines in a diff.

A document may come from anybody. What is read is bounded and strict: no more than :data:`MOST` bytes, UTF-8, each key
once, and numbers that sums and products of do not overflow. What its structure must be, say the classes that it is
converted to; what must hold between its fields, say their ``__post_init__``, so that an error names the place.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn, cast

import msgspec

from loopyperf.errors import FitFileError
from loopyperf.files import read_bytes, said, write_whole

Document = dict[str, object]
"""A file's contents, as JSON has them."""
_LINE_LENGTH = 120
MOST = 64 * 2**20
"""bytes of a document: that of a thousand measurements has one of them"""
LARGEST = 1e30
"""magnitude of a number in a document, far beyond what is measured or counted"""
DIGITS = 20
"""of an integer in a document, with its sign"""

Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def write_document(document: Document, target: Path, what: str) -> None:
    """Write *document* to *target*, making its folder; *what* it holds is said in errors.

    Concurrent readers see the old file or the new one, whole. Raises :class:`FitFileError` for a number in it
    that is not finite, or beyond :data:`LARGEST`, and for a file that cannot be written.
    """
    # JSON has no such numbers, and msgspec would write null for them.
    if not _finite(document):
        raise FitFileError(
            f"the {what} for {target} holds a number that is not finite, or beyond {LARGEST:g}, which no file may; fit "
            "it again"
        )
    try:
        text = _text(document) + "\n"
        write_whole(target, text.encode(), makes_folders=True)
    except OSError as error:
        raise FitFileError(
            f"cannot write the {what} file {target}: {said(error)}; choose a path that can be written"
        ) from error


def read_document(source: Path, what: str, remedy: str) -> object:
    """Return what the JSON file *source* holds.

    Raises :class:`FitFileError` for one that is missing or corrupt, with the *remedy*; *what* it should hold is said.
    """
    try:
        return strictly_decoded(read_bytes(source, MOST))
    except OSError as error:
        raise FitFileError(f"cannot read the {what} file {source}: {said(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise FitFileError(f"the {what} file {source} is corrupt: {error!s:.300}; restore it, or {remedy}") from error


def strictly_decoded(content: bytes) -> object:
    """Return the JSON value that *content* is.

    Raises :class:`ValueError`, of which msgspec's errors are, and :class:`RecursionError` for anything else, and for an
    object with a key twice, of which each reader takes another.
    """
    value = msgspec.json.decode(content)
    json.loads(content, object_pairs_hook=_check_keys, parse_int=_check_digits, parse_constant=_check_constant)
    return value


def _check_keys(pairs: Iterable[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"the key {max(keys, key=keys.count)!r:.80} stands twice in one object")


def _check_digits(text: str) -> None:
    if len(text) > DIGITS:
        raise ValueError(f"an integer of {len(text):,} digits, {text:.20}..., is no count of anything")


def _check_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


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
    return not isinstance(value, float) or abs(value) <= LARGEST
