"""What was found in files is taken to be there still for a moment: searches ask thousands of times in a second."""

import os
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

from loopyperf.calibration.documents import Written
from loopyperf.user_data import DATA_VARIABLE

MOMENT = 0.01
"""seconds"""
TIMES, LONGEST = 20, 1.0
"""An answer is known for as many times as long as finding it took, so that little time goes into finding, but not for
longer than so many seconds."""
MOST = 64
"""questions whose answers are remembered"""

Found = TypeVar("Found")


def _no_stamp(_: object) -> Hashable:
    return None


class Moment(Generic[Found]):
    """Answers that are looked up again after a :data:`MOMENT`, or later where that takes long.

    And at once where this process has saved a fit or a learned model, where a person's own data are in another folder,
    and where the *stamp* of the files that an answer rests on has changed.
    """

    def __init__(self, stamp: Callable[[Found], Hashable] = _no_stamp) -> None:
        """Know nothing."""
        self._known: dict[Hashable, tuple[float, Hashable, Found]] = {}
        self._stamp = stamp

    def __len__(self) -> int:
        """Return how many answers are remembered."""
        return len(self._known)

    def answer(self, question: Hashable, find: Callable[[], Found]) -> Found:
        """Return what *find* finds, or found a moment ago when it was asked the same *question*."""
        key = (question, os.environ.get(DATA_VARIABLE), Written.number)
        known, now = self._known.get(key), monotonic()
        if known is not None and now < known[0] and self._stamp(known[2]) == known[1]:
            return known[2]
        found = find()
        took = monotonic() - now
        if len(self._known) >= MOST:
            self._known.clear()
        until = now + took + max(MOMENT, min(LONGEST, TIMES * took))
        self._known[key] = (until, self._stamp(found), found)
        return found
