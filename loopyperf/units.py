"""Formatting of durations, shares, counts and words for display."""

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction
from typing import Any

DIGITS = 30
"""maximum number of digits that are written out"""
SHORTEST = 0.9995e-12
"""seconds; shorter durations are displayed as ``< 1 ps``"""
CHEAPEST = 0.9995e-15
"""seconds; smaller unit costs are displayed as ``< 0.001 ps``"""
UNBROKEN = "\N{NO-BREAK SPACE}"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""characters that change a terminal's state or the direction of text, except tabs and line feeds"""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[mµnp]?s|%|[kMGTP]?(?:B|flop)(?:/s)?)(?![\w/]))")
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_HOUR, _DAY = 3600.0, 86400.0
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


class Word(StrEnum):
    """A string enumeration whose members print as their value."""

    def __repr__(self) -> str:
        return repr(self.value)


def duration(seconds: float) -> str:
    """Return *seconds* with three significant digits and a suitable unit: ``"12.3 µs"``, or ``"< 1 ps"``."""
    if 0 < abs(seconds) < SHORTEST:
        return "< 1 ps" if seconds > 0 else "> -1 ps"
    return _in_unit(seconds)


def unit_cost(seconds: float) -> str:
    """Return the cost of one unit in *seconds*: ``"0.27 ps"``, or ``"< 0.001 ps"``.

    On a whole device, one operation may cost less than a picosecond. Otherwise the format is that of :func:`duration`.
    """
    if 0 < abs(seconds) < CHEAPEST:
        return "< 0.001 ps" if seconds > 0 else "> -0.001 ps"
    return _in_unit(seconds)


def _in_unit(seconds: float) -> str:
    if not (seconds and math.isfinite(seconds)):
        return f"{seconds:.3g} s"
    if abs(seconds) >= _HOUR:
        return f"{seconds / _DAY:,.3g} days" if abs(seconds) >= _DAY else f"{seconds / _HOUR:.3g} h"
    # Round before choosing the unit: 999.9 µs is 1 ms.
    rounded = float(f"{seconds:.2e}")
    size, unit = next((pair for pair in _UNITS if abs(rounded) >= pair[0]), _UNITS[-1])
    return f"{rounded / size:.0f} {unit}" if abs(rounded / size) >= 100 else f"{rounded / size:.3g} {unit}"


def amount(number: float | Fraction) -> str:
    """Return *number* as text: an integer with separators (``"65,536"``) if it is whole or >= 1000, else 4 digits."""
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}"
    return f"{float(number):,.0f}" if abs(number) >= 1000 else f"{float(number):.4g}"


def number_in_words(number: Any) -> str:
    """Return *number* as text; only its order of magnitude if it has more than :data:`DIGITS` digits."""
    if not isinstance(number, int) or abs(number) < 10**DIGITS:
        return str(number)
    sign = "-" if number < 0 else ""
    return f"about {sign}10^{int(math.log10(abs(number)))}"


def number_of(number: float | Fraction, what: str) -> str:
    """Return a count with its noun: ``"1 launch"``, ``"2 launches"``, ``"1,024 variants"``, ``"2.5 cycles"``."""
    words = amount(number)
    if words == "1":
        return f"{words} {what}"
    return f"{words} {what[:-1]}ies" if what.endswith("cy") else f"{words} {what}{'es' if what.endswith('ch') else 's'}"


def listed(names: Iterable[str], most: int, between: str = ", ") -> str:
    """Return the first *most* of *names* and the number of the others: ``"a, b and 3 more"``."""
    every = list(names)
    rest = f" and {len(every) - most:,} more" if len(every) > most else ""
    return between.join(every[:most]) + rest


def printable(text: str) -> str:
    """Return *text* with control characters other than tabs and line feeds escaped as in Python source code."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def ratio_in_words(ratio: float) -> str:
    """Return *ratio* with two digits, or three if it is near 1 or at least 99.5: ``"64"``, ``"122"``, ``"1.25"``."""
    return f"{ratio:.2g}" if 1.95 < ratio < 99.5 else f"{ratio:.0f}" if ratio >= 99.5 else f"{ratio:.3g}"


def prefixed(number: float, unit: str) -> str:
    """Return *number* with three significant digits and a suitable prefix of *unit*: ``"1.25 TB/s"``."""
    rounded = float(f"{number:.2e}")  # round before choosing the prefix: 999.9 GB/s is 1 TB/s
    size, prefix = next(((size, name) for size, name in _PREFIXES if abs(rounded) >= size), (1.0, ""))
    return f"{rounded / size:.3g} {prefix}{unit}"


def unbroken(words: str) -> str:
    """Return *words* with non-breaking spaces between numbers and their units."""
    return _BEFORE_UNIT.sub(UNBROKEN, words)


def in_percent(share: float, digits: int = 0) -> str:
    """Return *share* in percent with *digits* decimals: ``"83 %"`` for 0.8265, ``"< 1 %"`` for 0.002.

    A negative share above minus one unit of the last digit has one significant digit: ``"-0.4 %"`` for -0.0037.
    """
    percent, least = 100 * share, 10.0**-digits
    if 0 < percent < least:
        return f"< {least:g} %"
    return f"{percent:.1g} %" if -least < percent < 0 else f"{percent:.{digits}f} %"
