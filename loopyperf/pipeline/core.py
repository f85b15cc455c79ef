"""A core that is run: its state in Python's lists first, in arrays once machine code (by numba) takes over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import GraphError, SimulationError
from loopyperf.pipeline import expressions, in_order, memory, warp_steps
from loopyperf.pipeline.encoding import encoded
from loopyperf.pipeline.in_order import issue_in_order
from loopyperf.pipeline.memory import (
    BUSY,
    COLUMNS,
    CURRENT,
    FINISH,
    FREE,
    IS_TRACED,
    LAST,
    PAUSED,
    SUBSYSTEMS,
    TRACE,
    TRACED,
    VALVE,
    WATCHED,
    Clock,
)
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.steady_state import SteadyState

# {{{ the hot loop as machine code, by numba
#
# A process with few and short runs never pays for it: numba takes half a second to load, so the loop runs in Python
# until that has taken as long. The machine code is kept in numba's cache, under a name that changes with the source.


FUNCTIONS = (
    memory.is_before,
    memory.first_in,
    memory.is_empty,
    memory.push,
    memory.remove,
    expressions.applied,
    expressions.evaluate,
    warp_steps.value,
    warp_steps.has_passes,
    warp_steps.remember,
    warp_steps.latest,
    warp_steps.completion_of,
    warp_steps.wait_for_results,
    warp_steps.to_next,
    in_order.stamped,
    in_order.record,
    in_order.advance,
    in_order.settle,
    in_order.begin_group,
    in_order.issue,
    in_order.line_up,
    in_order.first_in_rank,
    in_order.longest_waiting,
    in_order.chosen,
    in_order.next_issue,
    in_order.vacancy,
    in_order.issue_in_order,
)
"""each after those that it calls"""

Loop = Callable[[Any, int], int]


@cache
def machine_code() -> Loop:
    """Return :func:`loopyperf.pipeline.in_order.issue_in_order` for an array, as machine code.

    It is given the bare pointer: with an array each access would ask whether it counts from the end, and each call
    would count a reference.
    """
    numba: Any = import_module("numba")
    digest = _digest()
    compiled: dict[str, Any] = {}
    for function in FUNCTIONS[:-1]:
        compiled[function.__name__] = numba.njit(_copy(function, compiled, digest), cache=True)
    entry = numba.cfunc("int64(CPointer(int64), int64)", cache=True)(_copy(FUNCTIONS[-1], compiled, digest)).ctypes
    return lambda memory, limit: entry(memory.ctypes.data_as(entry.argtypes[0]), limit)


def _copy(function: Callable[..., Any], compiled: Mapping[str, Any], digest: str) -> FunctionType:
    """Return *function* under a name of its own, which calls what is *compiled*."""
    names = {**function.__globals__, **compiled}
    copy = FunctionType(cast("FunctionType", function).__code__, names, f"{function.__name__}_{digest}")
    copy.__qualname__, copy.__module__ = copy.__name__, function.__module__
    return copy


@dataclass
class InPython:
    """The issues that a process makes in Python."""

    most: int = 20_000
    """before it loads machine code: they take about as long as that"""
    made: int = 0

    @property
    def left(self) -> int:
        """How many are still to be made in Python, 0 where machine code is there already."""
        is_loaded = machine_code.cache_info().currsize > 0
        return 0 if is_loaded else max(self.most - self.made, 0)


in_python = InPython()
"""of this process, in all its runs"""


def _digest() -> str:
    """Return what changes with the source of the functions: numba's cache looks at the file of each alone."""
    files = sorted({function.__code__.co_filename for function in FUNCTIONS})
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:12]


# }}}


# {{{ core


AT_ONCE, UNTRACED = 2_000, 50_000
"""issues at a time, and in machine code without a trace, so that a run can be interrupted, and another warp watched"""


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
    """a row for each issue, in the order of issue: the columns of :mod:`loopyperf.pipeline.memory`"""
    repeats: tuple[Repeat, ...] = ()
    """what of the trace happened again and has no rows, each after those that it contains"""


def run(
    scenario: Scenario,
    clock: Clock,
    *,
    is_traced: bool = False,
    is_steady_sought: bool = True,
    most_in_python: int | None = None,
    limit: int | None = None,
) -> Run:
    """Return what a core does with *scenario*, in ticks of *clock*.

    The first issues are made in Python: *most_in_python*, or if it is None what the process has left to make there.
    What repeats is done once, unless no steady state is sought. Raises :class:`GraphError` where none is found within
    *limit* issues, and :class:`SimulationError` for a run whose times do not fit, since the graph told less than it
    executes.
    """
    most = AT_ONCE if is_traced else UNTRACED
    left = in_python.left if most_in_python is None else most_in_python
    loop = issue_in_order if left else machine_code()
    memory: Any = encoded(scenario, clock)
    memory[IS_TRACED], memory[WATCHED] = int(is_traced), int(is_steady_sought)
    memory = memory + [0] * (AT_ONCE * COLUMNS * is_traced) if left else _in_array(memory)
    steady, issued, made = SteadyState(scenario), 0, 0
    traces, repeats = [np.empty((0, COLUMNS), dtype=np.int64)], list[Repeat]()
    while True:
        chunk = min(left, AT_ONCE) or most
        number = loop(memory, chunk)
        issued, made = issued + number, made + number
        if is_traced:
            traces.append(_rows(memory, number))
        _check(memory, made, limit)
        if memory[PAUSED]:
            if (skipped := steady.skipped(memory, issued, made)) is not None:
                issued += skipped.times * skipped.issued
                repeats.append(Repeat(skipped.first, made, skipped.times))
            memory[PAUSED] = 0
        elif number < chunk:
            in_python.made += number if left else 0
            busy = tuple(int(each) for each in memory[memory[BUSY] : memory[BUSY] + memory[SUBSYSTEMS]])
            return Run(int(memory[FINISH]), issued, busy, np.concatenate(traces), tuple(repeats))
        else:
            steady.goes_on(number, int(memory[CURRENT]))
        if left:
            in_python.made += number
            left -= number
            if not left:
                loop, memory = machine_code(), _in_array(memory)
        memory[WATCHED] = steady.watched if is_steady_sought else 0


def _check(memory: Any, made: int, limit: int | None) -> None:
    if limit is not None and made > limit:
        raise GraphError(
            f"no steady state in {limit:,} executions: limit=... sets another number, at about 1 s per 30 million"
        )
    if max(memory[FINISH], memory[VALVE], *memory[memory[FREE] : memory[FREE] + memory[SUBSYSTEMS]]) > LAST:
        raise SimulationError("the run is longer than its graph says, and its times no longer fit into 62 bits")


def _in_array(memory: Any) -> NDArray[np.int64]:
    """Return *memory* for machine code, with room for its trace."""
    rows = np.zeros(AT_ONCE * COLUMNS * memory[IS_TRACED], dtype=np.int64)
    return np.concatenate([np.array(memory[: memory[TRACE]], dtype=np.int64), rows])


def _rows(memory: Any, number: int) -> NDArray[np.int64]:
    """Take the rows of the trace out of *memory*."""
    begin = memory[TRACE]
    memory[TRACED] = 0
    return np.array(memory[begin : begin + number * COLUMNS], dtype=np.int64).reshape(number, COLUMNS)


# }}}
