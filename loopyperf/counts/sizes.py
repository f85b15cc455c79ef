"""Sizes and typical values: which the caller must give, and checks of those that are given.

Sizes: which a kernel admits, and how large they may be.

Counts are exact at any size, while passes of loops and addresses are numbered in 64 bits.

What the source of a kernel cannot tell, as its user says that it typically is.

How long a loop is whose bounds are loaded, how often a condition on data holds, how far apart the addresses of
neighbouring lanes are that were loaded, what foreign code costs: the user states each by a keyword, which the refusal
names.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from sys import float_info
from typing import Any, cast

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import Item
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.units import number_in_words

BITS = 62
BOUND = 2**BITS
"""what is numbered lies below: a sum of two has room in 64 bits"""


def check_numbered(sizes: Mapping[str, int]) -> None:
    """Raise :class:`ParameterError` for a size that is too large for passes of loops to be numbered."""
    for name, size in sizes.items():
        if abs(size) >= BOUND:
            raise ParameterError(
                f"size {name} is {number_in_words(size)}, and what looks at passes of loops and at addresses takes "
                f"sizes below 2^{BITS} = {float(BOUND):.3g}: take a smaller one"
            )


@contextmanager
def check_64_bit(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` where something at *sizes* has more than the numbers of 64 bits."""
    try:
        yield
    except OverflowError as error:
        raise ParameterError(
            f"at {sizes_in_words(sizes)} there are more passes of a loop, or groups, than 2^{BITS} = "
            f"{float(BOUND):.3g}: take smaller sizes"
        ) from error


