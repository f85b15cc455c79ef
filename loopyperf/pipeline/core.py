"""Run the simulator core, ``core.c``.

This module also models how the groups of a launch are distributed: in batches of groups with equal work, over equal
cores.

The make-up of a group is how many of its warps execute each program. If the warps of a class do unequal work, the
make-up of a group lies on the line between two others: the mean make-up, and a light one whose loops make a single
iteration. The share of a group is its position on that line: 0 is the light make-up, 1 the mean. The work of a group
grows linearly with the iterations of its loops, so the line is exact for all sums over instructions.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from math import ceil, inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import GraphError, SimulationError
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.pipeline.encoding import CoreOptions, Tables, encoded
from loopyperf.pipeline.scenario import Clock, Scenario
from loopyperf.pipeline.shape import Surroundings
from loopyperf.pipeline.timed_graph import Light

COLUMNS = 9
WARP, PLACE, TIME, ABLE, REASON, RESULT, SOURCE, VACATED, OPENED = range(COLUMNS)
"""columns of a trace: number of the warp; instruction; time of issue; time from which the warp could issue but for its
operands, and why then; completion time of the last operand, and its source (-1 for none); time from which the subsystem
was free; time from which the issue limit allowed the issue"""
AT_START, IN_ORDER, AT_BARRIER = range(3)
"""why a warp could not issue earlier: its group started, it issued the previous instruction, a barrier released it"""
DONE, LIMIT, ASKS, SKIPPED, TOO_LONG = range(5)
"""why a core stopped (``core.h``)"""
Ticks = NDArray[np.int64]
Stall = Literal["dependency", "pipeline busy", "issue limit", "barrier"]
"""why a warp waits: for an operand; for a pipeline that others use; for the issue limit; at a barrier"""
AT_ONCE = 20_000
"""rows per part of a trace"""
UNTRACED = 10_000_000
"""issues per call without a trace: some tenths of a second, so that a run can be interrupted"""


class NoSteadyStateError(GraphError):
    """A run exceeds its limit on issues."""


class Repeat(NamedTuple):
    """Rows of a trace that stand for several executions."""

    first: int
    end: int
    """index after the last row"""
    times: int
    """number of further executions"""


@dataclass(frozen=True, slots=True)
class CoreRun:
    """Result of a core's run."""

    finish: int
    """ticks until everything is complete"""
    issued: int
    busy: tuple[int, ...]
    """ticks for which each subsystem was occupied (sum of λ)"""
    trace: Ticks
    """one row per issue, in order of issue"""
    repeats: tuple[Repeat, ...] = ()
    """repetitions that have no rows of their own, each after the ones inside it"""
    made: int = 0
    """simulated issues; the others are repetitions"""
    settled: int = 0
    """ticks that were extrapolated at a settled rate of issues"""
    tolerance: float = 0.0
    """relative uncertainty of that rate: two standard errors"""


def run(
    scenario: Scenario,
    clock: Clock,
    *,
    is_traced: bool = False,
    is_steady_sought: bool = True,
    limit: int | None = None,
    tolerance: float = 0.0,
) -> CoreRun:
    """Run a core on *scenario*; return times in ticks of *clock*.

    Periodic parts are simulated once, unless *is_steady_sought* is false. If nothing is periodic, the core continues at
    the mean rate of issues once that has settled to within the relative *tolerance*; 0 disables this. After 100,000
    issues the tolerance grows in proportion to their number. Raises :class:`NoSteadyStateError` if the run needs more
    than *limit* issues, and :class:`SimulationError` if times overflow because the graph states too few executions, or
    if the core is not compiled.
    """
    tables, given = encoded(scenario, clock), CoreOptions.of(scenario, clock)
    core = CompiledCore(given, tables, is_steady_sought, tolerance)
    traces, repeats = [np.empty((0, COLUMNS), dtype=np.int64)], list[Repeat]()
    most = AT_ONCE if is_traced else min(UNTRACED, UNTRACED if limit is None else limit + 1)
    rows = np.empty((AT_ONCE, COLUMNS), dtype=np.int64) if is_traced else None
    while True:
        before = core.progress.made
        why = core.run(most, rows)
        done = core.progress
        if rows is not None:
            traces.append(rows[: done.made - before].copy())
        if why == SKIPPED:
            repeats.append(Repeat(done.skipped_first, done.made, done.skipped_times))
        elif why == ASKS:
            core.answer(_periodic_until(tables, done))
        elif why == TOO_LONG:
            raise SimulationError("simulated times overflow 62 bits: the run is longer than the graph states")
        if limit is not None and done.made > limit:
            raise NoSteadyStateError(
                f"no steady state within {limit:,} executed instructions; raise limit=... (about 1 s per 30 million)"
            )
        if why == DONE:
            busy = tuple(done.busy[q] for q in range(given.subsystems))
            trace = np.concatenate(traces)
            left_out = done.made, done.settled, done.tolerance
            return CoreRun(done.finish, done.issued, busy, trace, tuple(repeats), *left_out)


