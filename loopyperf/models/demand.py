"""Demand of an average warp of a launch: the input of the analytic models.

Memory means accesses beyond the core, to global and private memory; local memory accesses count as computation, as in
MWP-CWP and the WFG model. With several warp classes, sums are means over all warps, and Λapp is the mean, over groups,
of the longest warp.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import TypeVar

from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import Lambdas
from loopyperf.device.parts import ARITHMETIC
from loopyperf.device.vocabulary import ISSUE
from loopyperf.idg.parallelism import waited_for, work_flow_graph
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.workload import START, FlowNode, Share, WarpDemand, WorkFlow
from loopyperf.pipeline import Interval, intervals, warp_latency
from loopyperf.pipeline.batches import Composition
from loopyperf.pipeline.timed_graph import Timed, TimedGraph
from loopyperf.pipeline.timed_program import TimedLaunch, TimedWarps

MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)
"""Subsystems of a machine graph whose instructions access memory beyond the core."""


Made = TypeVar("Made")


def cached_for_launch(launch: TimedLaunch, make: Callable[[TimedLaunch], Made]) -> Made:
    """Return ``make(launch)``, computed on first use for all models, like a cached property outside of its class.

    *make* is a function or class of a module, not a lambda.
    """
    known, name = vars(launch), f"{make.__module__}.{make.__qualname__}"
    if name not in known:
        known[name] = make(launch)
    return known[name]


class LaunchDemand(WarpDemand):
    """Demand of one warp of a launch, averaged over all warps or over those of one group (a :class:`WarpDemand`)."""

    def __init__(self, launch: TimedLaunch, group: Composition | None = None) -> None:
        """Use the warps of *launch*, or of one *group* of it; quantities are computed on first use."""
        self.launch, self.group = launch, group
        size = launch.warps_per_group
        self.shares = launch.shares if group is None else {program: each / size for program, each in group.items()}

    @cached_property
    def warps_per_group(self) -> int:
        """Return the number of warps that synchronize at a barrier."""
        return self.launch.warps_per_group

    @cached_property
    def memory_instruction(self) -> float:
        """Return λ_mem^instr: one cycle (Lemeire, section 2.4.1)."""
        return 1.0

    # {{{ throughput

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return pipeline -> busy cycles of a warp, Σλ, including the start of its group and the issue limit."""
        found = self._busy(lambda _: True)
        if self.launch.start is not None:
            found[START] = float(self.launch.start.issue)
        if (limit := self.launch.device.issue_limit) is not None:
            found[ISSUE] = sum(executions for executions, _, _ in self.launch.executed(self.shares)) / limit
        return found

    def _busy(self, is_counted: Callable[[Instruction], bool]) -> dict[str, float]:
        """Return pipeline -> busy cycles of the warp's instructions for which *is_counted* is true."""
        found: dict[str, float] = {}
        for executions, instruction, times in self.launch.executed(self.shares):
            for time in times if is_counted(instruction) else ():
                found[time.pipeline] = found.get(time.pipeline, 0.0) + executions * float(time.issue)
        return found

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return the pipelines that accesses of global and private memory use."""
        return frozenset(self._busy(is_memory))

    @cached_property
    def compute(self) -> Share:
        """Return all instructions except barriers and :attr:`memory`, as if one pipeline executed them."""
        counted = [
            (executions, instruction, times)
            for executions, instruction, times in self.launch.executed(self.shares)
            if not is_memory(instruction) and instruction.kind != Opcode.BARRIER
        ]
        issue = sum(executions * _issue(times) for executions, _, times in counted)
        return Share(sum(executions for executions, _, _ in counted), issue, lambda: _waited(counted))

    @cached_property
    def memory(self) -> Share:
        """Return the accesses of global and private memory; their Σλ is that of the busiest level."""
        counted = [each for each in self.launch.executed(self.shares) if is_memory(each[1])]
        busiest = max(self._busy(is_memory).values(), default=0.0)
        return Share(sum(executions for executions, _, _ in counted), busiest, lambda: _waited(counted))

    @cached_property
    def barriers(self) -> float:
        """Return αsync, the number of barriers."""
        return sum(
            executions for executions, each, _ in self.launch.executed(self.shares) if each.kind == Opcode.BARRIER
        )

    # }}}

    # {{{ latency

    @cached_property
    def latency(self) -> float:
        """Return Λapp, in cycles: the latency of a warp alone in its partition of the core."""
        latency = cached_for_launch(self.launch, _latencies)
        if self.group is not None:
            return max(latency(program) for program in self.group)
        order, size = self.launch.order, self.warps_per_group
        return fmean(max(map(latency, order[first : first + size])) for first in range(0, len(order), size))

    def longest(self, least: float) -> float:
        """Return the longest latency of a warp alone over all warp classes, in cycles, but at least *least*.

        This is a lower bound of the launch's time.

        :raises GraphError: as :func:`loopyperf.pipeline.warp_latency`.
        """
        for program in dict.fromkeys(self.launch.first[program] for program in self.shares):
            warp = self.launch.programs[program].timed_graph
            if _one_after_the_other(warp) > least:
                least = max(least, float(warp_latency(warp.graph, warp.lambdas)))
        return least

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return the work flow of each warp class, with its share of the warps."""
        return [(share, _work_flow(program)) for share, program in self.launch.shared(self.shares)]

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """Return the intervals of GPUMech for all warp classes, weighted by their shares."""
        found: list[Interval] = []
        for share, program in self.launch.shared(self.shares):
            graph = program.graph
            every = zip(graph.instructions, program.times, strict=True)
            own = intervals(graph, [_single(each, times) for each, times in every if each.subsystem in MEMORY], MEMORY)
            found += [Interval(each.instructions, each.stall, each.number * share) for each in own]
        return found

    # }}}


