"""What the warps of a launch ask of a core, on average: what the analytic models are told of a kernel.

Memory is what leaves the core by way of global and private memory: the accesses of local memory count as computation,
as MWP-CWP and the WFG model have it. Where warps are of several kinds, sums are means over all of them, and Λapp is the
mean, over the groups, of the warp that takes longest.
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
from loopyperf.pipeline.core import MakeUp
from loopyperf.pipeline.timed_graph import Timed, TimedGraph
from loopyperf.pipeline.timed_program import TimedLaunch, TimedWarps

MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)
"""the subsystems of a machine graph whose instructions ask for memory beyond the core"""


Made = TypeVar("Made")


def cached_for_launch(launch: TimedLaunch, make: Callable[[TimedLaunch], Made]) -> Made:
    """Return what *make* makes of *launch*: made when it is first asked for, whichever model asks."""
    if make not in launch.made:
        launch.made[make] = make(launch)
    return launch.made[make]


class LaunchDemand(WarpDemand):
    """What one warp of a launch asks of a core, on average over all of them (a :class:`WarpDemand`)."""

    def __init__(self, launch: TimedLaunch, group: MakeUp | None = None) -> None:
        """Take the launch, or the warps of one *group* of it; each quantity is computed on first use."""
        self.launch, self.group = launch, group
        size = launch.warps_per_group
        self.shares = launch.shares if group is None else {program: each / size for program, each in group.items()}

    @cached_property
    def warps_per_group(self) -> int:
        """Return how many warps meet at a barrier."""
        return self.launch.warps_per_group

    @cached_property
    def memory_instruction(self) -> float:
        """Return λ_mem^instr: one cycle (Lemeire, section 2.4.1)."""
        return 1.0

    # {{{ throughput

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return pipeline -> the cycles that a warp keeps it busy, Σλ, and those in which its instructions issue."""
        found = self._busy(lambda _: True)
        if self.launch.start is not None:
            found[START] = float(self.launch.start.issue)
        if (limit := self.launch.device.issue_limit) is not None:
            found[ISSUE] = sum(executions for executions, _, _ in self.launch.executed(self.shares)) / limit
        return found

    def _busy(self, is_counted: Callable[[Instruction], bool]) -> dict[str, float]:
        """Return pipeline -> the cycles that some instructions of a warp keep it busy."""
        found: dict[str, float] = {}
        for executions, instruction, times in self.launch.executed(self.shares):
            for time in times if is_counted(instruction) else ():
                found[time.pipeline] = found.get(time.pipeline, 0.0) + executions * float(time.issue)
        return found

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return the pipelines that accesses of global and private memory take."""
        return frozenset(self._busy(is_memory))

    @cached_property
    def compute(self) -> Share:
        """Return all instructions but barriers and those of :attr:`memory`, as if one pipeline executed them."""
        counted = [
            (executions, instruction, times)
            for executions, instruction, times in self.launch.executed(self.shares)
            if not is_memory(instruction) and instruction.kind != Opcode.BARRIER
        ]
        issue = sum(executions * _issue(times) for executions, _, times in counted)
        return Share(sum(executions for executions, _, _ in counted), issue, lambda: _waited(counted))

    @cached_property
    def memory(self) -> Share:
        """Return the accesses of global and private memory; their Σλ are those of the busiest of its levels."""
        counted = [each for each in self.launch.executed(self.shares) if is_memory(each[1])]
        busiest = max(self._busy(is_memory).values(), default=0.0)
        return Share(sum(executions for executions, _, _ in counted), busiest, lambda: _waited(counted))

    @cached_property
    def barriers(self) -> float:
        """Return αsync."""
        return sum(
            executions for executions, each, _ in self.launch.executed(self.shares) if each.kind == Opcode.BARRIER
        )

    # }}}

    # {{{ latency

    @cached_property
    def latency(self) -> float:
        """Return Λapp, in cycles: that of a warp alone in its partition of the core."""
        latency = cached_for_launch(self.launch, _latencies)
        if self.group is not None:
            return max(latency(program) for program in self.group)
        order, size = self.launch.order, self.warps_per_group
        return fmean(max(map(latency, order[first : first + size])) for first in range(0, len(order), size))

    def longest(self, least: float) -> float:
        """Return how long the kind of warps that takes longest takes alone, in cycles, or *least* if that is more.

        The launch takes no less. Raises :class:`GraphError` as
        :func:`loopyperf.pipeline.warp_latency` does.
        """
        for program in dict.fromkeys(self.launch.first[program] for program in self.shares):
            warp = self.launch.programs[program].timed_graph
            if _one_after_the_other(warp) > least:
                least = max(least, float(warp_latency(warp.graph, warp.lambdas)))
        return least

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return the work flow of each kind of warps, with its share of them."""
        return [(share, _work_flow(program)) for share, program in self.launch.shared(self.shares)]

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """Return the intervals of GPUMech, of all kinds of warps, each with its share."""
        found: list[Interval] = []
        for share, program in self.launch.shared(self.shares):
            graph = program.graph
            every = zip(graph.instructions, program.times, strict=True)
            own = intervals(graph, [_single(each, times) for each, times in every if each.subsystem in MEMORY], MEMORY)
            found += [Interval(each.instructions, each.stall, each.number * share) for each in own]
        return found

    # }}}