def _periodic_until(tables: Tables, asked: Any) -> int:
    """Return the iteration before which all are periodic, starting with the first one that the core asks about."""
    number = int(tables.steps["loop"][asked.asked_loop])
    shape, loops = tables.loops[number]
    alike = shape.periodic_iterations(loops)
    if asked.asked_span % alike.period:
        return asked.asked_first
    outer = tuple(asked.asked_outer[level] for level in range(len(loops) - 1))
    return alike.until(asked.asked_first, asked.asked_trips, Surroundings(outer, asked.asked_oldest))


def stalls(trace: Ticks) -> Iterator[tuple[Stall, Ticks, Ticks]]:
    """Yield (stall reason, start ticks, end ticks) of the issues of *trace*, one reason after the other.

    An issue waits until its group is released from a barrier, then until its operands are complete, until its pipeline
    is free, and until the issue limit allows it. Start and end are equal if it did not wait.
    """
    order = np.argsort(trace[:, WARP], kind="stable")
    before, is_first = np.zeros(len(trace), dtype=np.int64), np.ones(len(trace), dtype=bool)
    before[order[1:]] = trace[order[:-1], TIME]
    is_first[order[1:]] = trace[order[1:], WARP] != trace[order[:-1], WARP]
    begin = np.where((trace[:, REASON] == AT_BARRIER) & ~is_first, before, trace[:, ABLE])
    steps: tuple[tuple[int, Stall], ...]
    steps = (ABLE, "barrier"), (RESULT, "dependency"), (VACATED, "pipeline busy"), (OPENED, "issue limit")
    for column, cause in steps:
        end = np.maximum(begin, trace[:, column])
        yield cause, begin, end
        begin = end


# {{{ the compiled core


POINTERS = {
    "steps": "Step",
    "around": "int32_t",
    "instructions": "Instruction",
    "edges": "Edge",
    "passes": "int32_t",
    "expressions": "int32_t",
    "operations": "Operation",
    "kinds": "int32_t",
    "maps": "int32_t",
}
"""tables -> C types of the arrays in ``core.h``"""


@cache
def compiled_core() -> Any:
    """Return the module of the compiled core; raises :class:`SimulationError` if this source is not compiled."""
    try:
        module = import_module("loopyperf.pipeline._core")
    except ImportError as error:
        reason = str(error)
    else:
        if module.ffi.string(module.lib.DIGEST).decode() == _digest():
            return module
        reason = "compiled from different source code"
    raise SimulationError(
        f"the simulator is not compiled ({reason}); install a wheel of loopyperf, or reinstall from source with a C "
        "compiler: pip install ."
    )


def _digest() -> str:
    sources = (Path(__file__).with_name(name) for name in ("core.h", "core.c"))
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


