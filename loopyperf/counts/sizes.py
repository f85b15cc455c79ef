"""Checks of sizes, and typical values.

Counts are exact at any size, but iterations and addresses are 64-bit numbers.

Typical values replace what the source of a kernel does not determine: the iteration count of a loop with loaded bounds,
the probability of a condition on data, the distance between addresses of neighboring lanes that were loaded, the cost
of foreign code. The user gives each by a keyword, which the error message for the missing value contains.
"""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, cached_property
from math import isfinite
from sys import float_info
from typing import Any, cast

import islpy as isl
import numpy as np
from numpy.typing import NDArray
from pymbolic import parse

from loopyperf.counts.item import Item, item_named
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.polyhedral.sets import as_int
from loopyperf.units import number_in_words

BITS = 62
BOUND = 2**BITS
"""upper bound of iterations and addresses, so that the sum of two fits in 64 bits"""


def check_numbered(sizes: Mapping[str, int]) -> None:
    """Raise :class:`ParameterError` if a size is too large for 64-bit iteration numbers."""
    for name, size in sizes.items():
        if abs(size) >= BOUND:
            raise ParameterError(
                f"size {name} is {number_in_words(size)}, too large for 64-bit iterations and addresses; "
                f"use a size below 2^{BITS} = {float(BOUND):.3g}"
            )


