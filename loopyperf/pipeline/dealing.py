"""Groups dealt to the cores of a device: in the order in which they start, each to the core that is free first.

Where groups do unlike work, the launch ends with the core that ends last. Dealing is list scheduling: independent jobs
in a fixed order, each to the least loaded machine. The sorted loads of the machines never fall when a job is added,
anywhere in the order, or when a job grows (by induction: the least load gets a job, and sorting keeps what is
componentwise no less). So a growing function of such loads never falls when work is added.

R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from math import ceil, inf

ALIKE = 1e-12
"""relative difference of loads that are equal but for rounding"""


@dataclass(slots=True)
class Level:
    """Machines with the same load."""

    load: float
    machines: int


@dataclass(slots=True)
class Machines:
    """Machines that jobs are dealt to, each to the least loaded."""

    number: int
    levels: list[Level] = field(init=False)
    """in ascending order of their loads"""

    def __post_init__(self) -> None:
        self.levels = [Level(0.0, self.number)]

    @property
    def most(self) -> float:
        """Return the load of the machine with most load."""
        return self.levels[-1].load

    def deal(self, load: float, jobs: int) -> float:
        """Deal so many *jobs* that each take *load*; return when the last one begins.

        A job that takes nothing changes nothing.
        """
        begin = self.levels[0].load
        while jobs and load > 0:
            if jobs < self.levels[0].machines:
                return self._to_some(load, jobs)
            begin, jobs = self._in_turn(load, jobs)
        return begin

    def _to_some(self, load: float, jobs: int) -> float:
        """Deal *jobs* to some of the machines with the least load."""
        least = self.levels.pop(0)
        self._insert(Level(least.load, least.machines - jobs))
        self._insert(Level(least.load + load, jobs))
        return least.load

    def _in_turn(self, load: float, jobs: int) -> tuple[float, int]:
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
        if rounds > 1 and above < low + load:  # the machines above would be next
            rounds = 1
        begin = high + (rounds - 1) * load
        turned, self.levels = self.levels[:together], self.levels[together:]
        for level in turned:
            self._insert(Level(level.load + rounds * load, level.machines))
        return begin, jobs - rounds * machines

    def _insert(self, level: Level) -> None:
        at = bisect_left(self.levels, level.load * (1 - ALIKE), key=lambda each: each.load)
        if at < len(self.levels) and self.levels[at].load <= level.load * (1 + ALIKE):
            self.levels[at].machines += level.machines
        else:
            self.levels.insert(at, level)
