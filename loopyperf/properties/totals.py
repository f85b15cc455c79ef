"""Sums and minima of a kernel's counts, evaluated together."""

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.signature import Signature
from loopyperf.polyhedral.closed_forms.compilation import Least, Output, Total
from loopyperf.polyhedral.closed_forms.evaluation import Evaluator, IntegerArray
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial, SizeAssumptions

Key = TypeVar("Key", bound=Hashable)
Terms = Sequence[tuple[QuasiPolynomial, int | Fraction]]
"""distinct counts with their multiplicities, to be summed"""


class Totals(Generic[Key]):
    """Named sums of counts of one kernel, and minima of such sums; a count that several share is evaluated once."""

    def __init__(self, kernel: Signature, sums: Mapping[Key, Terms], minima: Mapping[Key, tuple[Key, Key]]) -> None:
        """Sum *sums*; each of *minima* is the lesser of two of them."""
        self.kernel = kernel
        self.sums = sums
        self.minima = minima
        self.keys: tuple[Key, ...] = (*sums, *minima)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the sizes that are needed to evaluate."""
        return self._evaluator.parameters

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exact values at one size, in the order of the keys; raises :class:`ParameterError`."""
        return self._evaluator.at(sizes)

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        """Return the values at arrays of sizes, in the order of the keys; raises :class:`ParameterError`."""
        return self._evaluator.at_arrays(sizes)

    def weighted(self, weights: Sequence[float | None], sizes: Mapping[str, int | IntegerArray]) -> NDArray[np.float64]:
        """Return Σ weight · value at arrays of sizes, *weights* in the order of the keys; those without are left out.

        Raises :class:`ParameterError`.
        """
        return self._evaluator.weighted(weights, sizes)

    @cached_property
    def _evaluator(self) -> Evaluator:
        distinct = {id(count): count for terms in self.sums.values() for count, _ in terms}
        index = {key: position for position, key in enumerate(distinct)}
        sums = {name: _total(terms, index) for name, terms in self.sums.items()}
        outputs: list[Output] = [*sums.values()]
        outputs += [Least(sums[left], sums[right]) for left, right in self.minima.values()]
        forms = [count.form for count in distinct.values()]
        return Evaluator(forms, outputs, SizeAssumptions(self.kernel.assumptions))


def _total(terms: Terms, index: Mapping[int, int]) -> Total:
    """Return the sum of *terms*; *index* tells the place of each count, by its identity."""
    denominator = lcm(*(number.denominator for _, number in terms))
    return Total(tuple((index[id(count)], int(number * denominator)) for count, number in terms), denominator)
