"""The least-squares problem that a set of measured kernels poses.

One row per measurement j, one column per property i, every row divided by its measured time Tⱼ, so that the weights α
(seconds per unit) which bring A·α closest to 1 have the least *relative* error::

    Aⱼᵢ = pᵢ(nⱼ) / Tⱼ,        minimise Σⱼ (1 − Σᵢ αᵢ pᵢ(nⱼ) / Tⱼ)²

Source: Stevens and Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 4.3.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import CalibrationError
from loopyperf.models.interface import Basis

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
