"""A core that comes back to what it was: what it did since then stands for what it will do, and is not done again.

At the begin of each pass of an outermost loop, and of each group, of the first warp on the core, its state is compared
with one that was kept: all that decides how it goes on, in ticks from now. Where the two are equal but for the number
of the pass, or of the group, everything repeats, for as long as the passes are alike
(:class:`loopyperf.idg.metrics.alike.AlikePasses`), or groups are left. Times are whole ticks, so equal means equal, and
the cycles are exactly those of the run in full. The state that is kept is a new one after 1, 2, 4, 8, ... comparisons
(Brent's cycle detection), so that a period of any length is found; an aperiodic run takes twice as long at most.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.idg.metrics.alike import AlikePasses, Surroundings
from loopyperf.idg.program import Loop
from loopyperf.pipeline import memory as at
from loopyperf.pipeline.scenario import Scenario

Cells = NDArray[np.int64]

OF_PASS, OF_GROUP = 1, 2
"""why the run pauses"""
PATIENCE = 500
"""comparisons at a time, a tenth of a second"""
WITHOUT = 1_000_000
"""issues without comparisons after the first ones, a tenth of a second in machine code; after the next ones twice as
many, and so on: so a run in which nothing repeats takes little longer"""


@dataclass
class _Kept:
    """A state that others are compared with."""

    signature: bytes = b""
    cells: Cells = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    issued: int = 0
    compared: int = 0
    until: int = 1
    """comparisons after which another one is kept"""


class SteadyState:
    """What is known of the states of a core."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin without any."""
        self.scenario = scenario
        self._kept = {OF_PASS: _Kept(), OF_GROUP: _Kept()}
        self._left = PATIENCE
        self._without, self._until = 0, WITHOUT

    @property
    def is_looked_for(self) -> bool:
        """Return whether states are to be compared, or rather the run to go on for a while."""
        return self._left > 0

    def goes_on(self, issued: int) -> None:
        """Note that so many were *issued*: after many without comparisons, states are compared again."""
        self._without += 0 if self.is_looked_for else issued
        if self._without >= self._until:
            self._left, self._without, self._until = PATIENCE, 0, 2 * self._until

    def skipped(self, memory: Any, issued: int) -> tuple[Any, int] | None:
        """Return the memory after all repetitions but the last, and what was issued by then; None if nothing repeats.

        *issued* is what was issued so far. The run is at a pause.
        """
        why = int(memory[at.PAUSED])
        self._left -= 1
        core = _Core(np.array(memory[: memory[at.TRACE]], dtype=np.int64), why == OF_PASS)
        kept = self._kept[why]
        signature = core.signature()
        if signature and signature == kept.signature:
            times = self._repetitions(core, _Core(kept.cells, why == OF_PASS))
            if times > 0:
                self._kept = {OF_PASS: _Kept(), OF_GROUP: _Kept()}
                return core.later(_Core(kept.cells, why == OF_PASS), times), issued + times * (issued - kept.issued)
        kept.compared += 1
        if kept.compared >= kept.until or not kept.signature:
            self._kept[why] = _Kept(signature, core.m, issued, 0, 2 * kept.until)
        return None

    def _repetitions(self, core: "_Core", before: "_Core") -> int:
        """Return for how many times what happened since *before* will surely happen again."""
        if not core.is_in_loop:
            groups = core.m[at.BEGUN] - before.m[at.BEGUN]
            return int((core.m[at.TOTAL_GROUPS] - core.m[at.BEGUN]) // groups) - 1
        if core.m[at.BEGUN] != before.m[at.BEGUN]:
            return 0
        _, alike = self._alike[core.outermost]
        span = core.first_pass - before.first_pass
        if span % alike.period:
            return 0
        end = alike.until(before.first_pass, core.trips, Surroundings((), before.oldest_pass))
        return (end - core.last_pass) // span - 1

    @cached_property
    def _alike(self) -> dict[int, tuple[Loop, AlikePasses]]:
        """Return for each step that enters an outermost loop the loop, and what tells its passes apart."""
        found: dict[int, tuple[Loop, AlikePasses]] = {}
        step = 0
        for graph in {id(graph): graph for graph in self.scenario.graphs}.values():
            for item in graph.body:
                if isinstance(item, Loop):
                    found[step] = item, AlikePasses(graph, item, ())
                step += _steps(item)
            step += 1
        return found


def _steps(item: int | Loop) -> int:
    """Return how many steps *item* is in a program."""
    return 2 + sum(map(_steps, item.body)) if isinstance(item, Loop) else 1


class _Core:
    """The memory of a core at a pause."""

    def __init__(self, m: Cells, is_in_loop: bool) -> None:
        self.m, self.is_in_loop = m, is_in_loop
        self.now = m[at.NOW]
        self.warps, self.deepest = int(m[at.WARPS]), int(m[at.DEEPEST])
        self.is_active = (self.table(at.QUEUE) >= 0) | (self.table(at.IS_HELD) > 0)

    def table(self, name: int, length: int | None = None) -> Cells:
        """Return a table with an entry for each warp, unless it has another *length*."""
        begin = int(self.m[name])
        return self.m[begin : begin + (self.warps if length is None else length)]

    def rows(self, name: int, width: int) -> Cells:
        """Return a table with a row of *width* for each warp."""
        return self.table(name, self.warps * width).reshape(self.warps, width)

    # {{{ passes

    @cached_property
    def passes(self) -> Cells:
        """Return the passes of the outermost loop that the active warps are in."""
        return self.rows(at.PASSES, self.deepest)[self.is_active, 0]

    @property
    def first_pass(self) -> int:
        return int(self.passes.min())

    @property
    def last_pass(self) -> int:
        return int(self.passes.max())

    @property
    def trips(self) -> int:
        return int(self.rows(at.TRIPS, self.deepest)[self.is_active, 0].min())

    @property
    def oldest_pass(self) -> int:
        """Return the first pass that is not over, or of which a result is still waited for."""
        time, passes = self.results
        return int(min([self.first_pass, *passes[time > 0, 0]]))

    @cached_property
    def loops(self) -> Cells:
        """Return for each step the one that enters the outermost loop around it, -1 where there is none."""
        found: list[int] = []
        level, around = 0, -1
        for step, kind in enumerate(self.m[self.m[at.STEPS] : self.m[at.ARGUMENTS]]):
            if kind == at.ENTER:
                around, level = (step if level == 0 else around), level + 1
            found.append(around)
            if kind == at.REPEAT:
                level -= 1
                around = around if level else -1
        return np.array(found, dtype=np.int64)

    @property
    def outermost(self) -> int:
        """Return the step that enters the loop that all warps are in; -1 if they are not all in the same one."""
        found = np.unique(self.loops[self.table(at.STEP)[self.is_active]])
        return int(found[0]) if len(found) == 1 else -1

    # }}}

    @cached_property
    def results(self) -> tuple[Cells, Cells]:
        """Return when results are complete, from now on, and of which passes; the latest of an instruction first."""
        number, places = int(self.m[at.RESULTS]), int(self.m[at.PLACES])
        begins = self.table(at.RING_BEGINS, places + 1)
        place = np.repeat(np.arange(places), np.diff(begins))
        begin, size = begins[place], np.diff(begins)[place]
        newest = self.rows(at.NEWEST, places)[:, place]
        rotated = begin + (newest - (np.arange(number) - begin)) % np.maximum(size, 1)
        flat = (rotated + number * np.arange(self.warps)[:, None]).ravel()
        time = np.maximum(self.table(at.RESULT_TIME, self.warps * number)[flat] - self.now, 0)
        passes = self.table(at.RESULT_PASSES, self.warps * number * self.deepest)
        return time, passes.reshape(-1, self.deepest)[flat]

    def signature(self) -> bytes:
        """Return what decides how the core goes on; nothing where that cannot be told."""
        if self.is_in_loop and (self.outermost < 0 or not self._are_results_of_loop()):
            return b""
        m, now, active = self.m, self.now, self.is_active
        slots, subsystems = self.warps // int(m[at.WARPS_PER_GROUP]), int(m[at.SUBSYSTEMS])
        first = m[at.BEGUN] * m[at.WARPS_PER_GROUP]
        base = self.first_pass if self.is_in_loop else 0
        time, result_passes = self.results
        passes = np.where(active[:, None], self.rows(at.PASSES, self.deepest), 0)
        late = np.where((time > 0)[:, None], result_passes, 0)
        moved = np.array([base] + [0] * (self.deepest - 1))
        parts = [
            np.maximum([m[at.VALVE] - now], 0),
            [min(now - m[at.SLICE], m[at.GOES_ON]), m[at.CURRENT], first % m[at.NUMBER_OF_KINDS]],
            np.maximum(self.table(at.FREE, subsystems) - now, 0),
            np.where(active, self.table(at.STEP), -1),
            passes - np.where(active[:, None], moved, 0),
            np.where(active[:, None], self.rows(at.TRIPS, self.deepest), 0),
            np.where(active, self.table(at.STAMP) - m[at.COUNTER], 0),
            np.where(active, self.table(at.NUMBER) - first, 0),
            np.where(self.table(at.QUEUE) >= 0, np.maximum(self.table(at.READY) - now, 0), -1),
            self.table(at.IS_HELD),
            time,
            late - np.where((time > 0)[:, None], moved, 0),
            *(self.table(name, slots) for name in (at.UNFINISHED, at.HELD, at.RELEASE)),
            *(np.maximum(self.table(name, slots) - now, 0) for name in (at.ENDS, at.VACANT)),
        ]
        return b"".join(np.ascontiguousarray(part, dtype=np.int64).tobytes() for part in parts)

    def _are_results_of_loop(self) -> bool:
        """Return whether all results that may still be waited for are of the loop that the warps are in."""
        begins = self.table(at.RING_BEGINS, int(self.m[at.PLACES]) + 1)
        place = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        late = np.unique(np.tile(place, self.warps)[self.results[0] > 0])
        steps, arguments = (self.m[self.m[name] :][: len(self.loops)] for name in (at.STEPS, at.ARGUMENTS))
        inside = arguments[(steps == at.INSTRUCTION) & (self.loops == self.outermost)]
        return bool(np.isin(late, inside).all())

    def later(self, before: "_Core", times: int) -> Cells:
        """Return the memory after what happened since *before* has happened so many *times* more."""
        later = _Core(self.m.copy(), self.is_in_loop)
        m, gone = later.m, (self.now - before.now) * times
        slots, subsystems = self.warps // int(m[at.WARPS_PER_GROUP]), int(m[at.SUBSYSTEMS])
        for name in (at.VALVE, at.SLICE, at.NOW):
            m[name] += gone
        for name in (at.READY, at.SINCE):
            later.table(name)[:] += gone
        for name, length in ((at.FREE, subsystems), (at.ENDS, slots), (at.VACANT, slots)):
            later.table(name, length)[:] += gone
        later.table(at.RESULT_TIME, self.warps * int(m[at.RESULTS]))[:] += gone
        busy = self.table(at.BUSY, subsystems) - before.table(at.BUSY, subsystems)
        later.table(at.BUSY, subsystems)[:] += times * busy
        if self.is_in_loop:
            passes = times * (self.first_pass - before.first_pass)
            m[m[at.PASSES] : m[at.PASSES] + self.warps * self.deepest : self.deepest] += passes
            length = self.warps * int(m[at.RESULTS]) * self.deepest
            m[m[at.RESULT_PASSES] : m[at.RESULT_PASSES] + length : self.deepest] += passes
        else:
            groups = times * (m[at.BEGUN] - before.m[at.BEGUN])
            m[at.BEGUN] += groups
            for name, share in ((at.NUMBER, 1), (at.RANK, m[at.BY_AGE])):
                later.table(name)[:] += share * groups * m[at.WARPS_PER_GROUP]
        return m
