"""The interval of a fitted model's answer, and what is unlike the kernels that it was fitted to."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.intervals.widths import priceless, widths
from loopyperf.models.exact_sum import Seconds
from loopyperf.models.interface import Count, Shares
from loopyperf.models.pipeline_names import shown
from loopyperf.models.result import NO_INTERVAL

Floats = NDArray[np.float64]
UNLIKE = 1.0
"""leverage from which the weights add more to the error of a kernel than the model itself does"""
UNTRIED = f"{NO_INTERVAL}the fit was tried on no kernels that it had not seen"
NEGATIVE = f"{NO_INTERVAL}the fit does not apply to such a kernel"
TOO_FEW = f"{NO_INTERVAL}the fit was tried on too few kernels that it had not seen"


def interval(fit: Fit, shares: Shares, seconds: Seconds) -> tuple[tuple[Seconds, Seconds] | None, tuple[str, ...]]:
    """Return the range in which a run time lies with the probability that intervals state, and what widens it.

    *seconds* is the answer of the fit's model to *shares*, a number or an array over sizes. There is no range where the
    fit states none: it was made from fewer than two kernel classes, by hand, or from too few measurements; and none
    where it has no weight for what is more than a negligible part of the counts, or where an answer is below 0.
    """
    if np.any(np.asarray(seconds) < 0):
        return None, (NEGATIVE,)
    if fit.uncertainty is None:
        return None, (UNTRIED,)
    found = widths(fit, *totals(shares))
    if found.priceless:
        return None, (f"{NO_INTERVAL}nothing is known of what {', '.join(found.priceless)} cost",)
    with np.errstate(over="ignore"):  # an infinite factor is not a range
        factor = np.exp(found.half)
    unlike = float(found.leverage.max(initial=0.0))
    notes = () if unlike <= UNLIKE else (f"unlike the kernels of the fit: leverage {unlike:.2g}, where 1 is much",)
    if not np.isfinite(factor).all():
        return None, (TOO_FEW, *notes)
    if not isinstance(seconds, np.ndarray):
        return (seconds / float(factor[0]), seconds * float(factor[0])), notes
    spread = factor.reshape(seconds.shape)
    return (seconds / spread, seconds * spread), notes


def left_out(fit: Fit, shares: Shares) -> tuple[str, ...]:
    """Return what *fit* has no weight for, of which there is more than a negligible part at any of the sizes.

    An answer is without what it costs: the run time is at least that, and has no interval.
    """
    return priceless(fit, *totals(shares))


def totals(shares: Shares) -> tuple[tuple[str, ...], Floats]:
    """Return the columns of *shares*, and how much of each there is (sizes × columns), over all sources."""
    names = tuple(shares)
    sums = [_summed(parts) for parts in shares.values()]
    shape = np.broadcast_shapes(*(np.shape(each) for each in sums))
    columns = [np.broadcast_to(np.asarray(each, np.float64), shape).ravel() for each in sums]
    return names, np.stack(columns, axis=1) if columns else np.zeros((1, 0))


def extrapolations(fit: Fit, shares: Shares) -> Iterator[str]:
    """Yield a sentence if the kernel does more of something than all that the fit was made from, one if it does less.

    What it does not do at all, it cannot do less of than others.
    """
    names, amounts = totals(shares)
    ranged = [(name, amounts[:, place], fit.ranges[name]) for place, name in enumerate(names) if name in fit.ranges]
    more = {name: each.max(initial=0.0) / most for name, each, (_, most) in ranged}
    less = {name: least / each[each > 0].min() for name, each, (least, _) in ranged if (each > 0).any()}
    for word, excess in (("more", more), ("less", less)):
        beyond = sorted((name for name in excess if excess[name] > 1), key=lambda name: (-excess[name], name))
        if beyond:
            called = shown if fit.basis == "pipelines" else str
            listed = ", ".join(f"{called(name)} ({excess[name]:.3g} times)" for name in beyond)
            yield f"extrapolated: {word} than was ever measured of {listed}"


def extrapolates(fit: Fit, shares: Shares) -> NDArray[np.bool_]:
    """Return for each size, in order, whether the kernel does more or less of something than :attr:`Fit.ranges` has."""
    names, amounts = totals(shares)
    least, most = np.array([fit.ranges.get(name, (0.0, np.inf)) for name in names]).reshape(-1, 2).T
    return np.asarray(((amounts > most) | ((amounts > 0) & (amounts < least))).any(axis=1))


def _summed(parts: Mapping[str, Count]) -> Any:
    return sum(parts.values())
