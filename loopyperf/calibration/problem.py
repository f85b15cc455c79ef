"""The least-squares problem of a set of measured kernels, and its solution.

The matrix has a row for each measurement j and a column for each property i. Each row is divided by its measured time
Tⱼ, so that the weights α (seconds per unit) for which A·α is closest to 1 have minimal *relative* errors::

    Aⱼᵢ = pᵢ(nⱼ) / Tⱼ,        minimize Σⱼ (1 − Σᵢ αᵢ pᵢ(nⱼ) / Tⱼ)²

Source: Stevens and Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 4.3.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import CalibrationError
from loopyperf.files import Amount, Number
from loopyperf.models.linear import Amounts, sensitivity
from loopyperf.models.model_interface import Basis
from loopyperf.units import amount

Matrix = NDArray[np.float64]
"""two axes"""
Vector = NDArray[np.float64]
"""one axis"""


@dataclass(frozen=True, slots=True)
class Observation:
    """Counts and run time of a kernel at one size."""

    kernel_class: str
    """name of its kernel file, such as ``"transpose"``; cross-validation holds out whole classes"""
    label: str
    """configuration within its class, such as ``"no prefetch, group 16x16"``"""
    sizes: Mapping[str, int]
    """parameter values by name"""
    properties: Mapping[str, int]
    """units of each property per run; missing properties count 0"""
    seconds: float
    """measured run time"""
    pipelines: Mapping[str, float] = field(default_factory=dict[str, float])
    """published busy time of each pipeline in seconds; empty if the device has no parameters"""

    def amounts(self, basis: Basis) -> Mapping[str, float]:
        """Return the amounts of the columns of *basis*."""
        return self.properties if basis == "counts" else self.pipelines

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.kernel_class!r} ({self.label}; {sizes})"


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A least-squares problem for the weights, made by :func:`pose_problem`."""

    observations: tuple[Observation, ...]
    properties: tuple[str, ...]
    """names of the columns"""
    matrix: Matrix
    """(observations × properties), counts over the row's measured time, in units per second; read-only"""
    basis: Basis
    absent: tuple[str, ...]
    """properties of the observations that count 0 in all of them: they have neither column nor weight"""


def pose_problem(observations: Iterable[Observation], basis: Basis = "counts") -> Problem:
    """Return the problem of fitting weights to *observations*; the order of its columns depends only on their names.

    :raises CalibrationError: there are no observations, or one has a time that is not a positive number, a count that
        is not a number >= 0, or only counts of 0.
    """
    rows = tuple(observations)
    if not rows:
        raise CalibrationError(
            "there are no observations to fit; measure at least one kernel, e.g. `loopyperf calibrate`"
        )
    for row in rows:
        if not (math.isfinite(row.seconds) and row.seconds > 0):
            raise CalibrationError(
                f"the run time of {row} must be a positive number of seconds, got {row.seconds}; repeat or omit it"
            )
        _check_counts(row, basis)
    amounts = [row.amounts(basis) for row in rows]
    # Of indistinguishable columns the later ones get no weight. "min(load, store)" is a correction to loads and stores
    # rather than a cost of its own, so it comes last.
    named = sorted({name for each in amounts for name in each}, key=lambda name: ("min(" in name, name))
    present = tuple(name for name in named if any(each.get(name, 0) for each in amounts))
    matrix = np.array(
        [[each.get(name, 0) / row.seconds for name in present] for row, each in zip(rows, amounts, strict=True)]
    )
    matrix.flags.writeable = False
    return Problem(rows, present, matrix, basis, absent=tuple(name for name in named if name not in present))


def _check_counts(row: Observation, basis: Basis) -> None:
    amounts = row.amounts(basis)
    for name, count in amounts.items():
        if not (math.isfinite(count) and count >= 0):
            raise CalibrationError(f"the count of {name!r} in {row} must be >= 0, got {count}; count the kernel again")
    if not any(amounts.values()):
        raise CalibrationError(
            f"all counts of {row} are 0, so no weight can explain its {row.seconds:.3g} s; add counts (at least "
            "'launches'), or omit it"
        )


# {{{ properties that the measured kernels cannot distinguish
#
# Such a property has no weight of its own. The weights of related properties include its cost, which is correct for
# kernels with the same relation between counts. For others its cost is unknown, and :func:`doubts` reports it.


TOLERANCE = 1e-2
"""Minimum own part εⱼ (dimensionless) of a fitted column. Run times repeat to about 1 % at best, and a property that
takes all of a kernel's time has a scaled weight of about 1: below this, noise alone could change it by as much."""


