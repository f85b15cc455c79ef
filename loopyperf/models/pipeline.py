"""The pipeline model: the machine graphs of a kernel, executed on a simulated core (Cornelis; Lemeire, 3 to 6).

A core executes as many groups as fall to it, each instruction with its latencies on the device. Launches add up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.models.on_device.costs import busiest_and_rest
from loopyperf.models.on_device.shortened import FEW, shortened
from loopyperf.models.on_device.timed_launch import TimedLaunch
from loopyperf.models.result import Row
from loopyperf.pipeline import Simulation, simulate

ISSUES = 3_000_000
"""instructions that are simulated, about, at most"""


def rows(launch: TimedLaunch) -> Iterator[Row]:
    """Yield what *launch* costs, in seconds, by simulating the core that has most to do.

    There is a row for every instruction on its busiest pipeline, and one for the rest of its time, in which results are
    waited for.
    """
    return busiest_and_rest(launch, _Simulated(launch).cycles())


@dataclass(frozen=True, slots=True)
class Explicit:
    """What of a launch is simulated instruction by instruction, where all of it would be too much."""

    simulation: Simulation
    groups: int
    """of those of the core with most groups"""
    is_shortened: bool
    """loops have fewer passes, so that the groups that reside at once are simulated to their end"""


def explicit_part(launch: TimedLaunch, issues: int) -> Explicit:
    """Return the begin of what the core with most groups executes of *launch*, about so many *issues* at most.

    These are groups as a whole, as many at least as reside on the core at once; if even they issue more, with fewer
    passes of their loops, though not less than :data:`loopyperf.models.on_device.shortened.FEW`.
    """
    return _Simulated(launch).explicit_part(issues)


class _Simulated:
    """A launch, simulated on the core with most groups."""

    def __init__(self, launch: TimedLaunch) -> None:
        self.launch, self.execution = launch, launch.execution
        self.graphs = [each.graph for each in launch.warps]
        self.lambdas = {place: each for graph in launch.warps for place, each in graph.lambdas.items()}

    def cycles(self) -> float:
        """Return how long the core takes, in cycles.

        Where the groups that reside at once have too many instructions to be simulated, programs with fewer passes of
        their loops are, two of them, and each further instruction takes as long as what the longer one has more.
        """
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        executed = self._executed_at_once()
        if executed <= ISSUES:
            return self._of_all_groups(self.graphs, executed)[0]
        (cycles, some), (before, fewer) = (self._shortened(ISSUES / executed / part, FEW // part) for part in (1, 2))
        whole = executed / min(at_once, number) * number
        return cycles + (cycles - before) / (some - fewer) * (whole - some) if some > fewer else cycles / some * whole

    def explicit_part(self, issues: int) -> Explicit:
        """Return about so many *issues* of the groups that begin first."""
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        executed = self._executed_at_once()
        groups = min(number, max(1, int(issues // executed)) * at_once)
        graphs = self.graphs if executed <= issues else self._with_fewer_passes(issues / executed, FEW)
        return Explicit(self._of_groups(graphs, groups), groups, executed > issues)

    def _executed_at_once(self) -> float:
        """Return how many instructions the groups have that reside at once."""
        distinct = {id(graph): graph for graph in self.graphs}
        issued = {key: sum(runs_of_all(graph.instructions, graph.loops_around)) for key, graph in distinct.items()}
        executed = sum(issued[id(graph)] for graph in self.graphs) / len(self.graphs)
        return (
            executed
            * self.execution.warps_per_group
            * min(self.execution.concurrent_groups, self.execution.total_groups)
        )

    def _shortened(self, share: float, fewest: int) -> tuple[float, float]:
        """Return how many cycles a core takes for a *share* of passes, and how many instructions they have."""
        return self._of_all_groups(self._with_fewer_passes(share, fewest), ISSUES)

    def _with_fewer_passes(self, share: float, fewest: int) -> list[Idg]:
        short = {id(graph): shortened(graph, share, fewest) for graph in self.graphs}
        return [short[id(graph)] for graph in self.graphs]

    def _of_all_groups(self, graphs: Sequence[Idg], executed: float) -> tuple[float, float]:
        """Return how many cycles all groups of a core take, and how many instructions they have.

        The groups that reside at once have about so many *executed*. Where all together have too many, the last ones
        stand for all others.
        """
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        some = max(2, int(ISSUES // executed)) * at_once
        last = self._of_groups(graphs, min(some, number))
        if number <= some:
            return last.cycles, last.instructions
        before = self._of_groups(graphs, some - at_once)
        more = (last.cycles - before.cycles) / at_once * (number - some)
        return last.cycles + more, last.instructions / some * number

    def _of_groups(self, graphs: Sequence[Idg], groups: int) -> Simulation:
        device = self.launch.device
        return simulate(
            graphs,
            lambda instruction: self.lambdas[id(instruction)],
            replace(self.execution, total_groups=groups),
            scheduler=device.scheduler,
            issue_limit=device.issue_limit if device.stated("issue_limit") else None,
        )
