"""What an archive tells of memories: their latencies, what they hold, what they deliver, and conflicts of banks."""

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

# {{{ the staircase of a pointer chase: latencies of the levels of memory, and how much each holds
#
# Over the bytes that are visited, the time of a load stays the same as long as they fit a level, and climbs to that of
# the next one. A step is where it stays: three neighbouring points or more that differ little, one from the next. Two
# are enough at the foot of the stairs; without it, nobody could tell which level the first step is.


ALIKE = 1.2
"""ratio up to which neighbouring times are of one step"""
APART = 1.3
"""ratio from which on two steps are two levels"""
POINTS, FEWEST = 3, 2
"""that make a step, and the first one"""


@dataclass(frozen=True, slots=True)
class Plateau:
    """A step of the staircase."""

    latency: Estimated
    """of a load, in the unit of the times"""
    holds: int
    """bytes that still take no longer"""
    holds_not: int | None
    """the next larger number of bytes that was tried, which does take longer; None where there is none"""


def memory_levels(times: Mapping[int, float]) -> tuple[Plateau, ...]:
    """Return the levels, nearest first, from the *times* of a load by the bytes that were visited.

    There are none if the times of the smallest sizes already differ.
    """
    points = sorted(times.items())
    first, *others = _steps(points)
    if len(first) < FEWEST:
        return ()
    steps = [first, *(step for step in others if len(step) >= POINTS)]
    return tuple(_level(step, points) for step in _merged(steps))


Step = list[tuple[int, float]]


def _steps(points: Step) -> list[Step]:
    """Return the points in runs in which each is like the one before."""
    found: list[Step] = [points[:1]]
    for before, point in pairwise(points):
        if 1 / ALIKE <= point[1] / before[1] <= ALIKE:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with those put together that are hardly apart: a large page, a farther part of a cache."""
    found: list[Step] = []
    for step in steps:
        if found and _typical(step) / _typical(found[-1]) < APART:
            found[-1] = [*found[-1], *step]
        else:
            found.append(step)
    return found


def _level(step: Step, points: Step) -> Plateau:
    typical = _typical(step)
    times = np.array([time for _, time in step])
    holds = max(nbytes for nbytes, time in step if time <= ALIKE * typical)
    larger = [nbytes for nbytes, _ in points if nbytes > holds]
    error = float(times.std(ddof=1)) / len(step) ** 0.5
    return Plateau(Estimated(typical, error), holds, min(larger, default=None))


def _typical(step: Step) -> float:
    return float(np.median([time for _, time in step]))


# }}}


# {{{ the two latencies of an instruction from the times of dependent chains over the warps on a core
#
# Cornelis and Lemeire, section III.B: W warps of N instructions, each waiting for the one before, take a pipeline
#
#     t = NΛ + (W − 1)λ   if W < Λ/λ,   else   Λ + (NW − 1)λ                                      (equation 1)
#
# cycles: over W flat, then rising, like the hull of a boat. λ is the issue latency, Λ the completion latency. The first
# expression is the greater one exactly where it holds, so that t is the greater of the two.


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


# }}}


# {{{ memory


CHASE, STREAM, LOCAL = "pointer chase", "streaming", "local memory"
"""names of the kernel files"""
WORD = 4
"""bytes of what is loaded"""
FOOT = 2**13
"""bytes that fit the nearest cache of any device: from larger ones on, nobody can tell which level is L1"""
BEYOND = {False: 4, True: 16}
"""times the cache that the driver reports, on a processor and on a GPU: what is so large is in the device's own memory.
NVIDIA's driver for OpenCL reports the first-level caches, which an A100 or H100 has a twelfth of the second level of"""
CONFLICT = 0.2
"""relative deviation up to which conflicts of 32 banks are recognised"""
BANKS = 32
"""of local memory, where all lanes of a warp conflict at a stride of as many words"""


@dataclass(frozen=True, slots=True)
class MemoryBenchmarks:
    """A level of memory."""

    name: str
    level: Plateau
    bandwidth: Estimated | None = None
    """B/s of all cores together, at stride 1"""


@dataclass(frozen=True, slots=True)
class StreamBenchmark:
    """How fast an array is read by all cores together."""

    stride: int
    nbytes: int
    """from the first to the last element"""
    bandwidth: Estimated
    """B/s of what is used"""


