"""A Loopy kernel as CUDA source and a fixed list of launches; nothing here needs a device, or CuPy.

The host program that comes with the source (:mod:`loopyperf.measurement.backends.cuda_target`) computes grids, runs the
loops around launches and allocates global temporaries. It is run once for each size, and what it launches is kept.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import zip_longest
from time import perf_counter
from typing import Any, NamedTuple, cast

import loopy as lp
import numpy as np
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.kernel import LoopKernel
from loopy.target.cuda import CudaTarget
from loopy.target.opencl import OpenCLTarget
from loopy.translation_unit import TranslationUnit

from loopyperf.errors import MeasurementError
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.measurement.backends.backend import MeasuredTimes, check_launches, no_garbage_collection
from loopyperf.measurement.backends.cuda_target import ALLOCATE, LAUNCH, CompleteCudaTarget
from loopyperf.measurement.backends.cupy_interface import CuPy, Module

Extent = tuple[int, int, int]
"""lengths along x, y and z: Loopy's axes 0, 1 and 2"""
MOST_GROUPS: Extent = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""of a grid, on every CUDA device (CUDA C++ programming guide, technical specifications per compute capability)"""
INLINE = re.compile(r"\bstatic inline (?!__device__)")
"""what Loopy's preambles for C have before a function"""


class CudaLaunch(NamedTuple):
    """One launch of a device function with its arguments."""

    function: str
    grid: Extent
    """groups"""
    group: Extent
    """work-items of a group"""
    arguments: tuple[object, ...]
    """in the order of the function's parameters: arrays as they were given, NumPy scalars of the parameters' types"""


class CudaProgram:
    """A Loopy kernel as CUDA source, with what its host program launches."""

    kernel: LoopKernel
    source: str
    """all device functions, ``extern "C"``, without any header"""

    def __init__(self, unit: TranslationUnit) -> None:
        """Generate the code of *unit*, built for OpenCL or CUDA.

        Raises :class:`MeasurementError` if it is for another target, or if Loopy cannot write CUDA for it.
        """
        self.kernel = unit.default_entrypoint
        try:
            # Loopy's annotation names another class.
            with without_dumps():
                generated: object = lp.generate_code_v2(for_cuda(unit))
        except NotImplementedError as error:
            raise MeasurementError(f"Loopy has no CUDA code for this kernel: {error}") from error
        code = cast("TranslationUnitCodeGenerationResult", generated)
        self.source = INLINE.sub("static inline __device__ ", code.device_code())
        namespace: dict[str, Any] = {"_lpy_np": np}  # as Loopy calls it
        exec(code.host_code(), namespace)
        self._host: Callable[..., object] = namespace[code.host_programs[self.kernel.name].name]

    @property
    def options(self) -> tuple[str, ...]:
        """Return what the kernel asks of the compiler."""
        return tuple(self.kernel.options.build_options)

    def launches(self, arguments: Mapping[str, object], allocate: Callable[[int], object]) -> tuple[CudaLaunch, ...]:
        """Return what one run of the kernel launches, given arrays and numbers by argument name.

        *allocate* makes a global temporary of so many bytes. Launches without groups are left out. Raises
        :class:`MeasurementError` for more than 1000 launches, for a grid that CUDA does not have, and where an
        argument is missing.
        """
        recorder = _Recorder()
        names = signature(self._host).parameters.keys() - {LAUNCH, ALLOCATE}
        if missing := sorted(names - arguments.keys()):
            raise MeasurementError(
                f"the code of kernel {self.kernel.name} also takes {', '.join(missing)}; give arrays their offset and "
                "strides when building the kernel"
            )
        self._host(recorder.launch, allocate, **{name: arguments[name] for name in names})
        return tuple(recorder.launches)


def for_cuda(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* for CUDA; accesses that are volatile stay so.

    Raises :class:`MeasurementError` if it is built for a target that is neither OpenCL nor CUDA.
    """
    target: Any = unit.target
    if isinstance(target, CompleteCudaTarget):
        return unit
    if not isinstance(target, OpenCLTarget | CudaTarget):
        raise MeasurementError(
            f"the kernel is built for {type(target).__name__}; build it with target=lp.PyOpenCLTarget()"
        )
    return unit.copy(target=CompleteCudaTarget(is_volatile=isinstance(target, VOLATILE)))


class _Recorder:
    """Writes down what the host program launches."""

    def __init__(self) -> None:
        self.launches: list[CudaLaunch] = []

    def launch(self, name: str, counts: tuple[int, ...], sizes: tuple[int, ...], *arguments: object) -> None:
        check_launches(len(self.launches))
        grid, group = _extent(counts), _extent(sizes)
        if any(count > most for count, most in zip(grid, MOST_GROUPS, strict=True)):
            raise MeasurementError(
                f"{name} has a grid of {'x'.join(map(str, grid))} groups, and CUDA has at most "
                f"{'x'.join(map(str, MOST_GROUPS))}; map the longest loop to g.0, or measure a smaller size"
            )
        if all(grid):
            self.launches.append(CudaLaunch(name, grid, group, arguments))


def _extent(lengths: tuple[int, ...]) -> Extent:
    x, y, z = (length for length, _ in zip_longest(lengths, range(3), fillvalue=1))
    return int(x), int(y), int(z)


# {{{ timing the launches of a CUDA program: by the wall clock, and by the device's own clock
#
# A wall-clock sample is what the kernel's user waits for: from the first launch until the device is done. It has in it
# what the host takes to launch. A device sample has not: all launches of a run are queued behind a kernel that holds
# the device up, and events before and after them tell how long the device was busy with them.


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


class CudaLaunchSequence:
    """Everything that one run of a kernel launches, in order."""

    def __init__(self, module: Module, launches: Sequence[CudaLaunch], dynamic_local_memory: int = 0) -> None:
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

    def timing(self, enqueue: Callable[[], None], runs: int, before: Callable[[], None] | None = None) -> MeasuredTimes:
        """Return the seconds of *runs* runs by the wall clock, and of as many by the device's, after one another.

        What the kernel overwrites is not restored between runs. What *before* puts on the stream comes before each run,
        and is not timed. Raises :class:`MeasurementError` where the host is too
        slow to queue a run before the device begins with it.
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


# }}}
