"""The properties of one kernel: symbolic counts by name, evaluated together, and shown as a table.

A terminal shows plain text; a notebook shows HTML with formulas in LaTeX.

"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import lcm
from operator import add
from typing import Generic, TypeVar

import islpy as isl
import numpy as np

from loopyperf.counts.item import Access, Item, MemorySpace, property_name
from loopyperf.display import Formula, ReportText, Shown, Table
from loopyperf.polyhedral.closed_form import Least, Output, Total
from loopyperf.polyhedral.evaluation import Evaluator, IntegerArray, broadcast
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial, SizeAssumptions


@dataclass(frozen=True, slots=True, repr=False)
class CountTable(Shown):
    """A table of counts by property; ``str`` returns text, a notebook shows HTML."""

    title: str
    """title of the table"""
    formulas: Mapping[str, "Count"]
    """property -> count as a function of the sizes"""
    columns: Mapping[str, Sequence[int]]
    """sizes, e.g. ``"n=1024, m=16"`` -> number of each property, in the order of the formulas"""

    def report_text(self) -> ReportText:
        """Return the table of formulas and numbers."""
        rows = [
            (name, Formula(str(count), count.latex()), *(f"{numbers[row]:,}" for numbers in self.columns.values()))
            for row, (name, count) in enumerate(self.formulas.items())
        ]
        return ReportText(self.title, tables=[Table(("property", "count", *self.columns), rows, text=2)])

    def __repr__(self) -> str:
        return str(self)


# {{{ sums and minima with shared evaluation


Key = TypeVar("Key", bound=Hashable)
Terms = Sequence[tuple[QuasiPolynomial, int | Fraction]]
"""distinct counts with their multiplicities, to be summed"""


class Totals(Generic[Key]):
    """Named sums of counts of one kernel, and minima of such sums; a shared count is evaluated only once."""

    def __init__(
        self, assumptions: isl.BasicSet, sums: Mapping[Key, Terms], minima: Mapping[Key, tuple[Key, Key]]
    ) -> None:
        """Store *sums* over sizes in *assumptions*; each of *minima* is the smaller of two sums."""
        self.assumptions = assumptions
        self.sums = sums
        self.minima = minima
        self.keys: tuple[Key, ...] = (*sums, *minima)

    @cached_property
    def evaluator(self) -> Evaluator:
        """Return a function of the sizes that returns the values in the order of the keys."""
        distinct = dict.fromkeys(Same(count) for terms in self.sums.values() for count, _ in terms)
        index = {key: position for position, key in enumerate(distinct)}
        sums: dict[Key, Total] = {}
        for name, terms in self.sums.items():
            denominator = lcm(*(number.denominator for _, number in terms))
            whole = tuple((index[Same(count)], int(number * denominator)) for count, number in terms)
            sums[name] = Total(whole, denominator)
        outputs: list[Output] = [*sums.values()]
        outputs += [Least(sums[left], sums[right]) for left, right in self.minima.values()]
        forms = [key.value.form for key in distinct]
        return Evaluator(forms, outputs, SizeAssumptions(self.assumptions))


# }}}


# {{{ the properties of one kernel


@dataclass(frozen=True)
class LesserCount:
    """The smaller of two counts, as a function of sizes."""

    left: QuasiPolynomial
    right: QuasiPolynomial

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters on which either count depends."""
        return self.left.parameters | self.right.parameters

    def __call__(self, /, **sizes: int) -> int:
        """Return the smaller count at *sizes*; raises :class:`ParameterError`."""
        return self._evaluator.at(sizes)[0]

    def evaluate(self, /, **sizes: int | IntegerArray) -> IntegerArray:
        """Return the smaller count at arrays of sizes; raises :class:`ParameterError`."""
        return self._evaluator.at_arrays(sizes)[0]

    @cached_property
    def _evaluator(self) -> Evaluator:
        least = Least(Total(((0, 1),)), Total(((1, 1),)))
        forms = [self.left.form, self.right.form]
        return Evaluator(forms, [least], SizeAssumptions(self.left.assumptions))

    @property
    def _lesser(self) -> QuasiPolynomial | None:
        """Return the count of which the other one is a multiple; None if neither is."""
        if self.right.is_multiple_of(self.left):
            return self.left
        return self.right if self.left.is_multiple_of(self.right) else None

    def __str__(self) -> str:
        return f"min({self.left}, {self.right})" if self._lesser is None else str(self._lesser)

    def latex(self) -> str:
        """Return the formula as LaTeX, without delimiters."""
        if self._lesser is not None:
            return self._lesser.latex()
        return rf"\min\left({self.left.latex()}, {self.right.latex()}\right)"

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"


