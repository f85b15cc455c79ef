"""The properties of one kernel: symbolic counts by name, evaluated together, and shown as a table.

A terminal shows plain text; a notebook shows HTML with formulas in LaTeX.

The properties of the unified model (Stevens and Klöckner, section 2):

=====================================================  ======================================================
name                                                   counts
=====================================================  ======================================================
``f32 add``, ``f64 mul``, ``f32 div``, ``f32 pow``,    scalar floating-point operations of any type (the paper has f32
``f32 special``                                        and f64); ``special`` is any other function (square root,
                                                       exponential, ...)
``global load 32-bit stride 1``,                       accesses of global memory by size, direction and
``global store 64-bit stride 2/2``                     amortized stride fraction
``global min(load, store) 32-bit stride 1``            the smaller of the kernel's total loads and stores of a class
``local load 32-bit``, ``local store 32-bit``          accesses of local memory (stores: the paper's future work)
``barriers``                                           barriers per work-item times work-items
``work-groups``, ``launches``                          overhead of launches
=====================================================  ======================================================
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import lcm
from operator import add, mul
from typing import Any, Generic, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import LAUNCHES, WORK_GROUPS, Access, Item, Kind, MemorySpace, Operation, Overhead
from loopyperf.counts.kernel_counts import KernelTallies, Signature
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.display import Formula, ReportText, Shown, Table
from loopyperf.errors import ParameterError
from loopyperf.polyhedral.closed_form import Least, Output, Total
from loopyperf.polyhedral.evaluation import Evaluator, IntegerArray, broadcast
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial, SizeAssumptions

OPERATION_KINDS = frozenset({"add", "mul", "div", "pow", "special"})
TYPES = ("f32", "f64")
"""arithmetic types of the paper"""
BITS = (32, 64, 128)
"""access sizes of the paper"""


def property_name(item: Item) -> str | None:
    """Return the property that counts *item*; None if the item is free in the unified model."""
    match item:
        case Operation(kind=kind, dtype=dtype):
            return f"{dtype} {kind}" if kind in OPERATION_KINDS and dtype.startswith("f") else None
        case Access(space=MemorySpace.LOCAL):
            return f"local {item.direction} {item.bits}-bit"
        case Access():
            return f"global {item.direction} {item.bits}-bit stride {item.stride}"
        case Overhead():
            return item.kind


_OPERATION = re.compile(r"(?P<dtype>[fiu]\d+) (?P<kind>\S+)")
_LOCAL = re.compile(r"local (?P<direction>load|store) (?P<bits>\d+)-bit")
_GLOBAL = re.compile(r"global (?P<direction>load|store) (?P<bits>\d+)-bit stride (?P<stride>\S+)")


def item_named(name: object) -> Item:
    """Return the item that property *name* counts; raises :class:`ParameterError` if the name is unknown."""
    if not isinstance(name, str):
        raise ParameterError(f"a property name must be a string such as 'f32 add', got {name!r}")
    found: Any
    if (found := _OPERATION.fullmatch(name)) and found["kind"] in get_args(Kind):
        return Operation(found["kind"], found["dtype"])
    if found := _LOCAL.fullmatch(name):
        return Access(found["direction"], MemorySpace.LOCAL, int(found["bits"]), "")
    if (found := _GLOBAL.fullmatch(name)) and found["stride"] in STRIDE_CLASSES:
        return Access(found["direction"], MemorySpace.GLOBAL, int(found["bits"]), found["stride"])
    raise ParameterError(
        f"unknown property {name!r}; use e.g. 'f32 add', 'global load 32-bit stride 1' or 'local store 64-bit'"
    )


BYTES_OF_AN_OPERATION = 32
"""moved bytes that count as much work as one operation"""


def work_of_one(name: str) -> float:
    """Return the work of one count of property *name*, in operations: 1, or moved bytes / 32.

    It is 0 for minima of loads and stores, barriers, groups and launches.
    """
    if _OPERATION.fullmatch(name):
        return 1.0
    access = _LOCAL.fullmatch(name) or _GLOBAL.fullmatch(name)
    return int(access["bits"]) / 8 / BYTES_OF_AN_OPERATION if access else 0.0


PAPER_PROPERTIES: tuple[str, ...] = (
    *(f"{dtype} {kind}" for dtype in TYPES for kind in sorted(OPERATION_KINDS)),
    *(
        f"global {direction} {bits}-bit stride {stride}"
        for direction in ("load", "store", "min(load, store)")
        for bits in BITS
        for stride in STRIDE_CLASSES
    ),
    *(f"local {direction} {bits}-bit" for direction in ("load", "store") for bits in BITS),
    "barriers",
    WORK_GROUPS.kind,
    LAUNCHES.kind,
)
"""all properties of section 2 of the paper, with local loads by size, and local stores, which are its future work"""


# {{{ costs of counts at given prices


class Pricing:
    """Prices in the order of a kernel's counts by source; properties without a price are ignored."""

    __slots__ = ("minima", "prices", "sums", "unpriced", "work")

    def __init__(
        self, names: Sequence[str], minima: Mapping[str, tuple[str, str]], prices: Mapping[str, float]
    ) -> None:
        """Set prices for counts of the properties *names*, and for *minima* of two of them."""
        self.prices = prices
        self.sums = [(prices[name], place) for place, name in enumerate(names) if name in prices]
        places = {
            side: [at for at, name in enumerate(names) if name == side] for pair in minima.values() for side in pair
        }
        self.minima = [
            (prices[name], places[left], places[right]) for name, (left, right) in minima.items() if name in prices
        ]

        self.work = [work_of_one(name) for name in names]
        self.unpriced = [(work, at) for at, work in enumerate(self.work) if work and names[at] not in prices]

    def share_unpriced(self, counts: Sequence[int]) -> float:
        """Return the share, from 0 to 1, of the work of *counts* in properties without a price."""
        if not self.unpriced:
            return 0.0
        return sum(work * counts[at] for work, at in self.unpriced) / max(sum(map(mul, self.work, counts)), 1.0)

    def costs(self, counts: Sequence[int]) -> list[float]:
        """Return price · count for each of *counts*; a minimum has the counts of whichever side is smaller in total."""
        found = [price * counts[place] for price, place in self.sums]
        for price, left, right in self.minima:
            first, second = [counts[place] for place in left], [counts[place] for place in right]
            found += [price * count for count in (first if sum(first) <= sum(second) else second)]
        return found


