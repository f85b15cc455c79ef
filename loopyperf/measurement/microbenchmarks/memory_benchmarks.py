"""Latency, capacity and bandwidth of memories, and bank conflicts, from an archive of microbenchmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from loopyperf.device.lambdas import DRAM
from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.microbenchmarks.pace import Core, Estimated, Pace, Values, paces, robust_fit
from loopyperf.units import in_percent

# {{{ plateaus of a pointer chase: latency and capacity of the memory levels
#
# As a function of the visited bytes, the time of a load is constant while they fit a memory level, and rises to that of
# the next level. A plateau is a sequence of three or more neighboring points whose times differ little from one to the
# next. For the first plateau two points suffice; if it is missing, the level of the others is unknown.


PLATEAU_RATIO = 1.2
"""maximum ratio of neighboring times on a plateau"""
LEVEL_RATIO = 1.3
"""minimum ratio of the latencies of two levels"""
MIN_POINTS, MIN_FIRST_POINTS = 3, 2
"""minimum number of points on a plateau, and on the first one"""


@dataclass(frozen=True, slots=True)
class Plateau:
    """A memory level in the times of a pointer chase."""

    latency: Estimated
    """latency of a load, in the unit of the times"""
    holds: int
    """capacity: largest number of bytes without a longer time"""
    holds_not: int | None
    """next larger measured number of bytes, which takes longer; None if there is none"""


def memory_levels(times: Mapping[int, float]) -> tuple[Plateau, ...]:
    """Return the memory levels, nearest first, from the *times* of a load by visited bytes.

    The result is empty if the times of the smallest sizes differ.
    """
    points = sorted(times.items())
    first, *others = _steps(points)
    if len(first) < MIN_FIRST_POINTS:
        return ()
    steps = [first, *(step for step in others if len(step) >= MIN_POINTS)]
    return tuple(_level(step, points) for step in _merged(steps))


Step = list[tuple[int, float]]


def _steps(points: Step) -> list[Step]:
    """Divide the points into sequences in which each time is close to the previous one."""
    found: list[Step] = [points[:1]]
    for before, point in pairwise(points):
        if 1 / PLATEAU_RATIO <= point[1] / before[1] <= PLATEAU_RATIO:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Merge plateaus with similar latencies, caused by large pages or distant parts of a cache."""
    found: list[Step] = []
    for step in steps:
        if found and _typical(step) / _typical(found[-1]) < LEVEL_RATIO:
            found[-1] = [*found[-1], *step]
        else:
            found.append(step)
    return found


def _level(step: Step, points: Step) -> Plateau:
    typical = _typical(step)
    times = np.array([time for _, time in step])
    holds = max(nbytes for nbytes, time in step if time <= PLATEAU_RATIO * typical)
    larger = [nbytes for nbytes, _ in points if nbytes > holds]
    error = float(times.std(ddof=1)) / len(step) ** 0.5
    return Plateau(Estimated(typical, error), holds, min(larger, default=None))


def _typical(step: Step) -> float:
    return float(np.median([time for _, time in step]))


# }}}


# {{{ latencies of an instruction from the times of dependent chains, by warps on a core: the latency-throughput curve
#
# Cornelis and Lemeire, section III.B: W warps of N instructions, each dependent on the previous one, take a pipeline
#
#     t = NΛ + (W − 1)λ   if W < Λ/λ,   else   Λ + (NW − 1)λ                                      (equation 1)
#
# cycles: constant in W, then rising, like the hull of a boat. λ is the issue latency, Λ the completion latency. The
# first expression is the greater one exactly where it applies, so that t is the maximum of the two.


KINK_DEVIATIONS = 3
"""distance from the kink beyond which a point counts as flat or rising, in its standard deviations"""
MAX_DEVIATION = 0.25
"""relative deviation that only one outlier may exceed"""


@dataclass(frozen=True, slots=True)
class BoatHull:
    """Latency-throughput curve of an instruction, in cycles."""

    issue: Estimated | None
    """λ; None if fewer than two numbers of warps kept the pipeline busy, since a single one may be an outlier"""
    completion: Estimated | None
    """Λ; None if fewer than two numbers of warps left the pipeline idle"""
    at_most: Estimated
    """upper bound of Λ: the time of an instruction with the smallest number of warps"""
    residual: float
    """maximum relative deviation of a time from equation 1"""
    warps: tuple[int, ...]
    """measured numbers of warps"""


