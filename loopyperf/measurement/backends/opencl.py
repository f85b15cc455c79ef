"""OpenCL backend: times kernels by the wall clock and by the device's clock.

Loopy generates a host program in Python that sets the arguments, computes the grids, executes the loops around launches
and allocates global temporaries. It is executed once with a recorder instead of pyopencl. The recorded launches, each
with its own OpenCL kernel object and arguments, can then be enqueued any number of times with minimal Python overhead.
"""

import os
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import zip_longest
from math import prod
from struct import pack
from time import perf_counter
from typing import Any, NamedTuple, cast

import loopy as lp
import numpy as np
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.diagnostic import LoopyError
from loopy.kernel import LoopKernel
from loopy.translation_unit import TranslationUnit

from loopyperf.errors import BackendError, LoopyperfWarning, MeasurementError, one_line

try:
    import pyopencl as cl
except ImportError as error:
    raise BackendError(
        f"backend 'opencl' needs pyopencl, which cannot be imported ({error}): pip install 'loopyperf[opencl]'"
    ) from error

from loopyperf.kernel.loopy_passes import without_dumps
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
from loopyperf.measurement.environment import Array, Configuration, DeviceLimits, Environment, Threads

# {{{ flushing the caches of an OpenCL device: read and write more bytes than they hold


SOURCE = "kernel void touch(global int *bytes) { bytes[get_global_id(0)] += 1; }"
TIMES_CACHE = 2
"""flushed bytes as a multiple of the reported cache: not every cache evicts the least recently used lines"""
MIN_BYTES_ON_GPU, MIN_BYTES = 2**29, 2**26
"""minimum number of flushed bytes. GPU drivers report a cache closer to the cores (16 KiB on AMD), while the largest
last-level caches have 256 MiB"""


