"""What the source of a kernel cannot tell, as its user says that it typically is.

How long a loop is whose bounds are loaded, how often a condition on data holds, how far apart the addresses of
neighbouring lanes are that were loaded, what foreign code costs: the user states each by a keyword, which the refusal
names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from sys import float_info
from typing import Any, cast

import numpy as np

from loopyperf.counts.item import Item
from loopyperf.errors import ParameterError, UncountableError


def _as_it_is(item: Item) -> Item:
    return item


class Typical:
    """The values that a user states, by keyword; knows which of them were asked for."""

    def __init__(self, values: Mapping[str, Any], read_item: Callable[[Any], Item] = _as_it_is) -> None:
        """Take *values*; *read_item* reads the names of what foreign code does, where they are not items already."""
        check_stated(values)
        self.values = dict(values)
        self._read_item = read_item
        self._asked: set[str] = set()

    def has(self, keyword: str) -> bool:
        """Return whether a value for *keyword* is stated."""
        return keyword in self.values

    def passes(self, loop: str, why: str) -> Fraction:
        """Return how many passes *loop* makes each time it is entered.

        Raises :class:`UncountableError`, which says *why* it is asked, where nothing is stated, and
        :class:`ParameterError` for less than none; so do the others.
        """
        value = self._number(self._stated((loop,), f"{why}; state how many passes it typically makes", "10"), loop)
        if value < 0:
            raise ParameterError(f"typical {loop!r} is a number of passes, received {value}")
        return value

    def size(self, name: str, why: str) -> int:
        """Return the integer that *name*, which is loaded, typically is; raises what :meth:`passes` does."""
        value = self._number(self._stated((name,), f"{why}; state what {name} typically is", "10"), name)
        if value.denominator != 1 or value < 0:
            raise ParameterError(f"typical {name!r} bounds loops: it is an integer, 0 or more; received {value}")
        return int(value)

    def share(self, condition: str, instruction: str | None, why: str) -> Fraction:
        """Return how often *condition* holds, from 0 to 1; raises what :meth:`passes` does, for other numbers too.

        It is stated for the condition's text or, where an *instruction* has no other condition on data, for that:
        its name does not change with its loops.
        """
        keywords = (condition,) if instruction is None else (condition, instruction)
        stated = self._stated(keywords, f"{why}; state how often it typically holds, from 0 to 1", "0.5")
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
        stated = self._stated((name,), f"{why}; state what one run of it does", '{"f32 add": 1}')
        if not isinstance(stated, Mapping):
            raise ParameterError(f"typical {name!r} is a mapping from properties to numbers, received {stated!r}")
        numbers = cast("Mapping[Any, Any]", stated)
        does = {self._read_item(key): self._number(value, name) for key, value in numbers.items()}
        if any(number < 0 for number in does.values()):
            raise ParameterError(f"typical {name!r} does nothing a negative number of times, received {stated!r}")
        return does

    def _stated(self, keywords: tuple[str, ...], why: str, example: str) -> Any:
        self._asked.update(keywords)
        for keyword in keywords:
            if keyword in self.values:
                return self.values[keyword]
        ways = " or ".join(f"typical={{{keyword!r}: {example}}}" for keyword in keywords)
        idle = self._idle()
        said = f"; {_listed(idle)} {'is' if len(idle) == 1 else 'are'} stated, and not asked for so far" if idle else ""
        raise UncountableError(f"{why}, e.g. {ways}{said}{_meant(idle, keywords)}", keyword=keywords[0])

    def _idle(self) -> list[str]:
        """Return what is stated and was not asked for."""
        return sorted(self.values.keys() - self._asked)

    @staticmethod
    def _number(value: Any, keyword: str) -> Fraction:
        number: object = cast("Any", value).item() if isinstance(value, np.generic) else value
        if isinstance(number, float) and isfinite(number):
            return Fraction(str(number))
        if isinstance(number, (int, Fraction)) and not isinstance(number, bool):
            _check_magnitude(number, keyword)
            return Fraction(number)
        raise ParameterError(
            f"typical {keyword!r} must be a finite number, received {number!r} ({type(number).__name__})"
        )

    def check_all_asked(self, kernel: str) -> None:
        """Raise :class:`ParameterError` for a value that nothing in *kernel* asked for: its keyword is misspelt."""
        idle, asked = self._idle(), sorted(self._asked)
        if idle:
            raise ParameterError(
                f"typical {_listed(idle)} settles nothing in kernel {kernel!r}, which asks for "
                f"{_listed(asked) or 'nothing'}{_meant(idle, asked)}"
            )


def _listed(keywords: Iterable[str]) -> str:
    return ", ".join(map(repr, keywords))


def _meant(idle: Iterable[str], asked: Sequence[str]) -> str:
    """Return, as the end of a sentence, which of *asked* may be meant by keywords that are *idle*, being misspelt."""
    pairs = ((keyword, *get_close_matches(keyword, asked, n=1)) for keyword in idle)
    return "".join(f"; is {pair[0]!r} to be {pair[1]!r}?" for pair in pairs if len(pair) > 1)


def check_stated(values: object) -> None:
    """Raise :class:`ParameterError` unless *values* map keywords to what can be written down."""
    if not isinstance(values, Mapping):
        raise ParameterError(f"typical is a mapping from keywords to values, received {values!r}")
    for keyword, value in cast("Mapping[object, object]", values).items():
        if not isinstance(keyword, str):
            raise ParameterError(f"typical is a mapping from keywords to values, received the keyword {keyword!r}")
        parts = cast("Mapping[object, object]", value).values() if isinstance(value, Mapping) else (value,)
        for number in parts:
            if isinstance(number, (int, Fraction)):
                _check_magnitude(number, keyword)


def _check_magnitude(number: int | Fraction, keyword: str) -> None:
    """Raise :class:`ParameterError` beyond the largest float: of thousands of digits, Python writes no text."""
    if abs(number) > float_info.max:
        raise ParameterError(f"typical {keyword!r} must be at most {float_info.max:.2g} in magnitude")
