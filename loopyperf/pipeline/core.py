"""A core that is run: its state, in Python's lists first and in arrays once machine code takes over."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import SimulationError
from loopyperf.pipeline.clock import LAST, Clock
from loopyperf.pipeline.encoding import encoded
from loopyperf.pipeline.in_order import issue_in_order
from loopyperf.pipeline.machine_code import in_python, machine_code
from loopyperf.pipeline.memory import BUSY, COLUMNS, FINISH, FREE, IS_WATCHED, PAUSED, SUBSYSTEMS, TRACE, TRACED, VALVE
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.steady_state import SteadyState

SOON = 2_000
"""issues before states are compared, in machine code from the start: about as long as to compare two"""
CHUNK = 500_000
"""issues in machine code at a time, so that a run can be interrupted"""


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


def run(
    scenario: Scenario,
    clock: Clock,
    is_traced: bool = False,
    most_in_python: int | None = None,
    is_steady_sought: bool = True,
) -> Run:
    """Return what a core does with *scenario*, in ticks of *clock*.

    The first issues are made in Python: *most_in_python*, or if it is None what the process has left to make there.
    What repeats after them is done once, unless it is traced or no steady state is sought. Raises
    :class:`SimulationError` for a run whose times do not fit, since the graph told less than it executes.
    """
    chunk = in_python.left if most_in_python is None else most_in_python
    loop = issue_in_order
    if chunk == 0:
        loop, chunk = machine_code(), SOON
    memory: Any = encoded(scenario, clock, chunk * is_traced)
    if loop is not issue_in_order:
        memory = np.array(memory, dtype=np.int64)
    issued, traces, steady = 0, [np.empty((0, COLUMNS), dtype=np.int64)], SteadyState(scenario)
    while True:
        number = loop(memory, chunk)
        in_python.made += number if loop is issue_in_order else 0
        issued += number
        if is_traced:
            traces.append(_rows(memory, number))
        if max(memory[FINISH], memory[VALVE], *memory[memory[FREE] : memory[FREE] + memory[SUBSYSTEMS]]) > LAST:
            raise SimulationError("the run is longer than its graph says, and its times no longer fit into 62 bits")
        if memory[PAUSED]:
            if (skipped := steady.skipped(memory, issued)) is not None:
                memory, issued = skipped
            memory[PAUSED] = 0
        elif number < chunk:
            busy = tuple(int(each) for each in memory[memory[BUSY] : memory[BUSY] + memory[SUBSYSTEMS]])
            return Run(int(memory[FINISH]), issued, busy, np.concatenate(traces))
        elif chunk < CHUNK:
            loop, chunk = machine_code(), CHUNK
            memory = np.array([*memory[: memory[TRACE]], *[0] * (chunk * COLUMNS * is_traced)], dtype=np.int64)
        else:
            steady.goes_on(number)
        memory[IS_WATCHED] = int(is_steady_sought and not is_traced and steady.is_looked_for)


def _rows(memory: Any, number: int) -> NDArray[np.int64]:
    """Take the rows of the trace out of *memory*."""
    begin = memory[TRACE]
    memory[TRACED] = 0
    return np.array(memory[begin : begin + number * COLUMNS], dtype=np.int64).reshape(number, COLUMNS)
