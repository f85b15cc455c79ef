"""Fitted cost models: linear, and with overlap of memory accesses and arithmetic.

The linear model:

    T(n) = Σᵢ αᵢ pᵢ(n)

with the properties pᵢ of a kernel (counts, see :mod:`loopyperf.counts.item`) and weights αᵢ in seconds per
unit, fitted to measurements of the device. Nothing overlaps: every operation is charged in full.

J. D. Stevens and A. Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 2.

The overlap model: concurrent activities take a smooth maximum of their times.

    T = Σ_{i alone} wᵢ xᵢ + (Σ_s m_sᵖ)^(1/p),        m_s = Σ_{i on side s} wᵢ xᵢ,        w ≥ 0, p ≥ 1

Columns i have amounts xᵢ (counts, or busy seconds of a device's pipelines) and weights wᵢ. Launches and work-groups
overlap with nothing; every other column is on a side, and the sides overlap. p = 1 is the linear model, p → ∞ a
roofline. Counts have two sides, memory and on chip; with pipelines, each pipeline is a side.

T is homogeneous of degree 1 in the costs wᵢ xᵢ, so that by Euler's theorem it is the sum of each cost times its
derivative, (m_s/M)^(p − 1) for M the smooth maximum: these products are the rows, and the derivatives give the
gradient for fitting the weights.

Stevens and Klöckner leave this smooth maximum to future work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.model_interface import Basis, Count, Fitted, Shares, Weights
from loopyperf.models.result import BreakdownRow, ModelTime, Seconds
from loopyperf.models.workload import FURTHER_LAUNCHES, LAUNCHES, START, shown


def linear_time(fit: Fitted, shares: Shares) -> ModelTime:
    """Return Σ weight · count in seconds, one row for each property and source in *shares*.

    Properties without a weight cost 0 and are listed in ``unfitted``.
    """
    weights = fit.weights
    charged = [
        (name, source, count) for name, parts in shares.items() if name in weights for source, count in parts.items()
    ]
    rows = [_row(fit, name, source, count, weights[name] * count) for name, source, count in charged]
    return ModelTime.of(rows, unfitted=unfitted(weights, shares), columns=fit.basis)


def _row(fit: Fitted, name: str, source: str, count: Count, seconds: Seconds) -> BreakdownRow:
    column = shown(name) if fit.basis == "pipelines" else name
    return BreakdownRow(column, source, count, fit.weights.get(name, DESCRIBED), seconds)


def unfitted(weights: Weights, shares: Shares) -> tuple[str, ...]:
    """Return the properties with nonzero counts in *shares* that have no weight."""
    occurring = [name for name, parts in shares.items() if any(map(np.any, parts.values()))]
    return tuple(name for name in occurring if name not in weights)


ALONE = (LAUNCHES, FURTHER_LAUNCHES, "work-groups", START)
"""Columns that overlap with nothing."""
MEMORY = ("global ",)
"""Prefixes of the counts on the memory side."""
DESCRIBED = 1.0
"""Weight of a pipeline that takes exactly its modeled time."""

Floats = NDArray[np.float64]


def side(column: str, basis: Basis) -> str | None:
    """Return the side of *column*, None if it overlaps with nothing.

    The side of a pipeline is the part before the colon: ``"L1: private"`` and ``"L1: global"`` are on one side.
    """
    if column in ALONE:
        return None
    if basis == "pipelines":
        return column.partition(":")[0]
    return "memory" if column.startswith(MEMORY) else "on chip"


@dataclass(frozen=True, slots=True)
class Overlapped:
    """Times of rows of costs, and their derivatives."""

    seconds: Floats
    """T of each row."""
    factors: Floats
    """(rows × columns): ∂T/∂cost; a cost times its factor is its part of T."""
    by_sharpness: Floats
    """∂T/∂p of each row, in seconds."""


def overlapped(costs: Floats, sides: Sequence[str | None], sharpness: float) -> Overlapped:
    """Return the times of *costs* (rows × columns, in seconds, not negative); *sides* has one entry for each column.

    *sharpness* is p, at least 1.
    """
    alone, belongs = _belonging(sides)
    parts = costs @ belongs
    largest = parts.max(axis=1, initial=0.0)
    ratio = parts / np.where(largest > 0, largest, 1.0)[:, None]
    powers = ratio**sharpness
    total = np.maximum(powers.sum(axis=1), 1.0)
    smooth = largest * total ** (1 / sharpness)
    factor = np.where(smooth[:, None] > 0, (ratio / (total ** (1 / sharpness))[:, None]) ** (sharpness - 1), 1.0)
    logarithms = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
    by_sharpness = smooth * ((powers * logarithms).sum(axis=1) / total - np.log(total) / sharpness) / sharpness
    return Overlapped(
        seconds=costs[:, alone].sum(axis=1) + smooth,
        factors=np.where(alone, 1.0, factor @ belongs.T),
        by_sharpness=by_sharpness,
    )


def _belonging(sides: Sequence[str | None]) -> tuple[NDArray[np.bool_], Floats]:
    """Return a mask of the columns without a side, and a (columns × sides) matrix that maps columns to sides."""
    names = sorted({each for each in sides if each is not None})
    belongs = np.zeros((len(sides), len(names)))
    for column, each in enumerate(sides):
        if each is not None:
            belongs[column, names.index(each)] = 1.0
    return np.array([each is None for each in sides], dtype=bool), belongs


def curvatures(costs: Floats, sides: Sequence[str | None], sharpness: float, found: Overlapped) -> Floats:
    """Return ∂²T/∂cᵢ² for each of *costs* (rows × columns), in 1/seconds; *found* is their :func:`overlapped`.

    It is (p − 1) F (1 − F m/M)/m with F = (m/M)^(p − 1), and 0 for columns without a side. For 1 < p < 2 it diverges as
    m goes to 0; at m = 0, 0 is returned. M is summed from its parts because T minus the columns without a side would
    cancel.
    """
    alone, belongs = _belonging(sides)
    parts = costs @ belongs @ belongs.T
    smooth = (found.factors * costs)[:, ~alone].sum(axis=1)
    is_there = (parts > 0) & (smooth > 0)[:, None]
    shares = np.divide(found.factors * parts, smooth[:, None], out=np.ones_like(parts), where=is_there)
    slopes = (sharpness - 1) * found.factors * (1 - shares)
    with np.errstate(over="ignore"):
        return np.divide(slopes, parts, out=np.zeros_like(parts), where=is_there)


def overlap_time(fit: Fitted, shares: Shares) -> ModelTime:
    """Return T in seconds, with the part of each column and source in *shares*.

    Counts without a weight cost 0, pipelines without a weight take their modeled time; ``unfitted`` lists both.
    """
    weights = fit.weights if fit.basis == "counts" else {**dict.fromkeys(shares, DESCRIBED), **fit.weights}
    charged = [
        (name, source, count) for name, parts in shares.items() if name in weights for source, count in parts.items()
    ]
    shape = np.broadcast_shapes(*(np.shape(count) for _, _, count in charged))
    costs = [np.broadcast_to(weights[name] * np.asarray(count, np.float64), shape) for name, _, count in charged]
    rows = np.stack([cost.ravel() for cost in costs], axis=1) if costs else np.zeros((1, 0))
    found = overlapped(rows, [side(name, fit.basis) for name, _, _ in charged], fit.sharpness)
    parts = [part.reshape(shape) if shape else float(part[0]) for part in (found.factors * rows).T]
    table = [_row(fit, *each, part) for each, part in zip(charged, parts, strict=True)]
    columns = "overlapping" if fit.basis == "counts" else "pipelines"
    return ModelTime.of(table, unfitted=unfitted(fit.weights, shares), columns=columns)


# {{{ sensitivity of a fitted model to its fit
#
# The times of many kernels at once, and their derivatives.


Amounts = Mapping[str, float]
"""Column -> amount in a kernel."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Predicted times of kernels, and their derivatives by the fitted parameters."""

    seconds: Floats
    """Predicted time of each kernel."""
    gradient: Floats
    """(kernels × parameters): ∂ln T by each weight, in the fit's order, then by the sharpness."""
    columns: tuple[str, ...]
    """Columns that have a cost: those with a weight, in the fit's order, then pipelines without one."""
    shares: Floats
    """(kernels × columns): ∂ln T by the logarithm of each cost; each row adds up to 1."""