Count = QuasiPolynomial | LesserCount


class PropertyVector(Shown, Mapping[str, Count]):
    """The properties of a kernel: a mapping from name to count, without properties that are zero."""

    def __init__(self, totals: Totals[str]) -> None:
        """Wrap *totals*."""
        self.totals = totals

    # {{{ symbolic

    def __getitem__(self, name: str) -> Count:
        if name in self.totals.minima:
            left, right = self.totals.minima[name]
            return LesserCount(self._sum(left), self._sum(right))
        return self._sum(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals.keys)

    def __len__(self) -> int:
        return len(self.totals.keys)

    def _sum(self, name: str) -> QuasiPolynomial:
        return reduce(add, (count * multiplicity for count, multiplicity in self.totals.sums[name]))

    # }}}

    # {{{ numeric

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the sizes needed for evaluation."""
        return self.totals.evaluator.parameters

    def evaluate(self, /, **sizes: int | IntegerArray) -> dict[str, int] | dict[str, IntegerArray]:
        """Return all counts by property name: exact integers, or arrays if any size is an array.

        Raises :class:`ParameterError` for missing, superfluous or inadmissible sizes.
        """
        numbers = {name: size for name, size in sizes.items() if not isinstance(size, np.ndarray)}
        if len(numbers) == len(sizes):
            return dict(zip(self.totals.keys, self.totals.evaluator.at(numbers), strict=True))
        return dict(zip(self.totals.keys, self.totals.evaluator.at_arrays(sizes), strict=True))

    # }}}

    # {{{ tables

    def table(self, /, **sizes: int | IntegerArray) -> CountTable:
        """Return the formulas as a table, with a column of numbers for each size; arrays of sizes make several columns.

        Raises :class:`ParameterError` for missing, superfluous or inadmissible sizes.
        """
        points = zip(*(array.ravel() for array in broadcast(sizes)), strict=True) if sizes else ()
        columns: dict[str, Sequence[int]] = {}
        for point in (dict(zip(sizes, values, strict=True)) for values in points):
            heading = ", ".join(f"{name}={size}" for name, size in point.items())
            columns[heading] = self.totals.evaluator.at(point)
        return CountTable(f"{len(self)} properties", self, columns)

    def report_text(self) -> ReportText:
        """Return the table of formulas."""
        return self.table().report_text()

    # }}}


def unified_properties(assumptions: isl.BasicSet, totals: Mapping[Item, Terms]) -> PropertyVector:
    """Return the properties of a kernel that counts *totals* of each item at sizes in *assumptions*."""
    sums: dict[str, list[tuple[QuasiPolynomial, int | Fraction]]] = {}
    for item, terms in totals.items():
        name = property_name(item)
        if name is not None:
            sums.setdefault(name, []).extend(terms)
    minima = {name: pair for item in totals for name, pair in _minima(item, sums)}
    return PropertyVector(Totals(assumptions, dict(sorted(sums.items())), dict(sorted(minima.items()))))


def _minima(item: Item, sums: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the minimum that includes the global load *item*, if the kernel has stores of the same class."""
    if isinstance(item, Access) and item.space == MemorySpace.GLOBAL and item.direction == "load":
        load, store = property_name(item), property_name(replace(item, direction="store"))
        if load is not None and store is not None and store in sums:
            yield f"global min(load, store) {item.bits}-bit stride {item.stride}", (load, store)


# }}}
