"""The time of a launch by a model of runs, whose groups are dealt to cores: it ends when the last core does.

A run is as many warps as reside on a core at once. Where all groups do the same, the core with most of them executes
its warps run after run, the last run with what is left. Else each group g has cycles of its own, c_g(ω) of a run of ω
warps like its own, D_g of a full one, and the time is

    max over g of  max(E_g + D_g/γ,  S_g + c_g(ω_g)),      ω_g/|γ| = 1 + γ·(E_g − S_g)/D_g, from 1 to γ

with γ groups of |γ| warps that reside on a core at once; S_g is when g finds a place, all groups before it dealt to the
places of all cores (each D), E_g how much the least loaded core has to do then, with the same groups dealt to cores
(each D/γ). Both only grow when work is added (:mod:`loopyperf.models.on_device.dealing`), and so does the time if the
cycles of a run do: no more work takes less time. Equal groups take what they take run after run.

A model that is the greatest of several sides, such as pipelines that overlap with each other, has its groups dealt by
each side on its own: groups that are busy with different things share a core as the mean group would.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from loopyperf.models.on_device.batches import Batch
from loopyperf.models.on_device.costs import Rows, busiest_and_rest
from loopyperf.models.on_device.dealing import Machines
from loopyperf.models.on_device.demand import LaunchDemand, of_groups
from loopyperf.models.on_device.timed_launch import TimedLaunch
from loopyperf.models.result import Row
from loopyperf.models.workload import CyclesOfRun, Floats, Sides, WarpDemand

Run = Callable[[int, Floats], Floats]
"""the cycles of a run of so many groups, which need not be whole numbers, of a make-up"""


def rows_by(model: CyclesOfRun, sides: Sides | None = None) -> Rows:
    """Return the function that gives the rows of a launch by *model*, which may be the greatest of several *sides*."""

    def rows(launch: TimedLaunch) -> Iterator[Row]:
        yield from busiest_and_rest(launch, launch_cycles(model, launch, sides))

    return rows


def launch_cycles(model: CyclesOfRun, launch: TimedLaunch, sides: Sides | None = None) -> float:
    """Return by *model* how many cycles one execution of *launch* takes, until the last core ends."""
    if launch.batches.are_alike:
        return _run_after_run(model, launch)
    demands, size = launch.once(of_groups), launch.launch.warps_per_group
    runs = _by_sides(sides, demands, size) if sides else [_by_model(model, demands, size)]
    dealt, orders = [_Dealt(run, launch) for run in runs], launch.batches.orders
    found = [sum(times * _of_order(dealt, order) for times, order in orders) / sum(times for times, _ in orders)]
    if sides:
        found += _of_shared(launch, demands)
    if launch.full_waves:
        found.append(launch_cycles(model, launch.full_waves, sides))
    return max(found)


def _of_shared(launch: TimedLaunch, demands: Sequence[LaunchDemand]) -> Iterator[float]:
    """Yield how many cycles what all cores share is asked for by all groups of an execution of *launch*."""
    every, orders = [each.equal_parts for each in demands], launch.batches.orders
    for name in dict.fromkeys(name for each in every for name in each):
        of_groups = [each.get(name, 0.0) * launch.launch.warps_per_group for each in every]
        asked = sum(times * batch.groups * batch.mean(of_groups) for times, order in orders for batch in order)
        yield asked / launch.device.cores / sum(times for times, _ in orders)


def _run_after_run(model: CyclesOfRun, launch: TimedLaunch) -> float:
    """Return how many cycles the core with most groups takes, which are alike."""
    at_once, every = launch.execution.concurrent_warps, launch.execution.total_warps
    full, last = divmod(every, at_once)
    runs = [warps for warps in (at_once, last) if warps]
    cycles = model(launch.once(LaunchDemand), np.array(runs, dtype=np.float64))
    return full * float(cycles[0]) + (float(cycles[1]) if last else 0.0)


# {{{ sides of a model


def _by_model(model: CyclesOfRun, demands: Sequence[WarpDemand], size: int) -> Run:
    return lambda make_up, groups: model(demands[make_up], groups * size)


def _by_sides(sides: Sides, demands: Sequence[LaunchDemand], size: int) -> list[Run]:
    """Return the sides but those that another one exceeds whatever the group."""
    found = [sides(demand) for demand in demands]
    lines = {
        tuple(each.get(name, (0.0, 0.0)) for each in found): None
        for name in dict.fromkeys(n for each in found for n in each)
    }
    kept = [line for line in lines if not any(_is_below(line, other) for other in lines if other is not line)]
    return [lambda make_up, groups, line=line: line[make_up][0] * size * groups + line[make_up][1] for line in kept]


def _is_below(line: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    return all(mine[0] <= its[0] and mine[1] <= its[1] for mine, its in zip(line, other, strict=True))


# }}}

# {{{ groups dealt to cores


class _Dealt:
    """The groups of a launch, dealt by what the runs of one side of a model take."""

    def __init__(self, run: Run, launch: TimedLaunch) -> None:
        self.run, self.cores, self.at_once = run, launch.device.cores, launch.execution.concurrent_groups
        every = [run(make_up, np.array([1.0, self.at_once])) for make_up in range(len(launch.batches.make_ups))]
        self.alone = [float(each[0]) for each in every]
        self.full = [float(each[1]) for each in every]

    def starts(self, order: Sequence[Batch]) -> tuple[Floats, Floats]:
        """Return S and E of the last group of each batch."""
        places, cores = Machines[Batch](self.cores * self.at_once), Machines[Batch](self.cores)
        full = [batch.mean(self.full) for batch in order]
        starts = [places.deal(each, batch.groups, batch) for each, batch in zip(full, order, strict=True)]
        loads = [cores.deal(each / self.at_once, batch.groups, batch) for each, batch in zip(full, order, strict=True)]
        return np.array(starts), np.array(loads)

    def ends(self, order: Sequence[Batch], starts: Floats, loads: Floats) -> Floats:
        """Return when the last group of each batch ends."""
        full = np.array([batch.mean(self.full) for batch in order])
        own = np.divide(full, self.at_once)
        beside = np.divide(loads - starts, own, out=np.zeros_like(own), where=own > 0)
        return np.maximum(loads + own, starts + self._cycles(order, np.clip(1 + beside, 1, self.at_once)))

    def _cycles(self, order: Sequence[Batch], groups: Floats) -> Floats:
        """Return c of a group of each batch, beside whom so many reside on its core."""
        every = {make_up: self.run(make_up, groups) for make_up in {m for b in order for m in (b.lightest, b.heaviest)}}
        low, high = (
            np.array([every[make_up][at] for at, make_up in enumerate(make_ups)])
            for make_ups in ([b.lightest for b in order], [b.heaviest for b in order])
        )
        return low + np.array([batch.share for batch in order]) * (high - low)


def _of_order(dealt: Sequence[_Dealt], order: Sequence[Batch]) -> float:
    """Return how many cycles the groups of an execution take, dealt in that *order*."""
    every = [each.starts(order) for each in dealt]
    ends = max(float(each.ends(order, *found).max()) for each, found in zip(dealt, every, strict=True))
    starts = np.max([found[0] for found in every], axis=0)
    alone = np.max([[batch.most(each.alone) for batch in order] for each in dealt], axis=0)
    return max(ends, float((starts + alone).max()))


# }}}
