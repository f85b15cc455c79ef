"""What an archive tells of instructions: the two latencies of each, or why it does not tell them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, cast

import numpy as np
from scipy import stats

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.memory_benchmarks import BoatHull, boat_hull
from loopyperf.measurement.microbenchmarks.pace import Core, Estimated, Pace, Values, paces, robust_fit
from loopyperf.units import in_percent

# {{{ times that grow by the same with each warp, conflict or step


ONE_SIGMA = 0.8413
"""probability that a normal number is less than one standard deviation above its mean"""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """y = intercept + slope·x."""

    intercept: Estimated
    slope: Estimated
    residual: float
    """largest relative deviation of a value from the line"""


def straight_line(x: Sequence[float], y: Sequence[float]) -> LinearFit:
    """Return the line that fits the *y*, all above 0, best in relative terms.

    Raises :class:`MeasurementError` for fewer than three values of *x*, or a *y* that is not above 0.
    """
    places, values = np.array(x, float), np.array(y, float)
    if len(set(places.tolist())) < 3 or places.shape != values.shape or not (values > 0).all():
        raise MeasurementError(f"a line needs values above 0 at three places or more; received {list(y)} at {list(x)}")
    weighted = np.stack([1 / values, places / values], axis=1)
    start = np.linalg.lstsq(weighted, np.ones(len(values)), rcond=None)[0].astype(np.float64)

    def deviations(line: Values) -> Values:
        return weighted @ line - 1

    line = robust_fit(deviations, [start])
    left = deviations(line)
    freedom = len(values) - 2
    variance = float(left @ left) / freedom
    # Of few values the scatter is hardly known: two thirds of all lines are then within Student's factor, not within 1.
    factor = float(cast("Any", stats.t).ppf(ONE_SIGMA, freedom))
    errors = factor * np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)) * variance)
    intercept, slope = (Estimated(float(value), float(error)) for value, error in zip(line, errors, strict=True))
    return LinearFit(intercept, slope, float(np.abs(left).max()))


# }}}


# {{{ which pipelines execute two kinds of instructions, and how many a core issues in a cycle
#
# Lemeire, section 4.2, with equations 44 and 45 corrected: β instructions of the first kind and one of the second, on a
# full core, take each warp's share of a round
#
#     one pipeline                    β·λ₁ + λ₂
#     two pipelines                   max(β·λ₁, λ₂)
#     two, and an issue limit IL      max(β·λ₁, λ₂, (β + 1)/IL)
#
# So over β there is a straight line, or a level stretch and then a line. What the compiler puts around the second kind
# is of the first, and moves the line up; hence only its slope is compared: with λ₁, measured on its own, it tells that
# pipeline and issue are equally fast, or which of them is slower.


BETTER = 0.5
"""a level stretch is there if it makes the deviations smaller by this factor, and makes out two points or more"""
STRAIGHT = 0.03
"""largest relative deviation of a line"""
SLOWER = 1.05
"""an issue limit is seen if the slope is so many times λ₁"""


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """What a mix tells."""

    slope: Estimated
    """cycles of a core for one more instruction of the first kind"""
    separate: bool | None
    """whether two pipelines execute the two kinds; None where the times tell neither"""
    residual: float
    """largest relative deviation of a time"""

    def issue_limit(self, issue: Estimated) -> Estimated | None:
        """Return the instructions that a core issues in a cycle, where that slows them down more than their *issue* λ₁.

        None where it does not: then the limit is only known to be 1/λ₁ or more.
        """
        error = float(np.hypot(self.slope.error, issue.error))
        if not self.separate or self.slope.value < SLOWER * issue.value + 3 * error:
            return None
        return Estimated(1 / self.slope.value, self.slope.error / self.slope.value**2)


def measured_mix(betas: Sequence[int], cycles: Sequence[float]) -> MeasuredMix:
    """Return what the *cycles* of a core for a round of one warp tell, over *betas*.

    Raises :class:`MeasurementError` for fewer than three of them, or a time that is not above 0.
    """
    line = straight_line(betas, cycles)
    places, values = np.array(betas, float), np.array(cycles, float)

    def deviations(shape: Values) -> Values:
        level, intercept, slope = shape
        return np.maximum(level, intercept + slope * places) / values - 1

    shape = robust_fit(deviations, [np.array([values.min(), line.intercept.value, line.slope.value])])
    level, intercept, slope = shape
    rising = places[intercept + slope * places > level]
    residual = float(np.abs(deviations(shape)).max())
    if residual < BETTER * line.residual and len(places) - len(rising) >= 2 <= len(rising) and slope > 0:
        spread = float(np.std(deviations(shape)) * values.max() / max(np.ptp(rising), 1))
        return MeasuredMix(Estimated(float(slope), spread), True, residual)
    return MeasuredMix(line.slope, False if line.residual < STRAIGHT else None, line.residual)


# }}}


# {{{ instructions


CHAIN, LOCAL, BARRIER, LOOP = "dependent chain", "local memory", "barrier", "loop overhead"
"""names of the kernel files"""
LOCAL_LOAD, PASS = "load local b32", "loop"
"""instructions that are called otherwise than their kernel files"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """λ and Λ of an instruction in cycles, each None where it was not found, and how they were measured."""

    name: str
    issue: Estimated | None
    completion: Estimated | None
    how: str
    at_most: bool = False
    """the completion latency is an upper bound: only the fewest warps, or none, left the pipeline idle"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not found, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both for a person."""
        return f"{self.name}: {self.reason}"


