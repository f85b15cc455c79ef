"""A core that comes back to what it was: what it did since then stands for what it will do, and is not done again.

At each iteration of each loop of one warp, and each start of the first group on the core, its state is compared with
one that was kept for that loop: all that decides how it goes on, in ticks from now. Where the two are equal, except
that each warp is some iterations further in one loop around it (or groups further), everything repeats, for as long as
these iterations are alike (:class:`loopyperf.pipeline.alike.AlikePasses`) or groups are left. Times are whole ticks,
so equal means equal, and the cycles are exactly those of the run in full. Inner loops are skipped in each iteration of
the loops around them, until these repeat as a whole.

The state that is kept is a new one after 1, 2, 4, 8, ... comparisons (Brent's cycle detection), so that a period of any
length is found; an aperiodic run takes twice as long at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop
from loopyperf.pipeline import memory as at
from loopyperf.pipeline.alike import AlikePasses, Surroundings
from loopyperf.pipeline.memory import NEVER
from loopyperf.pipeline.scenario import Scenario

Cells = NDArray[np.int64]

PATIENCE = 5_000
"""glances at states at a time, some hundredths of a second"""
COMPARED = 20
"""glances that take as long as to compare two states in full"""
IN_PYTHON, IN_MACHINE_CODE = 100, 2_000
"""issues that take about as long as to compare two states: these are not compared to skip fewer"""
WITHOUT = 1_000_000
"""issues without comparisons after the first ones, a tenth of a second in machine code; after the next ones twice as
many, and so on: so a run in which nothing repeats takes little longer"""


class _Place(NamedTuple):
    """Where a run pauses."""

    outer: tuple[int, ...]
    """the iterations of the loops around the loop that goes on, none for groups"""
    number: int
    """of the iteration, or of groups that have begun"""
    end: int
    """of the loop, or of all groups"""


@dataclass
class _Kept:
    """A state that others are compared with."""

    place: _Place
    glance: tuple[int, ...] = ()
    memory: Any = None
    issued: int = 0
    rows: int = 0
    compared: int = 0
    until: int = 1
    """comparisons after which another one is kept"""

    def worth(self, place: _Place, issued: int, least: int) -> int:
        """Return how many iterations or groups must be left for at least so many issues to be skipped."""
        return (place.number - self.place.number) * (2 + (least - 1) // max(1, issued - self.issued))

    @cached_property
    def core(self) -> "_Core":
        """Return the state."""
        return _Core(self.memory)


class Skipped(NamedTuple):
    """What happened again without being executed."""

    times: int
    """how often"""
    issued: int
    """each time"""
    first: int
    """the row of the trace from which on all rows stand for it"""


class _Around(NamedTuple):
    """A loop around a step of a program."""

    step: int
    """which enters it"""
    graph: Idg
    loops: tuple[Loop, ...]
    """the loops around it, and at last itself"""


class SteadyState:
    """What is known of the states of a core."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin without any."""
        self.scenario = scenario
        self._kept: dict[int, _Kept] = {}
        self._alike: dict[int, AlikePasses] = {}
        self._warp = 0
        self._left = PATIENCE
        self._without, self._until = 0, WITHOUT

    @property
    def watched(self) -> int:
        """Return the warp, plus 1, at whose iterations states are compared; 0 to go on for a while without."""
        return self._warp + 1 if self._left > 0 else 0

    def goes_on(self, issued: int, current: int) -> None:
        """Note that so many were *issued* without a pause, at last by the warp *current*, which is watched from now on.

        After many without comparisons, states are compared again.
        """
        if current not in (-1, self._warp):
            self._kept, self._warp = {}, current
        self._without += 0 if self._left > 0 else issued
        if self._without >= self._until:
            self._left, self._without, self._until = PATIENCE, 0, 2 * self._until

    def skipped(self, memory: Any, issued: int, rows: int) -> Skipped | None:
        """Advance *memory* by all repetitions but the last, and return them; None if nothing repeats.

        *issued* is what was issued so far, *rows* the rows of the trace. The run is at a pause.
        """
        why, glance, place = int(memory[at.PAUSED]), _glance(memory, self._warp), _place(memory, self._warp)
        self._left -= 1
        kept = self._kept.get(why)
        if kept is None or kept.place.outer != place.outer or kept.place.number >= place.number:
            kept = self._kept[why] = _Kept(place)
        least = IN_PYTHON if isinstance(memory, list) else IN_MACHINE_CODE
        worth = kept.worth(place, issued, least) if kept.glance == glance else 0
        if worth > place.end - place.number:
            memory[memory[at.WORTH] + why - 1] = worth
        elif worth:
            self._left -= COMPARED
            core = _Core(memory)
            if (times := self._repetitions(core, kept.core)) > 0:
                # Loops around end later in the program than this one; groups come after all of them.
                self._kept = {each: one for each, one in self._kept.items() if each > why}
                self._left = PATIENCE
                later = core.later(kept.core, times)
                memory[: len(later)] = later.tolist() if isinstance(memory, list) else later
                return Skipped(times, issued - kept.issued, kept.rows)
        kept.compared += 1
        if kept.compared >= kept.until:
            self._kept[why] = _Kept(place, glance, _copied(memory), issued, rows, 0, 2 * kept.until)
        return None

    def _repetitions(self, core: "_Core", before: "_Core") -> int:
        """Return for how many times what happened since *before* will surely happen again."""
        if core.signature() != before.signature():
            return 0
        moved = core.passes - before.passes
        level = np.argmax(moved != 0, axis=1)
        if not core.is_only_moved(before, moved, level):
            return 0
        times = (NEVER - int(core.now)) // max(1, int(core.now - before.now))
        if groups := int(core.m[at.BEGUN] - before.m[at.BEGUN]):
            left = int(core.m[at.TOTAL_GROUPS] - core.m[at.BEGUN]) // groups - 1
            return 0 if moved.any() else min(times, left)
        together: dict[tuple[int, ...], list[int]] = {}
        for warp in np.flatnonzero(moved.any(axis=1)).tolist():
            inner, around = int(level[warp]), self._around[int(core.table(at.STEP)[warp])]
            key = around[inner].step, *map(int, (moved[warp, inner], *core.passes[warp, :inner]))
            together.setdefault(key, []).append(warp)
        return min(times, *(self._of_warps(core, before, *each) for each in together.items()))

    def _of_warps(self, core: "_Core", before: "_Core", key: tuple[int, ...], warps: Sequence[int]) -> int:
        """Return how often *warps*, which are in one loop, will surely do again what they did since *before*."""
        step, span, *outer = key
        _, graph, loops = self._around[int(core.table(at.STEP)[warps[0]])][len(outer)]
        if step not in self._alike:
            self._alike[step] = AlikePasses(graph, loops[-1], loops[:-1])
        alike, level = self._alike[step], len(outer)
        if span % alike.period:
            return 0
        trips = int(core.rows(at.TRIPS, core.deepest)[warps[0], level])
        first, last = int(before.passes[warps, level].min()), int(core.passes[warps, level].max())
        time, passes = before.results
        oldest = min([first, *map(int, passes[warps, :, level][time[warps] > 0])])
        return (alike.until(first, trips, Surroundings(tuple(outer), oldest)) - last) // span - 1

    @cached_property
    def _around(self) -> list[tuple[_Around, ...]]:
        """Return the loops around each step, the outermost first."""
        found: list[tuple[_Around, ...]] = []
        for graph in self.scenario.graphs:
            _add_loops(graph, graph.body, (), found)
            found.append(())
        return found


