"""The groups of a launch as models deal them to cores: in batches of groups that do the same work, to equal cores.

The make-up of a group is the programs that its warps execute. Where the warps of a kind do unequal work, a group of
them lies on the line through two make-ups: the mean one, and a light one whose loops make a single pass. How far a
group is along that line is its share: 0 is the light make-up, 1 the mean one. What a group does grows linearly with the
passes of its loops, so that the line is exact for all sums over instructions.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.pipeline.timed_graph import Light

# {{{ groups dealt to the cores of a device
#
# In the order in which they start, each to the core that is free first.
#
# Where groups do unlike work, the launch ends with the core that ends last. Dealing is list scheduling: independent
# jobs in a fixed order, each to the least loaded machine. The sorted loads of the machines never fall when a job is
# added, anywhere in the order, or when a job grows (by induction: the least load gets a job, and sorting keeps what is
# componentwise no less). So a growing function of such loads never falls when work is added.
#
# R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.


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


# }}}


# {{{ batches


MakeUp = Mapping[int, float]
"""program -> number of warps of a group that execute it"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups that start one after the other, and do the same work."""

    groups: int
    """how many they are"""
    light: int
    """number of a make-up"""
    mean: int
    """number of a make-up; the same one where the warps of each kind do equal work"""
    share: float
    """of a group, along the line between them"""
    longest: float
    """the share of the warp with most work in a group"""

    def value(self, values: Sequence[float]) -> float:
        """Return the value for a group, given the *values* for all make-ups."""
        return self._between(values, self.share)

    def most(self, values: Sequence[float]) -> float:
        """Return the value for the longest warp of a group, given the *values* for all make-ups."""
        return self._between(values, self.longest)

    def _between(self, values: Sequence[float], share: float) -> float:
        low, high = values[self.light], values[self.mean]
        return max(0.0, low + share * (high - low))

    def mixed(self, make_ups: Sequence[MakeUp]) -> MakeUp:
        """Return what the warps of a group execute; what is less than the light make-up has negative numbers."""
        found: dict[int, float] = {}
        for make_up, share in ((self.light, 1 - self.share), (self.mean, self.share)):
            for program, number in make_ups[make_up].items() if share else ():
                found[program] = found.get(program, 0.0) + share * number
        return found


@dataclass(frozen=True)
class Batches:
    """The groups of a launch in the order in which they start."""

    make_ups: tuple[MakeUp, ...]
    """of groups, by number"""
    orders: tuple[tuple[float, tuple[Batch, ...]], ...]
    """(how many executions of the launch start their groups so, the batches)"""

    @classmethod
    def of(cls, launch: LaunchProfile, light: Mapping[int, Light]) -> "Batches":
        """Return the groups of *launch*; *light* are kinds of warps of unequal work -> their light programs."""
        make_ups: list[MakeUp] = []
        ends: list[tuple[int, int, float]] = []
        for composition in launch.dispatch.classes:
            mean = {kind: float(number) for kind, number in composition}
            lighter = [(light[kind], number) for kind, number in composition if kind in light]
            make_ups.append(mean)
            first = len(make_ups) - 1
            if lighter:
                rest = {kind: number for kind, number in mean.items() if kind not in light}
                make_ups.append({**rest, **{each.program: float(number) for each, number in lighter}})
            part = sum(each.part * number for each, number in lighter) / max(1, sum(number for _, number in lighter))
            ends.append((len(make_ups) - 1, first, part))
        executions = launch.dispatch.executions
        return cls(
            tuple(make_ups),
            tuple(
                (times, tuple(_batch(run.number, ends[run.group], run.work, run.longest) for run in order))
                for times, order in executions
            ),
        )

    @property
    def executions(self) -> float:
        """Return the number of executions of the launch."""
        return sum(times for times, _ in self.orders)

    @property
    def every(self) -> Iterator[tuple[float, Batch]]:
        """Yield the batches of all orders, and the number of executions that each stands for."""
        yield from ((times, batch) for times, order in self.orders for batch in order)

    def total(self, values: Sequence[float]) -> float:
        """Return the sum over all groups of all executions, given the *values* for all make-ups."""
        return sum(times * batch.groups * batch.value(values) for times, batch in self.every)

    def most(self, values: Sequence[float], cores: int) -> float:
        """Return the most that one of the *cores* has to do, given the *values* for all make-ups.

        It is the mean over all executions.
        """
        found = 0.0
        for times, order in self.orders:
            machines = Machines(cores)
            for batch in order:
                machines.deal(batch.value(values), batch.groups)
            found += times * machines.most
        return found / self.executions


def _batch(groups: int, ends: tuple[int, int, float], work: float, longest: float) -> Batch:
    """Return a batch; the light make-up does the *part* of the mean work that is last of *ends*."""
    light, mean, part = ends
    if light == mean:
        return Batch(groups, mean, mean, 1.0, 1.0)
    return Batch(groups, light, mean, (work - part) / (1 - part), (longest - part) / (1 - part))


# }}}
