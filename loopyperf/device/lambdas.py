"""How long a warp instruction takes on a pipeline: its issue and its completion latency.

λ, the issue latency, is the time until the pipeline takes the next instruction (its inverse throughput); Λ, the
completion latency, the time until the result may be used (Lemeire, sections 1 and 3.1.3).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from loopyperf.device.description import Device, InstructionTiming, MemoryLevel
from loopyperf.device.parts import Quantity
from loopyperf.errors import GraphError

Cycles = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Lambdas:
    """The two latencies of a warp instruction, in cycles."""

    issue: Cycles
    """λ: until the pipeline takes another one"""
    completion: Cycles
    """Λ: until what waits for the result may issue"""

    def __post_init__(self) -> None:
        for name, cycles in (("issue", self.issue), ("completion", self.completion)):
            if not isfinite(cycles) or cycles < 0:
                raise GraphError(f"the {name} latency is {cycles}: it must be a number of cycles, 0 or more")

    def with_conflicts(self, degree: Cycles) -> "Lambdas":
        """Return the latencies where *degree* further accesses of the same banks are served one after the other.

        Λ' = Λ + D·λ and λ' = (1 + D)·λ (Lemeire, section 6.3).
        """
        return Lambdas((1 + degree) * self.issue, self.completion + degree * self.issue)


# {{{ how long accesses of memory take (Lemeire's mapper g)
#
# Global memory: Lemeire, section 6.3, mixes DRAM and one cache by the share R that a profiler tells. Here there are any
# number of levels, each a pipeline with a λ of its own, and what each moves is told by what the kernel touches
# (:mod:`loopyperf.models.traffic`); Λ is the mean over the levels that serve
# (:mod:`loopyperf.models.timing`). Local memory: :meth:`loopyperf.device.lambdas.Lambdas.with_conflicts`.
#
# A level's Λ is its latency, its λ the time that a core's share of its bandwidth takes to move the bytes. Contention
# needs no term of its own: requests queue for the pipeline.


DRAM = "DRAM"
COALESCED = "load global b32"
"""the instruction of descriptions, of which each lane moves :data:`BYTES`"""
BYTES = 4
LOAD_LOCAL = ("load local", "b32")
BANDWIDTHS = ("bandwidth_per_core", "sustained_bandwidth", "bandwidth")
"""numbers that tell a bandwidth, the first that is stated before others: measured before published"""


def global_levels(device: Device) -> list[MemoryLevel]:
    """Return the levels that serve global memory, the nearest first.

    Raises :class:`MissingNumberError` where the device's description has none.
    """
    return [level for level in device.memory if level.name != "local"] or [device.level(DRAM)]


def level_issue(device: Device, level: str, moved: Cycles) -> Cycles:
    """Return λ, in cycles, of a warp instruction for which *level* serves *moved* bytes.

    For DRAM without a latency of its own in the description, it is λ as measured for a coalesced load of 32 bits.
    Raises :class:`MissingNumberError` where the device's description states no bandwidth.
    """
    measured = _stand_in(device, level)
    if measured is not None:
        return measured.needed("issue") * moved / (BYTES * device.needed("warp_size"))
    return moved / bytes_per_cycle(device, device.level(level))


def level_latency(device: Device, level: str) -> float:
    """Return Λ of any such access, in cycles; raises :class:`MissingNumberError` where it is not stated."""
    measured = _stand_in(device, level)
    return device.level(level).needed("latency") if measured is None else measured.needed("completion")


def latency_rests_on(device: Device, level: str) -> Quantity | None:
    """Return the number that :func:`level_latency` is; None where that is not stated."""
    measured = _stand_in(device, level)
    return device.level(level).source("latency") if measured is None else measured.source("completion")


def _stand_in(device: Device, level: str) -> InstructionTiming | None:
    """Return the measured load that stands for DRAM, where *level* is that and has no latency of its own."""
    if level != DRAM or device.level(level).latency is not None:
        return None
    return next((each for each in device.instructions if each.name == COALESCED), None)


def is_timed(device: Device) -> bool:
    """Return whether loads from DRAM were timed, and stand for its bandwidth."""
    return any(each.name == COALESCED and each.issue is not None for each in device.instructions)


def bandwidth(memory: MemoryLevel) -> Quantity | None:
    """Return the number that the bandwidth of *memory* rests on; None where its description states none."""
    return next(filter(None, map(memory.source, BANDWIDTHS)), None)


def bytes_per_cycle(device: Device, memory: MemoryLevel) -> float:
    """Return the bytes that *memory* gives one core in a cycle, all cores asking: measured if stated, else the peak.

    Raises :class:`MissingNumberError` where the description states no bandwidth at all.
    """
    if memory.bandwidth_per_core is not None:
        return memory.bandwidth_per_core
    measured = memory.sustained_bandwidth
    whole = memory.needed("bandwidth") if measured is None else measured
    return whole / (device.needed("cores") * device.needed("clock"))


# }}}
