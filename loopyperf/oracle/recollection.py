"""What was counted before: equal programs are counted once, whichever objects they are.

A transformation search builds the same variant again and again, and a script is run again tomorrow. The last few
hundred counted kernels are kept in memory, by the content of program and options; in files too where somebody asks
(:mod:`loopyperf.oracle.analysis_files`). Loopy's switch for its caches, ``LOOPY_NO_CACHE`` or
``loopy.set_caching_enabled``, is the switch of both.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import loopy as lp

from loopyperf.oracle import analysis_files
from loopyperf.oracle.content import content_key
from loopyperf.properties.counted_kernel import KernelCounts

KEPT = 256
"""counted kernels; some ten to a hundred kilobytes each"""


def recalled(what: tuple[Any, ...], count: Callable[[], KernelCounts]) -> KernelCounts:
    """Return what *count* returns, which depends on nothing but *what*, from memory or a file where it is known."""
    key = content_key(what) if lp.CACHING_ENABLED else None
    if key is None:
        return count()
    known = _recent.get(key)
    if known is None:
        known = _filed(key, count)
        _recent.put(key, known)
    return known


def forget() -> None:
    """Forget everything that is kept in memory."""
    _recent.clear()


def _filed(key: str, count: Callable[[], KernelCounts]) -> KernelCounts:
    folder = analysis_files.cache_folder()
    if folder is None:
        return count()
    found = analysis_files.find(folder, key)
    if found is not None:
        return KernelCounts.of(found)
    counted = count()
    analysis_files.file(folder, key, counted)
    return counted


class _Recent:
    """The counted kernels that were asked for last."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, KernelCounts] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> KernelCounts | None:
        with self._lock:
            if key in self._by_key:
                self._by_key.move_to_end(key)
            return self._by_key.get(key)

    def put(self, key: str, counted: KernelCounts) -> None:
        with self._lock:
            self._by_key[key] = counted
            while len(self._by_key) > KEPT:
                self._by_key.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._by_key.clear()


_recent = _Recent()
