"""The pipeline model: the machine graphs of a kernel, executed on a simulated core (Cornelis; Lemeire, 3 to 6).

A core executes as many groups as fall to it, each instruction with its latencies on the device. Launches add up.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from math import gcd

from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.models import roofline
from loopyperf.models.analytic import launch_cycles
from loopyperf.models.on_device.batches import Batch
from loopyperf.models.on_device.costs import busiest_and_rest
from loopyperf.models.on_device.demand import LaunchDemand
from loopyperf.models.on_device.last_core import LastCore, last_core
from loopyperf.models.on_device.shortened import FEW, shortened
from loopyperf.models.on_device.timed_graph import TimedGraph
from loopyperf.models.on_device.timed_launch import TimedLaunch
from loopyperf.models.on_device.timing import partitions
from loopyperf.models.result import Row
from loopyperf.models.workload import busy_sides
from loopyperf.pipeline import Execution, Simulation, simulate

ISSUES = 3_000_000
"""instructions that are simulated, about, at most"""
FEW_WAVES = 32
"""waves of groups, of which a last one that is not full matters"""


def rows(launch: TimedLaunch) -> Iterator[Row]:
    """Yield what *launch* costs, in seconds, by simulating the core that has most to do.

    There is a row for every instruction on its busiest pipeline, and one for the rest of its time, in which results are
    waited for. Some groups are simulated: all take no less than their busiest pipeline, nor than their longest warp.
    """
    return busiest_and_rest(launch, cycles_of(launch))


def cycles_of(launch: TimedLaunch) -> float:
    """Return how many cycles one execution of *launch* takes.

    A simulation of few groups is another one where they begin a cycle later. So where the last wave is not full, and
    there are few, it is not simulated with what a core then has of what all cores share, but between two simulations
    that do not depend on that: of the full waves, and of the core that ends last if all cores had as much to do. It is
    as far from one to the other as the busiest pipeline is.
    """
    before = launch.full_waves if launch.execution.total_groups <= FEW_WAVES else None
    if before is None:
        cycles = _simulated(launch, launch.graphs).cycles()
    else:
        lowest, highest = cycles_of(before), _simulated(launch, launch.alone).cycles()
        low, here = (launch_cycles(roofline.cycles, each, busy_sides) for each in (before, launch))
        high = _busy(launch, launch.once(last_core))
        part = min(1.0, max(0.0, (here - low) / (high - low))) if high > low else 1.0
        cycles = lowest + part * max(0.0, highest - lowest)
    cycles = max(cycles, launch_cycles(roofline.cycles, launch, busy_sides))
    if len(launch.graphs) > 1:
        with suppress(GraphError):  # a loop without a steady state: it is simulated alone
            cycles = launch.once(LaunchDemand).longest(cycles)
    return cycles


def _busy(launch: TimedLaunch, core: LastCore) -> float:
    """Return for how many cycles *core* is busy, if it has its equal part of what all cores share."""
    busy = LaunchDemand(launch, core.warps).busy_with_equal_parts
    return max(busy.values(), default=0.0) * sum(core.warps.values())


@dataclass(frozen=True, slots=True)
class Explicit:
    """What of a launch is simulated instruction by instruction, where all of it would be too much."""

    simulation: Simulation
    """of the part that is simulated"""
    groups: int
    """of those of the core with most groups"""
    is_shortened: bool
    """loops have fewer passes, so that the groups that reside at once are simulated to their end"""


def explicit_part(launch: TimedLaunch, issues: int) -> Explicit:
    """Return the begin of what the core with most groups executes of *launch*, about so many *issues* at most.

    These are groups as a whole, as many at least as reside on the core at once; if even they issue more, with fewer
    passes of their loops, though not less than :data:`loopyperf.models.on_device.shortened.FEW`.
    """
    return _simulated(launch, launch.graphs).explicit_part(issues)


def _simulated(launch: TimedLaunch, graphs: Mapping[int, TimedGraph]) -> "_Simulated":
    """Return *launch* on the core that ends last: with its groups one by one, unless they are many of every kind."""
    if launch.batches.are_alike:
        return _Simulated(launch, launch.placed(graphs), launch.execution)
    core = launch.once(last_core)
    if core.is_even:
        return _Simulated(launch, launch.placed(graphs), launch.execution)
    return _Simulated(launch, warps_of(launch, graphs, core), replace(launch.execution, total_groups=core.number))


def warps_of(launch: TimedLaunch, graphs: Mapping[int, TimedGraph], core: LastCore) -> tuple[TimedGraph, ...]:
    """Return the *graphs* of the warps of *core*, group by group, each on the pipelines of its partition.

    Of groups that all do the same, they are those of so many that the next ones begin in the first partition again.
    """
    parts = partitions(launch.device)
    between: dict[tuple[int, int, float], TimedGraph] = {}
    placed: dict[tuple[int, int, float, int], TimedGraph] = {}
    found: list[TimedGraph] = []
    for batch, number in core.groups:
        group = list(_programs(launch, batch))
        if len(core.groups) == 1:
            number = min(number, parts // gcd(len(group), parts))
        for each in group * number:
            place = (*each, len(found) % parts)
            if each not in between:
                low, high, share = each
                between[each] = _between(graphs[low], graphs[high], share)
            if place not in placed:
                placed[place] = between[each].in_partition(place[-1], parts)
            found.append(placed[place])
    return tuple(found)


def _programs(launch: TimedLaunch, batch: Batch) -> Iterator[tuple[int, int, float]]:
    """Yield the programs of the warps of a group: the lightest, the heaviest, and where between them."""
    programs = launch.batches.programs
    ends = (
        sorted(launch.batches.make_ups[each].items(), key=lambda one: programs[one[0]].example.number)
        for each in (batch.lightest, batch.heaviest)
    )
    for (low, warps), (high, _) in zip(*ends, strict=True):
        yield from repeat((low, high, batch.share if low != high else 1.0), int(warps))


def _between(lightest: TimedGraph, heaviest: TimedGraph, share: float) -> TimedGraph:
    """Return the graph of a warp that does a *share* of what the heaviest one does more than the lightest one."""
    if share >= 1:
        return heaviest
    whole, least, one = (_runs(each) for each in (heaviest.graph, lightest.graph, shortened(heaviest.graph, 0.0, 1)))
    passes = (least + share * (whole - least) - one) / (whole - one) if whole > one else 1.0
    return replace(heaviest, graph=shortened(heaviest.graph, min(1.0, max(0.0, passes)), 1))


def _runs(graph: Idg) -> float:
    return sum(runs_of_all(graph.instructions, graph.loops_around))


class _Simulated:
    """A launch, simulated on the core that ends last."""

    def __init__(self, launch: TimedLaunch, warps: Sequence[TimedGraph], execution: Execution) -> None:
        self.launch, self.execution = launch, execution
        self.graphs = [each.graph for each in warps]
        self.lambdas = {place: each for graph in set(warps) for place, each in graph.lambdas.items()}

    def cycles(self) -> float:
        """Return how long the core takes, in cycles.

        Where the fewest groups that tell of all have too many instructions to be simulated, programs with fewer passes
        of their loops are, two of them, and each further instruction takes as long as what the longer one has more.
        """
        number, each = self.execution.total_groups, self._executed_by_group()
        share = 2 * ISSUES / (each * min(number, self.execution.concurrent_groups + self._window))
        if share >= 1:
            return self._of_all_groups(self.graphs, each)[0]
        (cycles, some), (before, fewer) = (self._shortened(share / part, FEW // part) for part in (1, 2))
        whole = each * number
        return cycles + (cycles - before) / (some - fewer) * (whole - some) if some > fewer else cycles / some * whole

    def explicit_part(self, issues: int) -> Explicit:
        """Return about so many *issues* of the groups that begin first."""
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        executed = self._executed_by_group() * min(at_once, number)
        groups = min(number, max(1, int(issues // executed)) * at_once)
        graphs = self.graphs if executed <= issues else self._with_fewer_passes(issues / executed, FEW)
        is_shortened = any(short.body != graph.body for short, graph in zip(graphs, self.graphs, strict=True))
        return Explicit(self._of_groups(graphs, groups), groups, is_shortened)

    @property
    def _window(self) -> int:
        """Return how many groups have all kinds of warps as often as all groups do, and are as many as reside at once.

        So many more of them take so much longer, wherever among the kinds these begin.
        """
        cycle = len(self.graphs) // gcd(len(self.graphs), self.execution.warps_per_group)
        return -(-self.execution.concurrent_groups // cycle) * cycle

    def _executed_by_group(self) -> float:
        """Return how many instructions a group has, on average."""
        issued = {key: _runs(graph) for key, graph in {id(graph): graph for graph in self.graphs}.items()}
        return sum(issued[id(graph)] for graph in self.graphs) / len(self.graphs) * self.execution.warps_per_group

    def _shortened(self, share: float, fewest: int) -> tuple[float, float]:
        """Return how many cycles a core takes for a *share* of passes, and how many instructions they have."""
        return self._of_all_groups(self._with_fewer_passes(share, fewest), ISSUES)

    def _with_fewer_passes(self, share: float, fewest: int) -> list[Idg]:
        short = {id(graph): shortened(graph, share, fewest) for graph in self.graphs}
        return [short[id(graph)] for graph in self.graphs]

    def _of_all_groups(self, graphs: Sequence[Idg], each: float) -> tuple[float, float]:
        """Return how many cycles all groups of a core take, and how many instructions they have, *each* about so many.

        Where all together have too many, the last ones stand for all others.
        """
        at_once, number, window = self.execution.concurrent_groups, self.execution.total_groups, self._window
        some = at_once + max(1, int((ISSUES / each - at_once) // window)) * window
        last = self._of_groups(graphs, min(some, number))
        if number <= some:
            return last.cycles, last.instructions
        before = self._of_groups(graphs, some - window)
        further = (number - some) / window
        return (
            last.cycles + further * (last.cycles - before.cycles),
            last.instructions + further * (last.instructions - before.instructions),
        )

    def _of_groups(self, graphs: Sequence[Idg], groups: int) -> Simulation:
        device = self.launch.device
        return simulate(
            graphs,
            lambda instruction: self.lambdas[id(instruction)],
            replace(self.execution, total_groups=groups),
            scheduler=device.scheduler,
            issue_limit=device.issue_limit if device.stated("issue_limit") else None,
        )
