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


class Moment(Generic[Found]):
    """Answers that are looked up again after a :data:`MOMENT`, or later where that takes long.

    And at once where this process has saved a fit or a learned model, or a person's own data are in another folder.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._known: dict[Hashable, tuple[float, Found]] = {}

    def __len__(self) -> int:
        """Return how many answers are remembered."""
        return len(self._known)

    def answer(self, question: Hashable, find: Callable[[], Found]) -> Found:
        """Return what *find* finds, or found a moment ago when it was asked the same *question*."""
        key = (question, os.environ.get(DATA_VARIABLE), Written.number)
        known, now = self._known.get(key), monotonic()
        if known is not None and now < known[0]:
            return known[1]
        found = find()
        took = monotonic() - now
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = (now + took + max(MOMENT, min(LONGEST, TIMES * took)), found)
        return found
