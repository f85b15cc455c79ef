"""One warp alone on its core, executing its instructions one by one in the order of the program.

An instruction issues at the first moment when the one before has issued, the results that it waits for are complete,
and its pipeline is free: λ of the instruction that issued there last has passed (Lemeire, section 3.2;
docs/errata.md). Times are whole numbers of some part of a cycle, so that two of them are equal exactly where they
should be.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loopyperf.idg.metrics.paths import Issue, Link, Waiting
from loopyperf.idg.unrolling import Execution

Moment = tuple[int, Link]
"""a time, and what it hung on"""
Stall = tuple[int, int]
"""instructions since the one before, and how long"""


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
        self.pending: set[int] = set()
        """the instructions of which there may be results"""
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
        self.pending.add(place)
        if complete >= self.end[0]:
            self.end = (complete, issue)

    def forget(self) -> None:
        """Forget what no later instruction can wait for, as it is over."""
        self.busy = {name: moment for name, moment in self.busy.items() if moment[0] > self.now}
        self.results = {key: moment for key, moment in self.results.items() if moment[0] > self.now}
        self.pending = {place for place, _ in self.results}

    def free(self) -> int:
        """Return when all pipelines are free."""
        return max([self.now, *(time for time, _ in self.busy.values())])
