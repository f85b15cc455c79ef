"""When each group of a core starts, comes along, and finishes (Dao, section 4, figures 5 to 8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import SimulationError
from loopyperf.pipeline.clock import Clock
from loopyperf.pipeline.memory import PLACE, TIME, WARP
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import Simulation, executed

Share = Fraction | float
Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """A group's moments, in cycles."""

    group: int
    """its number, from 0"""
    start: Fraction
    """its first instruction issues"""
    milestones: tuple[Fraction, ...]
    """the shares of its instructions that were asked for have issued"""
    finish: Fraction
    """all that it issued is complete"""


def group_times(simulation: Simulation, shares: Sequence[Share] = ()) -> tuple[GroupTimes, ...]:
    """Return when each group started, when it had issued each of *shares* of its instructions, and when it finished.

    The core of *simulation* is run once more, and each issue noted. Groups that execute nothing are left out. Raises
    :class:`SimulationError` for a share that is not above 0 or above 1.
    """
    wrong = [share for share in shares if not 0 < share <= 1]
    if wrong:
        raise SimulationError(f"a share of a group's instructions is above 0 and at most 1, received {wrong[0]}")
    scenario = simulation.scenario
    trace = executed(scenario, is_traced=True).trace
    complete = trace[:, TIME] + _completions(scenario)[trace[:, PLACE]]
    group = trace[:, WARP] // scenario.execution.warps_per_group
    members = ((int(number), group == number) for number in np.unique(group))
    return tuple(_times(number, trace[own, TIME], complete[own], scenario.clock, shares) for number, own in members)


def _completions(scenario: Scenario) -> Ticks:
    """Return Λ of each place, in ticks; those of several programs one after the other, as in the trace."""
    latencies = [each for found in scenario.latencies for each in found]
    return np.array([scenario.clock.ticks(each.completion) for each in latencies], dtype=np.int64)


def _times(number: int, issued: Ticks, complete: Ticks, clock: Clock, shares: Sequence[Share]) -> GroupTimes:
    reached = (int(issued[ceil(share * len(issued)) - 1]) for share in shares)
    milestones = tuple(clock.cycles(ticks) for ticks in reached)
    return GroupTimes(number, clock.cycles(int(issued[0])), milestones, clock.cycles(int(complete.max())))
