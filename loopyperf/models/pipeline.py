"""The pipeline model: the machine graphs of a kernel, executed on a simulated core (Cornelis; Lemeire, 3 to 6).

A core executes as many groups as fall to it, each instruction with its latencies on the device. Launches add up.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

from loopyperf.errors import GraphError, SimulationError
from loopyperf.models import analytic, roofline
from loopyperf.models.analytic import UnlikeGroups, cost_rows, last_core
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.result import BreakdownRow
from loopyperf.models.workload import busy_sides
from loopyperf.pipeline.core import NoSteadyStateError
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from loopyperf.pipeline.simulator import Simulation, simulated
from loopyperf.pipeline.timed_graph import FEW, TimedGraph, with_fewer_iterations
from loopyperf.pipeline.timed_program import TimedLaunch

Programs = tuple[TimedGraph, ...]
EXTRAPOLATED = "extrapolated"
TOLERANCE = 0.005
"""to within which the rate of issues settles, before the rest of a run is taken to go on at it"""
MOST = 3_000_000
"""instructions that are simulated of all groups of a core, at most: a tenth of a second"""
ISSUES = 250_000
"""those that are simulated, about, of programs that are shortened, where all groups take more"""


@dataclass(frozen=True, slots=True)
class Simulated:
    """How long one execution of a launch takes."""

    cycles: float
    tolerance: float
    """the share to within which rates of issues had settled, at most; 0 where nothing was taken to go on at one"""


def pipeline_rows(launch: TimedLaunch) -> Iterator[BreakdownRow]:
    """Yield what *launch* costs, in seconds, by simulating the core that has most to do.

    There is a row for every instruction on its busiest pipeline, and one for the rest of its time, in which results are
    waited for.
    """
    return cost_rows(launch, simulated_cycles(launch))


def simulation_notes(launch: TimedLaunch) -> Iterator[str]:
    """Yield what of a simulation is not exact."""
    if tolerance := cached_for_launch(launch, simulated_launch).tolerance:
        yield (
            f"{EXTRAPOLATED}: {launch.name} is simulated until its issue rate is known to within {tolerance:.1%}, and "
            "continues at it"
        )


def simulated_cycles(launch: TimedLaunch) -> float:
    """Return how many cycles one execution of *launch* takes."""
    return cached_for_launch(launch, simulated_launch).cycles


def simulated_launch(launch: TimedLaunch) -> Simulated:
    """Simulate the core that has most to do.

    All takes no less than its busiest pipeline, nor than its longest warp.
    """
    if launch.are_equal:
        return _of_equal_groups(launch)
    tolerances = [0.0]

    def cycles(alike: TimedLaunch) -> float:
        found = _of_equal_groups(alike)
        tolerances.append(found.tolerance)
        return found.cycles

    busiest = analytic.analytic_cycles(roofline.cycles, launch, busy_sides)
    return Simulated(max(UnlikeGroups(launch, cycles).cycles(), busiest), max(tolerances))


def _of_equal_groups(launch: TimedLaunch) -> Simulated:
    demand = cached_for_launch(launch, LaunchDemand)
    busiest = max(demand.busy.values(), default=0.0) * launch.execution.total_warps
    core = _Core(launch)
    cycles = max(core.cycles(), busiest)
    if len(launch.shares) > 1:
        with suppress(GraphError, SimulationError):  # a loop without a steady state, or too long: it is simulated alone
            cycles = demand.longest(cycles)
    return Simulated(cycles, core.tolerance)


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
    passes of their loops, though not less than :data:`loopyperf.pipeline.timed_graph.FEW`.
    """
    core = _Core(last_core(launch))
    scenario, is_shortened = core.explicit_part(issues)
    return Explicit(simulated(scenario), scenario.execution.total_groups, is_shortened)


def explicit_scenario(launch: TimedLaunch, issues: int) -> Scenario:
    """Return what :func:`explicit_part` simulates, about so many *issues*, for those who execute it themselves."""
    return _Core(last_core(launch)).explicit_part(issues)[0]


