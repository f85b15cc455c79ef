"""The least-squares problem that a set of measured kernels poses, and what was found of it.

One row per measurement j, one column per property i, every row divided by its measured time Tⱼ, so that the weights α
(seconds per unit) which bring A·α closest to 1 have the least *relative* error::

    Aⱼᵢ = pᵢ(nⱼ) / Tⱼ,        minimise Σⱼ (1 − Σᵢ αᵢ pᵢ(nⱼ) / Tⱼ)²

Source: Stevens and Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 4.3.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import CalibrationError
from loopyperf.files import Amount, Number, Whole
from loopyperf.models.linear import Amounts, sensitivity
from loopyperf.models.model_interface import Basis
from loopyperf.units import amount

Matrix = NDArray[np.float64]
"""two axes"""
Vector = NDArray[np.float64]
"""one axis"""


@dataclass(frozen=True, slots=True)
class Observation:
    """One kernel at one size, counted and timed."""

    kernel_class: str
    """the file of measurement kernels it comes from, e.g. ``"transpose"``; cross-validation leaves out whole classes"""
    label: str
    """the configuration within its class, e.g. ``"no prefetch, group 16x16"``"""
    sizes: Mapping[str, int]
    """values of its parameters, by name"""
    properties: Mapping[str, int]
    """how many units of each property one run has; a property that is not there counts 0"""
    seconds: float
    """measured run time"""
    pipelines: Mapping[str, float] = field(default_factory=dict[str, float])
    """seconds that each pipeline is described to be busy; empty where the device is not described"""

    def amounts(self, basis: Basis) -> Mapping[str, float]:
        """Return how much the kernel has of each column of *basis*."""
        return self.properties if basis == "counts" else self.pipelines

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.kernel_class!r} ({self.label}; {sizes})"


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Which weights explain these observations? Made by :func:`pose_problem`."""

    observations: tuple[Observation, ...]
    properties: tuple[str, ...]
    """names of the columns"""
    matrix: Matrix
    """(observations × properties), counts divided by the row's measured time, in units per second; read-only"""
    basis: Basis
    absent: tuple[str, ...]
    """properties named by the observations of which no observation has a single unit: no column, no weight"""


def pose_problem(observations: Iterable[Observation], basis: Basis = "counts") -> Problem:
    """Return the problem of fitting weights to *observations*, its columns in an order that depends on the names alone.

    :raises CalibrationError: there are no observations, or one has a time that is no positive number, a count that is
        negative or no number, or no counts at all.
    """
    rows = tuple(observations)
    if not rows:
        raise CalibrationError(
            "there are no observations to fit weights to; measure at least one kernel, for example with "
            "`loopyperf calibrate`"
        )
    for row in rows:
        _check_seconds(row)
        _check_counts(row, basis)
    amounts = [row.amounts(basis) for row in rows]
    named = sorted({name for each in amounts for name in each}, key=_column_order)
    present = tuple(name for name in named if any(each.get(name, 0) for each in amounts))
    matrix = np.array(
        [[each.get(name, 0) / row.seconds for name in present] for row, each in zip(rows, amounts, strict=True)]
    )
    matrix.flags.writeable = False
    return Problem(rows, present, matrix, basis, absent=tuple(name for name in named if name not in present))


def _column_order(name: str) -> tuple[bool, str]:
    # Of columns that cannot be told apart the later ones go without a weight. "min(load, store)" is a correction to
    # loads and stores, not a cost of its own, so it comes last.
    return "min(" in name, name


def _check_seconds(row: Observation) -> None:
    if not (math.isfinite(row.seconds) and row.seconds > 0):
        raise CalibrationError(
            f"the run time of {row} must be a positive number of seconds, but is {row.seconds}; "
            "measure it again or leave it out"
        )


def _check_counts(row: Observation, basis: Basis) -> None:
    amounts = row.amounts(basis)
    for name, count in amounts.items():
        if not (math.isfinite(count) and count >= 0):
            raise CalibrationError(
                f"the count of {name!r} in {row} must be at least 0, but is {count}; count the kernel again"
            )
    if not any(amounts.values()):
        raise CalibrationError(
            f"{row} has no counts above 0, so no weight can explain its {row.seconds:.3g} s; "
            "give its counts (at least 'launches'), or leave it out"
        )


# {{{ what a fit says of properties that the measured kernels could not tell apart
#
# Such a property has no weight of its own. As long as a kernel obeys the relation that tied it to others, nothing is
# lost: their weights carry its cost. Once a kernel breaks it, nobody knows the cost, and :func:`doubts` says so.


TOLERANCE = 1e-2
"""Least own part εⱼ (dimensionless) of a column that is fitted. Run times repeat to about 1 % at best, and the property
that takes all of one kernel's time has a scaled weight of about 1: below this, noise alone could move it by as much."""