def _add_loops(graph: Idg, body: Sequence[Item], around: tuple[_Around, ...], found: list[tuple[_Around, ...]]) -> None:
    """Append to *found* the loops around each step of *body*."""
    for item in body:
        if isinstance(item, Loop):
            loops = (*around[-1].loops, item) if around else (item,)
            inside = (*around, _Around(len(found), graph, loops))
            found.append(around)
            _add_loops(graph, item.body, inside, found)
            found.append(inside)
        else:
            found.append(around)


def _copied(memory: Any) -> Any:
    return memory[: memory[at.TRACE]].copy()


def _glance(memory: Any, warp: int) -> tuple[int, ...]:
    """Return a few of the numbers that decide how the core goes on: nearly all states that differ do so in them."""
    now, free = memory[at.NOW], memory[at.FREE]
    busy = (max(0, time - now) for time in memory[free : free + memory[at.SUBSYSTEMS]])
    return memory[memory[at.STEP] + warp], memory[memory[at.READY] + warp] - now, *busy


def _place(memory: Any, warp: int) -> _Place:
    """Return where the run pauses, at an iteration of a loop of *warp* or at a group."""
    if memory[at.PAUSED] == memory[at.ARGUMENTS] - memory[at.STEPS]:
        return _Place((), memory[at.BEGUN], memory[at.TOTAL_GROUPS])
    first, level = warp * memory[at.DEEPEST], memory[memory[at.ARGUMENTS] + memory[at.PAUSED] - 1]
    passes = memory[memory[at.PASSES] + first : memory[at.PASSES] + first + level + 1]
    return _Place(tuple(passes[:-1]), passes[-1], memory[memory[at.TRIPS] + first + level])