def of_groups(launch: TimedLaunch) -> tuple[LaunchDemand, ...]:
    """Return the demand of an average warp of each composition of *launch*."""
    return tuple(LaunchDemand(launch, composition) for composition in launch.batches.compositions)


def _latencies(launch: TimedLaunch) -> Callable[[int], float]:
    """Return a function that returns the latency of a program's warp alone in its partition, in cycles."""

    known: dict[int, float] = {}

    def latency(program: int) -> float:
        first = launch.first[program]
        if first not in known:
            warp = launch.alone[first].timed_graph
            known[first] = float(warp_latency(warp.graph, warp.lambdas_in_partition(launch.partitions)))
        return known[first]

    return latency


def is_floating_point(instruction: Instruction) -> bool:
    """Return whether an instruction is floating-point arithmetic with active lanes."""
    return instruction.dtype.startswith("f") and instruction.kind in ARITHMETIC and not instruction.is_idle


def is_memory(instruction: Instruction) -> bool:
    """Return whether an instruction of a machine graph accesses memory beyond the core."""
    return instruction.subsystem in MEMORY and not instruction.is_idle


def _single(instruction: Instruction, times: Sequence[Timed]) -> Lambdas:
    """Return the latencies of *instruction* as if it only used the pipeline that it occupies longest."""
    return waited_for(instruction, Lambdas(_issue(times), max(time.completion for time in times)))


def _issue(times: Sequence[Timed]) -> float:
    """Return λ of an instruction on the pipeline that it occupies longest."""
    return float(max(time.issue for time in times))


def _waited(counted: Iterable[tuple[float, Instruction, Sequence[Timed]]]) -> float:
    """Return ΣΛ of the executed instructions (for stores, Σλ)."""
    return sum(executions * float(_single(each, times).completion) for executions, each, times in counted)


def _one_after_the_other(warp: TimedGraph) -> float:
    """Return the cycles of a warp if each instruction waits for the one before: an upper bound of its latency."""
    return sum(
        number * float(max(lambdas.issue, lambdas.completion))
        for number, lambdas in zip(warp.runs, warp.lambdas, strict=True)
    )


def _work_flow(program: TimedWarps) -> WorkFlow:
    """Return the work flow of a machine graph, with mean latencies of each node."""
    graph, timed = program.graph, program.times
    flow = work_flow_graph(graph, MEMORY)
    nodes: list[FlowNode] = []
    for number, node in enumerate(flow.nodes):
        lambdas = [_single(graph.instructions[index], timed[index]) for index in node.instructions]
        nodes.append(
            FlowNode(
                node.sort,
                len(lambdas),
                fmean(float(each.issue) for each in lambdas),
                fmean(float(each.completion) for each in lambdas),
                ilp=float(node.ilp),
                executions=float(node.executions),
                waits_for=tuple(arc.source for arc in flow.dependences if arc.target == number),
            )
        )
    loops = tuple((arc.target, arc.source) for arc in flow.transitions if arc.is_carried)
    return WorkFlow(tuple(nodes), loops)