def equation_1(warps: Values, instructions: Values, issue: float, completion: float) -> Values:
    """Return the cycles of *warps* warps that each execute *instructions* dependent instructions (equation 1)."""
    waiting = instructions * completion + (warps - 1) * issue
    busy = completion + (instructions * warps - 1) * issue
    return np.maximum(waiting, busy)


def boat_hull(warps: Sequence[int], cycles: Sequence[float], instructions: int | Sequence[int]) -> BoatHull:
    """Fit λ and Λ of equation 1 to *cycles* with minimal relative deviations, each with its standard error.

    *instructions* are per warp. Raises :class:`MeasurementError` for fewer than three numbers of warps, for cycles that
    are not positive and finite, and for times that do not follow the equation.
    """
    number, taken = np.array(warps, float), np.array(cycles, float)
    length = np.broadcast_to(np.array(instructions, float), taken.shape)
    _check(number, taken, length)
    issue, completion = _fitted(number, taken, length)
    deviations = np.log(equation_1(number, length, issue, completion) / taken)
    spread = _spread(deviations)
    _check_shape(number, taken / length, deviations)
    saturation = number * issue / completion
    rising = int((saturation > 1 + KINK_DEVIATIONS * spread + 1e-6).sum())
    flat = int((saturation < 1 - KINK_DEVIATIONS * spread - 1e-6).sum())
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
            f"a latency-throughput fit needs times at three or more numbers of warps; got {len(cycles)} at "
            f"{warps.tolist()}"
        )
    if not (np.isfinite(cycles).all() and (cycles > 0).all() and (warps >= 1).all() and (instructions >= 1).all()):
        raise MeasurementError(
            f"warps and instructions must be >= 1, and cycles > 0; got {warps.tolist()}, "
            f"{instructions.tolist()}, {cycles.tolist()}"
        )


def _check_shape(warps: Values, each: Values, deviations: Values) -> None:
    far = int((np.abs(np.expm1(deviations)) > MAX_DEVIATION).sum())
    if far > 1:
        times = ", ".join(f"{cycles:.3g} at {count:.0f}" for count, cycles in sorted(zip(warps, each, strict=True)))
        raise MeasurementError(
            f"the times do not follow a latency-throughput curve, flat and then rising with the warps: {far} of them "
            f"deviate by more than {in_percent(MAX_DEVIATION)}; cycles per instruction by warps: {times}; measure "
            "again on an idle device (on a processor, the compiler may treat large groups differently)"
        )


def _fitted(warps: Values, cycles: Values, instructions: Values) -> tuple[float, float]:
    """Return λ and Λ of the best fit, starting with a kink after each of the points."""

    def deviations(logarithms: Values) -> Values:
        return np.log(equation_1(warps, instructions, *np.exp(logarithms)) / cycles)

    starts = (_start(warps, cycles / instructions, kink) for kink in sorted({*warps.tolist(), np.inf}))
    issue, completion = np.exp(robust_fit(deviations, starts))
    return float(issue), float(completion)


def _start(warps: Values, each: Values, kink: float) -> Values:
    """Return the logarithms of λ and Λ for times that are flat before *kink* and rising from there on."""
    flat, rising = warps < kink, warps >= kink
    issue = np.exp(np.mean(np.log(each[rising] / warps[rising]))) if rising.any() else each.min() / warps.max()
    completion = np.exp(np.mean(np.log(each[flat]))) if flat.any() else issue * warps.min()
    return np.log([issue, completion])


def _spread(deviations: Values) -> float:
    """Return a robust standard deviation of the points from a fit of two parameters."""
    return float(1.4826 * np.median(np.abs(deviations)) * (len(deviations) / (len(deviations) - 2)) ** 0.5)


# }}}


# {{{ memory


CHASE, STREAM, LOCAL = "pointer chase", "streaming", "local memory"
"""names of the kernel files"""
WORD = 4
"""bytes per load"""
SMALLEST_CACHE = 2**13
"""bytes that fit the nearest cache of any device; with larger sizes only, the level of L1 is unknown"""
MEMORY_RATIO = {False: 4, True: 16}
"""multiple of the driver's cache size, on processors (False) and GPUs (True), beyond which an array is in the device's
own memory. NVIDIA's OpenCL driver reports the L1 caches, which on A100 and H100 are a twelfth of the L2 cache"""
CONFLICT = 0.2
"""maximum relative deviation at which conflicts of 32 banks are recognized"""
BANKS = 32
"""banks of local memory; all lanes of a warp conflict at a stride of as many words"""


