"""A core that is run: the compiled one (``core.c``), or the one in Python where that could not be compiled.

The groups of a launch as models deal them to cores: in batches of groups that do the same work, to equal cores.

The make-up of a group is the programs that its warps execute. Where the warps of a kind do unequal work, a group of
them lies on the line through two make-ups: the mean one, and a light one whose loops make a single pass. How far a
group is along that line is its share: 0 is the light make-up, 1 the mean one. What a group does grows linearly with the
passes of its loops, so that the line is exact for all sums over instructions.
"""

import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from math import ceil, inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import GraphError, SimulationError, SlowSimulatorWarning
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.pipeline.encoding import CoreOptions, Tables, encoded
from loopyperf.pipeline.python_core import PythonCore
from loopyperf.pipeline.scenario import Clock, Scenario
from loopyperf.pipeline.shape import Surroundings
from loopyperf.pipeline.steady_state import ASKS, DONE, SKIPPED, TOO_LONG
from loopyperf.pipeline.timed_graph import Light

COLUMNS = 9
WARP, PLACE, TIME, ABLE, REASON, RESULT, SOURCE, VACATED, OPENED = range(COLUMNS)
"""what is recorded of an issue: the warp, the instruction, when; from when on the warp was able to issue but for
results, and why then; when the last result that it waits for was complete, and of which instruction (-1 for none); from
when on the subsystem was free, and the issue limit allowed it"""
AT_ONCE = 20_000
"""rows of a trace"""
UNTRACED = 10_000_000
"""issues at a time without one, some tenths of a second, so that a run can be interrupted"""


class NoSteadyStateError(GraphError):
    """A run has more issues than it was to have."""


class Repeat(NamedTuple):
    """Rows of a trace that stand for more than one execution of them."""

    first: int
    end: int
    """the row after the last one"""
    times: int
    """how often they were executed again, one after the other"""


@dataclass(frozen=True, slots=True)
class CoreRun:
    """What a core did."""

    finish: int
    """when all is complete, in ticks"""
    issued: int
    busy: tuple[int, ...]
    """for how many ticks each subsystem was taken, by λ"""
    trace: NDArray[np.int64]
    """a row for each issue, in the order of issue"""
    repeats: tuple[Repeat, ...] = ()
    """what of the trace happened again and has no rows, each after those that it contains"""
    made: int = 0
    """issues that were simulated; the others repeat them"""
    settled: int = 0
    """ticks that were not simulated, since the rate of issues had settled"""
    tolerance: float = 0.0
    """to within which share of it that is known: twice the standard error"""


def run(
    scenario: Scenario,
    clock: Clock,
    *,
    is_traced: bool = False,
    is_steady_sought: bool = True,
    limit: int | None = None,
    tolerance: float = 0.0,
) -> CoreRun:
    """Return what a core does with *scenario*, in ticks of *clock*.

    What repeats is done once, unless no steady state is sought. Where nothing repeats, the core goes on at the mean
    rate of issues once this has settled to within the share *tolerance*, unless that is 0; after 100,000 issues,
    the tolerance grows with their number. Raises :class:`NoSteadyStateError` where it is not done within *limit*
    issues, and :class:`SimulationError` for a run whose times do not fit, since the graph told less than it executes.
    """
    tables, given = encoded(scenario, clock), CoreOptions.of(scenario, clock)
    core = new_core(given, tables, is_steady_sought, tolerance)
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
            raise SimulationError("the run is longer than its graph says, and its times no longer fit into 62 bits")
        if limit is not None and done.made > limit:
            raise NoSteadyStateError(
                f"no steady state in {limit:,} executions: limit=... sets another number, at about 1 s per 30 million"
            )
        if why == DONE:
            busy = tuple(done.busy[q] for q in range(given.subsystems))
            trace = np.concatenate(traces)
            left_out = done.made, done.settled, done.tolerance
            return CoreRun(done.finish, done.issued, busy, trace, tuple(repeats), *left_out)


def _periodic_until(tables: Tables, asked: Any) -> int:
    """Return the pass before which all are alike, from the first one on that a core asks about."""
    number = int(tables.steps["loop"][asked.asked_loop])
    shape, loops = tables.loops[number]
    alike = shape.periodic_iterations(loops)
    if asked.asked_span % alike.period:
        return asked.asked_first
    outer = tuple(asked.asked_outer[level] for level in range(len(loops) - 1))
    return alike.until(asked.asked_first, asked.asked_trips, Surroundings(outer, asked.asked_oldest))


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
"""tables -> what ``core.h`` has an array of"""


def new_core(given: CoreOptions, tables: Tables, skips: bool, tolerance: float) -> "CompiledCore | PythonCore":
    """Return a core about to begin; one in Python, with a warning, where there is no compiled one."""
    module = compiled_core()
    return (PythonCore if module is None else partial(CompiledCore, module))(given, tables, skips, tolerance)


@cache
def compiled_core() -> Any:
    """Return the module of the compiled core; None, with a warning, where its source was not compiled."""
    module, remedy = compiled_or_why_not()
    if module is None:
        warnings.warn(remedy, SlowSimulatorWarning, stacklevel=2)
    return module


def compiled_or_why_not() -> tuple[Any, str]:
    """Return the module of the compiled core; None and why, with what to do, where its source was not compiled."""
    try:
        module = import_module("loopyperf.pipeline._core")
    except ImportError as error:
        reason = str(error)
    else:
        if module.ffi.string(module.lib.DIGEST).decode() == _digest():
            return module, ""
        reason = "it was compiled from another source"
    return None, (
        f"the simulator of this installation is not compiled ({reason}), and some hundred times slower in Python: "
        "install a wheel, or install the source again with a C compiler"
    )


