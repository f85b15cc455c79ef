"""The time of a launch by a model of runs: the core with most groups executes its warps run after run.

A run is as many warps as reside on the core at once; the last one may have fewer.
"""

from collections.abc import Iterator

import numpy as np

from loopyperf.models.on_device.costs import Rows, busiest_and_rest
from loopyperf.models.on_device.demand import LaunchDemand
from loopyperf.models.on_device.timed_launch import TimedLaunch
from loopyperf.models.result import Row
from loopyperf.models.workload import CyclesOfRun


def rows_by(model: CyclesOfRun) -> Rows:
    """Return the function that gives the rows of a launch by *model*."""

    def rows(launch: TimedLaunch) -> Iterator[Row]:
        yield from busiest_and_rest(launch, launch_cycles(model, launch))

    return rows


def launch_cycles(model: CyclesOfRun, launch: TimedLaunch) -> float:
    """Return by *model* how many cycles the core with most groups takes for one execution of *launch*."""
    at_once, every = launch.execution.concurrent_warps, launch.execution.total_warps
    full, last = divmod(every, at_once)
    runs = [warps for warps in (at_once, last) if warps]
    cycles = model(launch.once(LaunchDemand), np.array(runs, dtype=np.float64))
    return full * float(cycles[0]) + (float(cycles[1]) if last else 0.0)