class Indistinguishable(msgspec.Struct, frozen=True):
    """A group of properties with fixed relations in all measured kernels, some of which have no weight."""

    left_out: Mapping[str, Mapping[str, Number]]
    """for each property without a weight, the equal combination of fitted properties: units by name"""
    mismatch: Amount
    """maximum distance of an excluded column from its combination, for unit columns; about 1e-16 if exact"""

    @property
    def properties(self) -> tuple[str, ...]:
        """Return the names of all properties in the group, sorted."""
        return tuple(sorted({*self.left_out, *(name for equal in self.left_out.values() for name in equal)}))


def changed_counts(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return the properties without a weight whose relation the counts violate, so that their cost is unknown.

    *properties* are the counts of a kernel; deviations up to :data:`TOLERANCE` are ignored.
    """
    found: list[str] = []
    for name, equal in (item for group in groups for item in group.left_out.items()):
        count, terms = properties.get(name, 0), _terms(equal, properties)
        # Relative to the terms rather than their sum, which may be a rounding error if terms cancel.
        if abs(count - sum(terms)) > TOLERANCE * max(count, sum(map(abs, terms))):
            found.append(name)
    return tuple(found)


def doubts(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return a sentence for each property whose cost is unknown at these counts."""
    groups = tuple(groups)
    equals = {name: equal for group in groups for name, equal in group.left_out.items()}
    spelled = {
        name: " + ".join(f"{factor:.6g} × {other!r}" for other, factor in equal.items())
        for name, equal in equals.items()
    }
    return tuple(
        f"the weight of {name!r} is undetermined: the calibration kernels have {spelled[name]}, here "
        f"{amount(sum(_terms(equals[name], properties)))}, but this kernel has {amount(properties.get(name, 0))}"
        for name in changed_counts(groups, properties)
    )


def _terms(equal: Mapping[str, float], properties: Mapping[str, float]) -> list[float]:
    return [factor * properties.get(name, 0) for name, factor in equal.items()]


# }}}


# {{{ solutions: weights, sharpness, and how well the measurements determine them


@dataclass(frozen=True, slots=True)
class Solution:
    """Fitted weights and how well the measurements determine them."""

    model: str
    """``"linear"`` or ``"overlap"``"""
    weights: Mapping[str, float]
    """seconds per unit of each fitted column, in the problem's order"""
    covariance: Matrix
    """covariance of the weights, then of the sharpness, for measurements whose relative errors have variance 1"""
    undetermined: tuple[Indistinguishable, ...]
    """groups of properties that the kernels cannot distinguish, some without a weight"""
    absent: tuple[str, ...]
    """properties without a weight because their counts are all 0"""
    rank: int
    """number of fitted weights: the numerical rank of the matrix at the tolerance"""
    condition: float
    """ratio of the largest to the smallest singular value of the fitted columns, scaled to unit length"""
    residuals: tuple[float, ...]
    """1 − predicted/measured of each observation; negative where the prediction is too slow"""
    at_bound: tuple[str, ...]
    """properties whose weight is 0, the bound of the non-negative fit"""
    non_negative: bool
    ridge: float
    tolerance: float
    sharpness: float = 1.0
    basis: Basis = "counts"

    def predict(self, properties: Amounts) -> float:
        """Return the predicted run time of a kernel in seconds; columns without a weight contribute 0."""
        return float(self.seconds([properties])[0])

    def seconds(self, kernels: Sequence[Amounts]) -> Vector:
        """Return the predicted run times, in seconds."""
        return sensitivity(self, kernels).seconds

    def leverages(self, kernels: Sequence[Amounts]) -> Vector:
        """Return h of each kernel: the variance of ln T due to the fit, in units of a measurement's variance."""
        return leverages(sensitivity(self, kernels).gradient, self.covariance)

    def unknown(self, properties: Amounts) -> tuple[str, ...]:
        """Return the properties of a kernel that need a weight but have none.

        With pipelines there are none: a pipeline without a weight takes its published time.
        """
        if self.basis == "pipelines":
            return ()
        tied = {name for group in self.undetermined for name in group.left_out}
        missing = (
            name for name, count in properties.items() if count and name not in self.weights and name not in tied
        )
        return (*missing, *changed_counts(self.undetermined, properties))


def leverages(gradient: Matrix, covariance: Matrix) -> Vector:
    """Return the variance of each kernel's ln T due to the *covariance* of the fit."""
    return np.maximum(np.einsum("ki,ij,kj->k", gradient, covariance, gradient), 0.0)


# }}}
