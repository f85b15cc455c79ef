"""The pipeline model: a simulated core executes the machine graphs of a kernel (Cornelis; Lemeire, 3 to 6).

A core executes its share of the groups, with the device's latencies of each instruction. Launches add up.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

from loopyperf.display import Note, NoteKind
from loopyperf.errors import GraphError, SimulationError
from loopyperf.models import analytic, roofline
from loopyperf.models.analytic import UnlikeGroups, cost_rows, last_core
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.result import BreakdownRow
from loopyperf.models.workload import busy_sides
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from loopyperf.pipeline.simulator import NoSteadyStateError, Simulation, simulated
from loopyperf.pipeline.timed_graph import KEPT_ITERATIONS, TimedGraph, with_fewer_iterations
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.polyhedral.expressions import Same
from loopyperf.units import in_percent

Programs = tuple[TimedGraph, ...]
TOLERANCE = 0.005
"""Relative change below which the issue rate counts as steady; the rest of the run is extrapolated at that rate."""
MAX_SIMULATED = 3_000_000
"""Maximum number of simulated instructions, over all groups of a core: a tenth of a second."""
SHORTENED_ISSUES = 250_000
"""Approximate number of simulated instructions of shortened programs, if all groups exceed the maximum."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated time of one execution of a launch."""

    cycles: float
    tolerance: float
    """Largest relative change of the extrapolated issue rates; 0 if nothing was extrapolated."""


def pipeline_rows(launch: TimedLaunch) -> Iterator[BreakdownRow]:
    """Yield the cost of *launch*, in seconds, by simulating the core with most work.

    There is a row for each instruction on the busiest pipeline, and one for the rest of the time, in which warps wait
    for results.
    """
    return cost_rows(launch, cached_for_launch(launch, simulated_launch).cycles)


def simulation_notes(launch: TimedLaunch) -> Iterator[str]:
    """Yield a note if the simulation is extrapolated."""
    if tolerance := cached_for_launch(launch, simulated_launch).tolerance:
        yield Note(
            NoteKind.EXTRAPOLATED,
            f"extrapolated: {launch.name} is simulated until its issue rate is steady within "
            f"{in_percent(tolerance, 1)}; the rest continues at that rate",
        )


def simulated_launch(launch: TimedLaunch) -> Simulated:
    """Simulate the core with most work.

    The result is at least the time of its busiest pipeline and of its longest warp.
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
        with suppress(GraphError, SimulationError):  # a loop without a steady state, or too long to simulate alone
            cycles = demand.longest(cycles)
    return Simulated(cycles, core.tolerance)


@dataclass(frozen=True, slots=True)
class Explicit:
    """The part of a launch that is simulated instruction by instruction, if all of it would be too much."""

    simulation: Simulation
    """Simulation of that part."""
    groups: int
    """Number of its groups, of those of the core with most groups."""
    is_shortened: bool
    """Whether loops have fewer iterations, so that the resident groups are simulated to their end."""


def explicit_part(launch: TimedLaunch, issues: int) -> Explicit:
    """Simulate the first groups of the core with most groups in *launch*, about *issues* instructions at most.

    These are whole groups, at least as many as reside on the core at once. If even they issue more, their loops have
    fewer iterations, but at least :data:`loopyperf.pipeline.timed_graph.KEPT_ITERATIONS`.
    """
    core = _Core(last_core(launch))
    scenario, is_shortened = core.explicit_part(issues)
    return Explicit(simulated(scenario), scenario.execution.total_groups, is_shortened)


def explicit_scenario(launch: TimedLaunch, issues: int) -> Scenario:
    """Return the scenario that :func:`explicit_part` simulates, of about *issues* instructions."""
    return _Core(last_core(launch)).explicit_part(issues)[0]


class _Core:
    """A launch, simulated on the core with most groups."""

    def __init__(self, launch: TimedLaunch) -> None:
        self.launch, self.execution = launch, launch.execution
        self.programs, self.order = launch.warps
        self.tolerance = 0.0

    def cycles(self) -> float:
        """Return the cycles of the core."""
        number, each = self.execution.total_groups, self._executed_by_group()
        # If two waves of groups exceed the maximum, either loops become steady soon or nothing does.
        limit = MAX_SIMULATED if each * min(number, 2 * self._window) <= MAX_SIMULATED else MAX_SIMULATED // 3
        try:
            return self._of_groups(self.programs, number, limit).cycles
        except NoSteadyStateError:
            return self._in_parts()

    def _in_parts(self) -> float:
        """Return the cycles, extrapolated from parts of the work.

        If the smallest representative number of groups has too many instructions to simulate, two versions with fewer
        loop iterations are simulated; each remaining instruction takes as long as those that the longer version has in
        addition.
        """
        number, each = self.execution.total_groups, self._executed_by_group()
        share = 2 * SHORTENED_ISSUES / (each * min(number, self.execution.concurrent_groups + self._window))
        if share >= 1:
            return self._of_all_groups(self.programs, each)[0]
        (cycles, some), (before, fewer) = (self._shortened(share / part, KEPT_ITERATIONS // part) for part in (1, 2))
        whole = each * number
        return cycles + (cycles - before) / (some - fewer) * (whole - some) if some > fewer else cycles / some * whole

    def explicit_part(self, issues: int) -> tuple[Scenario, bool]:
        """Return a scenario of the first groups (about *issues* instructions) and whether loops are shortened."""
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        executed = self._executed_by_group() * min(at_once, number)
        groups = min(number, max(1, int(issues // executed)) * at_once)
        programs = (
            self.programs if executed <= issues else self._with_fewer_iterations(issues / executed, KEPT_ITERATIONS)
        )
        is_shortened = any(
            short.graph.body != program.graph.body for short, program in zip(programs, self.programs, strict=True)
        )
        return self._scenario(programs, groups), is_shortened

    @property
    def _window(self) -> int:
        """Return a number of groups that fills the core and has the same mix of warp classes as all groups.

        Any such number of further groups takes the same additional time, wherever in the sequence of classes it starts.
        """
        cycle = len(self.order) // gcd(len(self.order), self.execution.warps_per_group)
        return -(-self.execution.concurrent_groups // cycle) * cycle

    def _executed_by_group(self) -> float:
        """Return the mean number of instructions of a group."""
        issued = [sum(each.runs) for each in self.programs]
        return sum(issued[program] for program in self.order) / len(self.order) * self.execution.warps_per_group

    def _shortened(self, share: float, fewest: int) -> tuple[float, float]:
        """Return the cycles of the core, and its instructions, for a *share* of the loop iterations."""
        return self._of_all_groups(self._with_fewer_iterations(share, fewest), SHORTENED_ISSUES)

    def _with_fewer_iterations(self, share: float, fewest: int) -> Programs:
        """Return the programs with a *share* of the iterations; those of several partitions are shortened together."""
        graphs = {Same(program.graph.body): program.graph for program in reversed(self.programs)}
        short = {body: with_fewer_iterations(graph, share, fewest) for body, graph in graphs.items()}
        return tuple(
            replace(program, graph=short[Same(program.graph.body)].changed(program.graph.instructions))
            for program in self.programs
        )

    def _of_all_groups(self, programs: Programs, each: float) -> tuple[float, float]:
        """Return the cycles and instructions of all groups of a core; *each* is the approximate length of a group.

        If there are too many in total, the last simulated groups represent all others.
        """
        at_once, number, window = self.execution.concurrent_groups, self.execution.total_groups, self._window
        some = at_once + max(1, int((SHORTENED_ISSUES / each - at_once) // window)) * window
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
