"""A core that is run: its state, in Python's lists first and in arrays for machine code where the run is long."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from loopyperf.errors import SimulationError
from loopyperf.pipeline.clock import LAST
from loopyperf.pipeline.flat import COLUMNS, CURRENT, FINISH, SCHEDULED, TRACED, Cells, Program, State
from loopyperf.pipeline.in_order import issue_in_order
from loopyperf.pipeline.machine_code import machine_code

SHORT = 20_000
"""issues in Python before machine code takes over: about as long as numba takes to load"""
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
    trace: np.ndarray[Any, np.dtype[np.int64]]
    """a row for each issue, in the order of issue: the columns of :mod:`loopyperf.pipeline.flat`"""


def run(program: Program, chunk: int = SHORT) -> Run:
    """Return what a core does with *program*, in Python for the first *chunk* issues."""
    state, loop = _begun(program, chunk), issue_in_order
    issued, traces = 0, [np.empty((0, COLUMNS), dtype=np.int64)]
    while True:
        number = loop(program, state, chunk)
        issued += number
        if program.is_traced:
            traces.append(np.array(state.trace[: number * COLUMNS], dtype=np.int64).reshape(number, COLUMNS))
            state.registers[TRACED] = 0
        if state.registers[FINISH] > LAST or max(state.free, default=0) > LAST:
            raise SimulationError("the run is longer than its graph says, and its times no longer fit into 62 bits")
        if number < chunk:
            free = tuple(int(each) for each in state.busy)
            return Run(int(state.registers[FINISH]), issued, free, np.concatenate(traces))
        if loop is issue_in_order and (compiled := machine_code()) is not None:
            loop, chunk = compiled, CHUNK
            program = Program(*(_as_array(each) for each in program))
            state = State(*(_as_array(each) for each in state))
            state = state._replace(trace=np.zeros(chunk * COLUMNS * program.is_traced, dtype=np.int64))


def _as_array(each: Any) -> Any:
    return np.array(each, dtype=np.int64) if isinstance(each, list) else each


def _begun(p: Program, chunk: int) -> State:
    """Return the core at time 0, when the first groups are about to begin."""
    slots, warps = p.warps // p.warps_per_group, p.warps
    registers = _zeros(8)
    registers[CURRENT], registers[SCHEDULED] = -1, slots
    return State(
        registers=registers,
        free=_zeros(p.subsystems),
        busy=_zeros(p.subsystems),
        number=_zeros(warps),
        step=_zeros(warps),
        passes=_zeros(warps * p.deepest),
        trips=_zeros(warps * p.deepest),
        stamp=_zeros(warps),
        rank=_zeros(warps),
        ready=_zeros(warps),
        since=_zeros(warps),
        reason=_zeros(warps),
        culprit=_zeros(warps),
        queue=[-1] * warps,
        is_held=_zeros(warps),
        heap=_zeros(2 * p.subsystems * warps),
        sizes=_zeros(2 * p.subsystems),
        at=_zeros(warps),
        result_time=_zeros(warps * p.results),
        result_passes=_zeros(warps * p.results * p.deepest),
        newest=_zeros(warps * p.places),
        unfinished=_zeros(slots),
        held=_zeros(slots),
        release=_zeros(slots),
        ends=_zeros(slots),
        starts=_zeros(slots),
        start_heap=list(range(slots)),
        start_size=[slots],
        start_at=list(range(slots)),
        stack=_zeros(
            1 + max((end - begin for begin, end in zip(p.code_begins, p.code_begins[1:], strict=False)), default=0)
        ),
        wanted=_zeros(p.deepest),
        trace=_zeros(chunk * COLUMNS * p.is_traced),
    )


def _zeros(number: int) -> Cells:
    return [0] * number
