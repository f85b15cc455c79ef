"""CUDA backend: times kernels on an NVIDIA GPU through CuPy, by the wall clock and by the device's clock.

CuPy is imported when a backend is opened; the program and its launches need neither CuPy nor a device.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import zip_longest
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np
from loopy.diagnostic import LoopyError
from loopy.kernel import LoopKernel

from loopyperf.compiler.cuda_code import ALLOCATE, LAUNCH, CudaCode
from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends.backend import (
    BenchmarkCase,
    BoundParts,
    Bytes,
    Contents,
    DeviceProgram,
    Grid,
    LaunchingBackend,
    MeasuredTimes,
    check_launches,
    no_garbage_collection,
)
from loopyperf.measurement.environment import Array, Configuration, DeviceLimits, Environment

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


# {{{ choice and properties of a CUDA device


DRIVER_FILE = Path("/proc/driver/nvidia/version")
"""file with the version of the driver's kernel module on Linux"""
VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")


def choose_cuda_device(cupy: Any, name: str | None = None) -> Any:
    """Return the first device whose name contains *name*, ignoring case; without *name*, the first device.

    The environment variable ``CUDA_VISIBLE_DEVICES`` selects the available devices. Raises :class:`BackendError` with
    their names if none matches or there are none.
    """
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(f"CUDA does not work on this machine ({error}); check nvidia-smi") from error
    names = [device_name(cupy, number) for number in range(count)]
    if not names:
        raise BackendError("CUDA found no device; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    wanted = (name or "").casefold()
    for number, found in enumerate(names):
        if wanted in found.casefold():
            return cupy.cuda.Device(number)
    raise BackendError(f"no CUDA device matches {name!r}; available: {'; '.join(names)}")


def device_name(cupy: Any, number: int) -> str:
    """Return the name of device *number* as reported by the driver."""
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def cuda_environment(cupy: Any, device: Any, driver_file: Path = DRIVER_FILE) -> Environment:
    """Return the environment of *device*, with CuPy's runtime and compiler and the machine's driver."""
    runtime, compiler = cupy.cuda.runtime, cupy.cuda.nvrtc.getVersion()
    supported = f"CUDA {_version(runtime.driverGetVersion())}"
    module = module_version(driver_file)
    return Environment.here(
        backend="cuda",
        platform=f"CUDA {_version(runtime.runtimeGetVersion())}, NVRTC {compiler[0]}.{compiler[1]}",
        vendor="NVIDIA Corporation",
        device=device_name(cupy, device.id),
        driver=supported if module is None else f"{module}, {supported}",
    )


def cuda_limits(device: Any) -> DeviceLimits:
    """Return the limits of *device*.

    All arguments together may take a quarter of its memory, as on OpenCL, so that the same kernels are measured at the
    same sizes. CUDA reports the size of the L2 cache, but not its line length.
    """
    attributes, (_, memory) = device.attributes, device.mem_info
    return DeviceLimits(
        group_size=attributes["MaxThreadsPerBlock"],
        local_memory=attributes["MaxSharedMemoryPerBlock"],
        global_memory=memory // 4,
        cores=attributes["MultiProcessorCount"],
        warp_size=attributes["WarpSize"],
        clock=attributes.get("ClockRate", 0) * 1e3 or None,
        memory=memory,
        cache=attributes.get("L2CacheSize") or None,
    )


def module_version(file: Path) -> str | None:
    """Return the version of the driver's kernel module, such as ``"580.65.06"``; None if *file* does not exist."""
    try:
        text = file.read_text()
    except OSError:
        return None
    found = VERSION.search(text)
    return found[0] if found else None


def _version(number: int) -> str:
    """Return the version that CUDA encodes as *number*: 13020 is 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


# }}}


# {{{ the backend


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A CUDA program with its compiled module."""

    program: CudaProgram
    module: Any
    """CuPy's module"""

    @property
    def kernel(self) -> LoopKernel:
        """Return the program's kernel."""
        return self.program.kernel


@dataclass(frozen=True, slots=True)
class BoundLaunches:
    """The launches of one run, of functions of a compiled module."""

    module: Any
    launches: tuple[CudaLaunch, ...]


class CudaBackend(LaunchingBackend[CompiledProgram, Any, BoundLaunches]):
    """Backend that compiles and verifies each configuration once and times it at any number of sizes.

    Attributes
    ----------
    environment : Environment
        The device, its driver and the versions of the code generators.
    limits : DeviceLimits
        The resource limits of the device.
    """

    def __init__(self, device: str | None = None, dynamic_local_memory: int = 0) -> None:
        """Use the first device whose name contains *device*; without it, the first device.

        Each group allocates *dynamic_local_memory* additional bytes that it does not use, which reduces the number of
        resident groups per core. This allows performance to be measured as a function of occupancy.

        Raises :class:`BackendError` if there is no such device, CuPy is missing, or CuPy finds no compiler.
        """
        super().__init__()
        self._cupy = load_cupy()
        self._dynamic_local_memory = dynamic_local_memory
        self._device = choose_cuda_device(self._cupy, device)
        try:
            self.environment = cuda_environment(self._cupy, self._device)
            self.limits = cuda_limits(self._device)
            with self._device:
                self._stopwatch = Stopwatch(self._cupy)
        except (RuntimeError, OSError, self._cupy.cuda.compiler.CompileException) as error:
            raise BackendError(
                f"CUDA's runtime or compiler does not work with CuPy ({error}); install CuPy for your version of "
                "CUDA, and NVRTC: pip install 'loopyperf[cuda]' nvidia-cuda-nvrtc"
            ) from error

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the seconds of *runs* runs of *case* by the wall clock, and of as many by the device's clock.

        A run consists of all launches of the kernel. Before a configuration's first timing, it is run once at that size
        and its results are verified. Raises :class:`MeasurementError` with the case's name if it does not compile,
        cannot be launched or is wrong, and :class:`BackendError` if a kernel has left the device unusable.
        """
        with self._device, self._naming(case):
            return self._stopwatch.timing(self._sequence(self._bound(case)).enqueue, runs)

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        """Return *case* with its arguments on the device, some arrays only in part; see :class:`RunsParts`."""
        with self._device, self._naming(case):
            bound = self._partly_bound(case, contents)
            launches = [
                (each, DeviceProgram(each.function, (each.grid,), self._saturation(bound.module, each)))
                for each in bound.launches
            ]

        def timed(parts: list[tuple[CudaLaunch, Grid]], runs: int, evicted: int) -> MeasuredTimes:
            cut = tuple(launch._replace(grid=cast("Extent", grid)) for launch, grid in parts)
            with self._device, self._naming(case):
                sequence = self._sequence(BoundLaunches(bound.module, cut))
                before = partial(self._allocate(evicted).fill, 0) if evicted else None
                return self._stopwatch.timing(sequence.enqueue, runs, before)

        return BoundParts(launches, timed)

    def _saturation(self, module: Any, launch: CudaLaunch) -> int:
        """Return the groups resident on all cores at once (``cuOccupancyMaxActiveBlocksPerMultiprocessor``)."""
        on_core = self._cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            module.get_function(launch.function).kernel.ptr, prod(launch.group), self._dynamic_local_memory
        )
        return self.limits.cores * max(1, on_core)

    def _compiled(self, configuration: Configuration) -> CompiledProgram:
        program = CudaProgram(configuration.build())
        return CompiledProgram(program, self._cupy.RawModule(code=program.source, options=program.options))

    def _launches(self, program: CompiledProgram, arguments: Mapping[str, object]) -> BoundLaunches:
        return BoundLaunches(program.module, program.program.launches(arguments, self._zeros))

    def _sequence(self, bound: BoundLaunches) -> CudaLaunchSequence:
        return CudaLaunchSequence(bound.module, bound.launches, self._dynamic_local_memory)

    def _run(self, launches: BoundLaunches) -> None:
        self._sequence(launches).enqueue()

    def _upload(self, contents: Bytes) -> Any:
        # As bytes: CuPy has no vector types and would make some arrays C-contiguous.
        memory = self._allocate(contents.size)
        memory.set(contents)
        return memory

    def _download(self, memory: Any, like: Array) -> Array:
        return np.ndarray(like.shape, like.dtype, memory.get(), strides=like.strides)

    def _zeros(self, nbytes: int) -> Any:
        memory = self._allocate(nbytes)
        memory.fill(0)
        return memory

    def _allocate(self, nbytes: int) -> Any:
        return self._cupy.empty(nbytes, np.uint8)

    @contextmanager
    def _naming(self, case: BenchmarkCase) -> Generator[None]:
        cuda = self._cupy.cuda
        refused = (cuda.compiler.CompileException, cuda.nvrtc.NVRTCError, cuda.memory.OutOfMemoryError)
        failed = (cuda.driver.CUDADriverError, cuda.runtime.CUDARuntimeError)
        try:
            yield
        except (LoopyError, MeasurementError, *refused) as error:
            raise MeasurementError(f"{case}: {error}") from error
        except failed as error:
            try:  # an invalid address, for example, leaves the device unusable
                cuda.get_current_stream().synchronize()
            except failed:
                raise BackendError(
                    f"{case}: {error}; CUDA is unusable in this process; remove or fix this kernel and start again: "
                    "the archive is resumed"
                ) from error
            raise MeasurementError(f"{case}: {error}") from error


def load_cupy() -> Any:
    """Import and return CuPy, which has no annotations; raises :class:`BackendError` if that fails."""
    try:
        return import_module("cupy")
    except ImportError as error:
        raise BackendError(
            f"backend 'cuda' needs CuPy, which cannot be imported ({error}): pip install 'loopyperf[cuda]', or CuPy "
            "for your version of CUDA"
        ) from error


# }}}