@contextmanager
def priced(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` where counts at *sizes* are too large for the floating-point numbers of a time."""
    try:
        yield
    except OverflowError as error:
        raise beyond_floats(sizes) from error


def beyond_floats(sizes: Mapping[str, Any]) -> ParameterError:
    """Return the error that there is more of something at *sizes* than a time can tell."""
    return ParameterError(
        f"at {sizes_in_words(sizes)} the kernel does more than a floating-point time can tell, {float_info.max:.2g} of "
        "something: take smaller sizes"
    )


def sizes_in_words(sizes: Mapping[str, Any]) -> str:
    """Return *sizes* as a message names them, e.g. ``"n = 4096, m = about 10^400"``; of arrays, their largest."""
    return ", ".join(f"{name} = {_in_words(size)}" for name, size in sizes.items())


def _in_words(size: Any) -> str:
    if isinstance(size, np.ndarray):
        sizes = cast("NDArray[Any]", size)
        return f"up to {number_in_words(sizes.max())}" if sizes.size else "none"
    return number_in_words(size)


# {{{ which values of one size a kernel's assumptions admit


PARAM = isl.dim_type.param
SET = isl.dim_type.set


def admitted_values(
    assumptions: isl.BasicSet, size: str, at_least: int, at_most: int, others: Mapping[str, int]
) -> range:
    """Return the values of *size*, from *at_least* to *at_most*, that a kernel admits, given its *others*.

    Assumptions that admit some values in between and others not, beyond remainders, are taken to admit all. Raises
    :class:`ParameterError` for a size that the kernel does not have, others that are missing, and where there is none.
    """
    stated: dict[str, Any] = {"at_least": at_least, "at_most": at_most, **others}
    for name, value in stated.items():
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_integer or abs(int(cast("int", value))) >= BOUND:
            raise ParameterError(f"{name} is to be an integer below 2^{BITS}, received {number_in_words(value)}")
    if size in others:
        raise ParameterError(f"{size} is the size that varies: leave its value out")
    takes = isl.Set.from_basic_set(assumptions)
    names = takes.get_var_names_not_none(PARAM)
    unknown = sorted(map(str, {size, *others} - {*names}))
    if unknown:
        raise ParameterError(
            f"the kernel has no size {', '.join(unknown)}; its sizes are: {', '.join(names) or 'none'}"
        )
    missing = sorted({*names} - {size, *others})
    if missing:
        raise ParameterError(f"missing size {', '.join(missing)}: state them beside {size}")
    for name, value in others.items():
        takes = takes.fix_val(PARAM, takes.get_var_dict(PARAM)[name][1], isl.Val(int(value)))
    line = takes.move_dims(SET, 0, PARAM, takes.get_var_dict(PARAM)[size][1], 1)
    line = line.project_out(PARAM, 0, line.dim(PARAM))
    line = line.lower_bound_val(SET, 0, isl.Val(int(at_least))).upper_bound_val(SET, 0, isl.Val(int(at_most)))
    if line.is_empty():
        raise ParameterError(f"the kernel admits no {size} from {at_least} to {at_most}")
    step = line.get_stride_info(0).get_stride().to_python()
    return range(line.dim_min_val(0).to_python(), line.dim_max_val(0).to_python() + 1, step)


# }}}


def _as_it_is(item: Item) -> Item:
    return item


class Typical:
    """The values that a user states, by keyword; knows which of them were asked for."""

    def __init__(self, values: Mapping[str, Any], read_item: Callable[[Any], Item] = _as_it_is) -> None:
        """Take *values*; *read_item* reads the names of what foreign code does, where they are not items already."""
        check_typical_values(values)
        self.values = dict(values)
        self._read_item = read_item
        self._asked: set[str] = set()

    def has(self, keyword: str) -> bool:
        """Return whether a value for *keyword* is stated."""
        return keyword in self.values

    def iterations(self, loop: str, why: str) -> Fraction:
        """Return how many passes *loop* makes each time it is entered.

        Raises :class:`UncountableError`, which says *why* it is asked, where nothing is stated, and
        :class:`ParameterError` for less than none; so do the others.
        """
        value = self._number(self._given((loop,), f"{why}; state how many passes it typically makes", "10"), loop)
        if value < 0:
            raise ParameterError(f"typical {loop!r} is a number of passes, received {value}")
        return value

    def size(self, name: str, why: str) -> int:
        """Return the integer that *name*, which is loaded, typically is; raises what :meth:`passes` does."""
        value = self._number(self._given((name,), f"{why}; state what {name} typically is", "10"), name)
        if value.denominator != 1 or value < 0:
            raise ParameterError(f"typical {name!r} bounds loops: it is an integer, 0 or more; received {value}")
        return int(value)

    def share(self, condition: str, instruction: str | None, why: str) -> Fraction:
        """Return how often *condition* holds, from 0 to 1; raises what :meth:`passes` does, for other numbers too.

        It is stated for the condition's text or, where an *instruction* has no other condition on data, for that:
        its name does not change with its loops.
        """
        keywords = (condition,) if instruction is None else (condition, instruction)
        stated = self._given(keywords, f"{why}; state how often it typically holds, from 0 to 1", "0.5")
        value = self._number(stated, condition)
        if not 0 <= value <= 1:
            raise ParameterError(f"typical {condition!r} is a share of the runs, from 0 to 1, received {value}")
        return value

    def stride(self, array: str, classes: Iterable[str], factors: Iterable[str] = ()) -> str | None:
        """Return the stride class of those *array* accesses whose addresses are data; None where it is not stated.

        It is stated for the array or for one of the *factors*, data that multiplies loop variables in the index. Raises
        :class:`ParameterError` for what is none of *classes*.
        """
        names = dict.fromkeys((array, *factors))
        self._asked.update(names)
        name = next((name for name in names if name in self.values), None)
        if name is None:
            return None
        known = tuple(classes)
        value = str(self.values[name])
        if value not in known:
            raise ParameterError(f"typical {name!r} is a stride class, one of {', '.join(known)}; received {value!r}")
        return value

    def factor(self, name: str) -> int | None:
        """Return the integer that *name* is, which is loaded and multiplies loop variables in an index, if stated.

        A stride class that is stated for it is none: see :meth:`stride`. Raises :class:`ParameterError` for fractions.
        """
        self._asked.add(name)
        if name not in self.values or isinstance(self.values[name], (str, Mapping)):
            return None
        value = self._number(self.values[name], name)
        if value.denominator != 1:
            raise ParameterError(f"typical {name!r} is a distance in elements, an integer; received {value}")
        return int(value)

    def length(self, array: str) -> int | None:
        """Return how many elements *array* has, whose shape does not tell; None where it is not stated.

        The keyword is ``len(array)``. Raises :class:`ParameterError` for what is no positive integer.
        """
        keyword = f"len({array})"
        self._asked.add(keyword)
        if keyword not in self.values:
            return None
        value = self._number(self.values[keyword], keyword)
        if value.denominator != 1 or value < 1:
            raise ParameterError(f"typical {keyword!r} is a number of elements, an integer >= 1; received {value}")
        return int(value)

    def cost(self, name: str, why: str) -> dict[Item, Fraction]:
        """Return what one run of *name* does, by item; raises what :meth:`passes` does, and for what is no mapping."""
        stated = self._given((name,), f"{why}; state what one run of it does", '{"f32 add": 1}')
        if not isinstance(stated, Mapping):
            raise ParameterError(f"typical {name!r} is a mapping from properties to numbers, received {stated!r}")
        numbers = cast("Mapping[Any, Any]", stated)
        does = {self._read_item(key): self._number(value, name) for key, value in numbers.items()}
        if any(number < 0 for number in does.values()):
            raise ParameterError(f"typical {name!r} does nothing a negative number of times, received {stated!r}")
        return does

    def _given(self, keywords: tuple[str, ...], why: str, example: str) -> Any:
        self._asked.update(keywords)
        for keyword in keywords:
            if keyword in self.values:
                return self.values[keyword]
        ways = " or ".join(f"typical={{{keyword!r}: {example}}}" for keyword in keywords)
        idle = self._idle()
        said = f"; {_listed(idle)} {'is' if len(idle) == 1 else 'are'} stated, and not asked for so far" if idle else ""
        raise UncountableError(f"{why}, e.g. {ways}{said}{_nearest(idle, keywords)}", keyword=keywords[0])

    def _idle(self) -> list[str]:
        """Return what is stated and was not asked for."""
        return sorted(self.values.keys() - self._asked)

    @staticmethod
    def _number(value: Any, keyword: str) -> Fraction:
        number: object = cast("Any", value).item() if isinstance(value, np.generic) else value
        if isinstance(number, float) and isfinite(number):
            return Fraction(str(number))
        if isinstance(number, (int, Fraction)) and not isinstance(number, bool):
            _check_overflow(number, keyword)
            return Fraction(number)
        raise ParameterError(
            f"typical {keyword!r} must be a finite number, received {number!r} ({type(number).__name__})"
        )

    def check_all_used(self, kernel: str) -> None:
        """Raise :class:`ParameterError` for a value that nothing in *kernel* asked for: its keyword is misspelt."""
        idle, asked = self._idle(), sorted(self._asked)
        if idle:
            raise ParameterError(
                f"typical {_listed(idle)} settles nothing in kernel {kernel!r}, which asks for "
                f"{_listed(asked) or 'nothing'}{_nearest(idle, asked)}"
            )


def _listed(keywords: Iterable[str]) -> str:
    return ", ".join(map(repr, keywords))


def _nearest(idle: Iterable[str], asked: Sequence[str]) -> str:
    """Return, as the end of a sentence, which of *asked* may be meant by keywords that are *idle*, being misspelt."""
    pairs = ((keyword, *get_close_matches(keyword, asked, n=1)) for keyword in idle)
    return "".join(f"; is {pair[0]!r} to be {pair[1]!r}?" for pair in pairs if len(pair) > 1)


def check_typical_values(values: object) -> None:
    """Raise :class:`ParameterError` unless *values* map keywords to what can be written down."""
    if not isinstance(values, Mapping):
        raise ParameterError(f"typical is a mapping from keywords to values, received {values!r}")
    for keyword, value in cast("Mapping[object, object]", values).items():
        if not isinstance(keyword, str):
            raise ParameterError(f"typical is a mapping from keywords to values, received the keyword {keyword!r}")
        parts = cast("Mapping[object, object]", value).values() if isinstance(value, Mapping) else (value,)
        for number in parts:
            if isinstance(number, (int, Fraction)):
                _check_overflow(number, keyword)


def _check_overflow(number: int | Fraction, keyword: str) -> None:
    """Raise :class:`ParameterError` beyond the largest float: of thousands of digits, Python writes no text."""
    if abs(number) > float_info.max:
        raise ParameterError(f"typical {keyword!r} must be at most {float_info.max:.2g} in magnitude")
