"""One warp alone on its core, executing its instructions one by one in the order of the program.

An instruction issues at the first moment when the one before has issued, the results that it waits for are complete,
and its pipeline is free: λ of the instruction that issued there last has passed (Lemeire, section 3.2; MODELS.md,
section 7). Times are whole numbers of some part of a cycle, so that two of them are equal exactly where they should be.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loopyperf.idg.paths import Component, Issue, Link, Repetition, Start, Waiting

Execution = tuple[int, tuple[int, ...]]
"""an instruction, and the pass of each loop around it, from the outermost on"""
Moment = tuple[int, Link]
"""a time, and what it hung on"""
Stall = tuple[int, int]
"""instructions since the one before, and how long"""

ORDER: Component = "order"
END: Component = "end"
NEVER: Moment = (-1, None)


@dataclass(frozen=True, slots=True)
class Rule:
    """How the warp executes an instruction."""

    pipeline: str
    issue: int
    """λ"""
    completion: int
    """Λ"""
    is_blocking: bool = False
    """the warp issues nothing until it is complete: a barrier"""
    is_counted: bool = True
    """as one of the instructions between two stalls"""


class OneWarp:
    """A warp, at the moment after it has issued what it has executed so far."""

    def __init__(self, rules: list[Rule]) -> None:
        """Start the warp at time 0; *rules* say how it executes each instruction."""
        self.rules = rules
        self.now = 0
        """the next instruction issues no earlier"""
        self.order: Link = None
        self.waiting: Waiting = "order"
        """what counts of the last instruction where the next one waits for nothing else"""
        self.busy: dict[str, Moment] = {}
        """until when pipelines are not free"""
        self.results: dict[Execution, Moment] = {}
        """when what was executed is complete"""
        self.end: Moment = (0, None)
        """when all of it is"""
        self.stalls: Counter[Stall] = Counter()
        """those in which the pipeline was free, and a result was waited for"""
        self.since = 0
        """instructions since the last stall"""

    def execute(self, place: int, passes: tuple[int, ...], sources: Iterable[Execution]) -> None:
        """Execute instruction *place*, which waits for *sources*."""
        rule = self.rules[place]
        time, waiting, link = self.now, self.waiting, self.order
        if (busy := self.busy.get(rule.pipeline)) is not None and busy[0] >= time:
            (time, link), waiting = busy, "issue"
        free = time
        for source in sources:
            if (result := self.results.get(source)) is not None and result[0] >= time:
                (time, link), waiting = result, "completion"
        if time > free:
            self.stalls[self.since, time - free] += 1
            self.since = 0
        self.since += rule.is_counted
        self._issued(place, passes, rule, time, Issue(place, waiting, link))

    def _issued(self, place: int, passes: tuple[int, ...], rule: Rule, time: int, issue: Issue) -> None:
        complete = time + rule.completion
        self.now, self.order = (complete if rule.is_blocking else time), issue
        self.waiting = "completion" if rule.is_blocking else "order"
        self.busy[rule.pipeline] = (time + rule.issue, issue)
        self.results[place, passes] = (complete, issue)
        if complete >= self.end[0]:
            self.end = (complete, issue)

    def forget(self) -> None:
        """Forget what no later instruction can wait for, as it is over."""
        self.busy = {name: moment for name, moment in self.busy.items() if moment[0] > self.now}
        self.results = {key: moment for key, moment in self.results.items() if moment[0] > self.now}

    def free(self) -> int:
        """Return when all pipelines are free."""
        return max([self.now, *(time for time, _ in self.busy.values())])


@dataclass(frozen=True, slots=True)
class View:
    """A warp at the start of a pass of a loop, seen from there: in each pass alike if it goes on alike."""

    warp: OneWarp
    outer: tuple[int, ...]
    """the passes of the loops around the loop"""
    number: int
    """of the pass"""

    def key(self, execution: Execution) -> Component:
        """Return what stands for a result of *execution*: by how many passes it is ago."""
        place, passes = execution
        level = len(self.outer)
        return place, passes[level] - self.number, passes[level + 1 :]

    def signature(self) -> Component:
        """Return what determines how the warp goes on."""
        now = self.warp.now
        results = frozenset((self.key(key), time - now) for key, (time, _) in self.warp.results.items())
        busy = frozenset((name, time - now) for name, (time, _) in self.warp.busy.items())
        return results, busy, self.warp.waiting

    def oldest(self) -> int:
        """Return the first pass of which a result may still be waited for."""
        level = len(self.outer)
        return min([self.number, *(passes[level] for _, passes in self.warp.results)])

    def links(self) -> dict[Component, Link]:
        """Return what each moment that may still be waited for hangs on."""
        results = {self.key(key): link for key, (_, link) in self.warp.results.items()}
        busy = {name: link for name, (_, link) in self.warp.busy.items()}
        return {**results, **busy, ORDER: self.warp.order, END: self.warp.end[1]}

    def start(self) -> None:
        """Let everything hang on the start of this pass."""
        warp = self.warp
        warp.results = {key: (time, Start(self.key(key))) for key, (time, _) in warp.results.items()}
        warp.busy = {name: (time, Start(name)) for name, (time, _) in warp.busy.items()}
        warp.order = Start(ORDER)

    def repeat(self, times: int, passes: int, gained: int, before: dict[Component, Link]) -> None:
        """Go on as if what happened in the last *passes*, *gained* long, happened *times* in all.

        *before* is what each moment hung on when they began.
        """
        warp, ends, later = self.warp, self.links(), (times - 1) * gained
        level, shift = len(self.outer), (times - 1) * passes

        def hung(component: Component) -> Repetition:
            return Repetition(component, times, ends, before)

        warp.results = {
            (place, (*at[:level], at[level] + shift, *at[level + 1 :])): (time + later, hung(self.key((place, at))))
            for (place, at), (time, _) in warp.results.items()
        }
        warp.busy = {name: (time + later, hung(name)) for name, (time, _) in warp.busy.items()}
        warp.order, warp.now = hung(ORDER), warp.now + later
        if warp.end[1] is not None:
            warp.end = (warp.end[0] + later, hung(END))
