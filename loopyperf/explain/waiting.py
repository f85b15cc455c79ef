"""Stall reasons of warps, from the trace of a short part of the simulation.

The stall reasons are those of :func:`loopyperf.pipeline.simulator.stalls`, and two for memory. Waiting for an operand
counts as memory latency if a load from beyond the core produces it. Waiting for a pipeline counts as memory bandwidth
if it is a memory level that all cores share. On a GPU, warps issue such loads and wait for the results, so that both
correspond to Nsight Compute's "long scoreboard" stall.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.pipeline import explicit_scenario
from loopyperf.models.timing import is_of_device
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import PLACE, SOURCE, Ticks, executed, stalls
from loopyperf.pipeline.timed_program import TimedLaunch

ISSUES = 12_000
"""number of traced issues"""

StallReason = Literal["pipeline busy", "memory bandwidth", "memory latency", "dependency", "barrier", "issue limit"]
"""stall reasons: a busy pipeline of the core; a busy memory level beyond the core; the result of a load; another
result; other warps of the group; the issue limit"""
STALLS: tuple[StallReason, ...] = get_args(StallReason)
BUSY: tuple[StallReason, ...] = ("pipeline busy", "memory bandwidth")
"""stall reasons that utilization already shows"""
OF_MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Stall reasons of the warps of a core, as shares of stall cycles, by waiting instruction."""

    _DERIVED = ("total",)

    by_source: Mapping[str, Mapping[StallReason, float]]
    """source line -> stall reason -> share"""

    @property
    def total(self) -> dict[StallReason, float]:
        """Return the share of each stall reason, largest first."""
        found = {cause: sum((each.get(cause, 0.0) for each in self.by_source.values()), 0.0) for cause in STALLS}
        order: list[StallReason] = sorted(STALLS, key=lambda cause: -found[cause])
        return {cause: found[cause] for cause in order if found[cause]}


def waiting_of(launch: TimedLaunch) -> Waiting:
    """Return the stall reasons in the part of *launch* that is simulated instruction by instruction.

    Raises :class:`MissingNumberError` if the device lacks a latency.
    """
    scenario = explicit_scenario(launch, ISSUES)
    trace = executed(scenario, is_traced=True).trace
    instructions = [instruction for graph in scenario.graphs for instruction in graph.instructions]
    found: dict[str, dict[StallReason, float]] = {}
    for cause, rows, begin, end in _waits(launch, scenario, trace, instructions):
        ticks = np.bincount(trace[rows, PLACE], weights=(end - begin)[rows], minlength=len(instructions))
        for place in np.flatnonzero(ticks):
            own = found.setdefault(instructions[place].label, {})
            own[cause] = own.get(cause, 0.0) + float(ticks[place])
    every = sum(sum(own.values()) for own in found.values()) or 1.0
    return Waiting({source: {cause: each / every for cause, each in own.items()} for source, own in found.items()})


def _waits(
    launch: TimedLaunch, scenario: Scenario, trace: Ticks, instructions: Sequence[Instruction]
) -> Iterator[tuple[StallReason, NDArray[np.bool_], Ticks, Ticks]]:
    """Yield each stall reason with a mask of the issues that waited for it, and the start and end times."""
    loads = _loads(launch)
    is_load = np.array([_identity(each) in loads for each in instructions], dtype=bool)
    shared = {name for name in scenario.subsystems if is_of_device(name, launch)}
    is_shared = np.array([each.subsystem in shared for each in instructions], dtype=bool)
    of_shared = is_shared[trace[:, PLACE]]
    of_memory = (trace[:, SOURCE] >= 0) & is_load[np.maximum(trace[:, SOURCE], 0)]
    for cause, start, until in stalls(trace):
        waited = until > start
        if cause == "dependency":
            yield "memory latency", waited & of_memory, start, until
            waited &= ~of_memory
        if cause == "pipeline busy":
            yield "memory bandwidth", waited & of_shared, start, until
            waited &= ~of_shared
        yield cause, waited, start, until


def _loads(launch: TimedLaunch) -> frozenset[tuple[str, str, int | None]]:
    """Return the identities of loads from beyond the core; parts of a load on several pipelines share one identity."""
    return frozenset(
        _identity(each)
        for _, program in launch.shared()
        for each in program.graph.instructions
        if each.kind == Opcode.LOAD and each.subsystem in OF_MEMORY
    )


def _identity(instruction: Instruction) -> tuple[str, str, int | None]:
    return instruction.source, instruction.text, instruction.origin
