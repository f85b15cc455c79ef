"""The two latencies of an instruction from the times of dependent chains over the warps on a core.

Cornelis and Lemeire, section III.B: W warps of N instructions, each waiting for the one before, take a pipeline

    t = NΛ + (W − 1)λ   if W < Λ/λ,   else   Λ + (NW − 1)λ                                      (equation 1)

cycles: over W flat, then rising, like the hull of a boat. λ is the issue latency, Λ the completion latency. The first
expression is the greater one exactly where it holds, so that t is the greater of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.errors import MeasurementError
from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.robust_fit import Values, robust_fit
from loopyperf.units import in_percent

CLEARLY = 3
"""standard deviations of a point"""
FAR = 0.25
"""relative deviation that one outlier may have, and no second time"""


@dataclass(frozen=True, slots=True)
class BoatHull:
    """What chains told of an instruction, in cycles."""

    issue: Estimated | None
    """λ; None where fewer than two numbers of warps kept the pipeline busy: one alone may be an outlier"""
    completion: Estimated | None
    """Λ; None where fewer than two numbers of warps left it idle"""
    at_most: Estimated
    """an upper bound of Λ: what an instruction took with the fewest warps"""
    residual: float
    """largest relative deviation of a time from equation 1"""
    warps: tuple[int, ...]
    """at which there are times"""


def equation_1(warps: Values, instructions: Values, issue: float, completion: float) -> Values:
    """Return the cycles that *warps* of so many dependent *instructions* take."""
    waiting = instructions * completion + (warps - 1) * issue
    busy = completion + (instructions * warps - 1) * issue
    return np.maximum(waiting, busy)


def boat_hull(warps: Sequence[int], cycles: Sequence[float], instructions: int | Sequence[int]) -> BoatHull:
    """Return λ and Λ of equation 1 that fit the *cycles* best in relative terms, each with its standard error.

    *instructions* are those of each warp. Raises :class:`MeasurementError` for fewer than three numbers of warps, for
    cycles that are not positive and finite, and where the times have another shape.
    """
    number, taken = np.array(warps, float), np.array(cycles, float)
    length = np.broadcast_to(np.array(instructions, float), taken.shape)
    _check(number, taken, length)
    issue, completion = _fitted(number, taken, length)
    deviations = np.log(equation_1(number, length, issue, completion) / taken)
    spread = _spread(deviations)
    _check_shape(number, taken / length, deviations)
    saturation = number * issue / completion
    rising = int((saturation > 1 + CLEARLY * spread + 1e-6).sum())
    flat = int((saturation < 1 - CLEARLY * spread - 1e-6).sum())
    fewest = number == number.min()
    return BoatHull(
        issue=Estimated(issue, issue * spread / rising**0.5) if rising > 1 else None,
        completion=Estimated(completion, completion * spread / flat**0.5) if flat > 1 else None,
        at_most=Estimated(float((taken / length)[fewest].mean()), float((taken / length)[fewest].mean()) * spread),
        residual=float(np.abs(np.expm1(deviations)).max()),
        warps=tuple(sorted(set(warps))),
    )


def _check(warps: Values, cycles: Values, instructions: Values) -> None:
    if warps.shape != cycles.shape or len(set(warps.tolist())) < 3:
        raise MeasurementError(
            f"a boat's hull needs times at three numbers of warps or more; received {len(cycles)} at {warps.tolist()}"
        )
    if not (np.isfinite(cycles).all() and (cycles > 0).all() and (warps >= 1).all() and (instructions >= 1).all()):
        raise MeasurementError(
            f"warps and instructions are 1 or more, and cycles more than 0; received {warps.tolist()}, "
            f"{instructions.tolist()}, {cycles.tolist()}"
        )


def _check_shape(warps: Values, each: Values, deviations: Values) -> None:
    far = int((np.abs(np.expm1(deviations)) > FAR).sum())
    if far > 1:
        times = ", ".join(f"{cycles:.3g} at {count:.0f}" for count, cycles in sorted(zip(warps, each, strict=True)))
        raise MeasurementError(
            f"the times do not have the shape of a boat's hull, flat and then rising with the warps: {far} of them are "
            f"more than {in_percent(FAR)} off. Cycles of an instruction at so many warps: {times}. Measure again on "
            "a device that nothing else uses; on a processor, the compiler may treat large groups in another way than "
            "small ones"
        )


def _fitted(warps: Values, cycles: Values, instructions: Values) -> tuple[float, float]:
    """Return λ and Λ: the best of the fits that begin with the kink after each of the points."""

    def deviations(logarithms: Values) -> Values:
        return np.log(equation_1(warps, instructions, *np.exp(logarithms)) / cycles)

    starts = (_start(warps, cycles / instructions, kink) for kink in sorted({*warps.tolist(), np.inf}))
    issue, completion = np.exp(robust_fit(deviations, starts))
    return float(issue), float(completion)


def _start(warps: Values, each: Values, kink: float) -> Values:
    """Return the logarithms of λ and Λ where the times are flat before *kink* and rise from there on."""
    flat, rising = warps < kink, warps >= kink
    issue = np.exp(np.mean(np.log(each[rising] / warps[rising]))) if rising.any() else each.min() / warps.max()
    completion = np.exp(np.mean(np.log(each[flat]))) if flat.any() else issue * warps.min()
    return np.log([issue, completion])


def _spread(deviations: Values) -> float:
    """Return the standard deviation of a point, which a few outliers do not change; two parameters are fitted."""
    return float(1.4826 * np.median(np.abs(deviations)) * (len(deviations) / (len(deviations) - 2)) ** 0.5)
