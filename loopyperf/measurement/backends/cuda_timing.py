"""Timing the launches of a CUDA program: by the wall clock, and by the device's own clock.

A wall-clock sample is what the kernel's user waits for: from the first launch until the device is done. It has in it
what the host takes to launch. A device sample has not: all launches of a run are queued behind a kernel that holds the
device up, and events before and after them tell how long the device was busy with them.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.cuda_program import Launch
from loopyperf.measurement.backends.cupy_interface import CuPy, Module
from loopyperf.measurement.backends.interface import Timing
from loopyperf.measurement.backends.repetition import no_garbage_collection

HOLD = """extern "C" __global__ void hold(unsigned long long nanoseconds)
{
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}
"""
"""keeps the device busy for so long"""
SHORTEST_HOLD = 100e-6
"""seconds; two events and a launch take the host a tenth of it"""
LONGEST_HOLD = 0.2
"""seconds, after which a watchdog is near where the device has a screen; 1000 launches take 10 ms"""


class LaunchSequence:
    """Everything that one run of a kernel launches, in order."""

    def __init__(self, module: Module, launches: Sequence[Launch], dynamic_local_memory: int = 0) -> None:
        """Launch functions of *module*, with *dynamic_local_memory* bytes that a group takes beside its own.

        Nobody uses those bytes: they make fewer groups reside on a core.
        """
        kernels = {launch.function: module.get_function(launch.function) for launch in launches}
        self._launches = tuple((kernels[launch.function], *launch[1:]) for launch in launches)
        self._dynamic_local_memory = dynamic_local_memory
        if dynamic_local_memory:
            for kernel in kernels.values():
                kernel.max_dynamic_shared_size_bytes = dynamic_local_memory

    def enqueue(self) -> None:
        """Launch once on the current stream, and wait for nothing."""
        for kernel, grid, group, arguments in self._launches:
            kernel(grid, group, arguments, shared_mem=self._dynamic_local_memory)


class Stopwatch:
    """Times what is launched on the current stream."""

    def __init__(self, cupy: CuPy) -> None:
        """Time on the current device."""
        self._cupy = cupy
        self._stream = cupy.cuda.get_current_stream()
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        self._hold = cupy.RawModule(code=HOLD).get_function("hold")
        self._enqueue_hold(0.0)  # the first launch of a function loads it
        self._stream.synchronize()

    def timing(self, enqueue: Callable[[], None], runs: int, before: Callable[[], None] | None = None) -> Timing:
        """Return the seconds of *runs* runs by the wall clock, and of as many by the device's, after one another.

        What the kernel overwrites is not restored between runs. What *before* puts on the stream comes before each run,
        and is not timed. Raises :class:`MeasurementError` where the host is too
        slow to queue a run before the device begins with it.
        """
        self._stream.synchronize()
        with no_garbage_collection():
            return Timing(self._wall(enqueue, runs, before), self._device(enqueue, runs, before))

    def _wall(self, enqueue: Callable[[], None], runs: int, before: Callable[[], None] | None) -> tuple[float, ...]:
        samples: list[float] = []
        for _ in range(runs):
            self._prepare(before)
            start = perf_counter()
            enqueue()
            self._stream.synchronize()
            samples.append(perf_counter() - start)
        return tuple(samples)

    def _prepare(self, before: Callable[[], None] | None) -> None:
        if before is not None:
            before()
            self._stream.synchronize()

    def _device(self, enqueue: Callable[[], None], runs: int, before: Callable[[], None] | None) -> tuple[float, ...]:
        samples: list[float] = []
        hold = SHORTEST_HOLD
        while len(samples) < runs:
            self._prepare(before)
            seconds, queued = self._held(enqueue, hold)
            if queued < hold / 2:  # the device may begin to hold before the host has been told so
                samples.append(seconds)
            elif hold < LONGEST_HOLD:
                hold = min(4 * queued, LONGEST_HOLD)
            else:
                raise MeasurementError(
                    f"the host took {queued:.3g} s to queue one run, and the device was held up for {hold:.3g} s "
                    f"only: its device time cannot be told from the host's; measure on a less busy machine"
                )
        return tuple(samples)

    def _held(self, enqueue: Callable[[], None], hold: float) -> tuple[float, float]:
        """Return the device's seconds for one run, and those that the host took to queue it."""
        self._enqueue_hold(hold)
        start = perf_counter()
        self._begin.record()
        enqueue()
        self._end.record()
        queued = perf_counter() - start
        self._end.synchronize()
        return self._cupy.cuda.get_elapsed_time(self._begin, self._end) * 1e-3, queued

    def _enqueue_hold(self, seconds: float) -> None:
        self._hold((1,), (1,), (np.uint64(seconds * 1e9),))
