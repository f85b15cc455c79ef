"""The pipeline model: the run time of a core by simulation.

Inputs are a graph, latencies, an execution configuration, a scheduler and an issue limit; the output is cycles
(Cornelis, section III.D; Lemeire, section 3.2; the rules are those of docs/errata.md):

- An instruction issues at the earliest time at which its predecessors are complete, its subsystem is free (λ after the
  last issue there), and the issue limit allows it (issues are 1/IL apart). Time is continuous and exact.
- It is complete Λ after issue, a store λ after issue. A warp issues in program order.
- A barrier releases a group Λ after its last warp has issued it.
- A waiting group replaces a complete one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.device.lambdas import Cycles
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Policy
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import Timing
from loopyperf.pipeline.encoding import CoreOptions, Tables, encoded
from loopyperf.pipeline.scenario import SCHEDULERS, Clock, Scenario, Scheduler, scheduler_named
from loopyperf.pipeline.shape import Surroundings

# {{{ runs of the simulator core, ``core.c``, and their traces


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
            shifts = tables.shifts[trace[:, WARP] % len(tables.shifts)]
            for column in (PLACE, SOURCE):
                trace[:, column] += np.where(trace[:, column] < 0, 0, shifts)
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


# }}}


MOST_ISSUES = 100_000_000
"""default limit on the simulated instructions of a single warp: some seconds"""
MOST_TRACED_ISSUES = 3_000_000
"""the same with a trace, which takes some hundred bytes per instruction"""


@dataclass(frozen=True)
class Simulation:
    """Result of a simulation."""

    scenario: Scenario
    """simulated scenario"""
    exact_cycles: Fraction
    """cycles until everything is complete"""
    instructions: int
    """instructions issued by all warps"""
    tolerance: float = 0.0
    """relative uncertainty of an extrapolated rate of issues; 0 if the result is exact"""

    @property
    def cycles(self) -> float:
        """Return the cycles until everything is complete."""
        return float(self.exact_cycles)


def simulate(
    graph: Idg | Sequence[Idg],
    timing: Timing,
    execution: Execution,
    *,
    scheduler: str | Scheduler = Policy.ROUND_ROBIN,
    issue_limit: Cycles | None = None,
) -> Simulation:
    """Return the simulation of a core that executes *graph* in all warps of *execution*.

    Several graphs are those of the warps of one or more groups, in order; later groups repeat them. *timing* has the
    latencies in cycles, by subsystem or as a function of the instruction. *scheduler* is a policy or its name
    (:data:`loopyperf.pipeline.scenario.SCHEDULERS`). *issue_limit* is the maximum number of issues per cycle; None for
    no limit. Loops are simulated without unrolling.

    Raises :class:`GraphError` if a latency is missing or not above 0, and :class:`SimulationError` for other invalid
    arguments.
    """
    return simulated(Scenario.of(graph, timing, execution, scheduler_named(scheduler), issue_limit))


def warp_latency(graph: Idg, timing: Timing, limit: int = MOST_ISSUES) -> Fraction:
    """Return Λapp, the exact number of cycles that one warp takes alone, for any number of iterations.

        Λapp = Σ(i in I) Λi + Σ(j in J) λj                                          (Lemeire, equation 2)

    I are the instructions on the critical path whose result is waited for; J are those after which only their pipeline
    is. *timing* has the latencies in cycles by subsystem, or those of the instructions in order. An instruction under a
    condition on data executes whenever control reaches it. Raises :class:`GraphError` if a latency is missing, or if a
    loop reaches no steady state within *limit* instructions.
    """
    scenario = alone(graph, timing)
    return scenario.clock.cycles(run(scenario, scenario.clock, limit=limit).finish)


def alone(graph: Idg, timing: Timing) -> Scenario:
    """Return the scenario of a single warp on its core."""
    return Scenario.of(graph, timing, Execution(1, 1, 1), SCHEDULERS[Policy.ROUND_ROBIN])


def simulated(scenario: Scenario, tolerance: float = 0.0, limit: int | None = None) -> Simulation:
    """Return the simulation of *scenario*: exact, or extrapolated at a settled rate if *tolerance* is above 0.

    See :func:`loopyperf.pipeline.simulator.run`. Raises :class:`GraphError` for a latency that is not above 0.
    """
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        for instruction, each in zip(program.graph.instructions, latencies, strict=True):
            if not (each.issue > 0 and each.completion > 0):
                raise GraphError(
                    f"latencies of {instruction.kind!r} on {instruction.subsystem!r} must be above 0 cycles, "
                    f"got λ = {each.issue}, Λ = {each.completion}"
                )
    done = run(scenario, scenario.clock, tolerance=tolerance, limit=limit)
    return Simulation(scenario, scenario.clock.cycles(done.finish), done.issued, done.tolerance)


def executed(scenario: Scenario, is_traced: bool) -> CoreRun:
    """Return the run of a core with *scenario*, in ticks of its clock."""
    return run(scenario, scenario.clock, is_traced=is_traced, is_steady_sought=not is_traced)


# {{{ start, milestones and finish of each group of a core (Dao, section 4, figures 5 to 8)


Share = Fraction | float


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The times of a group, in cycles."""

    group: int
    """number of the group, from 0"""
    start: Fraction
    """issue of its first instruction"""
    milestones: tuple[Fraction, ...]
    """times at which it had issued each of the requested shares of its instructions"""
    finish: Fraction
    """completion of everything that it issued"""


def group_times(simulation: Simulation, shares: Sequence[Share] = ()) -> tuple[GroupTimes, ...]:
    """Return when each group started, when it had issued each of *shares* of its instructions, and when it finished.

    The core of *simulation* is run again with a trace. Groups without instructions are omitted. Raises
    :class:`SimulationError` for a share outside (0, 1].
    """
    wrong = [share for share in shares if not 0 < share <= 1]
    if wrong:
        raise SimulationError(f"shares must be above 0 and at most 1, got {wrong[0]}")
    scenario = simulation.scenario
    trace = executed(scenario, is_traced=True).trace
    latencies = [each for found in scenario.latencies for each in found]
    completions = np.array([scenario.clock.ticks(latency.completion) for latency in latencies], dtype=np.int64)
    complete = trace[:, TIME] + completions[trace[:, PLACE]]
    group = trace[:, WARP] // scenario.execution.warps_per_group
    members = ((int(number), group == number) for number in np.unique(group))
    return tuple(_times(number, trace[own, TIME], complete[own], scenario.clock, shares) for number, own in members)


def _times(number: int, issued: Ticks, complete: Ticks, clock: Clock, shares: Sequence[Share]) -> GroupTimes:
    reached = (int(issued[ceil(share * len(issued)) - 1]) for share in shares)
    milestones = tuple(clock.cycles(ticks) for ticks in reached)
    return GroupTimes(number, clock.cycles(int(issued[0])), milestones, clock.cycles(int(complete.max())))


# }}}