Found = Latencies | Refusal
Measure = Callable[[str, Sequence[Pace], Core], Latencies]


def instructions(recording: Recording, core: Core) -> tuple[Found, ...]:
    """Return what is known of each instruction that *recording* has microbenchmarks of.

    A chain's share of the cost of a loop's pass, one for each round, is not in its latencies, and that cost's error is
    in theirs. It is taken off also where it cannot be told from nothing: taken off only where it happens to be large,
    it would be too large, and otherwise missing from latency and error.
    """
    found = tuple(_all(recording, core))
    loop = next((each for each in found if isinstance(each, Latencies) and each.name == PASS), None)
    steps = {pace.kind: pace.sizes["steps"] for pace in paces(recording, CHAIN)}
    return tuple(_without_loop(each, loop, steps) if loop else each for each in found)


def _without_loop(found: Found, loop: Latencies, steps: Mapping[str, int]) -> Found:
    if found is loop:
        issue, completion = (each and each.credible for each in (loop.issue, loop.completion))
        return replace(loop, issue=issue, completion=completion)
    if isinstance(found, Refusal) or found.name not in steps:
        return found
    issue, completion = (
        _less(number, each, steps[found.name])
        for number, each in ((found.issue, loop.issue), (found.completion, loop.completion))
    )
    return replace(found, issue=issue, completion=completion)


def _less(number: Estimated | None, loop: Estimated | None, steps: int) -> Estimated | None:
    if number is None or loop is None:
        return number
    share = loop.times(1 / steps)
    less = Estimated(number.value - share.value, hypot(number.error, share.error))
    # Where nothing credible is left, the share stays in, as a part of the error alone.
    return less.credible or Estimated(number.value, hypot(less.error, share.value))


def _all(recording: Recording, core: Core) -> Iterator[Found]:
    for kind, taken in by_kind(paces(recording, CHAIN)).items():
        yield _found(kind, CHAIN, taken, core, _chain)
    measured = {measurement.kernel_class for measurement in recording.measurements}
    for name, kernel_class, measure in (
        (LOCAL_LOAD, LOCAL, _local),
        (BARRIER, BARRIER, _barrier),
        (PASS, LOOP, _loop),
    ):
        if kernel_class in measured:
            yield _found(name, kernel_class, paces(recording, kernel_class), core, measure)


def by_kind(taken: Iterable[Pace]) -> dict[str, list[Pace]]:
    """Return the paces by the kind of what was measured."""
    kinds: dict[str, list[Pace]] = defaultdict(list)
    for pace in taken:
        kinds[pace.kind].append(pace)
    return kinds


def _found(name: str, kernel_class: str, taken: Sequence[Pace], core: Core, measure: Measure) -> Found:
    if not taken:
        return Refusal(
            name, f"no two times of {kernel_class} differ by more than they scatter: it takes next to nothing"
        )
    try:
        return measure(name, taken, core)
    except MeasurementError as error:
        return Refusal(name, str(error))


# {{{ shapes of times


def _chain(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    return _hull(name, CHAIN, taken, core)


def _hull(name: str, how: str, taken: Sequence[Pace], core: Core) -> Latencies:
    hull = hull_of(taken, core)
    completion = hull.completion or hull.at_most
    return Latencies(name, hull.issue, completion, _described(how, hull), at_most=hull.completion is None)


def hull_of(taken: Sequence[Pace], core: Core) -> BoatHull:
    """Return the boat's hull of chains; raises :class:`MeasurementError` where the times have no such shape."""
    warps = [core.warps(pace) for pace in taken]
    return boat_hull(warps, [core.cycles(pace) for pace in taken], [pace.steps for pace in taken])


def _described(how: str, hull: BoatHull) -> str:
    warps, worst = f"{hull.warps[0]} to {hull.warps[-1]} warps", in_percent(hull.residual, 1)
    return f"{how} at {warps} on a core, worst residual {worst}"


def _local(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    plain = [pace for pace in taken if pace.sizes["degree"] == 1]
    return _hull(name, "dependent loads, with their index arithmetic,", plain, core)


def _barrier(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """A barrier of W warps takes Λ + (W − 1)λ."""
    line = straight_line([core.warps_of_group(pace) for pace in taken], [core.cycles_each(pace) for pace in taken])
    error = (line.intercept.error**2 + line.slope.error**2) ** 0.5
    completion = Estimated(line.intercept.value + line.slope.value, error)
    how = f"barriers in a row, by warps of a group, worst residual {in_percent(line.residual, 1)}"
    return Latencies(name, line.slope.credible, completion.credible, how)


def _loop(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """A pass of a loop takes c + s·steps: c of one warp is Λ, that of W warps on a core Wλ."""
    few, many = (
        straight_line([pace.sizes["steps"] for pace in part], [core.cycles(pace) / pace.rounds for pace in part])
        for part in _few_and_many(taken, core)
    )
    most = max(core.warps(pace) for pace in taken)
    how = f"loops around chains of {min(pace.sizes['steps'] for pace in taken)} and more, at 1 and {most} warps"
    return Latencies(name, many.intercept.times(1 / most), few.intercept, how)


def _few_and_many(taken: Sequence[Pace], core: Core) -> tuple[list[Pace], list[Pace]]:
    most = max(core.warps(pace) for pace in taken)
    return [pace for pace in taken if core.warps(pace) < most], [pace for pace in taken if core.warps(pace) == most]


# }}}


# }}}
