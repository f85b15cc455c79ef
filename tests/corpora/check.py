"""Checks of a kernel's counts at small sizes: valid numbers that agree with enumeration where it is possible."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import islice
from typing import Any, cast

from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import UnknownVariableError

from loopyperf.counts.conditions import plain_text
from loopyperf.counts.execution import COUNTINGS
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.counts.property_vector import PropertyVector
from loopyperf.kernel import Kernel
from tests.brute_force import brute_force

from .admissible import admissible_sizes, enumeration_is_cheap
from .outcome import Outcome, stated_for

BEYOND_ENUMERATION = (AssertionError, NotImplementedError, UnknownVariableError, UnsupportedExpressionError)
"""errors of enumeration if it does not support a function, type or layout, if it needs data, and if Loopy cannot
generate the code that it reads"""
SIZES = 2
"""number of sizes at which to enumerate"""
SHARE = Fraction(1, 2)
"""share of the executions in which conditions on data are true, as in the examples of error messages"""


def stated_and_checked(kernel: Kernel) -> tuple[dict[str, Any], Outcome]:
    """Return the typical values with which *kernel* is counted in both countings, and whether counts are correct."""

    def counted(typical: dict[str, Any]) -> dict[str, PropertyVector]:
        return {each: count_kernel(kernel, each, typical=typical).properties() for each in COUNTINGS}

    typical = stated_for(counted)
    if any(value != SHARE for value in typical.values()):
        return typical, Outcome("counted", "enumeration does not know how many passes loops make on average")
    found = checked(kernel, counted(typical))
    text = "\n".join(plain_text(each, kernel.function_names) for each in kernel.loopy_kernel.instructions)
    if found.kind == "wrong" and any(text.count(condition) > 1 for condition in typical):
        found = Outcome("counted", "enumeration takes a condition that is written twice for two")
    return typical, found


def checked(kernel: Kernel, properties: Mapping[str, PropertyVector]) -> Outcome:
    """Return whether *properties* are valid counts, and whether enumeration agrees with them."""
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
        enumerated = brute_force(kernel, sizes, share=SHARE)
    except BEYOND_ENUMERATION:
        return Outcome("counted", "enumeration does not know a function, type or layout, or needs data")
    for counting, counts in properties.items():
        classes = Counter(map(_without_stride, enumerated[counting]))
        expected = _without_strides(enumerated[counting])
        actual = _without_strides(cast("dict[str, int]", counts.evaluate(**sizes)))
        pairs = {name: (expected.get(name, 0), actual.get(name, 0)) for name in sorted({*expected, *actual})}
        # Counts of conditional executions are rounded, separately for each class.
        different = {name: pair for name, pair in pairs.items() if abs(pair[0] - pair[1]) > classes[name] / 2}
        if different:
            return Outcome("wrong", f"{counting} counting is not what enumeration finds at {dict(sizes)}: {different}")
    return Outcome("counted", "enumeration agrees")


def _without_strides(counts: Mapping[str, int]) -> dict[str, int]:
    """Return sums over all stride classes, which describe large problems, without the minima, which follow."""
    sums: dict[str, int] = {}
    for name, count in counts.items():
        if "min(load, store)" not in name:
            sums[_without_stride(name)] = sums.get(_without_stride(name), 0) + count
    return sums


def _without_stride(name: str) -> str:
    return name.partition(" stride ")[0]
