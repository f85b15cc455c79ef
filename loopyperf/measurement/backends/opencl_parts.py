"""Parts of a kernel on an OpenCL device: its own device programs, launched with fewer groups."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import prod

import pyopencl as cl

from loopyperf.measurement.backends.interface import Timing
from loopyperf.measurement.backends.opencl_device import groups_at_once
from loopyperf.measurement.backends.opencl_program import Launch, LaunchSequence
from loopyperf.measurement.backends.parts import DeviceProgram, Grid, check_parts, device_programs


class BoundKernel:
    """A kernel with its arguments on a device."""

    def __init__(
        self,
        launches: LaunchSequence,
        queue: cl.CommandQueue,
        naming: Callable[[], AbstractContextManager[None]],
        evict: Callable[[int], None],
    ) -> None:
        """Take the *launches* of a run; *naming* says which case errors are of, *evict* touches so many other bytes."""
        self._launches, self._queue, self._naming, self._evict = launches, queue, naming, evict

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """Return the device programs that have groups in a run."""
        return device_programs(
            [(each.kernel.function_name, each.groups, self._saturation(each)) for each in self._launches.launches]
        )

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> Timing:
        """Return the seconds of *runs* runs of *program* on *grids*; see :class:`BoundParts`."""
        own = [each for each in self._launches.launches if each.kernel.function_name == program]
        check_parts(program, len(own), grids)
        cut = tuple(launch.of_groups(grid) for launch, grid in zip(own, grids, strict=True))
        before = partial(self._evict, evicted) if evicted else None
        with self._naming():
            return LaunchSequence(cut, self._launches.arguments).time(self._queue, runs, before)

    def _saturation(self, launch: Launch) -> int:
        return groups_at_once(self._queue.device, launch.kernel, prod(launch.local_size))