def of_groups(launch: TimedLaunch) -> tuple[LaunchDemand, ...]:
    """Return what a warp asks of a core, on average over a group, for each make-up of the groups of *launch*."""
    return tuple(LaunchDemand(launch, each) for each in launch.batches.make_ups)


def _latencies(launch: TimedLaunch) -> Callable[[int], float]:
    """Return what tells how long a warp takes alone in its partition that executes a program."""

    known: dict[int, float] = {}

    def latency(program: int) -> float:
        first = launch.first[program]
        if first not in known:
            warp = launch.alone[first].timed_graph
            known[first] = float(warp_latency(warp.graph, warp.lambdas_in_partition(launch.partitions)))
        return known[first]

    return latency


def is_floating_point(instruction: Instruction) -> bool:
    """Return whether an instruction is arithmetic of floating-point numbers, which a kernel is for."""
    return instruction.dtype.startswith("f") and instruction.kind in ARITHMETIC and not instruction.is_idle


def is_memory(instruction: Instruction) -> bool:
    """Return whether an instruction of a machine graph asks for memory beyond the core."""
    return instruction.subsystem in MEMORY and not instruction.is_idle


def _single(instruction: Instruction, times: Sequence[Timed]) -> Lambdas:
    """Return the latencies of *instruction* as if the pipeline that it takes longest were the only one."""
    return waited_for(instruction, Lambdas(_issue(times), max(each.completion for each in times)))


def _issue(times: Sequence[Timed]) -> float:
    """Return λ of an instruction on the pipeline that it takes longest."""
    return float(max(each.issue for each in times))


def _waited(counted: Iterable[tuple[float, Instruction, Sequence[Timed]]]) -> float:
    """Return ΣΛ of instructions that are executed so often, of stores Σλ."""
    return sum(executions * float(_single(each, times).completion) for executions, each, times in counted)


def _one_after_the_other(warp: TimedGraph) -> float:
    """Return how long a warp takes whose instructions wait for each other, in cycles: none takes longer."""
    return sum(
        number * float(max(lambdas.issue, lambdas.completion))
        for number, lambdas in zip(warp.runs, warp.lambdas, strict=True)
    )


def _work_flow(program: TimedWarps) -> WorkFlow:
    """Return the work flow of a machine graph, with the mean latencies of each node."""
    graph, timed = program.graph, program.times
    flow = work_flow_graph(graph, MEMORY)
    nodes: list[FlowNode] = []
    for number, node in enumerate(flow.nodes):
        lambdas = [_single(graph.instructions[place], timed[place]) for place in node.instructions]
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
