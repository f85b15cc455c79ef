"""A Loopy kernel as CUDA source and a fixed list of launches; this module needs neither a device nor CuPy."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import zip_longest
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from loopyperf.compiler.cuda_code import ALLOCATE, LAUNCH, CudaCode
from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.backend import MeasuredTimes, check_launches, no_garbage_collection

Extent = tuple[int, int, int]
"""lengths along x, y and z: Loopy's axes 0, 1 and 2"""
MOST_GROUPS: Extent = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""maximum grid of every CUDA device (CUDA C++ programming guide, technical specifications per compute capability)"""


class CudaLaunch(NamedTuple):
    """One launch of a device function with its arguments."""

    function: str
    grid: Extent
    """groups"""
    group: Extent
    """work-items of a group"""
    arguments: tuple[object, ...]
    """in the order of the function's parameters: arrays as passed, and NumPy scalars of the parameters' types"""


class CudaProgram(CudaCode):
    """A Loopy kernel as CUDA source and a host program, which is executed once for each size to record its launches."""

    def launches(self, arguments: Mapping[str, object], allocate: Callable[[int], object]) -> tuple[CudaLaunch, ...]:
        """Return the launches of one run of the kernel, given arrays and scalars by argument name.

        *allocate* returns a global temporary of the given number of bytes. Launches without groups are omitted. Raises
        :class:`MeasurementError` for more than 1000 launches, a grid too large for CUDA, and a missing argument.
        """
        recorder = _Recorder()
        names = signature(self.host).parameters.keys() - {LAUNCH, ALLOCATE}
        if missing := sorted(names - arguments.keys()):
            raise MeasurementError(
                f"the code of kernel {self.kernel.name} also requires {', '.join(missing)}; specify the offset and "
                "strides of arrays when creating the kernel"
            )
        self.host(recorder.launch, allocate, **{name: arguments[name] for name in names})
        return tuple(recorder.launches)


class _Recorder:
    """Recorder of a host program's launches."""

    def __init__(self) -> None:
        self.launches: list[CudaLaunch] = []

    def launch(self, name: str, counts: tuple[int, ...], sizes: tuple[int, ...], *arguments: object) -> None:
        check_launches(len(self.launches))
        grid, group = _extent(counts), _extent(sizes)
        if any(count > most for count, most in zip(grid, MOST_GROUPS, strict=True)):
            raise MeasurementError(
                f"{name} has a grid of {'x'.join(map(str, grid))} groups, but CUDA's maximum is "
                f"{'x'.join(map(str, MOST_GROUPS))}; map the longest loop to g.0, or measure a smaller size"
            )
        if all(grid):
            self.launches.append(CudaLaunch(name, grid, group, arguments))


def _extent(lengths: tuple[int, ...]) -> Extent:
    x, y, z = (length for length, _ in zip_longest(lengths, range(3), fillvalue=1))
    return int(x), int(y), int(z)


# {{{ timing the launches of a CUDA program by the wall clock and by the device's clock
#
# A wall-clock sample is the time that a user waits: from the first launch until the device has finished. It includes
# launch overhead on the host. A device sample does not: all launches of a run are queued behind a kernel that keeps the
# device busy, and events before and after them measure the device's time.


HOLD = """extern "C" __global__ void hold(unsigned long long nanoseconds)
{
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}
"""
"""kernel that keeps the device busy for a given time"""
SHORTEST_HOLD = 100e-6
"""seconds; two events and a launch take the host a tenth of this"""
LONGEST_HOLD = 0.2
"""seconds; a longer time could trigger the watchdog of a device with a screen; 1000 launches take 10 ms"""


class CudaLaunchSequence:
    """All launches of one run of a kernel, in order."""

    def __init__(self, module: Any, launches: Sequence[CudaLaunch], dynamic_local_memory: int = 0) -> None:
        """Launch functions of *module*; each group allocates *dynamic_local_memory* additional bytes.

        These bytes are not used; they reduce the number of resident groups per core.
        """
        kernels = {launch.function: module.get_function(launch.function) for launch in launches}
        self._launches = tuple((kernels[launch.function], *launch[1:]) for launch in launches)
        self._dynamic_local_memory = dynamic_local_memory
        if dynamic_local_memory:
            for kernel in kernels.values():
                kernel.max_dynamic_shared_size_bytes = dynamic_local_memory

    def enqueue(self) -> None:
        """Queue all launches once on the current stream, without waiting."""
        for kernel, grid, group, arguments in self._launches:
            kernel(grid, group, arguments, shared_mem=self._dynamic_local_memory)


class Stopwatch:
    """Timer for launches on the current stream."""

    def __init__(self, cupy: Any) -> None:
        """Create a timer for the current device."""
        self._cupy = cupy
        self._stream = cupy.cuda.get_current_stream()
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        self._hold = cupy.RawModule(code=HOLD).get_function("hold")
        self._enqueue_hold(0.0)  # the first launch of a function includes loading it
        self._stream.synchronize()

    def timing(self, enqueue: Callable[[], None], runs: int, before: Callable[[], None] | None = None) -> MeasuredTimes:
        """Return the seconds of *runs* runs by the wall clock, and of as many subsequent runs by the device's clock.

        Overwritten data are not restored between runs. The work that *before* queues precedes each run and is not
        timed. Raises :class:`MeasurementError` if the host is too slow to queue a run before the device starts it.
        """
        self._stream.synchronize()
        with no_garbage_collection():
            return MeasuredTimes(self._wall(enqueue, runs, before), self._device(enqueue, runs, before))

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
            if queued < hold / 2:  # the device may start holding before the launch returns on the host
                samples.append(seconds)
            elif hold < LONGEST_HOLD:
                hold = min(4 * queued, LONGEST_HOLD)
            else:
                raise MeasurementError(
                    f"cannot measure device time: queuing one run took the host {queued:.3g} s, more than half of the "
                    f"{hold:.3g} s for which the device was kept busy; use a less busy machine"
                )
        return tuple(samples)

    def _held(self, enqueue: Callable[[], None], hold: float) -> tuple[float, float]:
        """Return the device's seconds for one run, and the host's seconds for queuing it."""
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


# }}}
