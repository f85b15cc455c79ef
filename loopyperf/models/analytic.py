"""Time of a launch by an analytic model: groups are distributed to cores, and the last core to finish sets the time.

A run is as many warps as reside on a core at once. If all groups are equal, the core with most groups executes its
warps run after run; the last run has the remaining warps. Otherwise each group g has its own cycles: c_g(ω) for a run
of ω warps like its own, D_g for a full run. The time is

    max over g of  max(E_g + D_g/γ,  S_g + c_g(ω_g)),      ω_g/|γ| = 1 + γ·(E_g − S_g)/D_g, from 1 to γ

γ groups of |γ| warps reside on a core at once. S_g is the start time of g if all groups before it are distributed to
the group slots of all cores (each takes D). E_g is the load of the least loaded core at that point if they are
distributed to cores (each takes D/γ). Both only grow when work is added (``pipeline/batches.py``). If the cycles of a
run only grow, so does the time: more work never takes less time. Equal groups take the same time as run after run.

For a model that is the maximum of several sides, such as pipelines that overlap with each other, each side distributes
the groups on its own: groups that use different pipelines share a core like average groups.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from loopyperf.models.demand import LaunchDemand, cached_for_launch, of_groups
from loopyperf.models.model_interface import Rows, busiest_and_rest
from loopyperf.models.result import BreakdownRow
from loopyperf.models.workload import CyclesOfRun, Floats, Sides, busy_or_alone
from loopyperf.pipeline.batches import Batch, Machines
from loopyperf.pipeline.timed_program import TimedLaunch

MODELED_SHARE = 0.1
"""Fraction of the work of the largest composition of groups (numbers of warps of each program) below which one is
modeled as the others."""
CLASSES = 16
"""Maximum number of compositions that a model predicts; beyond it, a selection spread evenly by work."""
FRACTIONS_UP_TO = 8
"""Groups per core beyond which Volkov's model gives the time of a fraction of a further group."""
UNEVEN_SHARES_UP_TO = 16
"""Groups per core beyond which an uneven share of the device's common resources barely changes the time."""
SAME_NUMBER = 1e-6
"""Relative tolerance for equal numbers of groups."""
Run = Callable[[int, Floats], Floats]
"""Cycles of a run of groups (a possibly fractional number of them) of the composition with a given index."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of the last group of a batch, in cycles."""

    batch: Batch
    cycles: float
    """Time at which it ends."""
    start: float
    """S, time at which it becomes resident."""
    load: float
    """Load of its core at that point, including the group."""
    longest: float
    """Time at which it ends if it is alone on its core from its start."""


def rows_by(model: CyclesOfRun, sides: Sides | None = None) -> Rows:
    """Return a function that yields the rows of a launch by *model*, which may be the maximum of several *sides*."""

    def rows(launch: TimedLaunch) -> Iterator[BreakdownRow]:
        yield from cost_rows(launch, analytic_cycles(model, launch, sides))

    return rows


def analytic_cycles(model: CyclesOfRun, launch: TimedLaunch, sides: Sides | None = None) -> float:
    """Return the cycles of one execution of *launch* by *model*, until the last core finishes."""
    if launch.are_equal:
        return _run_after_run(model, launch)
    if sides is None:
        return UnlikeGroups(launch, lambda alike: _run_after_run(model, alike)).cycles()
    demands, size = cached_for_launch(launch, of_groups), launch.warps_per_group
    distributed = [DistributedGroups(side, launch) for side in _by_sides(sides, demands, size)]
    found = [times * max(each.ending(order).cycles for each in distributed) for times, order in launch.batches.orders]
    return sum(found) / launch.batches.executions


def _run_after_run(model: CyclesOfRun, launch: TimedLaunch) -> float:
    """Return the cycles of the core with most groups, all of which are equal."""
    at_once, every = launch.execution.concurrent_warps, launch.execution.total_warps
    full, last = divmod(every, at_once)
    runs = [warps for warps in (at_once, last) if warps]
    cycles = model(cached_for_launch(launch, LaunchDemand), np.array(runs, dtype=np.float64))
    return full * float(cycles[0]) + (float(cycles[1]) if last else 0.0)


# {{{ sides of a model