@contextmanager
def check_64_bit(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` if a number at *sizes* overflows 64 bits."""
    try:
        yield
    except OverflowError as error:
        raise ParameterError(
            f"at {sizes_in_words(sizes)} there are more loop iterations or groups than 2^{BITS} = "
            f"{float(BOUND):.3g}; use smaller sizes"
        ) from error


@contextmanager
def priced(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` if counts at *sizes* are too large for floating-point times."""
    try:
        yield
    except OverflowError as error:
        raise beyond_floats(sizes) from error


def beyond_floats(sizes: Mapping[str, Any]) -> ParameterError:
    """Return the error for counts at *sizes* that are too large for floating-point times."""
    return ParameterError(
        f"at {sizes_in_words(sizes)} a count exceeds the largest floating-point number, {float_info.max:.2g}; "
        "use smaller sizes"
    )


def sizes_in_words(sizes: Mapping[str, Any]) -> str:
    """Return *sizes* as text for messages, e.g. ``"n = 4096, m = about 10^400"``; of an array, the largest value."""
    return ", ".join(f"{name} = {_in_words(size)}" for name, size in sizes.items())


def _in_words(size: Any) -> str:
    if isinstance(size, np.ndarray):
        sizes = cast("NDArray[Any]", size)
        return f"up to {number_in_words(sizes.max())}" if sizes.size else "none"
    return number_in_words(size)


# {{{ values of one size that a kernel's assumptions admit


PARAM = isl.dim_type.param
SET = isl.dim_type.set


def admitted_values(
    assumptions: isl.BasicSet, size: str, at_least: int, at_most: int, others: Mapping[str, int]
) -> range:
    """Return the values of *size* from *at_least* to *at_most* that a kernel admits, given its *others*.

    Assumptions may exclude values by a fixed stride; other gaps between admitted values are ignored. Raises
    :class:`ParameterError` for an unknown size, a missing one, or if no value is admitted.
    """
    given: dict[str, Any] = {"at_least": at_least, "at_most": at_most, **others}
    for name, value in given.items():
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_integer or abs(int(cast("int", value))) >= BOUND:
            raise ParameterError(f"{name} must be an integer below 2^{BITS}, got {number_in_words(value)}")
    if size in others:
        raise ParameterError(f"{size} is the size that varies; do not give its value")
    takes = isl.Set.from_basic_set(assumptions)
    names = takes.get_var_names_not_none(PARAM)
    unknown = sorted(map(str, {size, *others} - {*names}))
    if unknown:
        raise ParameterError(
            f"the kernel has no size {', '.join(unknown)}; its sizes are: {', '.join(names) or 'none'}"
        )
    missing = sorted({*names} - {size, *others})
    if missing:
        raise ParameterError(f"missing size {', '.join(missing)}; give all sizes except {size}")
    for name, value in others.items():
        takes = takes.fix_val(PARAM, takes.get_var_dict(PARAM)[name][1], isl.Val(int(value)))
    line = takes.move_dims(SET, 0, PARAM, takes.get_var_dict(PARAM)[size][1], 1)
    line = line.project_out(PARAM, 0, line.dim(PARAM))
    line = line.lower_bound_val(SET, 0, isl.Val(int(at_least))).upper_bound_val(SET, 0, isl.Val(int(at_most)))
    if line.is_empty():
        raise ParameterError(f"the kernel's assumptions admit no {size} from {at_least} to {at_most}")
    step = as_int(line.get_stride_info(0).get_stride())
    return range(as_int(line.dim_min_val(0)), as_int(line.dim_max_val(0)) + 1, step)


# }}}


CONSECUTIVE, CONSTANT, PERMUTATION = "consecutive", "constant", "permutation"
"""patterns of loaded indices: see :meth:`Typical.stride`"""
RANDOM = re.compile(r"random in ([1-9][0-9]*)")


def window_of(pattern: str) -> int | None:
    """Return the number of elements of a random *pattern*, ``"random in 4096"``; None for other patterns."""
    found = RANDOM.fullmatch(pattern)
    return None if found is None else int(found[1])


def check_pattern(pattern: str, classes: Sequence[str], keyword: str) -> None:
    """Raise :class:`ParameterError` unless *pattern* is one of *classes* or another pattern of loaded indices."""
    if pattern not in (CONSECUTIVE, CONSTANT, PERMUTATION, *classes) and window_of(pattern) is None:
        raise ParameterError(
            f"{keyword} must be consecutive, constant, permutation, 'random in 4096' or a stride class "
            f"({', '.join(classes[:4])}, ..., {classes[-1]}), got {pattern!r}"
        )


@dataclass(frozen=True, slots=True)
class ConditionKeys:
    """Keywords for the probability of a condition on data."""

    text: str
    """the condition as written in the source, before loops were split"""
    current: str
    """the condition in terms of the current loops"""
    instruction: str | None = None
    """the instruction that it guards, if no other condition on data does"""
    array: str | None = None
    """the array that it reads, if it reads no other one"""

    @property
    def every(self) -> tuple[str, ...]:
        """Return all keywords, the first one first."""
        named = (name for name in (self.instruction, self.array) if name is not None)
        return tuple(dict.fromkeys((self.text, self.current, *named)))


@cache
def _spelled(keyword: str) -> str:
    """Return *keyword*, if it is an expression, without spaces and with numbers in Python's spelling."""
    try:
        expression: Any = parse(keyword)
    except Exception:  # Loopy's parser raises errors of its parts
        expression = keyword
    return "".join(str(expression).split())


def _without_not(keyword: str) -> tuple[str, bool]:
    match = re.fullmatch(r"\s*not\b(.*)", keyword, re.DOTALL)
    return (_spelled(keyword), False) if match is None else (_spelled(match[1]), True)


class Typical:
    """Typical values by keyword; records which ones were requested."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Store *values*, of which costs of foreign code map property names to numbers."""
        check_typical_values(values)
        self.values = dict(values)
        self._requested: set[str] = set()

    def has(self, keyword: str) -> bool:
        """Return whether there is a value for *keyword*."""
        return keyword in self.values

    def iterations(self, loop: str, why: str) -> Fraction:
        """Return the typical iteration count of *loop* each time it is entered.

        Raises :class:`UncountableError`, starting with *why*, if there is no value, and :class:`ParameterError` for an
        invalid one; so do the other methods.
        """
        self._given(loop, f"{why}; give its typical iteration count", "10")
        return self._checked(loop, "an iteration count >= 0", least=0, is_integer=False)

    def size(self, name: str, why: str) -> int:
        """Return the typical value of the loaded integer *name*; raises as :meth:`iterations`."""
        self._given(name, f"{why}; give a typical value of {name}", "10")
        return int(self._checked(name, "a loop bound (an integer >= 0)", least=0))

    def share(self, condition: "ConditionKeys") -> Fraction | None:
        """Return the probability of *condition*, from 0 to 1; None if it is not given.

        Keywords that are expressions may be spelled in another way: with other spaces, or as ``not (condition)``.
        """
        wanted = {_spelled(keyword): keyword for keyword in condition.every}
        self._requested.update(condition.every)
        found: dict[str, Fraction] = {}
        for name, (key, is_negated) in self._spellings.items():
            if key in wanted and not (key == condition.array and not self._is_share(name)):
                self._requested.add(name)
                value = self._number(self.values[name], name)
                if not 0 <= value <= 1:
                    raise ParameterError(f"typical[{name!r}] must be a probability from 0 to 1, got {value}")
                found[key] = 1 - value if is_negated else value
        return next((found[key] for key in wanted if key in found), None)

    def _is_share(self, name: str) -> bool:
        """Return whether the value of *name* can be a probability; an array also has strides and factors."""
        value = self.values[name]
        return not isinstance(value, (str, Mapping)) and 0 <= self._number(value, name) <= 1

    @cached_property
    def _spellings(self) -> Mapping[str, tuple[str, bool]]:
        """Return keyword -> (its spelling without ``not``, whether there was one)."""
        return {name: _without_not(name) for name in self.values}

    def missing(self, condition: "ConditionKeys") -> UncountableError:
        """Return the error for a *condition* without a probability."""
        why = f"the source does not tell how often {condition.text} holds; give its probability, from 0 to 1"
        keywords = (condition.text,) if condition.instruction is None else (condition.text, condition.instruction)
        return self._missing(keywords, why, "0.5")

    def stride(self, array: str, classes: Iterable[str], factors: Iterable[str] = ()) -> str | None:
        """Return the pattern of accesses of *array* whose addresses depend on data; None if there is no value.

        It is a stride class, or says how the loaded index varies: ``"consecutive"`` as the elements of the index array,
        ``"constant"``, ``"random in 4096"`` in a window of so many elements, ``"permutation"`` with each value once in
        the launch. The keyword is the array or one of *factors*: data that multiplies loop variables in the index.
        Raises :class:`ParameterError` for other values.
        """
        names = dict.fromkeys((array, *factors))
        self._requested.update(names)
        name = next((name for name in names if name in self.values), None)
        if name is None:
            return None
        value = str(self.values[name])
        check_pattern(value, tuple(classes), f"typical[{name!r}]")
        return value

    def factor(self, name: str) -> int | None:
        """Return the value of the loaded integer *name* that multiplies loop variables in an index; None if not given.

        A stride class is not such a value: see :meth:`stride`. Raises :class:`ParameterError` for fractions.
        """
        self._requested.add(name)
        if name not in self.values or isinstance(self.values[name], (str, Mapping)):
            return None
        return int(self._checked(name, "a distance in elements (an integer)"))

    def length(self, array: str) -> int | None:
        """Return the number of elements of *array*, whose shape is unknown; None if it is not given.

        The keyword is ``len(array)``. Raises :class:`ParameterError` for anything but a positive integer.
        """
        return self._elements(f"len({array})")

    def distinct(self, array: str) -> int | None:
        """Return the number of elements of *array* that warps update at once; None if it is not given.

        The keyword is ``distinct(array)``. Raises :class:`ParameterError` for anything but a positive integer.
        """
        return self._elements(f"distinct({array})")

    def _elements(self, keyword: str) -> int | None:
        self._requested.add(keyword)
        if keyword not in self.values:
            return None
        return int(self._checked(keyword, "a number of elements (an integer >= 1)", least=1))

    def _checked(self, keyword: str, what: str, least: int | None = None, is_integer: bool = True) -> Fraction:
        """Return the value of *keyword*, which must be *what*."""
        value = self._number(self.values[keyword], keyword)
        if (is_integer and value.denominator != 1) or (least is not None and value < least):
            raise ParameterError(f"typical[{keyword!r}] must be {what}, got {value}")
        return value

    def cost(self, name: str, why: str) -> dict[Item, Fraction]:
        """Return the items of one execution of *name*; raises as :meth:`iterations`, also if not a mapping."""
        given = self._given(name, f"{why}; give the operations of one execution", '{"f32 add": 1}')
        if not isinstance(given, Mapping):
            raise ParameterError(f"typical[{name!r}] must map properties to numbers, got {given!r}")
        numbers = cast("Mapping[Any, Any]", given)
        does = {item_named(key): self._number(value, name) for key, value in numbers.items()}
        if any(number < 0 for number in does.values()):
            raise ParameterError(f"typical[{name!r}] must not contain negative numbers, got {given!r}")
        return does

    def _given(self, keyword: str, why: str, example: str) -> Any:
        self._requested.add(keyword)
        if keyword in self.values:
            return self.values[keyword]
        raise self._missing((keyword,), why, example)

    def _missing(self, keywords: tuple[str, ...], why: str, example: str) -> UncountableError:
        ways = " or ".join(f"typical={{{keyword!r}: {example}}}" for keyword in keywords)
        unused = self._unused()
        note = f"; not used so far: {_listed(unused)}" if unused else ""
        return UncountableError(f"{why}, e.g. {ways}{note}{_nearest(unused, keywords)}", keyword=keywords[0])

    def _unused(self) -> list[str]:
        """Return the keywords that were given but not requested."""
        return sorted(self.values.keys() - self._requested)

    @staticmethod
    def _number(value: Any, keyword: str) -> Fraction:
        number: object = cast("Any", value).item() if isinstance(value, np.generic) else value
        if isinstance(number, float) and isfinite(number):
            return Fraction(str(number))
        if isinstance(number, (int, Fraction)) and not isinstance(number, bool):
            _check_overflow(number, keyword)
            return Fraction(number)
        raise ParameterError(f"typical[{keyword!r}] must be a finite number, got {number!r} ({type(number).__name__})")

    def check_all_used(self, kernel: str) -> None:
        """Raise :class:`ParameterError` for a keyword that *kernel* does not use, which is probably misspelled."""
        unused, requested = self._unused(), sorted(self._requested)
        if unused:
            raise ParameterError(
                f"kernel {kernel!r} does not use typical {_listed(unused)}; keywords that it uses: "
                f"{_listed(requested) or 'none'}{_nearest(unused, requested)}"
            )


def _listed(keywords: Iterable[str]) -> str:
    return ", ".join(map(repr, keywords))


def _nearest(unused: Iterable[str], requested: Sequence[str]) -> str:
    """Return, as the end of a message, which of *requested* the unused keywords *unused* may be misspellings of."""
    pairs = ((keyword, *get_close_matches(keyword, requested, n=1)) for keyword in unused)
    return "".join(f"; did you mean {pair[1]!r} instead of {pair[0]!r}?" for pair in pairs if len(pair) > 1)


def check_typical_values(values: object) -> None:
    """Raise :class:`ParameterError` unless *values* is a mapping from strings to serializable values."""
    if not isinstance(values, Mapping):
        raise ParameterError(f"typical must map keywords to values, got {values!r}")
    for keyword, value in cast("Mapping[object, object]", values).items():
        if not isinstance(keyword, str):
            raise ParameterError(f"typical must map keywords to values, got the keyword {keyword!r}; use a string")
        parts = cast("Mapping[object, object]", value).values() if isinstance(value, Mapping) else (value,)
        for number in parts:
            if isinstance(number, (int, Fraction)):
                _check_overflow(number, keyword)


def _check_overflow(number: int | Fraction, keyword: str) -> None:
    """Raise :class:`ParameterError` beyond the largest float; Python does not print integers of thousands of digits."""
    if abs(number) > float_info.max:
        raise ParameterError(f"typical[{keyword!r}] must be at most {float_info.max:.2g} in magnitude")
