"""Why models and devices have no answer: in short, and each reason once."""

from collections.abc import Mapping
from textwrap import shorten

SHORT = 80
"""letters of a reason in a table, at most"""


def in_short(reason: str) -> str:
    """Return the beginning of *reason*: what is wrong, without what to do."""
    return shorten(reason.partition(";")[0].partition(": ")[0], SHORT, placeholder=" …")


def by_reason(refusals: Mapping[str, str]) -> dict[str, list[str]]:
    """Return reason -> who has no answer for it, in the order of *refusals*."""
    found: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        found.setdefault(reason, []).append(name)
    return found
