"""A Loopy kernel as a fixed list of OpenCL launches, ready to be repeated with hardly any Python in between.

Loopy generates a host program in Python that sets the arguments, computes the grids, runs the loops around launches
and allocates global temporaries. It is run once against a recorder in place of pyopencl; what it would have launched,
each launch on its own OpenCL kernel object with its arguments set, is then enqueued as often as wanted.
"""

import re
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

# {{{ emptying the caches of an OpenCL device: more bytes than they hold are read and written


SOURCE = "kernel void touch(global int *bytes) { bytes[get_global_id(0)] += 1; }"
TIMES_CACHE = 2
"""how many times the reported cache is touched: not every cache replaces what was used longest ago"""
LEAST_ON_GPU, LEAST = 2**29, 2**26
"""bytes that are touched at least. GPUs' drivers report a cache nearer to the cores, AMD's the one of 16 KiB, and the
largest last ones have 256 MiB"""


class CacheFlush:
    """A buffer larger than the last cache, and a kernel that goes through it."""

    def __init__(self, context: cl.Context) -> None:
        """Allocate and compile on the first device of *context*."""
        device = context.devices[0]
        least = LEAST_ON_GPU if device.type & cl.device_type.GPU else LEAST
        touched = min(max(least, TIMES_CACHE * device.global_mem_cache_size), device.max_mem_alloc_size)
        self._integers = touched // np.dtype(np.int32).itemsize
        self._buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, touched)
        self._kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "touch")
        self._kernel.set_args(self._buffer)

    def run(self, queue: cl.CommandQueue, nbytes: int | None = None) -> None:
        """Touch every byte, or so many of them, and return when that is done."""
        integers = self._integers if nbytes is None else min(self._integers, max(1, nbytes // 4))
        cl.enqueue_nd_range_kernel(queue, self._kernel, (integers,), None)
        queue.finish()


# }}}


# {{{ opencl program


HostProgram = Callable[..., object]
HEADER = re.compile(r"^(__kernel .*)\)$", re.MULTILINE)
"""of a device program in Loopy's code, which has it on one line"""
UNUSED = "__local uchar *unused_local_memory"
"""a parameter that takes local memory and is not looked at"""


class OpenCLProgram:
    """A Loopy kernel, compiled for a context."""

    kernel: LoopKernel

    def __init__(self, context: cl.Context, unit: TranslationUnit, dynamic_local_memory: int = 0) -> None:
        """Generate and compile the code of *unit*; a group takes *dynamic_local_memory* bytes beside its own.

        Raises :class:`MeasurementError` if it is for another target.
        """
        if not isinstance(unit.target, lp.PyOpenCLTarget):
            raise MeasurementError(
                f"the kernel is built for {type(unit.target).__name__}; build it with target=lp.PyOpenCLTarget()"
            )
        self.kernel = unit.default_entrypoint
        # Loopy's annotation names another class.
        with without_dumps():
            code = cast("TranslationUnitCodeGenerationResult", cast("object", lp.generate_code_v2(unit)))
        self._context = context
        source = code.device_code() if not dynamic_local_memory else _with_unused_parameter(code.device_code())
        self._program = cl.Program(context, source).build(options=self.kernel.options.build_options)
        self._dynamic_local_memory = dynamic_local_memory
        self._host_code = code.host_code()
        self._host_name = code.host_programs[self.kernel.name].name

    def bind(self, arguments: Mapping[str, object]) -> "OpenCLLaunchSequence":
        """Return what one run of the kernel launches, given buffers and scalars by argument name.

        Raises :class:`MeasurementError` if it launches more than 1000 times.
        """
        recorder = _Recorder(self._context)
        host = self._host_program(recorder)
        passed = {name: arguments[name] for name in signature(host).parameters if name in arguments}
        host(_FreshKernels(self._program, self._dynamic_local_memory), None, **passed, allocator=recorder.allocate)
        return OpenCLLaunchSequence(tuple(recorder.launches), tuple(arguments.values()), tuple(recorder.temporaries))

    def _host_program(self, recorder: "_Recorder") -> HostProgram:
        # The names that Loopy's host programs use; `pack` without a prefix is for scalars that pyopencl cannot pack.
        namespace: dict[str, Any] = {"_lpy_cl": recorder, "_lpy_pack": pack, "pack": pack}
        exec(self._host_code, namespace)
        return namespace[self._host_name]


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
        """Return the launch of so many *groups* along each axis in place of its own."""
        sizes = tuple(count * size for count, size in zip(groups, self.local_size, strict=True))
        return self._replace(global_size=sizes)


@dataclass(frozen=True, slots=True)
class OpenCLLaunchSequence:
    """Everything that one run of a kernel launches, in order."""

    launches: tuple[OpenCLLaunch, ...]
    arguments: tuple[object, ...]
    """buffers that the launches use: OpenCL does not keep them alive"""
    temporaries: tuple[cl.Buffer, ...] = ()
    """global ones, with any contents"""

    def run(self, queue: cl.CommandQueue) -> tuple[cl.Event, ...]:
        """Run the kernel once on *queue*, an in-order one, to its end; returns its first and its last event, if any."""
        first = last = None
        for kernel, global_size, local_size in self.launches:
            last = cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            first = first or last
        queue.finish()
        return () if first is None or last is None else (first, last)

    def time(self, queue: cl.CommandQueue, runs: int, before: Callable[[], None] | None = None) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs, from the first enqueue to the end of the last launch.

        Those by the device's clock are there if *queue* keeps them, and begin when the first launch does. What the
        kernel overwrites is not restored between runs. What *before* does comes before each, and is not timed.
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
        told = tuple(seconds for seconds in device if seconds is not None)
        return MeasuredTimes(tuple(wall), told if len(told) == runs else None)


def _between(first: cl.Event, last: cl.Event) -> float | None:
    """Return the seconds from the start of *first* to the end of *last*, None if they were not kept."""
    try:
        return (last.profile.end - first.profile.start) * 1e-9
    except cl.Error:
        return None


# {{{ the host program's surroundings


class _KeptBuffer(cl.Buffer):
    """A global temporary: the host program releases it after the last launch, but here the launches are repeated."""

    def release(self) -> None:
        """Keep the memory; it is freed with the object."""


class _FreshKernels:
    """Stands for the kernels of a program: every access is a new kernel object, whose arguments nobody else sets."""

    def __init__(self, program: cl.Program, dynamic_local_memory: int) -> None:
        self._program, self._dynamic_local_memory = program, dynamic_local_memory

    def __getattr__(self, name: str) -> cl.Kernel:
        if not self._dynamic_local_memory:
            return cl.Kernel(self._program, name)
        kernel = _KernelWithUnusedMemory(self._program, name)
        kernel.set_arg(kernel.num_args, cast("Any", cl.LocalMemory(self._dynamic_local_memory)))
        return kernel


class _KernelWithUnusedMemory(cl.Kernel):
    """A kernel whose last parameter the host program, which asserts their number, does not know of."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return value - 1 if name == "num_args" else value


def _with_unused_parameter(source: str) -> str:
    return HEADER.sub(lambda header: f"{header[1]}{'' if header[1].endswith('(') else ', '}{UNUSED})", source)


class _Recorder:
    """Stands for the module pyopencl, and writes down what is enqueued."""

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
        # A group may have other axes than the grid; pyopencl fills the missing ones with 1, as here.
        counts, group = zip(*zip_longest(group_counts, group_sizes, fillvalue=1), strict=True)
        sizes = tuple(count * size for count, size in zip(counts, group, strict=True))
        if all(sizes):  # OpenCL before 2.1 refuses to launch nothing
            self.launches.append(OpenCLLaunch(kernel, sizes, group))

    def allocate(self, size: int) -> cl.Buffer | None:
        if not size:
            return None
        self.temporaries.append(_KeptBuffer(self._context, cl.mem_flags.READ_WRITE, size))
        return self.temporaries[-1]


# }}}


# }}}
