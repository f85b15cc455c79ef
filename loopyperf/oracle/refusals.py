"""Why models and devices have no answer: in short, and each reason once."""

from collections.abc import Callable, Mapping
from itertools import islice
from textwrap import shorten

from loopyperf.units import listed

SHORT = 80
"""letters of a reason in a table, at most"""
NAMED = 20
"""of those who have no answer for the same reason, at most"""
REASONS = 12
"""that are told, at most"""


def in_short(reason: str) -> str:
    """Return the beginning of *reason*: what is wrong, without what to do."""
    words = reason.partition(";")[0].partition(": ")[0]
    # Half of what stands in parentheses tells nobody anything.
    return shorten(words if len(words) <= SHORT else words.partition(" (")[0], SHORT, placeholder=" …")


def by_reason(refusals: Mapping[str, str]) -> dict[str, list[str]]:
    """Return reason -> who has no answer for it, in the order of *refusals*."""
    found: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        found.setdefault(reason, []).append(name)
    return found


def unanswered(refusals: Mapping[str, str], as_said: Callable[[str], str] = in_short) -> list[str]:
    """Return a sentence for each reason, in short or *as_said*, with those who have no answer for it."""
    told = by_reason({name: as_said(reason) for name, reason in refusals.items()})
    lines = [f"no answer: {listed(names, NAMED)}: {reason}" for reason, names in islice(told.items(), REASONS)]
    rest = sum(map(len, islice(told.values(), REASONS, None)))
    return [*lines, f"no answer: {rest:,} more, for other reasons"] if rest else lines
