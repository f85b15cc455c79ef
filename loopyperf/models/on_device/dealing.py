"""Groups dealt to the cores of a device: in the order of dispatch, each to the core that is free first.

Where groups do unlike work, the launch ends with the core that ends last. Dealing is list scheduling: independent jobs
in a fixed order, each to the least loaded machine. Sorted, the loads of the machines grow with each job that is added,
anywhere in the order, and with each that takes longer (by induction: the least of the loads gets a job, and sorting
keeps what is componentwise no less). So what is a growing function of such loads never falls when work is added, which
the time of the core that has one of the mean groups does.

R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Generic, TypeVar

Job = TypeVar("Job")
ALIKE = 1e-12
"""relative difference of loads that are equal but for rounding"""


@dataclass(slots=True)
class Dealt(Generic[Job]):
    """The last jobs of a machine."""

    job: Job
    times: int
    before: "Dealt[Job] | None"


@dataclass(slots=True)
class Level(Generic[Job]):
    """Machines that are loaded alike."""

    load: float
    machines: int
    last: Dealt[Job] | None = None

    def dealt(self, load: float, job: Job, times: int = 1) -> "Level[Job]":
        """Return machines that got *job* on top, so many *times*; together these take *load*."""
        return Level(self.load + load, self.machines, Dealt(job, times, self.last))

    def history(self) -> list[tuple[Job, int]]:
        """Return the jobs that they got, in this order, and how many of each."""
        found: list[tuple[Job, int]] = []
        last = self.last
        while last is not None:
            found.append((last.job, last.times))
            last = last.before
        return found[::-1]


@dataclass(slots=True)
class Machines(Generic[Job]):
    """Machines that jobs are dealt to, each to the least loaded."""

    number: int
    levels: list[Level[Job]] = field(init=False)
    """by ascending load"""

    def __post_init__(self) -> None:
        self.levels = [Level(0.0, self.number)]

    @property
    def most(self) -> float:
        """Return the load of the machine that is loaded most."""
        return self.levels[-1].load

    def deal(self, load: float, jobs: int, job: Job) -> float:
        """Deal so many *jobs* that each take *load* and are this *job*; return when the last one begins.

        A job that takes nothing changes nothing.
        """
        begin = self.levels[0].load
        while jobs and load > 0:
            if jobs < self.levels[0].machines:
                return self._to_some(load, jobs, job)
            begin, jobs = self._in_turn(load, jobs, job)
        return begin

    def _to_some(self, load: float, jobs: int, job: Job) -> float:
        """Deal *jobs* to some of the machines that are loaded least."""
        least = self.levels.pop(0)
        for level in (
            Level(least.load, least.machines - jobs, least.last),
            Level(least.load, jobs, least.last).dealt(load, job),
        ):
            self._insert(level)
        return least.load

    def _in_turn(self, load: float, jobs: int, job: Job) -> tuple[float, int]:
        """Deal to those machines in turn that get a second job after all of them got a first; return what is left."""
        low = self.levels[0].load
        together, machines = 0, 0
        for level in self.levels:
            if level.load >= low + load or machines + level.machines > jobs:
                break
            together, machines = together + 1, machines + level.machines
        high = self.levels[together - 1].load
        above = self.levels[together].load if together < len(self.levels) else inf
        rounds = jobs // machines
        if above < inf:
            rounds = min(rounds, max(1, ceil((above - high) / load * (1 - ALIKE))))
        if rounds > 1 and above < low + load:  # those behind would be next
            rounds = 1
        begin = high + (rounds - 1) * load
        turned, self.levels = self.levels[:together], self.levels[together:]
        for level in turned:
            self._insert(level.dealt(rounds * load, job, rounds))
        return begin, jobs - rounds * machines

    def _insert(self, level: Level[Job]) -> None:
        at = bisect_left(self.levels, level.load * (1 - ALIKE), key=lambda each: each.load)
        if at < len(self.levels) and self.levels[at].load <= level.load * (1 + ALIKE):
            self.levels[at].machines += level.machines
        else:
            self.levels.insert(at, level)