# }}}


Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers of all properties at one size."""

    sizes: Sizes
    """size name -> value"""
    numbers: Sequence[int]
    """number of each property, in the order of the formulas"""

    @property
    def heading(self) -> str:
        """Return the sizes, e.g. ``"n=1024, m=16"``."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


@dataclass(frozen=True, slots=True, repr=False)
class CountTable(Shown):
    """A table of counts by property; ``str`` returns text, a notebook shows HTML."""

    title: str
    """title of the table"""
    formulas: Mapping[str, "Count"]
    """property -> count as a function of the sizes"""
    columns: Sequence[Column]
    """numbers at the given sizes"""

    def report_text(self) -> ReportText:
        """Return the table of formulas and numbers."""
        headings = ("property", "count", *(column.heading for column in self.columns))
        rows = [
            (name, Formula(str(count), count.latex()), *(f"{column.numbers[row]:,}" for column in self.columns))
            for row, (name, count) in enumerate(self.formulas.items())
        ]
        return ReportText(self.title, tables=[Table(headings, rows, text=2)])

    def __repr__(self) -> str:
        return str(self)


def each_size(several: Sequence[Sizes], named: Mapping[str, int | IntegerArray]) -> Iterator[Sizes]:
    """Yield the sizes of the columns of a table: *several*, each combined with *named*, which may have arrays.

    Raises :class:`ParameterError` if the arrays do not broadcast together.
    """
    arrays = broadcast(named)
    points = zip(*(array.ravel() for array in arrays), strict=True) if arrays else [()]
    for point in points:
        sizes = dict(zip(named, point, strict=True))
        yield from ({**one, **sizes} for one in several or ([{}] if sizes else []))


