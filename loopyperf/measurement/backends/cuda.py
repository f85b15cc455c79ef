"""CUDA backend: times kernels on an NVIDIA GPU through CuPy, by the wall clock and by the device's clock."""

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

# {{{ choice and properties of a CUDA device


DRIVER_FILE = Path("/proc/driver/nvidia/version")
"""file with the version of the driver's kernel module on Linux"""
VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")


def choose_cuda_device(cupy: CuPy, name: str | None = None) -> CudaDevice:
    """Return the first device whose name contains *name*, ignoring case; without *name*, the first device.

    The environment variable ``CUDA_VISIBLE_DEVICES`` selects the available devices. Raises :class:`BackendError` with
    their names if none matches or there are none.
    """
    names = [device_name(cupy, number) for number in range(_count(cupy))]
    if not names:
        raise BackendError("CUDA found no device; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    wanted = (name or "").casefold()
    for number, found in enumerate(names):
        if wanted in found.casefold():
            return cupy.cuda.Device(number)
    raise BackendError(f"no CUDA device matches {name!r}; available: {'; '.join(names)}")


def device_name(cupy: CuPy, number: int) -> str:
    """Return the name of device *number* as reported by the driver."""
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def cuda_environment(cupy: CuPy, device: CudaDevice, driver_file: Path = DRIVER_FILE) -> Environment:
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


def cuda_limits(device: CudaDevice) -> DeviceLimits:
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


def _count(cupy: CuPy) -> int:
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(f"CUDA does not work on this machine ({error}); check nvidia-smi") from error


def _version(number: int) -> str:
    """Return the version that CUDA encodes as *number*: 13020 is 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


# }}}


# {{{ parts of a kernel on an NVIDIA GPU: its own device functions, launched with fewer groups


@dataclass(frozen=True, slots=True)
class DeviceRuntime:
    """CuPy, timer and device properties for running parts."""

    cupy: CuPy
    stopwatch: Stopwatch
    cores: int
    dynamic_local_memory: int
    """bytes that a group uses in addition to its own local memory"""


class CudaBoundKernel:
    """A kernel with its arguments on a device, ready to run in parts."""

    def __init__(
        self,
        module: Module,
        launches: Sequence[CudaLaunch],
        runtime: DeviceRuntime,
        entering: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Store the *launches* of a run; *entering* makes the device current and adds the case's name to errors."""
        self._module, self._launches, self._runtime, self._entering = module, launches, runtime, entering

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """Return the device programs that have groups in a run; Psat is the driver's occupancy."""
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
        """Return the groups resident on all cores at once (``cuOccupancyMaxActiveBlocksPerMultiprocessor``)."""
        function = self._module.get_function(launch.function).kernel.ptr
        on_core = self._runtime.cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            function, prod(launch.group), self._runtime.dynamic_local_memory
        )
        return self._runtime.cores * max(1, on_core)


def _extent(grid: Grid) -> Extent:
    x, y, z = grid
    return x, y, z


# }}}


# {{{ the backend


TIMES_CACHE = 2
"""flushed bytes as a multiple of the last cache: not every cache evicts the least recently used lines"""
LEAST_FLUSHED = 2**26
"""minimum number of bytes written in a flush"""

Compiled = tuple[CudaProgram, Module]


class CudaBackend:
    """Backend that compiles and verifies each configuration once and times it at any number of sizes.

    The programs of the latest two configurations are kept, each with the arrays of its latest size.
    """

    def __init__(self, device: str | None = None, dynamic_local_memory: int = 0) -> None:
        """Use the first device whose name contains *device*; without it, the first device.

        Each group allocates *dynamic_local_memory* additional bytes that it does not use, which reduces the number of
        resident groups per core. This allows performance to be measured as a function of occupancy.

        Raises :class:`BackendError` if there is no such device, CuPy is missing, or CuPy finds no compiler.
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
                f"CUDA's runtime or compiler does not work with CuPy ({error}); install CuPy for your version of "
                "CUDA, and NVRTC: pip install 'loopyperf[cuda]' nvidia-cuda-nvrtc"
            ) from error
        self._binding = Binding(self._upload, _download, CudaLaunchSequence.enqueue)
        self._programs = LatestPrograms(self._compiled, self._bound)
        self._partial: Recent[Configuration, Compiled] = Recent(1, lambda one, other: one is other)
        self._flushed: CupyMemory | None = None
        self._is_cold = False

    @property
    def environment(self) -> Environment:
        """Return the device, its driver and the versions of the code generators."""
        return self._environment

    @property
    def limits(self) -> DeviceLimits:
        """Return the resource limits of the device."""
        return self._limits

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the seconds of *runs* runs of *case* by the wall clock, and of as many by the device's clock.

        A run consists of all launches of the kernel. Before a configuration's first timing, it is run once at that size
        and its results are verified. Raises :class:`MeasurementError` with the case's name if it does not compile,
        cannot be launched or is wrong, and :class:`BackendError` if a kernel has left the device unusable. In the first
        call after :meth:`empty_caches`, the caches are flushed before every run, so that both clocks measure with cold
        caches.
        """
        before = self._flush if self._is_cold else None
        self._is_cold = False
        with self._device, self._naming(case):
            return self._stopwatch.timing(self._programs.launches(case).enqueue, runs, before)

    def bound(self, case: BenchmarkCase, contents: Contents) -> CudaBoundKernel:
        """Return *case* with its arguments on the device, some arrays only in part; see :class:`RunsParts`."""
        with self._device, self._naming(case):
            program, module = self._partial.get(case.configuration, self._compiled)
            memory, scalars = self._binding.uploaded(case, program, contents)
            launches = program.launches({**memory, **scalars}, self._zeros)
        runtime = DeviceRuntime(self._cupy, self._stopwatch, self._limits.cores, self._dynamic_local_memory)
        return CudaBoundKernel(module, launches, runtime, partial(self._entering, case))

    def empty_caches(self) -> None:
        """Write more than the device's last cache holds; raises :class:`MeasurementError` if that fails."""
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
            raise MeasurementError(f"cannot flush the caches: {error}") from error

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
        # As bytes: CuPy has no vector types and would make some arrays C-contiguous.
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
        """Raise :class:`BackendError` if *cause* has left the device unusable, as an invalid address does."""
        try:
            self._cupy.cuda.get_current_stream().synchronize()
        except (self._cupy.cuda.driver.CUDADriverError, self._cupy.cuda.runtime.CUDARuntimeError) as error:
            raise BackendError(
                f"{case}: {cause}; CUDA is unusable in this process; remove or fix this kernel and start again: the "
                "archive is resumed"
            ) from error


def load_cupy() -> CuPy:
    """Import and return CuPy; raises :class:`BackendError` if that fails."""
    try:
        return cast("CuPy", import_module("cupy"))
    except ImportError as error:
        raise BackendError(
            f"backend 'cuda' needs CuPy, which cannot be imported ({error}): pip install 'loopyperf[cuda]', or CuPy "
            "for your version of CUDA"
        ) from error


def _download(memory: CupyMemory, like: Array) -> Array:
    return np.ndarray(like.shape, like.dtype, memory.get(), strides=like.strides)


# }}}
