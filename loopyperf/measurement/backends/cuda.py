"""Timing kernels on an NVIDIA GPU through CUDA and CuPy, by the wall clock and by the device's."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
from loopy.diagnostic import LoopyError

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends.backend import (
    BenchmarkCase,
    Binding,
    Bytes,
    Contents,
    DeviceProgram,
    Grid,
    LatestPrograms,
    MeasuredTimes,
    Recent,
    check_parts,
    device_programs,
)
from loopyperf.measurement.backends.cuda_program import CudaLaunch, CudaLaunchSequence, CudaProgram, Extent, Stopwatch
from loopyperf.measurement.backends.cupy_interface import CudaDevice, CuPy, CupyMemory, Module
from loopyperf.measurement.environment import Array, Configuration, DeviceLimits, Environment

# {{{ choosing a CUDA device, and what is recorded of it


DRIVER_FILE = Path("/proc/driver/nvidia/version")
"""where Linux tells the version of the driver's module"""
VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")


def choose_cuda_device(cupy: CuPy, name: str | None = None) -> CudaDevice:
    """Return the first device in whose name *name* occurs, in upper or lower case; without *name*, the first one.

    The environment variable ``CUDA_VISIBLE_DEVICES`` says which devices there are. Raises :class:`BackendError` naming
    them if none matches, and if there are no devices.
    """
    names = [device_name(cupy, number) for number in range(_count(cupy))]
    if not names:
        raise BackendError("CUDA has no device; look at what nvidia-smi says, and at CUDA_VISIBLE_DEVICES")
    wanted = (name or "").casefold()
    for number, found in enumerate(names):
        if wanted in found.casefold():
            return cupy.cuda.Device(number)
    raise BackendError(f"no CUDA device matches {name!r}; there are: {'; '.join(names)}")


def device_name(cupy: CuPy, number: int) -> str:
    """Return the name of the device with this *number*, as the driver gives it."""
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def cuda_environment(cupy: CuPy, device: CudaDevice, driver_file: Path = DRIVER_FILE) -> Environment:
    """Return the environment of *device*: which runtime and compiler CuPy has, which driver the machine has."""
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


def cuda_limits(device: CudaDevice) -> DeviceLimits:
    """Return the limits of *device*.

    All arguments together get a quarter of its memory, as on OpenCL: the same kernels are measured at the same sizes.
    CUDA tells the size of the second cache, and not how long its lines are.
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
    """Return the version of the driver's module in the kernel, e.g. ``"580.65.06"``; None where *file* is not there."""
    try:
        text = file.read_text()
    except OSError:
        return None
    found = VERSION.search(text)
    return found[0] if found else None


def _count(cupy: CuPy) -> int:
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(f"CUDA does not work here ({error}); look at what nvidia-smi says") from error