class CacheFlush:
    """A buffer larger than the last cache, and a kernel that touches it."""

    def __init__(self, context: cl.Context) -> None:
        """Allocate and compile for the first device of *context*."""
        device = context.devices[0]
        least = MIN_BYTES_ON_GPU if device.type & cl.device_type.GPU else MIN_BYTES
        touched = min(max(least, TIMES_CACHE * device.global_mem_cache_size), device.max_mem_alloc_size)
        self._integers = touched // np.dtype(np.int32).itemsize
        self._buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, touched)
        self._kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "touch")
        self._kernel.set_args(self._buffer)

    def run(self, queue: cl.CommandQueue, nbytes: int) -> None:
        """Touch *nbytes* bytes, at most all, and wait for completion."""
        integers = min(self._integers, max(1, nbytes // 4))
        cl.enqueue_nd_range_kernel(queue, self._kernel, (integers,), None)
        queue.finish()


# }}}


# {{{ the program


class OpenCLProgram:
    """A Loopy kernel compiled for a context."""

    kernel: LoopKernel

    def __init__(self, context: cl.Context, unit: TranslationUnit) -> None:
        """Generate and compile the code of *unit*.

        Raises :class:`MeasurementError` if its target is not :class:`loopy.PyOpenCLTarget`.
        """
        if not isinstance(unit.target, lp.PyOpenCLTarget):
            raise MeasurementError(
                f"the kernel's target is {type(unit.target).__name__}; create it with target=lp.PyOpenCLTarget()"
            )
        self.kernel = unit.default_entrypoint
        # Loopy's annotation is wrong.
        with without_dumps():
            code = cast("TranslationUnitCodeGenerationResult", cast("object", lp.generate_code_v2(unit)))
        self._context = context
        self._program = cl.Program(context, code.device_code()).build(options=self.kernel.options.build_options)
        self._host_code = code.host_code()
        self._host_name = code.host_programs[self.kernel.name].name

    def bind(self, arguments: Mapping[str, object]) -> "OpenCLLaunchSequence":
        """Return the launches of one run of the kernel, given buffers and scalars by argument name.

        Raises :class:`MeasurementError` for more than 1000 launches.
        """
        recorder = _Recorder(self._context)
        # The names in Loopy's host programs; `pack` without a prefix is for scalars that pyopencl cannot pack.
        namespace: dict[str, Any] = {"_lpy_cl": recorder, "_lpy_pack": pack, "pack": pack}
        exec(self._host_code, namespace)
        host: Callable[..., object] = namespace[self._host_name]
        passed = {name: arguments[name] for name in signature(host).parameters if name in arguments}
        host(_FreshKernels(self._program), None, **passed, allocator=recorder.allocate)
        return OpenCLLaunchSequence(tuple(recorder.launches), tuple(arguments.values()), tuple(recorder.temporaries))


class OpenCLLaunch(NamedTuple):
    """One device program with its arguments set, and its grid in work-items."""

    kernel: cl.Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        """Return the groups along each axis."""
        return tuple(every // each for every, each in zip(self.global_size, self.local_size, strict=True))

    def of_groups(self, groups: tuple[int, ...]) -> "OpenCLLaunch":
        """Return the launch with *groups* along each axis instead of its own."""
        sizes = tuple(count * size for count, size in zip(groups, self.local_size, strict=True))
        return self._replace(global_size=sizes)


@dataclass(frozen=True, slots=True)
class OpenCLLaunchSequence:
    """All launches of one run of a kernel, in order."""

    launches: tuple[OpenCLLaunch, ...]
    arguments: tuple[object, ...]
    """buffers of the launches, kept here because OpenCL does not keep them alive"""
    temporaries: tuple[cl.Buffer, ...] = ()
    """global temporaries, with undefined contents"""

    def run(self, queue: cl.CommandQueue) -> tuple[cl.Event, ...]:
        """Run the kernel once on the in-order *queue*, wait for it, and return its first and last event, if any."""
        first = last = None
        for kernel, global_size, local_size in self.launches:
            last = cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            first = first or last
        queue.finish()
        return () if first is None or last is None else (first, last)

    def time(self, queue: cl.CommandQueue, runs: int, before: Callable[[], None] | None = None) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs, from the first enqueue to the end of the last launch.

        Device times require profiling in *queue*, and start with the first launch. Overwritten data are not restored
        between runs. *before* is called before each run and is not timed.
        """
        wall: list[float] = []
        device: list[float | None] = []
        with no_garbage_collection():
            for _ in range(runs):
                if before is not None:
                    before()
                start = perf_counter()
                events = self.run(queue)
                wall.append(perf_counter() - start)
                device.append(_between(*events) if events else 0.0)
        profiled = tuple(seconds for seconds in device if seconds is not None)
        return MeasuredTimes(tuple(wall), profiled if len(profiled) == runs else None)


def _between(first: cl.Event, last: cl.Event) -> float | None:
    """Return the seconds from the start of *first* to the end of *last*, None without profiling information."""
    try:
        return (last.profile.end - first.profile.start) * 1e-9
    except cl.Error:
        return None


# {{{ environment of the host program


class _KeptBuffer(cl.Buffer):
    """A global temporary whose release is ignored: the host program frees it, but the launches are repeated."""

    def release(self) -> None:
        """Keep the memory until the object is deleted."""


class _FreshKernels:
    """Stand-in for a program's kernels: each access creates a new kernel object, so that its arguments stay set."""

    def __init__(self, program: cl.Program) -> None:
        self._program = program

    def __getattr__(self, name: str) -> cl.Kernel:
        return cl.Kernel(self._program, name)


class _Recorder:
    """Stand-in for the module pyopencl that records what is enqueued."""

    def __init__(self, context: cl.Context) -> None:
        self._context = context
        self.launches: list[OpenCLLaunch] = []
        self.temporaries: list[cl.Buffer] = []

    def enqueue_nd_range_kernel(
        self,
        queue: object,
        kernel: cl.Kernel,
        group_counts: tuple[int, ...],
        group_sizes: tuple[int, ...],
        *_: object,
    ) -> None:
        check_launches(len(self.launches))
        # A group may have other axes than the grid; missing ones have length 1, as in pyopencl.
        counts, group = zip(*zip_longest(group_counts, group_sizes, fillvalue=1), strict=True)
        sizes = tuple(count * size for count, size in zip(counts, group, strict=True))
        if all(sizes):  # OpenCL before 2.1 rejects empty launches
            self.launches.append(OpenCLLaunch(kernel, sizes, group))

    def allocate(self, size: int) -> cl.Buffer | None:
        if not size:
            return None
        self.temporaries.append(_KeptBuffer(self._context, cl.mem_flags.READ_WRITE, size))
        return self.temporaries[-1]


# }}}


# }}}


# {{{ choice and properties of an OpenCL device


INSTALL = "install an OpenCL driver, or PoCL, which runs kernels on the processor: pip install 'loopyperf[opencl]'"

WARP_SIZES = {
    "cl_nv_device_attribute_query": cl.device_info.WARP_SIZE_NV,
    "cl_amd_device_attribute_query": cl.device_info.WAVEFRONT_WIDTH_AMD,
}
"""device query by extension; OpenCL itself only has sub-groups of a kernel, not of a device"""

POCL_PLATFORM = "Portable Computing Language"
POCL_THREADS = "POCL_MAX_PTHREAD_COUNT"
"""Environment variable that PoCL reads when its platform is first accessed."""


def choose_opencl_device(name: str | None = None) -> cl.Device:
    """Return the first device whose name or platform name contains *name*, ignoring case.

    Without *name*, pyopencl chooses (the first device of the first platform, or that of ``PYOPENCL_CTX``). Raises
    :class:`BackendError` with the available devices.
    """
    devices = available_devices()
    if not devices:
        raise BackendError(f"no OpenCL device found on any platform; {INSTALL}")
    found = "; ".join(map(_full_name, devices))
    if name is None:
        try:
            return cl.choose_devices(interactive=False)[0]
        except (RuntimeError, cl.Error) as error:
            raise BackendError(f"pyopencl chose no device ({error}); pass the name of one of: {found}") from error
    wanted = name.casefold()
    for device in devices:
        if wanted in _full_name(device).casefold():
            return device
    raise BackendError(f"no OpenCL device matches {name!r}; available: {found}")


def check_compiler(context: cl.Context) -> None:
    """Raise :class:`BackendError` if the driver cannot compile, such as a PoCL older than the processor."""
    try:
        cl.Program(context, "kernel void nothing() {}").build()
    except cl.Error as error:
        (device,) = context.devices
        reason = one_line(error).rpartition("error: ")[2].partition(" Device ")[0]
        raise BackendError(
            f"the driver of {_full_name(device)} cannot compile ({reason:.80}); install another one, "
            "e.g. apt-get install pocl-opencl-icd"
        ) from error


def available_devices() -> tuple[cl.Device, ...]:
    """Return the devices of all OpenCL platforms; raises :class:`BackendError` if there is no platform."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise BackendError(f"no OpenCL platform found ({error}); {INSTALL}") from error
    devices: list[cl.Device] = []
    for platform in platforms:
        with suppress(cl.Error):  # a driver without devices raises an error
            devices += platform.get_devices()
    return tuple(devices)


def opencl_environment(device: cl.Device) -> Environment:
    """Return the environment of *device*; warns if its times will not be reproducible."""
    threads = pocl_threads(device)
    if threads == "unset":
        warnings.warn(
            f"{POCL_THREADS} is not set: PoCL uses a thread per core, and times vary by a factor of two on a shared "
            f"machine; set {POCL_THREADS}=1 before starting Python",
            LoopyperfWarning,
            stacklevel=3,
        )
    return Environment.here(
        backend="opencl",
        platform=f"{device.platform.name}, {device.platform.version}",
        vendor=device.vendor,
        device=device.name.strip(),
        driver=device.driver_version,
        threads=threads,
    )


def opencl_limits(device: cl.Device) -> DeviceLimits:
    """Return the limits of *device*.

    All arguments together may take a quarter of its memory. OpenCL guarantees this much for a single buffer, and it
    leaves room for NumPy's copies where the device is the processor.
    """
    return DeviceLimits(
        group_size=device.max_work_group_size,
        local_memory=device.local_mem_size,
        global_memory=device.global_mem_size // 4,
        cores=device.max_compute_units,
        warp_size=warp_size(device),
        clock=device.max_clock_frequency * 1e6 or None,
        memory=device.global_mem_size,
        cache=device.global_mem_cache_size or None,
        cache_line=device.global_mem_cacheline_size or None,
    )


def warp_size(device: cl.Device) -> int:
    """Return the number of work-items that *device* executes together; 1 if its driver does not report it."""
    for extension, field in WARP_SIZES.items():
        if extension in device.extensions.split():
            with suppress(cl.Error):
                return cast("int", device.get_info(field))
    return 1


def groups_at_once(device: cl.Device, kernel: cl.Kernel, work_items: int) -> int:
    """Return how many groups of *work_items* of *kernel* the device runs at once, as far as OpenCL reports it.

    A processor runs one group per core, each in one thread; PoCL with one thread runs one. For other devices OpenCL
    reports the kernel's maximum group size, from which the number of groups that the registers allow follows, and the
    kernel's local memory. The result is a lower bound on the resident groups.
    """
    cores = device.max_compute_units
    if device.type & cl.device_type.CPU:
        return cores
    query = cl.kernel_work_group_info
    groups = kernel.get_work_group_info(query.WORK_GROUP_SIZE, device) // work_items
    local_memory = kernel.get_work_group_info(query.LOCAL_MEM_SIZE, device)
    if local_memory:
        groups = min(groups, device.local_mem_size // local_memory)
    return cores * max(1, groups)


def pocl_threads(device: cl.Device) -> Threads:
    """Return PoCL's number of threads, ``"unset"`` if not configured, None if *device* is not PoCL's."""
    if device.platform.name != POCL_PLATFORM:
        return None
    threads = os.environ.get(POCL_THREADS, "")
    return int(threads) if threads.isdecimal() else "unset"


def _full_name(device: cl.Device) -> str:
    return f"{device.platform.name}: {device.name.strip()}"


# }}}


# {{{ the backend


class OpenCLBackend(LaunchingBackend[OpenCLProgram, cl.Buffer, OpenCLLaunchSequence]):
    """Backend that compiles and verifies each configuration once and times it at any number of sizes.

    Attributes
    ----------
    environment : Environment
        The device, its driver and the versions of the code generators.
    limits : DeviceLimits
        The resource limits of the device.
    """

    def __init__(self, device: str | None = None) -> None:
        """Use the first device whose name or platform name contains *device*; without it, pyopencl's choice.

        Raises :class:`BackendError` if there is no such device or its driver cannot compile; warns if PoCL's number of
        threads is not configured.
        """
        super().__init__()
        chosen = choose_opencl_device(device)
        self.environment = opencl_environment(chosen)
        self.limits = opencl_limits(chosen)
        self._context = cl.Context([chosen])
        check_compiler(self._context)
        self._queue = cl.CommandQueue(self._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self._flush: CacheFlush | None = None

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs of *case*, in order, by the wall clock and by the device's clock.

        A run consists of all launches of the kernel. The wall clock measures from the first enqueue until the queue is
        empty, the device's clock from the start of the first launch to the end of the last. Before a configuration's
        first timing, it is run once at that size and its results are verified. Raises :class:`MeasurementError` with
        the case's name if it does not compile, cannot be launched or is wrong, and :class:`BackendError` if the device
        is lost.
        """
        with self._naming(case):
            return self._bound(case).time(self._queue, runs)

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        """Return *case* with its arguments on the device, some arrays only in part; see :class:`RunsParts`."""
        device = self._queue.device
        with self._naming(case):
            sequence = self._partly_bound(case, contents)
            for temporary in sequence.temporaries:
                cl.enqueue_fill_buffer(self._queue, temporary, np.zeros(1, np.uint8), 0, temporary.size)
            self._queue.finish()
            launches = [
                (
                    each,
                    DeviceProgram(
                        each.kernel.function_name,
                        (each.groups,),
                        groups_at_once(device, each.kernel, prod(each.local_size)),
                    ),
                )
                for each in sequence.launches
            ]

        def timed(parts: list[tuple[OpenCLLaunch, Grid]], runs: int, evicted: int) -> MeasuredTimes:
            cut = tuple(launch.of_groups(grid) for launch, grid in parts)
            before = partial(self._evict, evicted) if evicted else None
            with self._naming(case):
                return OpenCLLaunchSequence(cut, sequence.arguments).time(self._queue, runs, before)

        return BoundParts(launches, timed)

    def _evict(self, nbytes: int) -> None:
        if self._flush is None:
            self._flush = CacheFlush(self._context)
        self._flush.run(self._queue, nbytes)

    def _compiled(self, configuration: Configuration) -> OpenCLProgram:
        return OpenCLProgram(self._context, configuration.build())

    def _launches(self, program: OpenCLProgram, arguments: Mapping[str, object]) -> OpenCLLaunchSequence:
        return program.bind(arguments)

    def _run(self, launches: OpenCLLaunchSequence) -> None:
        launches.run(self._queue)

    def _download(self, memory: cl.Buffer, like: Array) -> Array:
        result: Array = np.empty_like(like)
        cl.enqueue_copy(self._queue, result, memory)
        return result

    def _upload(self, contents: Bytes) -> cl.Buffer:
        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=contents)

    @contextmanager
    def _naming(self, case: BenchmarkCase) -> Generator[None]:
        try:
            yield
        except cl.Error as error:
            try:  # a device that was lost does not copy a byte
                cl.enqueue_copy(self._queue, np.empty(1, np.uint8), self._upload(np.zeros(1, np.uint8)))
            except cl.Error:
                raise BackendError(
                    f"{case}: {self.environment.device} no longer responds ({error}); start again to resume from the "
                    "archive"
                ) from error
            raise MeasurementError(f"{case}: {error}") from error
        except (LoopyError, MeasurementError) as error:
            raise MeasurementError(f"{case}: {error}") from error


# }}}
