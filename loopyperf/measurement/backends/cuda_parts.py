"""Parts of a kernel on an NVIDIA GPU: its own device functions, launched with fewer groups."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from loopyperf.measurement.backends.cuda_program import Extent, Launch
from loopyperf.measurement.backends.cuda_timing import LaunchSequence, Stopwatch
from loopyperf.measurement.backends.cupy_interface import CuPy, Module
from loopyperf.measurement.backends.interface import Timing
from loopyperf.measurement.backends.parts import DeviceProgram, Grid, check_parts, device_programs


@dataclass(frozen=True, slots=True)
class DeviceRuntime:
    """What parts are run by."""

    cupy: CuPy
    stopwatch: Stopwatch
    cores: int
    dynamic_local_memory: int
    """bytes that a group takes beside its own"""


class BoundKernel:
    """A kernel with its arguments on a device."""

    def __init__(
        self,
        module: Module,
        launches: Sequence[Launch],
        runtime: DeviceRuntime,
        entering: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Take the *launches* of a run; *entering* makes the device current, and says of what is raised where it is."""
        self._module, self._launches, self._runtime, self._entering = module, launches, runtime, entering

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """Return the device programs that have groups in a run; Psat is by the driver's occupancy."""
        with self._entering():
            return device_programs([(each.function, each.grid, self._saturation(each)) for each in self._launches])

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> Timing:
        """Return the seconds of *runs* runs of *program* on *grids*; see :class:`BoundParts`."""
        own = [each for each in self._launches if each.function == program]
        check_parts(program, len(own), grids)
        cut = [launch._replace(grid=_extent(grid)) for launch, grid in zip(own, grids, strict=True)]
        with self._entering():
            sequence = LaunchSequence(self._module, cut, self._runtime.dynamic_local_memory)
            before = partial(self._runtime.cupy.empty(evicted, np.uint8).fill, 0) if evicted else None
            return self._runtime.stopwatch.timing(sequence.enqueue, runs, before)

    def _saturation(self, launch: Launch) -> int:
        """Return the groups that reside on all cores at once (``cuOccupancyMaxActiveBlocksPerMultiprocessor``)."""
        function = self._module.get_function(launch.function).kernel.ptr
        on_core = self._runtime.cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            function, prod(launch.group), self._runtime.dynamic_local_memory
        )
        return self._runtime.cores * max(1, on_core)


def _extent(grid: Grid) -> Extent:
    x, y, z = grid
    return x, y, z
