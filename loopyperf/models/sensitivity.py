"""How a fitted model's answer depends on what was fitted: the times of many kernels at once, and their derivatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.interface import Fitted
from loopyperf.models.overlap import DESCRIBED, overlapped, side

Amounts = Mapping[str, float]
"""column -> how much of it a kernel has"""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Times of some kernels, and by how much what was fitted changes them."""

    seconds: Floats
    """predicted, one for each kernel"""
    gradient: Floats
    """(kernels × parameters): ∂ln T by each weight, in the fit's order, then by the sharpness"""
    columns: tuple[str, ...]
    """all that costs something: those with a weight, in the fit's order, then pipelines without one"""
    shares: Floats
    """(kernels × columns): ∂ln T by the logarithm of each cost; they add up to 1"""


def sensitivity(fit: Fitted, kernels: Sequence[Amounts]) -> Sensitivity:
    """Return the times of *kernels* by *fit*, linear or overlap, with their derivatives."""
    names = tuple(dict.fromkeys(name for kernel in kernels for name in kernel))
    amounts = np.array([[kernel.get(name, 0) for name in names] for kernel in kernels], dtype=np.float64)
    return sensitivity_of(fit, names, amounts.reshape(len(kernels), len(names)))


def sensitivity_of(fit: Fitted, names: Sequence[str], amounts: Floats) -> Sensitivity:
    """Return the same of kernels that have *amounts* (kernels × names) of the columns called *names*.

    Counts without a weight are free, pipelines without one take what is described. The logarithm is that of the
    magnitude: a plain linear fit may predict a time below 0.
    """
    columns = tuple(fit.weights)
    further = tuple(name for name in names if name not in fit.weights) if fit.basis == "pipelines" else ()
    places = {name: place for place, name in enumerate(names)}
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
