"""Instruction latencies from an archive of microbenchmarks, or the reasons why they are missing."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np
from scipy.special import stdtrit

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.memory_benchmarks import boat_hull
from loopyperf.measurement.microbenchmarks.pace import Core, Estimated, Pace, Values, paces, robust_fit
from loopyperf.units import in_percent

# {{{ times that are linear in the number of warps, conflicts or steps


ONE_SIGMA = 0.8413
"""probability that a normal variable is less than one standard deviation above its mean"""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """y = intercept + slope·x."""

    intercept: Estimated
    slope: Estimated
    residual: float
    """largest relative deviation of a value from the line"""


def straight_line(x: Sequence[float], y: Sequence[float]) -> LinearFit:
    """Fit a line to *y*, all above 0, with minimal relative deviations.

    Raises :class:`MeasurementError` for fewer than three distinct values of *x*, or a *y* that is not above 0.
    """
    places, values = np.array(x, float), np.array(y, float)
    if len(set(places.tolist())) < 3 or places.shape != values.shape or not (values > 0).all():
        raise MeasurementError(f"a line fit needs values above 0 at three or more points; got {list(y)} at {list(x)}")
    weighted = np.stack([1 / values, places / values], axis=1)
    start = np.linalg.lstsq(weighted, np.ones(len(values)), rcond=None)[0].astype(np.float64)

    def deviations(line: Values) -> Values:
        return weighted @ line - 1

    line = robust_fit(deviations, [start])
    left = deviations(line)
    freedom = len(values) - 2
    variance = float(left @ left) / freedom
    # With few values the variance is uncertain: Student's t quantile takes the place of one standard deviation.
    factor = float(stdtrit(freedom, ONE_SIGMA))
    errors = factor * np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)) * variance)
    intercept, slope = (Estimated(float(value), float(error)) for value, error in zip(line, errors, strict=True))
    return LinearFit(intercept, slope, float(np.abs(left).max()))


# }}}


# {{{ which pipelines execute two kinds of instructions, and how many instructions a core issues per cycle
#
# Lemeire, section 4.2, with equations 44 and 45 corrected: on a full core, β instructions of the first kind and one of
# the second take, for each warp's share of a round,
#
#     one pipeline                    β·λ₁ + λ₂
#     two pipelines                   max(β·λ₁, λ₂)
#     two, and an issue limit IL      max(β·λ₁, λ₂, (β + 1)/IL)
#
# As a function of β this is a line, or a plateau followed by a line. The compiler adds instructions of the first kind
# to the second, which shifts the line up; hence only its slope is used. Compared with a separate measurement of λ₁, it
# shows whether pipeline and issue are equally fast, or which of them is slower.


PLATEAU_GAIN = 0.5
"""a plateau is accepted if it reduces the deviations by this factor and contains two points or more"""
MAX_LINE_DEVIATION = 0.03
"""maximum relative deviation from a line"""
ISSUE_LIMIT_RATIO = 1.05
"""an issue limit is detected if the slope is this many times λ₁"""


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """Pipelines and throughput of a mix of two kinds of instructions."""

    slope: Estimated
    """core cycles per additional instruction of the first kind"""
    separate: bool | None
    """whether two pipelines execute the two kinds; None if the times are inconclusive"""
    residual: float
    """maximum relative deviation of a time"""

    def issue_limit(self, issue: Estimated) -> Estimated | None:
        """Return the instructions that a core issues per cycle if this limits throughput more than *issue*, the λ₁.

        Otherwise return None: then the limit is only known to be at least 1/λ₁.
        """
        error = float(np.hypot(self.slope.error, issue.error))
        if not self.separate or self.slope.value < ISSUE_LIMIT_RATIO * issue.value + 3 * error:
            return None
        return Estimated(1 / self.slope.value, self.slope.error / self.slope.value**2)


def measured_mix(betas: Sequence[int], cycles: Sequence[float]) -> MeasuredMix:
    """Evaluate the core *cycles* for a round of one warp as a function of *betas*.

    Raises :class:`MeasurementError` for fewer than three values, or a time that is not above 0.
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
    if residual < PLATEAU_GAIN * line.residual and len(places) - len(rising) >= 2 <= len(rising) and slope > 0:
        spread = float(np.std(deviations(shape)) * values.max() / max(np.ptp(rising), 1))
        return MeasuredMix(Estimated(float(slope), spread), True, residual)
    return MeasuredMix(line.slope, False if line.residual < MAX_LINE_DEVIATION else None, line.residual)