class CompiledCore:
    """A core in C."""

    def __init__(self, given: CoreOptions, tables: Tables, skips: bool, tolerance: float) -> None:
        """Create the core from a scenario; this object owns the memory that the core points to."""
        module = compiled_core()
        self.ffi, self.lib = module.ffi, module.lib
        arrays = {name: self.ffi.from_buffer(f"{of}[]", getattr(tables, name)) for name, of in POINTERS.items()}
        sizes = {
            "deepest": tables.around.shape[1],
            "steps_number": len(tables.steps),
            "loops_number": len(tables.loops),
            "operations_number": len(tables.operations),
            "kinds_number": len(tables.kinds),
            "most_subsystems": tables.maps.shape[1],
            "most_instructions": int(tables.instructions["of_program"].max()),
            "most_results": int((tables.instructions["results"] + tables.instructions["kept"]).max()),
        }
        self.scenario = self.ffi.new("Scenario *", given._asdict() | sizes | arrays)
        self.arrays = arrays
        core = self.lib.new_core(self.scenario, skips, tolerance)
        if core == self.ffi.NULL:
            raise MemoryError
        self.core = self.ffi.gc(core, self.lib.free_core)
        self.progress = self.lib.progress_of(self.core)

    def run(self, limit: int, rows: Ticks | None) -> int:
        """Issue up to *limit* instructions and fill *rows*; return why the core stopped."""
        pointer = self.ffi.NULL if rows is None else self.ffi.from_buffer("Row *", rows)
        return self.lib.run_core(self.core, limit, pointer)

    def answer(self, until: int) -> None:
        """Set the iteration before which all are periodic."""
        self.lib.answer_core(self.core, until)


# }}}


# {{{ distribution of groups over the cores of a device
#
# Groups start in order, each on the core that is free first.
#
# If groups do unequal work, the launch ends with the core that finishes last. The distribution is list scheduling:
# independent jobs in a fixed order, each assigned to the least loaded machine. The sorted loads never decrease when a
# job is added anywhere in the order, or when a job grows (by induction: the least load gets a job, and sorting
# preserves componentwise order). So an increasing function of the loads never decreases when work is added.
#
# R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.


ALIKE = 1e-12
"""relative difference below which loads are equal"""


@dataclass(slots=True)
class MachineGroup:
    """Machines with the same load."""

    load: float
    machines: int


@dataclass(slots=True)
class Machines:
    """Machines for list scheduling: each job goes to the least loaded one."""

    number: int
    levels: list[MachineGroup] = field(init=False)
    """groups of machines in ascending order of their loads"""

    def __post_init__(self) -> None:
        self.levels = [MachineGroup(0.0, self.number)]

    @property
    def most(self) -> float:
        """Return the largest load of a machine."""
        return self.levels[-1].load

    def deal(self, load: float, jobs: int) -> float:
        """Assign *jobs* jobs of *load* each; return when the last one starts.

        Jobs of load 0 change nothing.
        """
        begin = self.levels[0].load
        while jobs and load > 0:
            if jobs < self.levels[0].machines:
                return self._to_some(load, jobs)
            begin, jobs = self._in_turn(load, jobs)
        return begin

    def _to_some(self, load: float, jobs: int) -> float:
        """Assign *jobs* to some of the machines with the least load."""
        least = self.levels.pop(0)
        self._insert(MachineGroup(least.load, least.machines - jobs))
        self._insert(MachineGroup(least.load + load, jobs))
        return least.load

    def _in_turn(self, load: float, jobs: int) -> tuple[float, int]:
        """Assign jobs to the machines that take turns for several rounds; return the last start and the jobs left."""
        low = self.levels[0].load
        together, machines = 0, 0
        for level in self.levels:
            if level.load >= low + load or machines + level.machines > jobs:
                break
            together, machines = together + 1, machines + level.machines
        high = self.levels[together - 1].load
        above = self.levels[together].load if together < len(self.levels) else inf
        rounds = jobs // machines
        if above < inf:
            rounds = min(rounds, max(1, ceil((above - high) / load * (1 - ALIKE))))
        if rounds > 1 and above < low + load:  # the next jobs would go to the machines above
            rounds = 1
        begin = high + (rounds - 1) * load
        turned, self.levels = self.levels[:together], self.levels[together:]
        for level in turned:
            self._insert(MachineGroup(level.load + rounds * load, level.machines))
        return begin, jobs - rounds * machines

    def _insert(self, level: MachineGroup) -> None:
        at = bisect_left(self.levels, level.load * (1 - ALIKE), key=lambda each: each.load)
        if at < len(self.levels) and self.levels[at].load <= level.load * (1 + ALIKE):
            self.levels[at].machines += level.machines
        else:
            self.levels.insert(at, level)