def _by_sides(sides: Sides, demands: Sequence[LaunchDemand], size: int) -> list[Run]:
    """Return the sides that no other side bounds from above for every composition."""
    found = [sides(demand) for demand in demands]
    lines = {
        tuple(each.get(name, (0.0, 0.0)) for each in found): None
        for name in dict.fromkeys(n for each in found for n in each)
    }

    def is_below(line: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
        return all(mine[0] <= its[0] and mine[1] <= its[1] for mine, its in zip(line, other, strict=True))

    kept = [line for line in lines if not any(is_below(line, other) for other in lines if other is not line)]
    return [
        lambda composition, groups, line=line: line[composition][0] * size * groups + line[composition][1]
        for line in kept
    ]


# }}}

# {{{ distribution of groups to cores


class DistributedGroups:
    """The groups of a launch, distributed to cores by the run time of a model or of one of its sides."""

    def __init__(self, run: Run, launch: TimedLaunch) -> None:
        """Distribute the groups of *launch*; *run* returns the cycles of a run."""
        self.run, self.batches = run, launch.batches
        self.cores, self.at_once = launch.device.needed("cores"), launch.execution.concurrent_groups
        every = [
            run(composition, np.array([1.0, self.at_once])) for composition in range(len(self.batches.compositions))
        ]
        self.alone = [float(each[0]) for each in every]
        """Composition -> cycles of one group."""
        self.loads = [float(each[1]) / self.at_once for each in every]
        """Composition -> cycles per group on a fully occupied core: D/γ."""

    def endings(self, order: Sequence[Batch]) -> list[Ending]:
        """Return the end of the last group of each batch."""
        places, cores = Machines(self.cores * self.at_once), Machines(self.cores)
        own = np.array([batch.value(self.loads) for batch in order])
        of_places = zip((self.at_once * own).tolist(), order, strict=True)
        starts = np.array([places.deal(each, batch.groups) for each, batch in of_places])
        loads = np.array([cores.deal(each, batch.groups) for each, batch in zip(own.tolist(), order, strict=True)])
        beside = np.divide(loads - starts, own, out=np.zeros_like(own), where=own > 0)
        longest = starts + [batch.most(self.alone) for batch in order]
        ends = np.maximum(loads + own, starts + self._cycles(order, np.clip(1 + beside, 1, self.at_once)))
        every = (np.maximum(ends, longest), starts, loads + own, longest)
        columns = (each.tolist() for each in every)
        return [Ending(batch, *each) for batch, *each in zip(order, *columns, strict=True)]

    def ending(self, order: Sequence[Batch]) -> Ending:
        """Return the end of the group that ends last."""
        return max(self.endings(order), key=lambda each: each.cycles)

    @property
    def last(self) -> Ending:
        """Return the end of the last group in the longest execution."""
        return max((self.ending(order) for _, order in self.batches.orders), key=lambda each: each.cycles)

    def _cycles(self, order: Sequence[Batch], groups: Floats) -> Floats:
        """Return c for a group of each batch, given how many *groups* reside on its core, itself included."""
        every = {
            composition: self.run(composition, groups) for composition in {m for b in order for m in (b.light, b.mean)}
        }
        low, high = (
            np.array([every[composition][at] for at, composition in enumerate(compositions)])
            for compositions in ([b.light for b in order], [b.mean for b in order])
        )
        return low + np.array([batch.share for batch in order]) * (high - low)


# }}}


# {{{ groups that differ, by models of uniform groups


class UnlikeGroups:
    """The groups of a launch that differ, timed by a model of a core whose groups are equal.

    The groups are distributed to cores as in Volkov's model. Let L be the load of a core by that model, and L_i its
    part in groups like i. The core takes the mean, weighted by L_i, of the model's times for cores that have only
    groups like i, in the number that makes the load L. So added work anywhere adds to the time.
    """

    def __init__(self, launch: TimedLaunch, cycles: Callable[[TimedLaunch], float]) -> None:
        """Distribute the groups of *launch*; *cycles* returns the cycles of an execution of equal groups."""
        self.launch, self.cycles_of = launch, cycles
        self.distributed = cached_for_launch(launch.evenly, _distributed_by_volkov)
        self._known: dict[tuple[Hashable, ...], float] = {}
        totals: dict[int, float] = {}
        for times, batch in launch.batches.every:
            load = times * batch.groups * batch.value(self.distributed.loads)
            totals[batch.mean] = totals.get(batch.mean, 0.0) + load
        self.mean = sum(totals.values()) / launch.batches.executions / launch.device.needed("cores")
        most = max(totals.values(), default=0.0)
        much = [composition for composition, total in totals.items() if total >= MODELED_SHARE * most]
        much.sort(key=lambda composition: self.distributed.loads[composition])
        some = much[:: -(-len(much) // CLASSES)]
        work = sum(totals[composition] for composition in some) or 1.0
        self.shares = {composition: totals[composition] / work for composition in some}

    def cycles(self) -> float:
        """Return the cycles of one execution of the launch.

        They are at least those of its work spread evenly over all cores, and of its longest group alone.
        """
        orders, every = self.launch.batches.orders, self.launch.batches.executions
        endings = [(times, self.distributed.endings(order)) for times, order in orders]
        most = sum(times * max(each.load for each in found) for times, found in endings) / every
        is_even = self.mean >= (1 - SAME_NUMBER) * most
        here = self.launch.evenly if is_even else self.launch.with_balance(self.mean / most)
        busy = self._busy(here, most)
        loads = [self.distributed.loads[composition] for composition in self.shares]
        if not is_even and min(loads) <= self.mean and most <= UNEVEN_SHARES_UP_TO * max(loads):
            busy = max(busy, self._busy(self.launch.evenly, self.mean))
        pace = min(1.0, busy / most) if most else 1.0
        last = [(times, max(found, key=lambda each: each.longest)) for times, found in endings]
        return max(busy, sum(times * self._alone(each, pace) for times, each in last) / every)

    def _alone(self, last: Ending, pace: float) -> float:
        """Return the end of the longest warp in the last group of a batch.

        *pace* is the model's time for the preceding work divided by that of Volkov's model.
        """
        if 2 * last.longest < self.mean:  # other groups set the time
            return 0.0
        alone = [0.0] * len(self.distributed.loads)
        for composition in (last.batch.light, last.batch.mean):
            alone[composition] = self._of(self.launch, composition, 1.0)
        return pace * last.start + last.batch.most(alone)

    def _busy(self, launch: TimedLaunch, load: float) -> float:
        """Return the cycles of a core with the given load."""
        return sum(
            share * self._of(launch, composition, load / self.distributed.loads[composition])
            for composition, share in self.shares.items()
        )

    def _of(self, launch: TimedLaunch, composition: int, groups: float) -> float:
        """Return the cycles of a possibly fractional number of groups of a composition."""
        low = floor(groups * (1 + SAME_NUMBER))
        part = max(0.0, groups - low)
        found = self._of_whole(launch, composition, low)
        if part < SAME_NUMBER * groups:
            return found
        if groups > FRACTIONS_UP_TO:
            return found + part * self.distributed.loads[composition]
        return found + part * max(0.0, self._of_whole(launch, composition, low + 1) - found)

    def _of_whole(self, launch: TimedLaunch, composition: int, groups: int) -> float:
        if groups == 0:
            return 0.0
        alike = launch.like(self.launch.batches.compositions[composition], groups)
        key = launch.balance, *launch.balances.items(), _warps(alike), groups
        if key not in self._known:
            self._known[key] = self.cycles_of(alike)
        return self._known[key]


def _warps(launch: TimedLaunch) -> Hashable:
    """Return the programs of equal groups' warps, in order, and the shares of the programs."""
    shares: dict[int, float] = {}
    for program, share in launch.shares.items():
        shares[launch.first[program]] = shares.get(launch.first[program], 0.0) + share
    return tuple([launch.first[program] for program in launch.order]), tuple(sorted(shares.items()))


def _distributed_by_volkov(launch: TimedLaunch) -> DistributedGroups:
    demands, size = cached_for_launch(launch, of_groups), launch.warps_per_group
    return DistributedGroups(lambda composition, groups: busy_or_alone(demands[composition], groups * size), launch)


# }}}

# {{{ the core that finishes last


def on_last_core(rows: Rows) -> Rows:
    """Return a function that yields the *rows* of a launch for the core that finishes last."""
    return lambda launch: rows(last_core(launch))


def last_core(launch: TimedLaunch) -> TimedLaunch:
    """Return *launch* as the core that finishes last executes it: groups like its last one, as many as make its load.

    If all groups are equal, return the launch itself.
    """
    return launch if launch.are_equal else cached_for_launch(launch, _last_core)


def cost_rows(launch: TimedLaunch, cycles: float) -> Iterator[BreakdownRow]:
    """Yield the cost of a launch of *cycles* cycles: each instruction on the busiest pipeline, then the latency."""
    core = last_core(launch)
    if core is not launch:
        busy = max(cached_for_launch(core, LaunchDemand).busy.values(), default=0.0) * launch.warps_per_group
        core = core.like(core.group, min(core.groups, cycles / busy if busy else core.groups))
    yield from busiest_and_rest(core, cycles)


def _last_core(launch: TimedLaunch) -> TimedLaunch:
    distributed = cached_for_launch(launch.evenly, _distributed_by_volkov)
    last = distributed.last
    groups = last.load / (last.batch.value(distributed.loads) or 1.0)
    work = launch.batches.total(distributed.loads) / launch.batches.executions
    cores = max(1, min(launch.device.needed("cores"), round(work / last.load if last.load else 1)))
    return launch.like(last.batch.mixed(launch.batches.compositions), groups, cores)


# }}}
