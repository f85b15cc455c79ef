"""A synthetic backend that times parts of kernels; tests specify the time of each group."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import loopy as lp

from loopyperf.idg.warp_classes import grid_extent
from loopyperf.kernel import load_kernel
from loopyperf.measurement.backends.backend import (
    BenchmarkCase,
    BoundParts,
    Contents,
    DeviceProgram,
    Grid,
    MeasuredTimes,
)
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.environment import DeviceLimits, Environment

LIMITS = DeviceLimits(group_size=1024, local_memory=48 * 1024, global_memory=2**30)
TICK = 2.0**-20
"""seconds; about a microsecond, and a power of two, so that sums are exact"""
LAUNCH = 4 * TICK
HOST = 8 * TICK
"""seconds by which the wall-clock time exceeds the device time"""


def alike(group: Grid, program: str) -> float:
    """Return one tick for each group."""
    return TICK


@dataclass
class PartsBackend:
    """Runs nothing: a launch takes :data:`LAUNCH` plus *seconds* of each group, and twice that in every other run.

    The grids are those of the kernel's own launches; the device executes *saturation* groups at once.
    """

    seconds: Callable[[Grid, str], float] = alike
    saturation: int = 1
    name: str = "Arithmetic Device 1"
    limits: DeviceLimits = LIMITS
    asked: list[tuple[str, int]] = field(default_factory=list)
    """programs that were run, with their numbers of groups"""
    evicted: list[int] = field(default_factory=list)
    """bytes of other memory to touch before each of these runs"""
    contents: list[dict[str, int]] = field(default_factory=list)
    """leading bytes of arrays on the device, for each bound kernel"""

    @property
    def environment(self) -> Environment:
        return Environment.here(
            backend="arithmetic", platform="arithmetic 1.0", vendor="nobody", device=self.name, driver="1.0"
        )

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        self.contents.append(dict(contents))
        grids = grids_of(case.configuration.build(), case.sizes)
        programs = [DeviceProgram(name, (grid,), self.saturation) for name, grid in grids if prod(grid)]
        return BoundParts([(each.name, each) for each in programs], self._timed)

    def _timed(self, parts: list[tuple[str, Grid]], runs: int, evicted: int) -> MeasuredTimes:
        program, grids = parts[0][0], [grid for _, grid in parts]
        self.asked.append((program, sum(map(prod, grids))))
        self.evicted.append(evicted)
        groups = (group for grid in grids for group in product(*map(range, grid)))
        seconds = LAUNCH * len(grids) + sum(self.seconds(group, program) for group in groups)
        device = tuple(seconds * (2 if run % 2 else 1) for run in range(runs))
        return MeasuredTimes(tuple(each + HOST for each in device), device)


def grids_of(unit: lp.TranslationUnit, sizes: Mapping[str, Any]) -> list[tuple[str, Grid]]:
    """Return the grid of each launch of the kernel, with all axes up to the last one in use."""
    found: list[tuple[str, Grid]] = []
    for launch in load_kernel(unit).launches:
        lengths = {axis: grid_extent(launch, axis, sizes) for axis in launch.group_axes}
        found.append((launch.name, tuple(lengths.get(axis, 1) for axis in range(max(lengths, default=0) + 1))))
    return found


@dataclass
class WholeAndParts(PartsBackend):
    """Also runs whole kernels, which take *slower* times as long as their groups one after another."""

    slower: float = 1.25
    calls: list[BenchmarkCase] = field(default_factory=list)
    """requested runs of whole kernels"""

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        if case.kernel_class == REFERENCE:
            return MeasuredTimes((1e3 * LAUNCH if case.sizes["rounds"] > 64 else LAUNCH,) * runs)
        self.calls.append(case)
        return MeasuredTimes((self.whole(case.configuration.build(), case.sizes),) * runs)

    def whole(self, unit: lp.TranslationUnit, sizes: Mapping[str, Any]) -> float:
        """Return the wall-clock seconds of a run, if all groups take as long as the first one."""
        launches = [(name, prod(grid)) for name, grid in grids_of(unit, sizes)]
        return HOST + self.slower * sum(LAUNCH + groups * self.seconds((0,), name) for name, groups in launches)


def device() -> WholeAndParts:
    """Return the backend, for ``--backend``."""
    return WholeAndParts()
