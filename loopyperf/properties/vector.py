"""The properties of one kernel: symbolic by name, and evaluated together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TypeVar

from loopyperf.counts.evaluation import Evaluator, IntegerArray, Least, Output, Total
from loopyperf.counts.kernel_counts import Access, Item, KernelCounts
from loopyperf.counts.quasipolynomial import QuasiPolynomial, assumption_form
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel
from loopyperf.properties.unified import matching_store, minimum_name, property_name


@dataclass(frozen=True)
class Minimum:
    """The lesser of two counts, as a function of sizes."""

    left: QuasiPolynomial
    right: QuasiPolynomial

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters that either count depends on."""
        return self.left.parameters | self.right.parameters

    def __call__(self, **sizes: int) -> int:
        """Return the lesser count at *sizes*; raises :class:`ParameterError`."""
        return self._evaluator.at(sizes)[0]

    def evaluate(self, **sizes: int | IntegerArray) -> IntegerArray:
        """Return the lesser count at arrays of sizes; raises :class:`ParameterError`."""
        return self._evaluator.at_arrays(sizes)[0]

    @cached_property
    def _evaluator(self) -> Evaluator:
        least = Least(Total(((0, 1),)), Total(((1, 1),)))
        forms = [self.left.form, self.right.form]
        return Evaluator(forms, [least], assumption_form(self.left.assumptions, self.parameters))

    def __str__(self) -> str:
        return str(self.left) if self.left.form == self.right.form else f"min({self.left}, {self.right})"

    def latex(self) -> str:
        """Return the formula as LaTeX, without delimiters."""
        same = self.left.form == self.right.form
        return self.left.latex() if same else rf"\min\left({self.left.latex()}, {self.right.latex()}\right)"


Count = QuasiPolynomial | Minimum
Size = TypeVar("Size", int, int | IntegerArray)


class PropertyVector(Mapping[str, Count]):
    """Property name -> count; only properties that the kernel has are in it."""

    def __init__(
        self,
        kernel: Kernel,
        totals: Mapping[str, Sequence[tuple[QuasiPolynomial, int]]],
        minima: Mapping[str, tuple[str, str]],
    ) -> None:
        """Sum *totals* (property -> distinct counts with multiplicities); *minima* name two of them each."""
        self.kernel = kernel
        self._totals = totals
        self._minima = minima
        self._names = (*totals, *minima)

    # {{{ symbolic

    def __getitem__(self, name: str) -> Count:
        if name in self._minima:
            left, right = self._minima[name]
            return Minimum(self._sum(left), self._sum(right))
        return self._sum(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _sum(self, name: str) -> QuasiPolynomial:
        return reduce(add, (count * multiplicity for count, multiplicity in self._totals[name]))

    # }}}

    # {{{ numeric

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the sizes that are needed to evaluate."""
        return self._evaluator.parameters

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exact counts at one size, in the order of the names; raises :class:`ParameterError`."""
        return self._evaluator.at(self._relevant(sizes))

    def evaluate(self, **sizes: int | IntegerArray) -> dict[str, int] | dict[str, IntegerArray]:
        """Return all counts by property name: exact integers, or one array each where any size is an array.

        Raises :class:`ParameterError` for missing, superfluous or inadmissible sizes.
        """
        if all(isinstance(size, int) for size in sizes.values()):
            return dict(zip(self._names, self.at(sizes), strict=True))  # pyright: ignore[reportArgumentType]
        return dict(zip(self._names, self._evaluator.at_arrays(self._relevant(sizes)), strict=True))

    def _relevant(self, sizes: Mapping[str, Size]) -> Mapping[str, Size]:
        """Return *sizes* without those that the kernel takes but no count depends on."""
        if set(sizes) == set(self.parameters):
            return sizes
        strangers = sorted(sizes.keys() - self.kernel.parameters)
        if strangers:
            raise ParameterError(
                f"superfluous size {', '.join(strangers)}: kernel {self.kernel.name!r} takes "
                f"{', '.join(sorted(self.kernel.parameters)) or 'no sizes'}"
            )
        return {name: size for name, size in sizes.items() if name in self.parameters}

    @cached_property
    def _evaluator(self) -> Evaluator:
        distinct = {id(count): count for terms in self._totals.values() for count, _ in terms}
        index = {key: position for position, key in enumerate(distinct)}
        totals = {
            name: Total(tuple((index[id(count)], number) for count, number in terms))
            for name, terms in self._totals.items()
        }
        outputs: list[Output] = [*totals.values()]
        outputs += [Least(totals[left], totals[right]) for left, right in self._minima.values()]
        forms = [count.form for count in distinct.values()]
        needed = {name for count in distinct.values() for name in count.parameters}
        return Evaluator(forms, outputs, assumption_form(self.kernel.assumptions, needed))

    # }}}


def unified_properties(counts: KernelCounts) -> PropertyVector:
    """Return the unified model's properties of a counted kernel (see :mod:`loopyperf.properties.unified`)."""
    totals: dict[str, list[tuple[QuasiPolynomial, int]]] = {}
    for item, terms in counts.totals.items():
        name = property_name(item)
        if name is not None:
            totals.setdefault(name, []).extend(terms)
    minima = {name: pair for item in counts.totals for name, pair in _minima(item, totals)}
    return PropertyVector(counts.kernel, dict(sorted(totals.items())), dict(sorted(minima.items())))


def _minima(item: Item, totals: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the minimum that the global load *item* takes part in, if the kernel stores in the same class."""
    name, load = minimum_name(item), property_name(item)
    if name is not None and load is not None and isinstance(item, Access):
        store = property_name(matching_store(item))
        if store is not None and store in totals:
            yield name, (load, store)
