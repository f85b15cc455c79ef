"""A core that is run: the compiled one (``core.c``), or the one in Python where that could not be compiled."""

import warnings
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import GraphError, SimulationError, SlowSimulatorWarning
from loopyperf.pipeline.alike import Surroundings
from loopyperf.pipeline.clock import Clock
from loopyperf.pipeline.encoding import Limits, Tables, encoded
from loopyperf.pipeline.python_core import PythonCore
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.steady_state import ASKS, DONE, SKIPPED, TOO_LONG

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
class Run:
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
) -> Run:
    """Return what a core does with *scenario*, in ticks of *clock*.

    What repeats is done once, unless no steady state is sought. Where nothing repeats, the core goes on at the mean
    rate of issues once this has settled to within the share *tolerance*, unless that is 0; after 100,000 issues,
    the tolerance grows with their number. Raises :class:`NoSteadyStateError` where it is not done within *limit*
    issues, and :class:`SimulationError` for a run whose times do not fit, since the graph told less than it executes.
    """
    tables, given = encoded(scenario, clock), Limits.of(scenario, clock)
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
            core.answer(_alike_until(tables, done))
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
            return Run(done.finish, done.issued, busy, trace, tuple(repeats), *left_out)


def _alike_until(tables: Tables, asked: Any) -> int:
    """Return the pass before which all are alike, from the first one on that a core asks about."""
    number = int(tables.steps["loop"][asked.asked_loop])
    shape, loops = tables.loops[number]
    alike = shape.alike_passes(loops)
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


def new_core(given: Limits, tables: Tables, skips: bool, tolerance: float) -> "CompiledCore | PythonCore":
    """Return a core about to begin; one in Python, with a warning, where there is no compiled one."""
    module = compiled()
    return (PythonCore if module is None else partial(CompiledCore, module))(given, tables, skips, tolerance)


@cache
def compiled() -> Any:
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

    def __init__(self, module: Any, given: Limits, tables: Tables, skips: bool, tolerance: float) -> None:
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