class _Core:
    """The memory of a core at a pause."""

    def __init__(self, memory: Any) -> None:
        self.m: Cells = np.array(memory[: memory[at.TRACE]], dtype=np.int64)
        self.now = self.m[at.NOW]
        self.warps, self.deepest = int(self.m[at.WARPS]), int(self.m[at.DEEPEST])
        self.is_active = (self.table(at.QUEUE) >= 0) | (self.table(at.IS_HELD) > 0)

    def table(self, name: int, length: int | None = None) -> Cells:
        """Return a table with an entry for each warp, unless it has another *length*."""
        begin = int(self.m[name])
        return self.m[begin : begin + (self.warps if length is None else length)]

    def rows(self, name: int, width: int) -> Cells:
        """Return a table with a row of *width* for each warp."""
        return self.table(name, self.warps * width).reshape(self.warps, width)

    @cached_property
    def passes(self) -> Cells:
        """Return the iterations of all loops that the active warps are in, 0 of others."""
        return np.where(self.is_active[:, None], self.rows(at.PASSES, self.deepest), 0)

    @cached_property
    def results(self) -> tuple[Cells, Cells]:
        """Return when results of each warp are complete, from now on, and of which iterations; the latest first."""
        number, places = int(self.m[at.RESULTS]), int(self.m[at.PLACES])
        begins = self.table(at.RING_BEGINS, places + 1)
        place = np.repeat(np.arange(places), np.diff(begins))
        begin, size = begins[place], np.diff(begins)[place]
        newest = self.rows(at.NEWEST, places)[:, place]
        order = begin + (newest - (np.arange(number) - begin)) % np.maximum(size, 1)
        time = np.take_along_axis(self.rows(at.RESULT_TIME, number), order, axis=1)
        passes = self.rows(at.RESULT_PASSES, number * self.deepest).reshape(self.warps, number, self.deepest)
        return np.maximum(time - self.now, 0), np.take_along_axis(passes, order[:, :, None], axis=1)

    def signature(self) -> bytes:
        """Return what decides how the core goes on, except in which iterations of loops the warps are."""
        m, now, active = self.m, self.now, self.is_active
        slots, subsystems = self.warps // int(m[at.WARPS_PER_GROUP]), int(m[at.SUBSYSTEMS])
        first = m[at.BEGUN] * m[at.WARPS_PER_GROUP]
        # A warp that goes on for ever while it can has no slice of time that ends.
        goes_on = m[at.GOES_ON] if m[at.GOES_ON] < NEVER else 0
        parts = [
            np.maximum([m[at.VALVE] - now], 0),
            [min(now - m[at.SLICE], goes_on), m[at.CURRENT], first % m[at.NUMBER_OF_KINDS]],
            np.maximum(self.table(at.FREE, subsystems) - now, 0),
            np.where(active, self.table(at.STEP), -1),
            np.where(active[:, None], self.rows(at.TRIPS, self.deepest), 0),
            np.argsort(np.where(active, self.table(at.STAMP), -1), kind="stable"),
            np.where(active, self.table(at.NUMBER) - first, 0),
            np.where(self.table(at.QUEUE) >= 0, np.maximum(self.table(at.READY) - now, 0), -1),
            self.table(at.IS_HELD),
            self.results[0],
            *(self.table(name, slots) for name in (at.UNFINISHED, at.HELD, at.RELEASE)),
            *(np.maximum(self.table(name, slots) - now, 0) for name in (at.ENDS, at.VACANT)),
        ]
        return b"".join(np.ascontiguousarray(part, dtype=np.int64).tobytes() for part in parts)

    def is_only_moved(self, before: "_Core", moved: Cells, level: Cells) -> bool:
        """Return whether each warp, with its results, has only *moved* on since *before* in the loop at its *level*."""
        in_loop = np.where(np.arange(self.deepest) == level[:, None], moved, 0)
        (time, passes), (_, earlier) = self.results, before.results
        is_late = (time > 0)[:, :, None]
        return not ((moved != in_loop).any() or (is_late & (passes - earlier != in_loop[:, None, :])).any())

    def later(self, before: "_Core", times: int) -> Cells:
        """Return the memory after what happened since *before* has happened so many *times* more."""
        later = _Core(self.m)
        m, gone = later.m, (self.now - before.now) * times
        slots, subsystems, results = self.warps // int(m[at.WARPS_PER_GROUP]), int(m[at.SUBSYSTEMS]), int(m[at.RESULTS])
        for name in (at.VALVE, at.SLICE, at.NOW):
            m[name] += gone
        for name in (at.READY, at.SINCE):
            later.table(name)[:] += gone
        for name, length in ((at.FREE, subsystems), (at.ENDS, slots), (at.VACANT, slots)):
            later.table(name, length)[:] += gone
        later.rows(at.RESULT_TIME, results)[:] += gone
        busy = self.table(at.BUSY, subsystems) - before.table(at.BUSY, subsystems)
        later.table(at.BUSY, subsystems)[:] += times * busy
        moved = times * (self.passes - before.passes)
        later.rows(at.PASSES, self.deepest)[:] += moved
        later.rows(at.RESULT_PASSES, results * self.deepest).reshape(self.warps, results, self.deepest)[:] += moved[
            :, None, :
        ]
        groups = times * (m[at.BEGUN] - before.m[at.BEGUN])
        m[at.BEGUN] += groups
        for name, share in ((at.NUMBER, 1), (at.RANK, m[at.BY_AGE])):
            later.table(name)[:] += share * groups * m[at.WARPS_PER_GROUP]
        return m