def sensitivity(fit: Fitted, kernels: Sequence[Amounts]) -> Sensitivity:
    """Return the times of *kernels* by *fit* (linear or overlap) and their derivatives."""
    names = tuple(dict.fromkeys(name for kernel in kernels for name in kernel))
    amounts = np.array([[kernel.get(name, 0) for name in names] for kernel in kernels], dtype=np.float64)
    return sensitivity_of(fit, names, amounts.reshape(len(kernels), len(names)))


def sensitivity_of(fit: Fitted, names: Sequence[str], amounts: Floats) -> Sensitivity:
    """Return the times and derivatives for *amounts* (kernels × names) of the columns *names*.

    Counts without a weight cost 0, pipelines without a weight take their modeled time. The logarithm is that of the
    magnitude: a plain linear fit may predict a time below 0.
    """
    columns = tuple(fit.weights)
    further = tuple(name for name in names if name not in fit.weights) if fit.basis == "pipelines" else ()
    places = {name: index for index, name in enumerate(names)}
    known = (*columns, *further)
    own = np.zeros((len(amounts), len(known)))
    for column, name in enumerate(known):
        if name in places:
            own[:, column] = amounts[:, places[name]]
    costs = own * np.array([fit.weights.get(name, DESCRIBED) for name in known])
    is_overlap = fit.model == "overlap"
    found = overlapped(costs, [side(name, fit.basis) if is_overlap else None for name in known], fit.sharpness)
    by_weight = (own * found.factors)[:, : len(columns)]
    gradient = np.hstack([by_weight, found.by_sharpness[:, None]])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(gradient / found.seconds[:, None])
        shares = np.nan_to_num(costs * found.factors / found.seconds[:, None])
    return Sensitivity(found.seconds, relative, known, shares)


# }}}
