"""Which properties the measured kernels exercise, in which numbers, and how well a fit can tell each from the others.

Let εᵢ be the own part of property i's column: the distance of the unit column from all combinations of the others
(:mod:`loopyperf.calibration.dependence`). Its variance inflation factor is 1/εᵢ²: 1 where no other property varies with
it; f where noise in the run times moves its weight √f times as far as it would if the others' weights were known. No
mean is subtracted first, as textbooks do, because the model has no constant: launches are a column like any other.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
import numpy as np

from loopyperf.calibration.dependence import nearest_combination, own_parts
from loopyperf.calibration.indistinguishable import TOLERANCE
from loopyperf.calibration.problem import Problem

FEWEST = 3
"""Configurations that should exercise a property: with two, nobody sees which one is the odd one out."""
WEAK = 100.0
"""Variance inflation from which on a weight is weakly determined: noise of 1 % moves it by 10 % of the run time."""
_ROUNDING = 1e-8
"""An own part below this is 0 but for rounding."""
_SHARE = 0.1
"""of the largest coefficient: smaller ones are not named"""
_NAMED = 3
"""properties that are named as resembling another, at most"""


class Counted(Protocol):
    """What a configuration is asked for at one size: an observation, or counts alone."""

    @property
    def kernel_class(self) -> str:
        """Return the file of kernels it comes from."""
        ...

    @property
    def label(self) -> str:
        """Return the configuration within its class."""
        ...

    @property
    def properties(self) -> Mapping[str, int]:
        """Return how many units of each property one run has."""
        ...


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the kernels of a calibration exercise one property."""

    name: str
    """of the property"""
    classes: tuple[str, ...] = ()
    """the classes of kernels that have any of it, sorted"""
    configurations: int = 0
    """how many configurations of these classes have any of it"""
    least: int = 0
    """smallest count among the runs that have any"""
    most: int = 0
    inflation: float | None = None
    """variance inflation factor, at least 1; None if it is infinite, or unknown because nothing was timed"""
    resembles: tuple[str, ...] = ()
    """where it is hard to tell apart: the properties that it varies with, most of it first"""

    @property
    def gap(self) -> str:
        """Return what is wrong with the coverage, as words; empty if nothing is."""
        if not self.configurations:
            return "no kernel has it"
        if self.resembles and (self.inflation is None or self.inflation >= 1 / TOLERANCE**2):
            return f"not told apart from {', '.join(self.resembles)}"
        if self.configurations < FEWEST:
            return f"only {self.configurations} of the kernels {'has' if self.configurations == 1 else 'have'} it"
        return f"varies with {', '.join(self.resembles)}" if self.resembles else ""


def tabulate(counted: Iterable[Counted], expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
    """Return a row for each property that is counted or *expected*, sorted by name, from counts alone.

    Which properties vary with each other is not known without run times: no row has an inflation.
    """
    kernels: dict[str, set[tuple[str, str]]] = {name: set() for name in expected}
    counts: dict[str, list[int]] = {}
    for row in counted:
        for name, count in row.properties.items():
            if count:
                kernels.setdefault(name, set()).add((row.kernel_class, row.label))
                counts.setdefault(name, []).append(int(count))
    return tuple(
        Coverage(
            name=name,
            classes=tuple(sorted({kernel_class for kernel_class, _ in kernels[name]})),
            configurations=len(kernels[name]),
            least=min(counts.get(name, [0])),
            most=max(counts.get(name, [0])),
        )
        for name in sorted(kernels)
    )


def coverage(problem: Problem, expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
    """Return a row for each property of *problem*, or *expected*, sorted by name, with its variance inflation.

    The inflation is against all other properties of the problem, those that a fit leaves out among them.
    """
    inflations = variance_inflation(problem)
    return tuple(
        row if row.name not in inflations else _with_inflation(row, problem, inflations[row.name])
        for row in tabulate(problem.observations, expected)
    )


def variance_inflation(problem: Problem) -> dict[str, float]:
    """Return 1/ε² of each property of *problem* (dimensionless, at least 1); infinite where others make it up."""
    return {
        name: float(own**-2) if own > _ROUNDING else np.inf
        for name, own in zip(problem.properties, own_parts(problem.matrix), strict=True)
    }


def _with_inflation(row: Coverage, problem: Problem, inflation: float) -> Coverage:
    return msgspec.structs.replace(
        row,
        inflation=inflation if np.isfinite(inflation) else None,
        resembles=_resembled(problem, row.name) if inflation >= WEAK else (),
    )


def _resembled(problem: Problem, name: str) -> tuple[str, ...]:
    """Return the properties with the largest parts in the combination that comes closest to *name*, largest first."""
    column = problem.properties.index(name)
    others = [other for other in problem.properties if other != name]
    parts = np.abs(nearest_combination(problem.matrix, column))
    largest = sorted(zip(parts, others, strict=True), key=lambda pair: (-pair[0], pair[1]))[:_NAMED]
    return tuple(other for part, other in largest if part >= _SHARE * largest[0][0])