# }}}


# {{{ instructions


CHAIN, LOCAL, BARRIER, LOOP = "dependent chain", "local memory", "barrier", "loop overhead"
"""names of the kernel files"""
LOCAL_LOAD, PASS = "load local b32", "loop"
"""instructions whose names differ from those of their kernel files"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """λ and Λ of an instruction in cycles, each None if it could not be determined, and the method."""

    name: str
    issue: Estimated | None
    completion: Estimated | None
    how: str
    at_most: bool = False
    """the completion latency is an upper bound: at most the smallest number of warps left the pipeline idle"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A quantity that could not be determined, and the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return name and reason."""
        return f"{self.name}: {self.reason}"


Found = Latencies | Refusal
Measure = Callable[[str, Sequence[Pace], Core], Latencies]


def instructions(recording: Recording, core: Core) -> tuple[Found, ...]:
    """Return the latencies of each instruction for which *recording* has microbenchmarks.

    The loop overhead of a round is divided among the instructions of a chain and subtracted from their latencies; its
    error is included in theirs. It is subtracted even where it is not significant: subtracting it only where it happens
    to be large would overestimate it there, and omit it from latency and error elsewhere.
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
    # If the difference is not credible, keep the share in the latency and count it as an error.
    return less.credible or Estimated(number.value, hypot(less.error, share.value))


def _all(recording: Recording, core: Core) -> Iterator[Found]:
    kinds: dict[str, list[Pace]] = defaultdict(list)
    for pace in paces(recording, CHAIN):
        kinds[pace.kind].append(pace)
    for kind, taken in kinds.items():
        yield _found(kind, CHAIN, taken, core, _chain)
    measured = {measurement.kernel_class for measurement in recording.measurements}
    for name, kernel_class, measure in (
        (LOCAL_LOAD, LOCAL, _local),
        (BARRIER, BARRIER, _barrier),
        (PASS, LOOP, _loop),
    ):
        if kernel_class in measured:
            yield _found(name, kernel_class, paces(recording, kernel_class), core, measure)


def _found(name: str, kernel_class: str, taken: Sequence[Pace], core: Core, measure: Measure) -> Found:
    if not taken:
        return Refusal(name, f"times of {kernel_class} differ by less than their scatter, so its cost is close to 0")
    try:
        return measure(name, taken, core)
    except MeasurementError as error:
        return Refusal(name, str(error))


# {{{ evaluation of each microbenchmark


def _chain(name: str, taken: Sequence[Pace], core: Core, how: str = CHAIN) -> Latencies:
    each_warps = [core.warps(pace) for pace in taken]
    hull = boat_hull(each_warps, [core.cycles(pace) for pace in taken], [pace.steps for pace in taken])
    warps, worst = f"{hull.warps[0]} to {hull.warps[-1]} warps", in_percent(hull.residual, 1)
    how = f"{how} at {warps} on a core, largest residual {worst}"
    return Latencies(name, hull.issue, hull.completion or hull.at_most, how, at_most=hull.completion is None)


def _local(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    plain = [pace for pace in taken if pace.sizes["degree"] == 1]
    return _chain(name, plain, core, "dependent loads, index arithmetic included,")


def _barrier(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """Use that a barrier of W warps takes Λ + (W − 1)λ."""
    line = straight_line([core.warps_of_group(pace) for pace in taken], [core.cycles_each(pace) for pace in taken])
    error = (line.intercept.error**2 + line.slope.error**2) ** 0.5
    completion = Estimated(line.intercept.value + line.slope.value, error)
    how = f"consecutive barriers, by warps of a group, largest residual {in_percent(line.residual, 1)}"
    return Latencies(name, line.slope.credible, completion.credible, how)


def _loop(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """Use that an iteration of a loop takes c + s·steps, where c is Λ for one warp and Wλ for W warps on a core."""
    most = max(core.warps(pace) for pace in taken)
    parts = ([pace for pace in taken if (core.warps(pace) == most) is are_many] for are_many in (False, True))
    few, many = (
        straight_line([pace.sizes["steps"] for pace in part], [core.cycles(pace) / pace.rounds for pace in part])
        for part in parts
    )
    how = f"loops around chains of {min(pace.sizes['steps'] for pace in taken)} or more steps, at 1 and {most} warps"
    return Latencies(name, many.intercept.times(1 / most), few.intercept, how)


# }}}


# }}}
