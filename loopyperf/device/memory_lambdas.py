"""How long accesses of memory take: λ and Λ by what a warp moves and by the level that serves it (Lemeire's mapper g).

Global memory (Lemeire, section 6.3): of the bytes that a warp asks for, R come from DRAM and 1 - R from a cache,

    Λ = R·Λ_DRAM + (1 - R)·Λ_cache        λ = R·λ_DRAM + (1 - R)·λ_cache        R ≤ 1
    Λ = Λ_DRAM + (R - 1)·λ_DRAM           λ = R·λ_DRAM                          R > 1

where more is moved than asked for. Any number of levels is mixed alike. R comes from a profiler in the paper; here from
what the kernel touches (:mod:`loopyperf.models.on_device.traffic`). Local memory:
:meth:`loopyperf.device.lambdas.Lambdas.with_conflicts`.

A level's Λ is its latency, its λ the time that a core's share of its bandwidth takes to move the bytes. Contention
needs no term of its own: requests queue for the pipeline, as :func:`latency_in_flight` says in closed form.
"""

from collections.abc import Sequence

from loopyperf.device.description import Device, Instruction, MemoryLevel
from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.errors import ParameterError

DRAM = "DRAM"
COALESCED = "load global b32"
"""the instruction of descriptions, of which each lane moves :data:`BYTES`"""
BYTES = 4


# {{{ one level


def global_levels(device: Device) -> list[MemoryLevel]:
    """Return the levels that serve global memory, the nearest first."""
    return [level for level in device.memory if level.name != "local"]


def level_lambdas(device: Device, level: str, moved: Cycles) -> Lambdas:
    """Return the latencies, in cycles, of a warp instruction for which *level* serves *moved* bytes.

    Of DRAM they are those measured of a coalesced load of 32 bits where the level's own are not stated. Raises
    :class:`MissingNumberError` where the device's description states neither.
    """
    return Lambdas(level_issue(device, level, moved), level_latency(device, level))


def level_issue(device: Device, level: str, moved: Cycles) -> Cycles:
    """Return the λ of :func:`level_lambdas`, in cycles; raises as that does, but for a latency."""
    measured = _stand_in(device, level)
    if measured is not None:
        return measured.issue * moved / (BYTES * device.warp_size)
    return moved / bytes_per_cycle(device, device.level(level))


def level_latency(device: Device, level: str) -> float:
    """Return the Λ of :func:`level_lambdas`, in cycles, whatever is moved; raises as that does."""
    measured = _stand_in(device, level)
    return device.level(level).latency if measured is None else measured.completion


def _stand_in(device: Device, level: str) -> Instruction | None:
    """Return the measured load that stands for DRAM, where *level* is that and has no latency of its own."""
    if level != DRAM or device.level(level).stated("latency"):
        return None
    return next((each for each in device.instructions if each.name == COALESCED), None)


def bytes_per_cycle(device: Device, memory: MemoryLevel) -> float:
    """Return the bytes that *memory* gives one core in a cycle, all cores asking: measured if stated, else the peak.

    Raises :class:`MissingNumberError` where the description states no bandwidth at all.
    """
    if memory.stated("bandwidth_per_core"):
        return memory.bandwidth_per_core
    measured = memory.stated("sustained_bandwidth") is not None
    whole = memory.sustained_bandwidth if measured else memory.bandwidth
    return whole / (device.cores * device.clock)


def latency_in_flight(lambdas: Lambdas, requests: Cycles) -> Cycles:
    """Return the latency that a request sees, on average, while so many *requests* of a core are always in flight.

    Little's law: *requests* are in flight if each takes Λ and one begins every Λ / *requests* cycles, which it cannot
    more often than every λ. Beyond Λ / λ of them the latency grows: Λ(q) = max(Λ, q·λ).
    """
    return max(lambdas.completion, requests * lambdas.issue)


# }}}


# {{{ several levels


def mixed(parts: Sequence[tuple[Cycles, Lambdas]]) -> Lambdas:
    """Return the latencies of instructions of which these shares, adding up to one, have these latencies each."""
    total = sum(share for share, _ in parts)
    if any(share < 0 for share, _ in parts) or abs(total - 1) > 1e-9:
        raise ParameterError(f"shares are 0 or more and add up to one, received {[share for share, _ in parts]}")
    issue = sum(share * each.issue for share, each in parts)
    return Lambdas(issue, sum(share * each.completion for share, each in parts))


def by_dram_ratio(dram: Lambdas, cache: Lambdas, ratio: Cycles) -> Lambdas:
    """Return the latencies where DRAM moves *ratio* bytes for each byte asked for, R of Lemeire, section 6.3."""
    if ratio < 0:
        raise ParameterError(f"the bytes that DRAM moves for each byte asked for are 0 or more, received {ratio}")
    if ratio > 1:
        return Lambdas(ratio * dram.issue, dram.completion + (ratio - 1) * dram.issue)
    return mixed([(ratio, dram), (1 - ratio, cache)])


# }}}