@dataclass(frozen=True, slots=True)
class MemoryBenchmarks:
    """Latency, capacity and bandwidth of a memory level."""

    name: str
    level: Plateau
    bandwidth: Estimated | None = None
    """B/s of all cores together"""


def memories(recording: Recording, core: Core) -> tuple[MemoryBenchmarks, ...]:
    """Return the levels of global memory, nearest first, with latencies in cycles; empty without measurements.

    The plateaus are the caches L1, L2, ... in order. An array several times as large as the driver's cache size is in
    the device's own memory, whose latency may rise further with TLB misses.
    """
    chased = paces(recording, CHASE)
    far = _own_memory(chased, recording.runs[-1].limits, core)
    near = {_visited(pace): core.cycles_each(pace) for pace in chased if far is None or _visited(pace) < far.holds / 2}
    levels = memory_levels(near) if min(near, default=SMALLEST_CACHE + 1) <= SMALLEST_CACHE else ()
    caches = [level for level in levels if far is None or LEVEL_RATIO * level.latency.value < far.latency.value]
    found = {f"L{number}": level for number, level in enumerate(caches, start=1)} | ({DRAM: far} if far else {})
    streamed = [_stream(pace) for pace in paces(recording, STREAM) if pace.sizes["stride"] == 1]
    below = [0, *(level.holds for level in found.values())]
    return tuple(
        MemoryBenchmarks(name, level, _bandwidth(streamed, smaller, name, level))
        for (name, level), smaller in zip(found.items(), below[:-1], strict=True)
    )


def _own_memory(chased: Sequence[Pace], limits: DeviceLimits, core: Core) -> Plateau | None:
    """Return the device's own memory from the largest arrays; None if all of them may fit a cache."""
    largest = max(map(_visited, chased), default=0)
    if limits.cache is None or largest < MEMORY_RATIO[limits.warp_size > 1] * limits.cache:
        return None
    far = [pace for pace in chased if _visited(pace) >= largest / 2]
    times = [core.cycles_each(pace) for pace in far]
    typical = float(np.median(times))
    scatter = typical * max(pace.error / pace.seconds for pace in far)
    return Plateau(Estimated(typical, max(float(np.ptp(times)) / 2, scatter)), largest, None)


def conflict_cost(recording: Recording, core: Core) -> dict[int, float]:
    """Return the core cycles of a load from local memory by degree of its bank conflicts, on a full core."""
    taken = paces(recording, LOCAL)
    most = max((core.warps(pace) for pace in taken), default=0)
    full = [pace for pace in taken if core.warps(pace) == most]
    return {pace.sizes["degree"]: core.cycles_each(pace) / most for pace in full}


def has_banks(cost: dict[int, float]) -> bool:
    """Return whether the time of a load is proportional to its accesses of a bank, up to 32."""
    if not {1, 8, 16, BANKS} <= set(cost):
        return False
    # The rest of a load's time may hide a few conflicts, but not many.
    growth = np.array([cost[16] / cost[8], cost[BANKS] / cost[16]])
    return bool((np.abs(growth / 2 - 1) < CONFLICT).all())


def _visited(pace: Pace) -> int:
    return pace.sizes["n"] * WORD


def _stream(pace: Pace) -> tuple[int, Estimated]:
    """Return the bytes of an array that all cores read together, and the bandwidth in B/s."""
    sizes = pace.sizes
    rate = WORD * sizes["groups"] * sizes["lanes"] * pace.steps / pace.seconds
    return WORD * sizes["chunks"] * sizes["steps"] * sizes["lanes"], Estimated(rate, rate * pace.error / pace.seconds)


def _bandwidth(streamed: Sequence[tuple[int, Estimated]], below: int, name: str, level: Plateau) -> Estimated | None:
    """Return the maximum bandwidth of arrays that fit this level but not a smaller one; of DRAM, the largest
    array's."""
    if name == DRAM:
        nbytes, bandwidth = max(streamed, key=lambda stream: stream[0], default=(0, None))
        return bandwidth if nbytes > below and nbytes >= level.holds / 2 else None
    fitting = [bandwidth for nbytes, bandwidth in streamed if below < nbytes <= level.holds]
    return max(fitting, key=lambda rate: rate.value, default=None)


# }}}