# {{{ sums and minima with shared evaluation


Key = TypeVar("Key", bound=Hashable)
Terms = Sequence[tuple[QuasiPolynomial, int | Fraction]]
"""distinct counts with their multiplicities, to be summed"""


class Totals(Generic[Key]):
    """Named sums of counts of one kernel, and minima of such sums; a shared count is evaluated only once."""

    def __init__(self, kernel: Signature, sums: Mapping[Key, Terms], minima: Mapping[Key, tuple[Key, Key]]) -> None:
        """Store *sums*; each of *minima* is the smaller of two sums."""
        self.kernel = kernel
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
        return Evaluator(forms, outputs, SizeAssumptions(self.kernel.assumptions))


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

    @cached_property
    def lesser(self) -> QuasiPolynomial | None:
        """Return the count that is provably the smaller one at all admissible sizes; None if there is none."""
        if self.left.is_at_most(self.right):
            return self.left
        return self.right if self.right.is_at_most(self.left) else None

    def __str__(self) -> str:
        return f"min({self.left}, {self.right})" if self.lesser is None else str(self.lesser)

    def latex(self) -> str:
        """Return the formula as LaTeX, without delimiters."""
        if self.lesser is None:
            return rf"\min\left({self.left.latex()}, {self.right.latex()}\right)"
        return self.lesser.latex()

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

    def weighted(self, weights: Mapping[str, float], /, **sizes: int | IntegerArray) -> NDArray[np.float64]:
        """Return Σ weight · count over properties with a weight, as an array of the sizes' broadcast shape.

        The order of summation is that of ``sum(weights[name] * counts[name] for ...)`` over :meth:`evaluate`, without
        an array for each property. Raises :class:`ParameterError` as :meth:`evaluate` does.
        """
        return self.totals.evaluator.weighted([weights.get(name) for name in self.totals.keys], sizes)

    # }}}

    # {{{ tables

    def table(self, /, *several: Mapping[str, int], **sizes: int | IntegerArray) -> CountTable:
        """Return the formulas as a table, with a column of numbers for each size.

        Sizes are keywords, which may be arrays, or *several* mappings. Raises :class:`ParameterError` for missing,
        superfluous or inadmissible sizes.
        """
        columns = [Column(point, self.totals.evaluator.at(point)) for point in each_size(several, sizes)]
        return CountTable(f"{len(self)} properties", self, columns)

    def report_text(self) -> ReportText:
        """Return the table of formulas."""
        return self.table().report_text()

    # }}}


def unified_properties(counts: KernelTallies) -> PropertyVector:
    """Return the unified model's properties of *counts*; see :mod:`loopyperf.counts.property_vector`."""
    sums: dict[str, list[tuple[QuasiPolynomial, int | Fraction]]] = {}
    for item, terms in counts.totals.items():
        name = property_name(item)
        if name is not None:
            sums.setdefault(name, []).extend(terms)
    minima = {name: pair for item in counts.totals for name, pair in _minima(item, sums)}
    return PropertyVector(Totals(counts.kernel, dict(sorted(sums.items())), dict(sorted(minima.items()))))


def _minima(item: Item, sums: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the minimum that includes the global load *item*, if the kernel has stores of the same class."""
    if isinstance(item, Access) and item.space == MemorySpace.GLOBAL and item.direction == "load":
        load, store = property_name(item), property_name(replace(item, direction="store"))
        if load is not None and store is not None and store in sums:
            yield f"global min(load, store) {item.bits}-bit stride {item.stride}", (load, store)


# }}}