class _Core:
    """A launch, simulated on the core with most groups."""

    def __init__(self, launch: TimedLaunch) -> None:
        self.launch, self.execution = launch, launch.execution
        self.programs, self.order = launch.warps
        self.tolerance = 0.0

    def cycles(self) -> float:
        """Return how long the core takes, in cycles."""
        number, each = self.execution.total_groups, self._executed_by_group()
        # Where two waves of groups are too many, either loops settle soon or nothing does.
        limit = MOST if each * min(number, 2 * self._window) <= MOST else MOST // 3
        try:
            return self._of_groups(self.programs, number, limit).cycles
        except NoSteadyStateError:
            return self._in_parts()

    def _in_parts(self) -> float:
        """Return how long it takes, by that of parts of what it executes.

        Where the fewest groups that tell of all have too many instructions to be simulated, programs with fewer passes
        of their loops are, two of them, and each further instruction takes as long as what the longer one has more.
        """
        number, each = self.execution.total_groups, self._executed_by_group()
        share = 2 * ISSUES / (each * min(number, self.execution.concurrent_groups + self._window))
        if share >= 1:
            return self._of_all_groups(self.programs, each)[0]
        (cycles, some), (before, fewer) = (self._shortened(share / part, FEW // part) for part in (1, 2))
        whole = each * number
        return cycles + (cycles - before) / (some - fewer) * (whole - some) if some > fewer else cycles / some * whole

    def explicit_part(self, issues: int) -> tuple[Scenario, bool]:
        """Return about so many *issues* of the groups that begin first, and whether their loops are shortened."""
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        executed = self._executed_by_group() * min(at_once, number)
        groups = min(number, max(1, int(issues // executed)) * at_once)
        programs = self.programs if executed <= issues else self._with_fewer_iterations(issues / executed, FEW)
        is_shortened = any(
            short.graph.body != each.graph.body for short, each in zip(programs, self.programs, strict=True)
        )
        return self._scenario(programs, groups), is_shortened

    @property
    def _window(self) -> int:
        """Return how many groups have all kinds of warps as often as all groups do, and are as many as reside at once.

        So many more of them take so much longer, wherever among the kinds these begin.
        """
        cycle = len(self.order) // gcd(len(self.order), self.execution.warps_per_group)
        return -(-self.execution.concurrent_groups // cycle) * cycle

    def _executed_by_group(self) -> float:
        """Return how many instructions a group has, on average."""
        issued = [sum(each.runs) for each in self.programs]
        return sum(issued[program] for program in self.order) / len(self.order) * self.execution.warps_per_group

    def _shortened(self, share: float, fewest: int) -> tuple[float, float]:
        """Return how many cycles a core takes for a *share* of passes, and how many instructions they have."""
        return self._of_all_groups(self._with_fewer_iterations(share, fewest), ISSUES)

    def _with_fewer_iterations(self, share: float, fewest: int) -> Programs:
        return tuple(replace(each, graph=with_fewer_iterations(each.graph, share, fewest)) for each in self.programs)

    def _of_all_groups(self, programs: Programs, each: float) -> tuple[float, float]:
        """Return how many cycles all groups of a core take, and how many instructions they have, *each* about so many.

        Where all together have too many, the last ones stand for all others.
        """
        at_once, number, window = self.execution.concurrent_groups, self.execution.total_groups, self._window
        some = at_once + max(1, int((ISSUES / each - at_once) // window)) * window
        last = self._of_groups(programs, min(some, number))
        if number <= some:
            return last.cycles, last.instructions
        before = self._of_groups(programs, some - window)
        further = (number - some) / window
        return (
            last.cycles + further * (last.cycles - before.cycles),
            last.instructions + further * (last.instructions - before.instructions),
        )

    def _of_groups(self, programs: Programs, groups: int, limit: int | None = None) -> Simulation:
        found = simulated(self._scenario(programs, groups), TOLERANCE, limit)
        self.tolerance = max(self.tolerance, found.tolerance)
        return found

    def _scenario(self, programs: Programs, groups: int) -> Scenario:
        device, execution = self.launch.device, replace(self.execution, total_groups=groups)
        return Scenario(programs, self.order, execution, scheduler_named(device.scheduler), device.issue_limit)
