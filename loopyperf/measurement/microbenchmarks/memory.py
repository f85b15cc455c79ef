"""What an archive tells of memories: their latencies, what they hold, what they deliver, and conflicts of banks."""

from dataclasses import dataclass, replace

import numpy as np

from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.core import Core
from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.memory_levels import Level, memory_levels
from loopyperf.measurement.microbenchmarks.pace import Pace, paces

CHASE, STREAM, LOCAL = "pointer chase", "streaming", "local memory"
"""names of the kernel files"""
WORD = 4
"""bytes of what is loaded"""
BEYOND = 4
"""times the cache that the driver reports: what is so large is in the device's own memory"""
CONFLICT = 0.2
"""relative deviation up to which conflicts of 32 banks are recognised"""
BANKS = 32
DRAM = "DRAM"


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

    The last one is the device's own memory if it was seen at several times the size of the cache that the driver
    reports; caches are called L1, L2, ... by their order.
    """
    chased = paces(recording, CHASE)
    if not chased:
        return ()
    found = memory_levels([_visited(pace) for pace in chased], [core.cycles_each(pace) for pace in chased])
    cache = recording.runs[-1].limits.cache
    own = bool(found) and cache is not None and found[-1].holds >= BEYOND * cache
    names = [f"L{number}" for number in range(1, len(found) + 1 - own)] + [DRAM] * own
    streamed = streams(recording)
    below, memories = 0, list[Memory]()
    for name, level in zip(names, found, strict=True):
        memory = Memory(name, replace(level, holds_not=None) if name == DRAM else level)
        memories.append(replace(memory, bandwidth=_bandwidth(streamed, below, memory)))
        below = level.holds
    return tuple(memories)


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


def _bandwidth(streamed: tuple[Stream, ...], below: int, memory: Memory) -> Estimated | None:
    """Return the fastest of the arrays that fit a level and not the one below; of memory, the largest array."""
    plain = [stream for stream in streamed if stream.stride == 1 and stream.nbytes > below]
    if memory.name == DRAM:
        largest = max(plain, key=lambda stream: stream.nbytes, default=None)
        return largest.bandwidth if largest and largest.nbytes > BEYOND * below else None
    fitting = [stream.bandwidth for stream in plain if stream.nbytes <= memory.level.holds]
    return max(fitting, key=lambda rate: rate.value, default=None)
