"""A Loopy kernel as a fixed list of OpenCL launches, ready to be repeated with minimal Python overhead.

Loopy generates a host program in Python that sets the arguments, computes the grids, executes the loops around launches
and allocates global temporaries. It is executed once with a recorder instead of pyopencl. The recorded launches, each
with its own OpenCL kernel object and arguments, can then be enqueued any number of times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import zip_longest
from struct import pack
from time import perf_counter
from typing import Any, NamedTuple, cast

import loopy as lp
import numpy as np
import pyopencl as cl
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.kernel import LoopKernel
from loopy.translation_unit import TranslationUnit

from loopyperf.errors import MeasurementError
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.measurement.backends.backend import MeasuredTimes, check_launches, no_garbage_collection

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
