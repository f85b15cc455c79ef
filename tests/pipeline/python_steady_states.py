"""The core in Python with the steady states of ``core.c``, which defines them.

A state is a tuple here, and states are compared directly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor, sqrt
from typing import Any, NamedTuple

from loopyperf.pipeline.core import ASKS, DONE, SKIPPED
from loopyperf.pipeline.encoding import CoreOptions, Tables
from tests.pipeline.python_core import HELD, LAST, OUTSIDE, PythonCore, SimulatedWarp

KEPT, BATCHES, FEWEST, ALL, WORTH, DOUBT = 256, 8, 2, 100_000, 5_000, 16
HASTE, WAVES, STILL, MOST_OFTEN, PARTS = 100_000, 1, 2, 8, 64
"""constants of ``core.c``"""


class State(NamedTuple):
    """An earlier state, for comparison."""

    key: Any
    number: int
    """iteration, or number of groups started"""
    time: int
    issued: int
    made: int
    begun: int
    active: int
    """number of active warps"""
    iterations: list[list[int]]
    busy: list[int]


@dataclass
class History:
    """The earlier states at one loop, or at the start of groups."""

    number: int = 0
    seen: int = 0
    stride: int = 1
    pause: int = 0
    doubt: int = 0
    batch: int = 0
    rate: float = 0.0
    deviation: float = 0.0
    error: float = 0.0
    kept: list[State] = field(default_factory=list[State])
    marks: list[State] = field(default_factory=list[State])

    def forget(self) -> None:
        """Remove all states."""
        self.seen, self.stride = 0, 1
        self.kept.clear()
        self.marks.clear()


class SteadyStates:
    """The search for steady states of a core."""

    def __init__(self, core: PythonCore, loops: int, tolerance: float) -> None:
        self.core, self.tolerance = core, tolerance
        self.histories = [History() for _ in range(loops + 1)]
        self.candidate: State | None = None
        self.is_equal = False
        self.share = self.rate = 1.0
        self.parts = 1
        self.moves: list[tuple[int, int]] = []
        """warp -> (iterations since the candidate, level of the loop)"""
        self.answers: dict[int, int] = {}
        self.asked = 0
        most = max(each.results + each.kept for each in core.instructions)
        self.size = len(core.warps) * (8 + 2 * len(core.around[0]) + most)

    def answer(self, until: int) -> None:
        """Store the answer to the last question: the iteration before which all are periodic."""
        self.answers[self.asked] = until

    def compare(self, event: int) -> int:
        """Compare the state with earlier ones at the same loop, and skip repetitions; return why the core stops."""
        core = self.core
        is_of_groups = event == len(core.steps)
        history = self.histories[-1 if is_of_groups else core.steps[event].loop]
        if self.candidate is None:
            if core.progress.made < history.pause:
                return DONE
            history.pause = core.progress.made + self.size // 8
            number = core.begun if is_of_groups else core.warps[core.watched].iterations[core.steps[event].argument]
            if number <= history.number:
                history.forget()
            history.number = number
            self._find_candidate(history, self._state(number), core.given.window if is_of_groups else FEWEST)
        return DONE if self.candidate is None else self._go_on(history)

    def _find_candidate(self, history: History, state: State, batch: int) -> None:
        found = next((each for each in reversed(history.kept) if each.key == state.key), None)
        self.is_equal = True
        if found is not None and self._find_moves(found):
            self.candidate = found
            return
        if self.tolerance > 0 and self.core.progress.made >= ALL and self._mark(history, state, batch):
            self.is_equal, found, self.rate = False, self._settled_since(history), history.rate
            if found is not None and self._find_moves(found):
                self.candidate = found
                return
        history.seen += 1
        if (history.seen - 1) % history.stride == 0:
            if len(history.kept) == KEPT:
                history.kept, history.stride = history.kept[::2], 2 * history.stride
            history.kept.append(state)

    # {{{ states

    def _state(self, number: int) -> State:
        core, progress = self.core, self.core.progress
        return State(
            tuple(self._key()),
            number,
            progress.time,
            progress.issued,
            progress.made,
            core.begun,
            self._active,
            [warp.iterations.copy() for warp in core.warps],
            progress.busy.copy(),
        )

    @property
    def _active(self) -> int:
        return sum(warp.state != OUTSIDE for warp in self.core.warps)

    def _from_now(self, time: int) -> int:
        return max(0, time - self.core.progress.time)

    def _key(self) -> Iterator[Any]:
        core, given = self.core, self.core.given
        yield self._from_now(core.opened)
        yield min(core.progress.time - core.slice, given.goes_on if given.goes_on < LAST else 0)
        yield core.current
        yield core.begun * given.warps_per_group % len(core.kinds)
        yield from map(self._from_now, core.free)
        for group in core.groups:
            yield group.is_vacant, group.unfinished, group.held, group.held and group.release, self._from_now(group.end)
        yield from (tuple(self._key_of(warp)) for warp in core.warps)
        active = [x for x, warp in enumerate(core.warps) if warp.state != OUTSIDE]
        yield tuple(sorted(active, key=lambda x: core.warps[x].stamp))

    def _key_of(self, warp: SimulatedWarp) -> Iterator[Any]:
        core = self.core
        yield warp.state
        if warp.state == OUTSIDE:
            return
        yield warp.step
        yield warp.number - core.begun * core.given.warps_per_group
        yield 0 if warp.state == HELD else self._from_now(warp.complete)
        loops = core.around[warp.step][: core.steps[warp.step].depth]
        for level, loop in enumerate(loops):
            yield warp.trips[level], min(warp.iterations[level], core.steps[loop].furthest)
        for place, results in warp.results.items():
            source = core.instructions[place]
            own = core.around[source.step][: source.depth]
            for time, passes in results:
                if late := self._from_now(time):
                    common = [level < len(loops) and own[level] == loops[level] for level in range(source.depth)]
                    pairs = zip(warp.iterations, passes, common, strict=False)
                    of = [now - then if is_common else then for now, then, is_common in pairs]
                    yield place, late, tuple(of) if source.is_searched else ()

    # }}}

    # {{{ progress of warps

    def _find_moves(self, since: State) -> bool:
        """Find how far each warp has advanced, and in which loop; return whether this explains the difference.

        If the states are not equal, loops inside that one are ignored.
        """
        core = self.core
        groups = core.begun - since.begun
        self.answers, self.moves, self.share = {}, [], 1.0
        if groups and not self.is_equal:
            if since.begun < WAVES * core.given.slots:
                return False
            self.share = groups * core.given.issues / (core.progress.issued - since.issued)
        for warp, before in zip(core.warps, since.iterations, strict=True):
            depth = 0 if warp.state == OUTSIDE or (groups and not self.is_equal) else core.steps[warp.step].depth
            moved = [(warp.iterations[level] - before[level], level) for level in range(depth)]
            moved = [each for each in moved if each[0]]
            if moved and ((self.is_equal and len(moved) > 1) or moved[0][0] < 0 or groups):
                return False
            self.moves.append(moved[0] if moved else (0, 0))
        return self.share > 0 if self.is_equal or groups else self._are_together(since)

    def _are_together(self, since: State) -> bool:
        core = self.core
        span, level = self.moves[core.watched]
        loop = core.around[core.warps[core.watched].step][level]

        def is_near(x: int) -> bool:
            moved, at = self.moves[x]
            own = core.around[core.warps[x].step][level] if moved else -1
            return bool(moved) and at == level and own == loop and abs(moved - span) <= 2 + span // 4

        active = [move for warp, move in zip(core.warps, self.moves, strict=True) if warp.state != OUTSIDE]
        going = [at for moved, at in active if moved]
        still = len(active) - len(going)
        if min(going, default=level) < level or (still and not core.given.by_age) or STILL * still > len(going):
            return False
        near = [x for x in range(len(self.moves)) if is_near(x)]
        every, total = sum(moved for moved, _ in self.moves), sum(self.moves[x][0] for x in near)
        mean = (total + len(near) // 2) // len(near) if near else 0
        if not core.given.by_age and every:
            for x in near:
                self.moves[x] = mean, level
            self.share = (every - total + len(near) * mean) / every
        return span > 0 and since.active == self._active

    # }}}

    # {{{ number of repetitions

    def _go_on(self, history: History) -> int:
        since, progress = self.candidate, self.core.progress
        assert since is not None
        times, time = self._repetitions(since), progress.time
        if times is None:
            return ASKS
        self.candidate = None
        if self.parts > 1 and self.core.given.by_age:
            share = (progress.made - since.made) / (progress.issued - since.issued)
            times = min(times, floor(share * MOST_OFTEN * self.parts))
        if self.answers:
            history.doubt = 0 if times else 2 * history.doubt or DOUBT
            history.pause = history.pause if times else progress.made + history.doubt
        if times == 0:
            if self.is_equal:
                history.kept[history.kept.index(since)] = self._state(history.number)
            return DONE
        progress.skipped_first, progress.skipped_times = since.made, times
        self._skip(since, times)
        if not self.is_equal:
            progress.settled += progress.time - time
            progress.tolerance = max(progress.tolerance, history.error)
        for each in self.histories:
            each.forget()
            if each is history:
                break
        return DONE if self.core.rows is None else SKIPPED

    def _repetitions(self, since: State) -> int | None:
        """Return how many parts of the work since *since* surely repeat; None if a question is pending."""
        core, now = self.core, self.core.progress.time
        times = (LAST - now) // max(1, now - since.time)
        groups = core.begun - since.begun
        self.parts = 1 if self.is_equal or groups else PARTS
        if groups:
            end = core.given.total_groups - (0 if self.is_equal else WAVES * core.given.slots)
            times = min(times, (end - core.begun) // groups - 1)
        for x, (warp, (moved, level)) in enumerate(zip(core.warps, self.moves, strict=True)):
            if not moved or times <= 0:
                continue
            until = warp.trips[level]
            if not core.steps[core.around[warp.step][level]].is_uniform:
                first = next(y for y in range(x + 1) if self._is_beside(y, x))
                if first not in self.answers:
                    most = min(times, (until - warp.iterations[level]) // moved)
                    if most * (core.progress.issued - since.issued) < WORTH:
                        return 0
                    self._ask(first)
                    return None
                until = self.answers[first]
            left = until - warp.iterations[level]
            times = min(times, left // moved - 1 if self.is_equal else (left - 1) * self.parts // moved)
        return max(times, 0)

    def _is_beside(self, one: int, other: int) -> bool:
        a, b = self.core.warps[one], self.core.warps[other]
        moved, level = self.moves[one]
        around = self.core.around
        is_same = moved > 0 and self.moves[other] == (moved, level)
        is_there = around[a.step][level] == around[b.step][level]
        return is_same and is_there and a.iterations[:level] == b.iterations[:level]

    def _ask(self, x: int) -> None:
        core, progress = self.core, self.core.progress
        moved, level = self.moves[x]
        beside = [core.warps[y] for y in range(x, len(core.warps)) if self._is_beside(x, y)]
        progress.asked_loop = core.around[core.warps[x].step][level]
        progress.asked_span, progress.asked_trips = moved, core.warps[x].trips[level]
        progress.asked_outer = core.warps[x].iterations
        progress.asked_first = min(warp.iterations[level] - moved for warp in beside)
        late = [
            passes[level] - moved
            for warp in beside
            for place, results in warp.results.items()
            if core.instructions[place].is_searched and core.instructions[place].depth > level
            for time, passes in results
            if time > progress.time
        ]
        progress.asked_oldest = min([progress.asked_first, *late])
        self.asked = x

    def _skip(self, since: State, times: int) -> None:
        """Repeat so many parts of the work done since another state without simulation."""
        core, progress, given = self.core, self.core.progress, self.core.given
        issued = self._scaled(times * (progress.issued - since.issued))
        gone = times * (progress.time - since.time) if self.is_equal else floor(self.rate * issued + 0.5)
        groups = times * (core.begun - since.begun)
        progress.time += gone
        progress.issued += issued
        core.opened += gone
        core.slice += gone
        core.begun += groups
        core.free = [each + gone for each in core.free]
        busy = zip(progress.busy, since.busy, strict=True)
        progress.busy = [now + self._scaled(times * (now - before)) for now, before in busy]
        for group in core.groups:
            group.end += gone
        for warp, (moved, level) in zip(core.warps, self.moves, strict=True):
            warp.complete += gone
            warp.able += gone
            warp.number += groups * given.warps_per_group
            moves = (times * moved + self.parts // 2) // self.parts
            further = [moves * (at == level) for at in range(len(warp.iterations))]
            warp.iterations = [one + more for one, more in zip(warp.iterations, further, strict=True)]
            warp.results = {
                place: [
                    (time + gone, tuple(one + more for one, more in zip(passes, further, strict=False)))
                    for time, passes in results
                ]
                for place, results in warp.results.items()
            }

    # }}}

    def _scaled(self, number: int) -> int:
        return number if self.is_equal else floor(self.share * number / self.parts + 0.5)

    # {{{ settled rates

    @property
    def _tolerance_now(self) -> float:
        return self.tolerance * max(1.0, self.core.progress.made / HASTE)

    def _mark(self, history: History, state: State, batch: int) -> bool:
        """Record the state at the end of a batch; return whether it was the end."""
        history.batch = max(history.batch, batch)
        if history.marks and state.number - history.marks[-1].number < history.batch:
            return False
        if len(history.marks) == BATCHES + 1:
            history.marks, history.batch = history.marks[::2], 2 * history.batch
            if state.number - history.marks[-1].number < history.batch:
                return False
        history.marks.append(state)
        return True

    def _settled_since(self, history: History) -> State | None:
        """Return the mark since which the rate of issues has settled; None if it has not."""
        marks = history.marks
        pairs = pairwise(marks)
        rates = [(after.time - before.time) / (after.issued - before.issued) for before, after in pairs]
        if not rates:
            return None
        if history.rate > 0 and abs(rates[-1] - history.rate) <= history.deviation:
            return marks[-2]
        first = 1 if len(rates) > 5 else 0
        some = rates[first:]
        if len(some) < 4:
            return None
        mean = sum(some) / len(some)
        variance = max(0.0, (sum(each * each for each in some) - mean * sum(some)) / (len(some) - 1))
        error = 2 * sqrt(variance / len(some))
        if error > self._tolerance_now * mean:
            return None
        history.error = max(error / mean, self.tolerance)
        history.rate, history.deviation = mean, max(2 * sqrt(variance), self.tolerance * mean)
        return marks[first]

    # }}}


class SteadyCore(PythonCore):
    """A core in Python that skips repetitions."""

    def __init__(self, given: CoreOptions, tables: Tables, skips: bool, tolerance: float) -> None:
        super().__init__(given, tables, skips)
        self.states = SteadyStates(self, len(tables.loops), tolerance)

    def compare(self, event: int) -> int:
        """Compare the state at the step *event* with earlier ones; return why the core stops."""
        return self.states.compare(event)

    def answer(self, until: int) -> None:
        """Set the iteration before which all are periodic."""
        self.states.answer(until)
