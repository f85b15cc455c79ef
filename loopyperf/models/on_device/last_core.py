"""The core that ends last of those that the groups of a launch are dealt to, and what it executes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from loopyperf.errors import GraphError, MissingNumberError
from loopyperf.models.on_device.batches import Batch, MakeUp
from loopyperf.models.on_device.dealing import Level, Machines
from loopyperf.models.on_device.demand import LaunchDemand, of_groups
from loopyperf.models.on_device.timed_launch import TimedLaunch

EVEN = 1 / 256
"""of what a core executes: where no group takes more, each core has many of every kind, and the mean group stands for
all"""


@dataclass(frozen=True)
class LastCore:
    """A core, and the groups that it is dealt."""

    groups: Sequence[tuple[Batch, int]]
    """in the order of dispatch, and how many of each follow each other"""
    make_ups: Sequence[MakeUp]
    cores: int
    """cores that have at least half as much to do"""
    is_even: bool
    """no group takes more than :data:`EVEN` of what it has to do"""

    @property
    def number(self) -> int:
        """Return how many groups it executes."""
        return sum(number for _, number in self.groups)

    @cached_property
    def warps(self) -> Mapping[int, float]:
        """Return program -> how many of its warps execute it."""
        found: dict[int, float] = {}
        for batch, number in self.groups:
            for make_up, share in ((batch.lightest, 1 - batch.share), (batch.heaviest, batch.share)):
                for program, warps in self.make_ups[make_up].items() if share else ():
                    found[program] = found.get(program, 0.0) + share * number * warps
        return found

    @property
    def shares(self) -> Mapping[int, float]:
        """Return program -> its share of the warps of the core."""
        every = sum(self.warps.values())
        return {program: warps / every for program, warps in self.warps.items()}


def last_core(launch: TimedLaunch) -> LastCore:
    """Return the core that ends last, of an execution of *launch* that takes longest.

    How long a group takes of a core that is full is the greatest of what its warps ask of each pipeline, and of its
    latency over the groups that reside at once.
    """
    batches, at_once = launch.batches, launch.execution.concurrent_groups
    demands = launch.once(of_groups)
    busy = [launch.launch.warps_per_group * max(each.busy.values(), default=0.0) for each in demands]
    latency = [_latency(each) for each in demands]
    taken = [max(here, waited / at_once) for here, waited in zip(busy, latency, strict=True)]
    found: list[tuple[float, Level[Batch], int]] = []
    for _, order in batches.orders:
        cores = Machines[Batch](launch.device.cores)
        for batch in order:
            cores.deal(batch.mean(taken), batch.groups, batch)
        last = max(cores.levels, key=lambda level: (_end(level, latency), level.load))
        busy_cores = sum(level.machines for level in cores.levels if 2 * level.load >= last.load)
        found.append((_end(last, latency), last, busy_cores))
    end, last, busy_cores = max(found, key=lambda each: each[0])
    longest = max(max(batch.mean(busy), batch.most(latency)) for batch in batches.every)
    return LastCore(_groups(last), batches.make_ups, busy_cores, longest <= EVEN * end)


def most_of_a_core(launch: TimedLaunch, of_make_ups: Sequence[float]) -> float:
    """Return what the core has that has most, dealt by nothing else, in all executions of *launch*.

    *of_make_ups* is how much a group has of each make-up.
    """
    found = every = 0.0
    for times, order in launch.batches.orders:
        cores = Machines[Batch](launch.device.cores)
        for batch in order:
            cores.deal(batch.mean(of_make_ups), batch.groups, batch)
        found, every = found + times * cores.most, every + times
    return found / every * launch.launch.times


def executed_by_core(launch: TimedLaunch) -> tuple[Mapping[int, float], float]:
    """Return program -> its share of the warps of the core that ends last, and how many these are in all executions.

    Where all groups do the same, that is the core with most groups.
    """
    if launch.batches.are_alike:
        return launch.shares, launch.warps_of_core
    core = launch.once(last_core)
    return core.shares, sum(core.warps.values()) * launch.launch.times


def _latency(demand: LaunchDemand) -> float:
    """Return Λapp; 0 where the device's description does not tell it, or nothing does."""
    with suppress(MissingNumberError, GraphError):
        return demand.latency
    return 0.0


def _end(level: Level[Batch], latency: Sequence[float]) -> float:
    """Return when machines loaded like this end, which takes as long as the longest of their groups at least."""
    return max([level.load, *(batch.most(latency) for batch, _ in _groups(level))])


def _groups(level: Level[Batch]) -> list[tuple[Batch, int]]:
    """Return the groups of machines loaded like this; neighbours that do the same are one."""
    found: list[tuple[Batch, int]] = []
    for batch, number in level.history():
        same = replace(batch, groups=1)
        if found and found[-1][0] == same:
            found[-1] = same, found[-1][1] + number
        else:
            found.append((same, number))
    return found
