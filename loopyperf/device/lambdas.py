"""Issue and completion latency of a warp instruction.

λ, the issue latency, is the time until the pipeline accepts the next instruction (its inverse throughput); Λ, the
completion latency, the time until the result can be used (Lemeire, sections 1 and 3.1.3).
"""

from dataclasses import dataclass, replace
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
    """λ: time until the pipeline accepts another instruction"""
    completion: Cycles
    """Λ: time until a dependent instruction can issue"""

    def __post_init__(self) -> None:
        for name, cycles in (("issue", self.issue), ("completion", self.completion)):
            if not isfinite(cycles) or cycles < 0:
                raise GraphError(f"the {name} latency must be >= 0 cycles, got {cycles}")

    def with_conflicts(self, degree: Cycles) -> "Lambdas":
        """Return the latencies with bank conflicts, i.e. *degree* further accesses to the same banks, served serially.

        Λ' = Λ + D·λ and λ' = (1 + D)·λ (Lemeire, section 6.3).
        """
        return Lambdas((1 + degree) * self.issue, self.completion + degree * self.issue)


# {{{ latencies of memory accesses (Lemeire's mapper g)
#
# Global memory: Lemeire, section 6.3, mixes DRAM and one cache by a ratio R from a profiler. Here there are any
# number of levels, each a pipeline with its own λ. The bytes that each level moves follow from the footprint of the
# kernel (:mod:`loopyperf.models.traffic`); Λ is the mean over the levels that serve the access
# (:mod:`loopyperf.models.timing`). Local memory: :meth:`loopyperf.device.lambdas.Lambdas.with_conflicts`.
#
# Λ of a level is its latency; λ is the number of bytes over a core's share of its bandwidth. Contention needs no term
# of its own, since requests queue for the pipeline.


DRAM = "DRAM"
COALESCED = "load global b32"
"""name in device files of the load of which each lane moves :data:`BYTES`"""
BYTES = 4
LOAD_LOCAL = ("load local", "b32")
BANDWIDTHS = ("bandwidth_per_core", "sustained_bandwidth", "bandwidth")
"""bandwidth fields in order of preference: measured before published"""


def global_levels(device: Device) -> list[MemoryLevel]:
    """Return the levels that serve global memory, nearest to the core first.

    Raises :class:`MissingNumberError` if the device has none.
    """
    return [level for level in device.memory if level.name != "local"] or [device.level(DRAM)]


def level_issue(device: Device, level: str, moved: Cycles) -> Cycles:
    """Return λ, in cycles, of a warp instruction for which *level* moves *moved* bytes.

    For DRAM without a latency in the device file, λ is that of a measured coalesced 32-bit load, scaled by the bytes.
    Raises :class:`MissingNumberError` if no bandwidth is known.
    """
    measured = _stand_in(device, level)
    if measured is not None:
        return measured.needed("issue") * moved / (BYTES * device.needed("warp_size"))
    return moved / bytes_per_cycle(device, device.level(level))


def level_latency(device: Device, level: str) -> float:
    """Return Λ of an access to *level*, in cycles; raises :class:`MissingNumberError` if it is not known."""
    measured = _stand_in(device, level)
    return device.level(level).needed("latency") if measured is None else measured.needed("completion")


def latency_rests_on(device: Device, level: str) -> Quantity | None:
    """Return the number behind :func:`level_latency`; None if it is not known."""
    measured = _stand_in(device, level)
    return device.level(level).source("latency") if measured is None else measured.source("completion")


def _stand_in(device: Device, level: str) -> InstructionTiming | None:
    """Return the measured load used for DRAM if *level* is DRAM without a latency of its own, else None."""
    if level != DRAM or device.level(level).latency is not None:
        return None
    return next((instruction for instruction in device.instructions if instruction.name == COALESCED), None)


def is_timed(device: Device) -> bool:
    """Return whether loads from DRAM were measured, so that they replace its bandwidth."""
    return any(instruction.name == COALESCED and instruction.issue is not None for instruction in device.instructions)


def bandwidth(memory: MemoryLevel) -> Quantity | None:
    """Return the number behind the bandwidth of *memory*; None if it is not known."""
    return next(filter(None, map(memory.source, BANDWIDTHS)), None)


def with_traffic(device: Device, written: float) -> Device:
    """Return *device* with the sustained bandwidth of DRAM for traffic of which the share *written* are stores.

    It is interpolated between those of reading, copying and writing; unchanged if the device lacks one of them.
    """
    dram = device.level(DRAM)
    read, copied, wrote = dram.read_bandwidth, dram.copy_bandwidth, dram.write_bandwidth
    if read is None or copied is None or wrote is None:
        return device
    pure, part = (read, written) if written <= 1 / 2 else (wrote, 1 - written)
    mixed = pure + (copied - pure) * 2 * part
    levels = (replace(level, sustained_bandwidth=mixed) if level is dram else level for level in device.memory)
    return replace(device, memory=tuple(levels))


def bytes_per_cycle(device: Device, memory: MemoryLevel) -> float:
    """Return B/cycle from *memory* to each core if all cores use it: measured if known, else the published peak.

    Raises :class:`MissingNumberError` if no bandwidth is known.
    """
    if memory.bandwidth_per_core is not None:
        return memory.bandwidth_per_core
    measured = memory.sustained_bandwidth
    whole = memory.needed("bandwidth") if measured is None else measured
    return whole / (device.needed("cores") * device.needed("clock"))


# }}}
