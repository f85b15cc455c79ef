"""What an archive tells of memories: their latencies, what they hold, what they deliver, and conflicts of banks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.device.lambdas import DRAM
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.microbenchmarks.core import Core
from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.memory_levels import APART, Level, memory_levels
from loopyperf.measurement.microbenchmarks.pace import Pace, paces

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
class Memory:
    """A level of memory."""

    name: str
    level: Level
    bandwidth: Estimated | None = None
    """B/s of all cores together, at stride 1"""


@dataclass(frozen=True, slots=True)
class Stream:
    """How fast an array is read by all cores together."""

    stride: int
    nbytes: int
    """from the first to the last element"""
    bandwidth: Estimated
    """B/s of what is used"""


def memories(recording: Recording, core: Core) -> tuple[Memory, ...]:
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
        Memory(name, level, _bandwidth(streamed, smaller, name, level))
        for (name, level), smaller in zip(found.items(), below[:-1], strict=True)
    )


def _own_memory(chased: Sequence[Pace], limits: Limits, core: Core) -> Level | None:
    """Return the device's own memory, from the largest arrays; None where all of them may be in a cache."""
    largest = max(map(_visited, chased), default=0)
    if limits.cache is None or largest < BEYOND[limits.warp_size > 1] * limits.cache:
        return None
    far = [pace for pace in chased if _visited(pace) >= largest / 2]
    times = [core.cycles_each(pace) for pace in far]
    typical = float(np.median(times))
    scatter = typical * max(pace.error / pace.seconds for pace in far)
    return Level(Estimated(typical, max(float(np.ptp(times)) / 2, scatter)), largest, None)


def streams(recording: Recording) -> tuple[Stream, ...]:
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


def _stream(pace: Pace) -> Stream:
    sizes = pace.sizes
    loaded = WORD * sizes["groups"] * sizes["lanes"] * pace.steps
    rate = loaded / pace.seconds
    nbytes = WORD * sizes["chunks"] * sizes["steps"] * sizes["lanes"] * sizes["stride"]
    return Stream(sizes["stride"], nbytes, Estimated(rate, rate * pace.error / pace.seconds))


def _bandwidth(streamed: tuple[Stream, ...], below: int, name: str, level: Level) -> Estimated | None:
    """Return the fastest of the arrays that fit a level and not the one below; of memory, the largest array."""
    plain = [stream for stream in streamed if stream.stride == 1 and stream.nbytes > below]
    if name == DRAM:
        largest = max(plain, key=lambda stream: stream.nbytes, default=None)
        return largest.bandwidth if largest and largest.nbytes >= level.holds / 2 else None
    fitting = [stream.bandwidth for stream in plain if stream.nbytes <= level.holds]
    return max(fitting, key=lambda rate: rate.value, default=None)