class Indistinguishable(msgspec.Struct, frozen=True):
    """A group of properties tied together in all measured kernels, so that not all of them have their own weight."""

    left_out: Mapping[str, Mapping[str, Number]]
    """for each property without a weight, what its count was equal to: so many units of each fitted property"""
    mismatch: Amount
    """largest distance of a left-out column from that combination, columns of unit length; about 1e-16 if exact"""

    @property
    def properties(self) -> tuple[str, ...]:
        """Return the names of all properties in the group, fitted and left out, sorted."""
        return tuple(sorted({*self.left_out, *(name for equal in self.left_out.values() for name in equal)}))


def changed_counts(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return the left-out properties whose count is not what it was in the measured kernels: their cost is unknown.

    *properties* are the counts of one kernel; differences of at most :data:`TOLERANCE` are let pass.
    """
    return tuple(
        name
        for group in groups
        for name, equal in group.left_out.items()
        if not _holds(properties.get(name, 0), _terms(equal, properties))
    )


def doubts(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence for each property whose weight these counts need but the fit cannot give."""
    groups = tuple(groups)
    equals = {name: equal for group in groups for name, equal in group.left_out.items()}
    return tuple(
        f"the weight of {name!r} is undetermined: in all kernels of the calibration it was {_spelled(equals[name])}, "
        f"which would be {amount(sum(_terms(equals[name], properties)))} here, but is {amount(properties.get(name, 0))}"
        for name in changed_counts(groups, properties)
    )


def _holds(count: float, terms: list[float]) -> bool:
    # Relative to the terms and not to their sum, which may be nothing but the rounding of factors where terms cancel.
    return abs(count - sum(terms)) <= TOLERANCE * max(count, sum(map(abs, terms)))


def _terms(equal: Mapping[str, float], properties: Mapping[str, float]) -> list[float]:
    return [factor * properties.get(name, 0) for name, factor in equal.items()]


def _spelled(equal: Mapping[str, float]) -> str:
    return " + ".join(f"{factor:.6g} × {name!r}" for name, factor in equal.items())


# }}}


# {{{ what a fit found
#
# Weights, the sharpness where the model has one, and how well the measurements determine them.


@dataclass(frozen=True, slots=True)
class Solution:
    """Fitted weights and how well the measurements determine them."""

    model: str
    """``"linear"`` or ``"overlap"``"""
    weights: Mapping[str, float]
    """seconds per unit of each column that could be fitted, in the problem's order"""
    covariance: Matrix
    """of the weights, then of the sharpness, for measurements whose relative errors have the variance 1"""
    undetermined: tuple[Indistinguishable, ...]
    """properties that got no weight because the kernels cannot tell them apart, in groups"""
    absent: tuple[str, ...]
    """properties that got no weight because no kernel has a single unit of them"""
    rank: int
    """how many weights were fitted: the numerical rank of the matrix, by the tolerance"""
    condition: float
    """largest over smallest singular value of the fitted columns, each of unit length"""
    residuals: tuple[float, ...]
    """1 − predicted/measured of each observation; negative where the model is too slow"""
    at_bound: tuple[str, ...]
    """properties whose weight the non-negative fit holds at 0"""
    non_negative: bool
    ridge: float
    tolerance: float
    sharpness: float = 1.0
    basis: Basis = "counts"

    def predict(self, properties: Amounts) -> float:
        """Return the predicted run time, in seconds, of a kernel of such columns; what has no weight adds nothing."""
        return float(self.seconds([properties])[0])

    def seconds(self, kernels: Sequence[Amounts]) -> Vector:
        """Return the predicted run times, in seconds."""
        return sensitivity(self, kernels).seconds

    def leverages(self, kernels: Sequence[Amounts]) -> Vector:
        """Return h of each kernel: the variance of ln T over that of a measurement, from what was fitted alone."""
        return leverages(sensitivity(self, kernels).gradient, self.covariance)

    def unknown(self, properties: Amounts) -> tuple[str, ...]:
        """Return the properties that a kernel with these counts needs a weight for, but which have none.

        Of pipelines none: one without a weight takes what it is described to take.
        """
        if self.basis == "pipelines":
            return ()
        tied = {name for group in self.undetermined for name in group.left_out}
        missing = (
            name for name, count in properties.items() if count and name not in self.weights and name not in tied
        )
        return (*missing, *changed_counts(self.undetermined, properties))


def leverages(gradient: Matrix, covariance: Matrix) -> Vector:
    """Return the variance of each kernel's ln T from the *covariance* of what was fitted alone."""
    return np.maximum(np.einsum("ki,ij,kj->k", gradient, covariance, gradient), 0.0)


# }}}


# {{{ which kernels exercise each property, in which numbers, and what is wrong with that
#
# A fit's table of coverage.
#
# How well a fit can tell each property from the others, its variance inflation, is found by
# :mod:`loopyperf.calibration.dependence`.


FEWEST = 3
"""Configurations that should exercise a property: with two, nobody sees which one is the odd one out."""


class CountedConfiguration(Protocol):
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
    configurations: Whole = 0
    """how many configurations of these classes have any of it"""
    least: Whole = 0
    """smallest count among the runs that have any"""
    most: Whole = 0
    """largest count among all runs"""
    inflation: Amount | None = None
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


def tabulate(counted: Iterable[CountedConfiguration], expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
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


# }}}
