"""Checks the counts of a kernel at small sizes: they are counts, and enumeration agrees where it can."""

from collections.abc import Mapping
from itertools import islice
from typing import cast

from brute_force import brute_force
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import UnknownVariableError

from loopyperf.kernel import Kernel
from loopyperf.properties.vector import PropertyVector

from .admissible import admissible_sizes, enumeration_is_cheap
from .outcome import Outcome

BEYOND_ENUMERATION = (AssertionError, NotImplementedError, UnknownVariableError, UnsupportedExpressionError)
"""what enumeration raises where a function, a type or a layout is new to it, where it would need data, and where Loopy
cannot write the code that it reads"""
SIZES = 2
"""at which to enumerate"""


def checked(kernel: Kernel, properties: Mapping[str, PropertyVector]) -> Outcome:
    """Return whether *properties*, given by counting, are right, and whether enumeration says so too."""
    for sizes in islice(admissible_sizes(kernel), 1):
        odd = {name: n for at in properties.values() for name, n in at.evaluate(**sizes).items() if not _is_count(n)}
        if odd:
            return Outcome("wrong", f"no counts at {dict(sizes)}: {odd}")
    small = (sizes for sizes in admissible_sizes(kernel) if enumeration_is_cheap(kernel, sizes))
    found = [_enumerated(kernel, properties, sizes) for sizes in islice(small, SIZES)]
    wrong = next((outcome for outcome in found if outcome.kind == "wrong"), None)
    return wrong or next(iter(found), Outcome("counted", "too large for enumeration"))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _enumerated(kernel: Kernel, properties: Mapping[str, PropertyVector], sizes: Mapping[str, int]) -> Outcome:
    try:
        enumerated = brute_force(kernel, sizes)
    except BEYOND_ENUMERATION:
        return Outcome("counted", "enumeration does not know a function, type or layout, or needs data")
    for counting, counts in properties.items():
        expected = _without_strides(enumerated[counting])
        actual = _without_strides(cast("dict[str, int]", counts.evaluate(**sizes)))
        pairs = {name: (expected.get(name, 0), actual.get(name, 0)) for name in sorted({*expected, *actual})}
        different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if different:
            return Outcome("wrong", f"{counting} counting is not what enumeration finds at {dict(sizes)}: {different}")
    return Outcome("counted", "enumeration agrees")


def _without_strides(counts: Mapping[str, int]) -> dict[str, int]:
    """Return sums over all stride classes, which describe large problems, and no minima, which follow."""
    sums: dict[str, int] = {}
    for name, count in counts.items():
        if "min(load, store)" not in name:
            kind = name.partition(" stride ")[0]
            sums[kind] = sums.get(kind, 0) + count
    return sums
