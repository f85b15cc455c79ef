"""Emptying the caches of an OpenCL device: more bytes than they hold are read and written."""

import numpy as np
import pyopencl as cl

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