def _digest() -> str:
    sources = (Path(__file__).with_name(name) for name in ("core.h", "core.c"))
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


class CompiledCore:
    """A core in C."""

    def __init__(self, module: Any, given: CoreOptions, tables: Tables, skips: bool, tolerance: float) -> None:
        """Begin with a scenario; what the core points to is kept here."""
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

    def run(self, limit: int, rows: NDArray[np.int64] | None) -> int:
        """Issue up to *limit* instructions, and fill *rows*; return why it stopped."""
        pointer = self.ffi.NULL if rows is None else self.ffi.from_buffer("Row *", rows)
        return self.lib.run_core(self.core, limit, pointer)

    def answer(self, until: int) -> None:
        """Tell the pass before which all go on alike."""
        self.lib.answer_core(self.core, until)


# }}}


# {{{ groups dealt to the cores of a device
#
# In the order in which they start, each to the core that is free first.
#
# Where groups do unlike work, the launch ends with the core that ends last. Dealing is list scheduling: independent
# jobs in a fixed order, each to the least loaded machine. The sorted loads of the machines never fall when a job is
# added, anywhere in the order, or when a job grows (by induction: the least load gets a job, and sorting keeps what is
# componentwise no less). So a growing function of such loads never falls when work is added.
#
# R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.


ALIKE = 1e-12
"""relative difference of loads that are equal but for rounding"""


@dataclass(slots=True)
class MachineGroup:
    """Machines with the same load."""

    load: float
    machines: int


@dataclass(slots=True)
class Machines:
    """Machines that jobs are dealt to, each to the least loaded."""

    number: int
    levels: list[MachineGroup] = field(init=False)
    """in ascending order of their loads"""

    def __post_init__(self) -> None:
        self.levels = [MachineGroup(0.0, self.number)]

    @property
    def most(self) -> float:
        """Return the load of the machine with most load."""
        return self.levels[-1].load

    def deal(self, load: float, jobs: int) -> float:
        """Deal so many *jobs* that each take *load*; return when the last one begins.

        A job that takes nothing changes nothing.
        """
        begin = self.levels[0].load
        while jobs and load > 0:
            if jobs < self.levels[0].machines:
                return self._to_some(load, jobs)
            begin, jobs = self._in_turn(load, jobs)
        return begin

    def _to_some(self, load: float, jobs: int) -> float:
        """Deal *jobs* to some of the machines with the least load."""
        least = self.levels.pop(0)
        self._insert(MachineGroup(least.load, least.machines - jobs))
        self._insert(MachineGroup(least.load + load, jobs))
        return least.load

    def _in_turn(self, load: float, jobs: int) -> tuple[float, int]:
        """Deal to those machines in turn that get a second job after all of them got a first; return what is left."""
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
        if rounds > 1 and above < low + load:  # the machines above would be next
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
    """Groups that start one after the other, and do the same work."""

    groups: int
    """how many they are"""
    light: int
    """number of a make-up"""
    mean: int
    """number of a make-up; the same one where the warps of each kind do equal work"""
    share: float
    """of a group, along the line between them"""
    longest: float
    """the share of the warp with most work in a group"""

    def value(self, values: Sequence[float]) -> float:
        """Return the value for a group, given the *values* for all make-ups."""
        return self._between(values, self.share)

    def most(self, values: Sequence[float]) -> float:
        """Return the value for the longest warp of a group, given the *values* for all make-ups."""
        return self._between(values, self.longest)

    def _between(self, values: Sequence[float], share: float) -> float:
        low, high = values[self.light], values[self.mean]
        return max(0.0, low + share * (high - low))

    def mixed(self, make_ups: Sequence[MakeUp]) -> MakeUp:
        """Return what the warps of a group execute; what is less than the light make-up has negative numbers."""
        found: dict[int, float] = {}
        for make_up, share in ((self.light, 1 - self.share), (self.mean, self.share)):
            for program, number in make_ups[make_up].items() if share else ():
                found[program] = found.get(program, 0.0) + share * number
        return found


@dataclass(frozen=True)
class Batches:
    """The groups of a launch in the order in which they start."""

    make_ups: tuple[MakeUp, ...]
    """of groups, by number"""
    orders: tuple[tuple[float, tuple[Batch, ...]], ...]
    """(how many executions of the launch start their groups so, the batches)"""

    @classmethod
    def of(cls, launch: LaunchProfile, light: Mapping[int, Light]) -> "Batches":
        """Return the groups of *launch*; *light* are kinds of warps of unequal work -> their light programs."""
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
        """Yield the batches of all orders, and the number of executions that each stands for."""
        yield from ((times, batch) for times, order in self.orders for batch in order)

    def total(self, values: Sequence[float]) -> float:
        """Return the sum over all groups of all executions, given the *values* for all make-ups."""
        return sum(times * batch.groups * batch.value(values) for times, batch in self.every)

    def most(self, values: Sequence[float], cores: int) -> float:
        """Return the most that one of the *cores* has to do, given the *values* for all make-ups.

        It is the mean over all executions.
        """
        found = 0.0
        for times, order in self.orders:
            machines = Machines(cores)
            for batch in order:
                machines.deal(batch.value(values), batch.groups)
            found += times * machines.most
        return found / self.executions


def _batch(groups: int, ends: tuple[int, int, float], work: float, longest: float) -> Batch:
    """Return a batch; the light make-up does the *part* of the mean work that is last of *ends*."""
    light, mean, part = ends
    if light == mean:
        return Batch(groups, mean, mean, 1.0, 1.0)
    return Batch(groups, light, mean, (work - part) / (1 - part), (longest - part) / (1 - part))


# }}}
