"""The cache of counts and answers: equal questions about equal programs are answered once.

A transformation search builds the same variant again and again, and a script runs again tomorrow. Recent results are
kept in memory, and in files unless these are turned off (:mod:`loopyperf.predict.cache.files`). Counts, answers of
models and the like are kinds of results, each with its own form in files. Keys are made by
:func:`loopyperf.predict.case.found_once`.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

from loopyperf.counts.transcription import TranscriptError
from loopyperf.predict.cache import files as cache_files

Found = TypeVar("Found")


@dataclass(frozen=True)
class Kind(Generic[Found]):
    """A kind of results. All callers get the same object, which must not be changed."""

    name: str
    """unique, for keys"""
    kept: int
    """results in memory, at most"""
    transcribed: Callable[[Found], bytes]
    """raises :class:`msgspec.ValidationError` for a result that has no form in files: it is kept in memory alone"""
    read: Callable[[bytes], Found]
    """raises :class:`TranscriptError`, :class:`ValueError` or :class:`RecursionError` for bytes that make no sense"""


def kind_of_json(name: str, kept: int, form: Any) -> Kind[Any]:
    """Return a kind whose values are plain, or records of plain values, of the type *form*: JSON holds them.

    A value that JSON does not give back as it was, such as an infinite number, is kept in memory alone.
    """
    decoder = msgspec.json.Decoder[Any](form)

    def transcribed(found: object) -> bytes:
        try:
            transcript = msgspec.json.encode(found)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error
        if decoder.decode(transcript) != found:
            raise msgspec.ValidationError(f"JSON does not hold {found!r:.80}")
        return transcript

    return Kind(name, kept, transcribed, decoder.decode)


def recalled(kind: Kind[Found], key: str, find: Callable[[], Found]) -> Found:
    """Return the result of *find*, from memory or a file if it is there; *key* has all that the result depends on."""
    recent = _recent.setdefault(kind.name, _Recent(kind.kept))
    known = recent.get(key)
    if known is None:
        known = _filed(kind, key, find)
        recent.put(key, known)
    return known


def shared(name: str, kept: int, key: str, value: Found) -> Found:
    """Return what was shared under *key* before, or *value*, which is from now on: in memory, the latest *kept*."""
    recent = _recent.setdefault(name, _Recent(kept))
    known = recent.get(key)
    if known is None:
        recent.put(key, value)
    return value if known is None else known


def forget() -> None:
    """Forget everything that is kept in memory."""
    _recent.clear()


def _filed(kind: Kind[Found], key: str, find: Callable[[], Found]) -> Found:
    folder = cache_files.cache_folder()
    if folder is None:
        return find()
    transcript = cache_files.find(folder, key)
    if transcript is not None:
        # What cannot be read is computed and replaced; msgspec's errors are ValueErrors.
        with suppress(TranscriptError, ValueError, RecursionError):
            return kind.read(transcript)
    found = find()
    with suppress(msgspec.ValidationError):
        cache_files.file(folder, key, kind.transcribed(found))
    return found


class _Recent:
    """The most recently used results of one kind."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._by_key: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> Any:
        with self._lock:
            if key in self._by_key:
                self._by_key.move_to_end(key)
            return self._by_key.get(key)

    def put(self, key: str, found: object) -> None:
        with self._lock:
            self._by_key[key] = found
            while len(self._by_key) > self._kept:
                self._by_key.popitem(last=False)


_recent: dict[str, _Recent] = {}
"""by the names of kinds"""