def _version(number: int) -> str:
    """Return the version that CUDA writes as *number*: 13020 is 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


# }}}


# {{{ parts of a kernel on an NVIDIA GPU: its own device functions, launched with fewer groups


@dataclass(frozen=True, slots=True)
class DeviceRuntime:
    """What parts are run by."""

    cupy: CuPy
    stopwatch: Stopwatch
    cores: int
    dynamic_local_memory: int
    """bytes that a group takes beside its own"""


class CudaBoundKernel:
    """A kernel with its arguments on a device."""

    def __init__(
        self,
        module: Module,
        launches: Sequence[CudaLaunch],
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

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> MeasuredTimes:
        """Return the seconds of *runs* runs of *program* on *grids*; see :class:`BoundParts`."""
        own = [each for each in self._launches if each.function == program]
        check_parts(program, len(own), grids)
        cut = [launch._replace(grid=_extent(grid)) for launch, grid in zip(own, grids, strict=True)]
        with self._entering():
            sequence = CudaLaunchSequence(self._module, cut, self._runtime.dynamic_local_memory)
            before = partial(self._runtime.cupy.empty(evicted, np.uint8).fill, 0) if evicted else None
            return self._runtime.stopwatch.timing(sequence.enqueue, runs, before)

    def _saturation(self, launch: CudaLaunch) -> int:
        """Return the groups that reside on all cores at once (``cuOccupancyMaxActiveBlocksPerMultiprocessor``)."""
        function = self._module.get_function(launch.function).kernel.ptr
        on_core = self._runtime.cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            function, prod(launch.group), self._runtime.dynamic_local_memory
        )
        return self._runtime.cores * max(1, on_core)


def _extent(grid: Grid) -> Extent:
    x, y, z = grid
    return x, y, z


# }}}


# {{{ cuda


TIMES_CACHE = 2
"""how many times the last cache is written to empty it: not every cache replaces what was used longest ago"""
LEAST_FLUSHED = 2**26
"""bytes that are written at least"""

Compiled = tuple[CudaProgram, Module]


class CudaBackend:
    """Compiles a configuration once, checks its results once, and times it at as many sizes as wanted.

    The programs of the latest two configurations are kept, each with the arrays of its latest size.
    """

    def __init__(self, device: str | None = None, dynamic_local_memory: int = 0) -> None:
        """Use the first device whose name contains *device*; without it, the first one.

        Each group takes *dynamic_local_memory* bytes beside its own, which nobody uses, so that fewer groups reside on
        a core at once: that is how performance is measured over the occupancy.

        Raises :class:`BackendError` if there is no such device, or no CuPy, or no compiler that it finds.
        """
        self._cupy = load_cupy()
        self._dynamic_local_memory = dynamic_local_memory
        self._device = choose_cuda_device(self._cupy, device)
        try:
            self._environment = cuda_environment(self._cupy, self._device)
            self._limits = cuda_limits(self._device)
            with self._device:
                self._stopwatch = Stopwatch(self._cupy)
        except (RuntimeError, OSError, self._cupy.cuda.compiler.CompileException) as error:
            raise BackendError(
                f"CUDA's runtime or compiler does not work with CuPy here ({error}); install the package of CuPy for "
                "your version of CUDA, and NVRTC: pip install 'loopyperf[cuda]' nvidia-cuda-nvrtc"
            ) from error
        self._binding = Binding(self._upload, _download, CudaLaunchSequence.enqueue)
        self._programs = LatestPrograms(self._compiled, self._bound)
        self._partial: Recent[Configuration, Compiled] = Recent(1, lambda one, other: one is other)
        self._flushed: CupyMemory | None = None
        self._is_cold = False

    @property
    def environment(self) -> Environment:
        """Return the device, its driver and the versions that its code is generated by."""
        return self._environment

    @property
    def limits(self) -> DeviceLimits:
        """Return what the device allows a kernel to use."""
        return self._limits

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the seconds of *runs* runs of *case* by the wall clock, and of as many by the device's.

        A run is all launches of the kernel. Before a configuration's first timing it is run once at that size, and what
        it wrote is compared with its reference. Raises :class:`MeasurementError` naming the case if it does not
        compile, cannot be launched or is wrong, and :class:`BackendError` where a kernel has left the device unusable.
        Right after the caches were emptied, they are before each run, so that those for either clock find them so.
        """
        before = self._flush if self._is_cold else None
        self._is_cold = False
        with self._device, self._naming(case):
            return self._stopwatch.timing(self._programs.launches(case).enqueue, runs, before)

    def bound(self, case: BenchmarkCase, contents: Contents) -> CudaBoundKernel:
        """Return *case* with its arguments on the device, of some arrays only the beginning; see :class:`RunsParts`."""
        with self._device, self._naming(case):
            program, module = self._partial.get(case.configuration, self._compiled)
            memory, scalars = self._binding.uploaded(case, program, contents)
            launches = program.launches({**memory, **scalars}, self._zeros)
        runtime = DeviceRuntime(self._cupy, self._stopwatch, self._limits.cores, self._dynamic_local_memory)
        return CudaBoundKernel(module, launches, runtime, partial(self._entering, case))

    def empty_caches(self) -> None:
        """Write more than the device's last cache holds; raises :class:`MeasurementError` if it cannot."""
        with self._device:
            self._flush()
            self._cupy.cuda.get_current_stream().synchronize()
        self._is_cold = True

    def _flush(self) -> None:
        try:
            if self._flushed is None:
                self._flushed = self._allocate(max(LEAST_FLUSHED, TIMES_CACHE * (self._limits.cache or 0)))
            self._flushed.fill(0)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise MeasurementError(f"the caches cannot be emptied: {error}") from error

    def _bound(self, case: BenchmarkCase, compiled: Compiled, is_checked: bool) -> CudaLaunchSequence:
        program, module = compiled

        def bind(arguments: Mapping[str, object]) -> CudaLaunchSequence:
            launches = program.launches(arguments, self._allocate)
            return CudaLaunchSequence(module, launches, self._dynamic_local_memory)

        return self._binding.bound(case, program, bind, is_checked)

    def _compiled(self, configuration: Configuration) -> Compiled:
        program = CudaProgram(configuration.build())
        return program, self._cupy.RawModule(code=program.source, options=program.options)

    def _upload(self, contents: Bytes) -> CupyMemory:
        # As bytes: CuPy has no vectors, and would make some arrays C-contiguous.
        memory = self._allocate(contents.size)
        memory.set(contents)
        return memory

    def _zeros(self, nbytes: int) -> CupyMemory:
        memory = self._allocate(nbytes)
        memory.fill(0)
        return memory

    def _allocate(self, nbytes: int) -> CupyMemory:
        return self._cupy.empty(nbytes, np.uint8)

    @contextmanager
    def _entering(self, case: BenchmarkCase) -> Generator[None]:
        with self._device, self._naming(case):
            yield

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
            self._check_usable(case, error)
            raise MeasurementError(f"{case}: {error}") from error

    def _check_usable(self, case: BenchmarkCase, cause: Exception) -> None:
        """Raise :class:`BackendError` if *cause* has left the device unusable, as an access to a wrong address does."""
        try:
            self._cupy.cuda.get_current_stream().synchronize()
        except (self._cupy.cuda.driver.CUDADriverError, self._cupy.cuda.runtime.CUDARuntimeError) as error:
            raise BackendError(
                f"{case}: {cause}; CUDA does nothing more in this process. Leave this kernel out, or mend it, and "
                "start again: an archive goes on where it ended"
            ) from error


def load_cupy() -> CuPy:
    """Return the module CuPy; raises :class:`BackendError` if it cannot be imported."""
    try:
        return cast("CuPy", import_module("cupy"))
    except ImportError as error:
        raise BackendError(
            f"the cuda backend needs CuPy, which cannot be imported ({error}): pip install 'loopyperf[cuda]', or the "
            "package of CuPy for your version of CUDA"
        ) from error


def _download(memory: CupyMemory, like: Array) -> Array:
    return np.ndarray(like.shape, like.dtype, memory.get(), strides=like.strides)


# }}}
