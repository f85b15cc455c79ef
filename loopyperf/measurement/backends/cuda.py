"""CUDA backend: times kernels on an NVIDIA GPU through CuPy, by the wall clock and by the device's clock."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from loopy.diagnostic import LoopyError
from loopy.kernel import LoopKernel

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
)
from loopyperf.measurement.backends.cuda_program import CudaLaunch, CudaLaunchSequence, CudaProgram, Extent, Stopwatch
from loopyperf.measurement.environment import Array, Configuration, DeviceLimits, Environment

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