# }}}


# {{{ batches


MakeUp = Mapping[int, float]
"""program -> number of warps of a group that execute it"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive groups with equal work."""

    groups: int
    """number of groups"""
    light: int
    """index of the light make-up"""
    mean: int
    """index of the mean make-up; the same if the warps of each class do equal work"""
    share: float
    """position of the groups on the line between both"""
    longest: float
    """position of the longest warp in a group"""

    def value(self, values: Sequence[float]) -> float:
        """Return the value of a group, given the *values* of all make-ups."""
        return self._between(values, self.share)

    def most(self, values: Sequence[float]) -> float:
        """Return the value of the longest warp in a group, given the *values* of all make-ups."""
        return self._between(values, self.longest)

    def _between(self, values: Sequence[float], share: float) -> float:
        low, high = values[self.light], values[self.mean]
        return max(0.0, low + share * (high - low))

    def mixed(self, make_ups: Sequence[MakeUp]) -> MakeUp:
        """Return the make-up of a group; it has negative numbers if the group does less than the light make-up."""
        found: dict[int, float] = {}
        for make_up, share in ((self.light, 1 - self.share), (self.mean, self.share)):
            for program, number in make_ups[make_up].items() if share else ():
                found[program] = found.get(program, 0.0) + share * number
        return found


@dataclass(frozen=True)
class Batches:
    """The groups of a launch in the order in which they start."""

    make_ups: tuple[MakeUp, ...]
    """make-ups of groups"""
    orders: tuple[tuple[float, tuple[Batch, ...]], ...]
    """(executions of the launch with this order, its batches)"""

    @classmethod
    def of(cls, launch: LaunchProfile, light: Mapping[int, Light]) -> "Batches":
        """Return the groups of *launch*; *light* maps warp classes with unequal work to their light programs."""
        make_ups: list[MakeUp] = []
        ends: list[tuple[int, int, float]] = []
        for composition in launch.dispatch.classes:
            mean = {kind: float(number) for kind, number in composition}
            lighter = [(light[kind], number) for kind, number in composition if kind in light]
            make_ups.append(mean)
            first = len(make_ups) - 1
            if lighter:
                rest = {kind: number for kind, number in mean.items() if kind not in light}
                make_ups.append({**rest, **{each.program: float(number) for each, number in lighter}})
            part = sum(each.part * number for each, number in lighter) / max(1, sum(number for _, number in lighter))
            ends.append((len(make_ups) - 1, first, part))
        executions = launch.dispatch.executions
        return cls(
            tuple(make_ups),
            tuple(
                (times, tuple(_batch(run.number, ends[run.group], run.work, run.longest) for run in order))
                for times, order in executions
            ),
        )

    @property
    def executions(self) -> float:
        """Return the number of executions of the launch."""
        return sum(times for times, _ in self.orders)

    @property
    def every(self) -> Iterator[tuple[float, Batch]]:
        """Yield (number of executions, batch) for all orders."""
        yield from ((times, batch) for times, order in self.orders for batch in order)

    def total(self, values: Sequence[float]) -> float:
        """Return the sum over all groups of all executions, given the *values* of all make-ups."""
        return sum(times * batch.groups * batch.value(values) for times, batch in self.every)

    def most(self, values: Sequence[float], cores: int) -> float:
        """Return the largest load of one of the *cores*, given the *values* of all make-ups.

        The result is the mean over all executions.
        """
        found = 0.0
        for times, order in self.orders:
            machines = Machines(cores)
            for batch in order:
                machines.deal(batch.value(values), batch.groups)
            found += times * machines.most
        return found / self.executions


def _batch(groups: int, ends: tuple[int, int, float], work: float, longest: float) -> Batch:
    """Return a batch; *ends* is (light make-up, mean make-up, work of the light one relative to the mean)."""
    light, mean, part = ends
    if light == mean:
        return Batch(groups, mean, mean, 1.0, 1.0)
    return Batch(groups, light, mean, (work - part) / (1 - part), (longest - part) / (1 - part))


# }}}
