"""How the groups of a launch are distributed: in batches of groups with equal work, over equal cores.

The composition of a group is how many of its warps execute each program. If the warps of a class do unequal work, the
composition of a group lies on the line between two others: the mean composition, and a light one whose loops make a
single iteration. The share of a group is its position on that line: 0 is the light composition, 1 the mean. The work of
a group grows linearly with the iterations of its loops, so the line is exact for all sums over instructions.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.pipeline.timed_graph import Light

# {{{ distribution of groups over the cores of a device
#
# Groups start in order, each on the core that is free first.
#
# If groups do unequal work, the launch ends with the core that finishes last. The distribution is list scheduling:
# independent jobs in a fixed order, each assigned to the least loaded machine. The sorted loads never decrease when a
# job is added anywhere in the order, or when a job grows (by induction: the least load gets a job, and sorting
# preserves componentwise order). So an increasing function of the loads never decreases when work is added.
#
# R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: without precedence between jobs there are none.


SAME_LOAD = 1e-12
"""relative difference below which loads are equal"""


@dataclass(slots=True)
class MachineGroup:
    """Machines with the same load."""

    load: float
    machines: int


@dataclass(slots=True)
class Machines:
    """Machines for list scheduling: each job goes to the least loaded one."""

    number: int
    levels: list[MachineGroup] = field(init=False)
    """groups of machines in ascending order of their loads"""

    def __post_init__(self) -> None:
        self.levels = [MachineGroup(0.0, self.number)]

    @property
    def most(self) -> float:
        """Return the largest load of a machine."""
        return self.levels[-1].load

    def deal(self, load: float, jobs: int) -> float:
        """Assign *jobs* jobs of *load* each; return when the last one starts.

        Jobs of load 0 change nothing.
        """
        begin = self.levels[0].load
        while jobs and load > 0:
            if jobs < self.levels[0].machines:
                return self._to_some(load, jobs)
            begin, jobs = self._in_turn(load, jobs)
        return begin

    def _to_some(self, load: float, jobs: int) -> float:
        """Assign *jobs* to some of the machines with the least load."""
        least = self.levels.pop(0)
        self._insert(MachineGroup(least.load, least.machines - jobs))
        self._insert(MachineGroup(least.load + load, jobs))
        return least.load

    def _in_turn(self, load: float, jobs: int) -> tuple[float, int]:
        """Assign jobs to the machines that take turns for several rounds; return the last start and the jobs left."""
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
            rounds = min(rounds, max(1, ceil((above - high) / load * (1 - SAME_LOAD))))
        if rounds > 1 and above < low + load:  # the next jobs would go to the machines above
            rounds = 1
        begin = high + (rounds - 1) * load
        turned, self.levels = self.levels[:together], self.levels[together:]
        for level in turned:
            self._insert(MachineGroup(level.load + rounds * load, level.machines))
        return begin, jobs - rounds * machines

    def _insert(self, level: MachineGroup) -> None:
        at = bisect_left(self.levels, level.load * (1 - SAME_LOAD), key=lambda each: each.load)
        if at < len(self.levels) and self.levels[at].load <= level.load * (1 + SAME_LOAD):
            self.levels[at].machines += level.machines
        else:
            self.levels.insert(at, level)


# }}}


# {{{ batches


Composition = Mapping[int, float]
"""program -> number of warps of a group that execute it"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive groups with equal work."""

    groups: int
    """number of groups"""
    light: int
    """index of the light composition"""
    mean: int
    """index of the mean composition; the same if the warps of each class do equal work"""
    share: float
    """position of the groups on the line between both"""
    longest: float
    """position of the longest warp in a group"""

    def value(self, values: Sequence[float]) -> float:
        """Return the value of a group, given the *values* of all compositions."""
        return self._between(values, self.share)

    def most(self, values: Sequence[float]) -> float:
        """Return the value of the longest warp in a group, given the *values* of all compositions."""
        return self._between(values, self.longest)

    def _between(self, values: Sequence[float], share: float) -> float:
        low, high = values[self.light], values[self.mean]
        return max(0.0, low + share * (high - low))

    def mixed(self, compositions: Sequence[Composition]) -> Composition:
        """Return the composition of a group, with negative numbers if the group does less than the light one."""
        found: dict[int, float] = {}
        for composition, share in ((self.light, 1 - self.share), (self.mean, self.share)):
            for program, number in compositions[composition].items() if share else ():
                found[program] = found.get(program, 0.0) + share * number
        return found


@dataclass(frozen=True)
class Batches:
    """The groups of a launch in the order in which they start."""

    compositions: tuple[Composition, ...]
    """compositions of groups"""
    orders: tuple[tuple[float, tuple[Batch, ...]], ...]
    """(executions of the launch with this order, its batches)"""

    @classmethod
    def of(cls, launch: LaunchProfile, light: Mapping[int, Light]) -> "Batches":
        """Return the groups of *launch*; *light* maps warp classes with unequal work to their light programs."""
        compositions: list[Composition] = []
        ends: list[tuple[int, int, float]] = []
        for warps in launch.dispatch.classes:
            mean = {kind: float(number) for kind, number in warps}
            lighter = [(light[kind], number) for kind, number in warps if kind in light]
            compositions.append(mean)
            first = len(compositions) - 1
            if lighter:
                rest = {kind: number for kind, number in mean.items() if kind not in light}
                compositions.append({**rest, **{each.program: float(number) for each, number in lighter}})
            part = sum(each.part * number for each, number in lighter) / max(1, sum(number for _, number in lighter))
            ends.append((len(compositions) - 1, first, part))
        executions = launch.dispatch.executions
        return cls(
            tuple(compositions),
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
        """Yield (number of executions, batch) for all orders."""
        yield from ((times, batch) for times, order in self.orders for batch in order)

    def total(self, values: Sequence[float]) -> float:
        """Return the sum over all groups of all executions, given the *values* of all compositions."""
        return sum(times * batch.groups * batch.value(values) for times, batch in self.every)

    def most(self, values: Sequence[float], cores: int) -> float:
        """Return the largest load of one of the *cores*, given the *values* of all compositions.

        The result is the mean over all executions.
        """
        found = 0.0
        for times, order in self.orders:
            machines = Machines(cores)
            for batch in order:
                machines.deal(batch.value(values), batch.groups)
            found += times * machines.most
        return found / self.executions


def _batch(groups: int, ends: tuple[int, int, float], work: float, longest: float) -> Batch:
    """Return a batch; *ends* is (light composition, mean composition, work of the light one relative to the mean)."""
    light, mean, part = ends
    if light == mean:
        return Batch(groups, mean, mean, 1.0, 1.0)
    return Batch(groups, light, mean, (work - part) / (1 - part), (longest - part) / (1 - part))


# }}}