def memories(recording: Recording, core: Core) -> tuple[MemoryBenchmarks, ...]:
    """Return the levels of global memory, nearest first, with latencies in cycles; none where nothing was measured.

    Caches are the steps of the staircase, called L1, L2, ... by their order. What is several times as large as the
    cache that the driver reports is in the device's own memory, whose latency may grow on with misses of the TLB.
    """
    chased = paces(recording, CHASE)
    far = _own_memory(chased, recording.runs[-1].limits, core)
    near = {_visited(pace): core.cycles_each(pace) for pace in chased if far is None or _visited(pace) < far.holds / 2}
    levels = memory_levels(near) if min(near, default=FOOT + 1) <= FOOT else ()
    caches = [level for level in levels if far is None or APART * level.latency.value < far.latency.value]
    found = {f"L{number}": level for number, level in enumerate(caches, start=1)} | ({DRAM: far} if far else {})
    streamed = streams(recording)
    below = [0, *(level.holds for level in found.values())]
    return tuple(
        MemoryBenchmarks(name, level, _bandwidth(streamed, smaller, name, level))
        for (name, level), smaller in zip(found.items(), below[:-1], strict=True)
    )


def _own_memory(chased: Sequence[Pace], limits: DeviceLimits, core: Core) -> Plateau | None:
    """Return the device's own memory, from the largest arrays; None where all of them may be in a cache."""
    largest = max(map(_visited, chased), default=0)
    if limits.cache is None or largest < BEYOND[limits.warp_size > 1] * limits.cache:
        return None
    far = [pace for pace in chased if _visited(pace) >= largest / 2]
    times = [core.cycles_each(pace) for pace in far]
    typical = float(np.median(times))
    scatter = typical * max(pace.error / pace.seconds for pace in far)
    return Plateau(Estimated(typical, max(float(np.ptp(times)) / 2, scatter)), largest, None)


def streams(recording: Recording) -> tuple[StreamBenchmark, ...]:
    """Return how fast arrays were read, by stride and size."""
    return tuple(_stream(pace) for pace in paces(recording, STREAM))


def conflict_cost(recording: Recording, core: Core) -> dict[int, float]:
    """Return the cycles of a core for a load from local memory by the degree of its conflicts, on a full core."""
    taken = paces(recording, LOCAL)
    most = max((core.warps(pace) for pace in taken), default=0)
    full = [pace for pace in taken if core.warps(pace) == most]
    return {pace.sizes["degree"]: core.cycles_each(pace) / most for pace in full}


def has_banks(cost: dict[int, float]) -> bool:
    """Return whether loads take so many times as long as there are accesses of a bank, up to 32."""
    if not {1, 8, 16, BANKS} <= set(cost):
        return False
    # Few conflicts may hide behind what else a load takes; many do not.
    growth = np.array([cost[16] / cost[8], cost[BANKS] / cost[16]])
    return bool((np.abs(growth / 2 - 1) < CONFLICT).all())


def _visited(pace: Pace) -> int:
    return pace.sizes["n"] * WORD


def _stream(pace: Pace) -> StreamBenchmark:
    sizes = pace.sizes
    loaded = WORD * sizes["groups"] * sizes["lanes"] * pace.steps
    rate = loaded / pace.seconds
    nbytes = WORD * sizes["chunks"] * sizes["steps"] * sizes["lanes"] * sizes["stride"]
    return StreamBenchmark(sizes["stride"], nbytes, Estimated(rate, rate * pace.error / pace.seconds))


def _bandwidth(streamed: tuple[StreamBenchmark, ...], below: int, name: str, level: Plateau) -> Estimated | None:
    """Return the fastest of the arrays that fit a level and not the one below; of memory, the largest array."""
    plain = [stream for stream in streamed if stream.stride == 1 and stream.nbytes > below]
    if name == DRAM:
        largest = max(plain, key=lambda stream: stream.nbytes, default=None)
        return largest.bandwidth if largest and largest.nbytes >= level.holds / 2 else None
    fitting = [stream.bandwidth for stream in plain if stream.nbytes <= level.holds]
    return max(fitting, key=lambda rate: rate.value, default=None)


# }}}
