"""The staircase of a pointer chase: latencies of the levels of memory, and how much each holds.

Over the bytes that are visited, the time of a load stays the same as long as they fit a level, and climbs to that of
the next one. A step is where it stays: three neighbouring points or more that differ little, one from the next. Two are
enough at the foot of the stairs; without it, nobody could tell which level the first step is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from loopyperf.measurement.microbenchmarks.estimated import Estimated

ALIKE = 1.2
"""ratio up to which neighbouring times are of one step"""
APART = 1.3
"""ratio from which on two steps are two levels"""
POINTS, FEWEST = 3, 2
"""that make a step, and the first one"""


@dataclass(frozen=True, slots=True)
class Level:
    """A step of the staircase."""

    latency: Estimated
    """of a load, in the unit of the times"""
    holds: int
    """bytes that still take no longer"""
    holds_not: int | None
    """the next larger number of bytes that was tried, which does take longer; None where there is none"""


def memory_levels(times: Mapping[int, float]) -> tuple[Level, ...]:
    """Return the levels, nearest first, from the *times* of a load by the bytes that were visited.

    There are none if the times of the smallest sizes already differ.
    """
    points = sorted(times.items())
    first, *others = _steps(points)
    if len(first) < FEWEST:
        return ()
    steps = [first, *(step for step in others if len(step) >= POINTS)]
    return tuple(_level(step, points) for step in _merged(steps))


Step = list[tuple[int, float]]


def _steps(points: Step) -> list[Step]:
    """Return the points in runs in which each is like the one before."""
    found: list[Step] = [points[:1]]
    for before, point in pairwise(points):
        if 1 / ALIKE <= point[1] / before[1] <= ALIKE:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with those put together that are hardly apart: a large page, a farther part of a cache."""
    found: list[Step] = []
    for step in steps:
        if found and _typical(step) / _typical(found[-1]) < APART:
            found[-1] = [*found[-1], *step]
        else:
            found.append(step)
    return found


def _level(step: Step, points: Step) -> Level:
    typical = _typical(step)
    times = np.array([time for _, time in step])
    holds = max(nbytes for nbytes, time in step if time <= ALIKE * typical)
    larger = [nbytes for nbytes, _ in points if nbytes > holds]
    error = float(times.std(ddof=1)) / len(step) ** 0.5
    return Level(Estimated(typical, error), holds, min(larger, default=None))


def _typical(step: Step) -> float:
    return float(np.median([time for _, time in step]))
