"""The part of CuPy that is used here: it has no type annotations, and the machines that check ours do not have it.

Names are CuPy's. All of it is in CuPy 13 and 14, and what a test puts in CuPy's place is just this.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from loopyperf.measurement.backends.backend import Bytes


class CupyMemory(Protocol):
    """An array in device memory."""

    def get(self) -> Bytes:
        """Return a copy in the host's memory."""
        ...

    def set(self, arr: Bytes) -> None:
        """Copy *arr* into it."""
        ...

    def fill(self, value: int) -> None:
        """Write *value* everywhere."""
        ...


class Function(Protocol):
    """A device function of the driver."""

    ptr: int
    """its handle"""


class CupyKernel(Protocol):
    """A device function; called, it is launched on the current stream."""

    @property
    def kernel(self) -> Function:
        """Return the function that the driver has loaded."""
        ...

    max_dynamic_shared_size_bytes: int
    """local memory that a launch may ask for beside what the function declares; settable up to the device's limit"""

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[object, ...], *, shared_mem: int = 0
    ) -> None:
        """Launch *grid* groups of *block* work-items, each with *shared_mem* bytes of local memory more."""
        ...


class Module(Protocol):
    """Device functions, compiled when the first of them is asked for."""

    def get_function(self, name: str) -> CupyKernel:
        """Return the function called *name*."""
        ...


class CudaEvent(Protocol):
    """A point in a stream, with the time at which the device was there."""

    def record(self) -> None:
        """Be the point behind all that has been launched."""
        ...

    def synchronize(self) -> None:
        """Wait until the device is there."""
        ...


class CupyStream(Protocol):
    """A queue of launches, worked off in order."""

    def synchronize(self) -> None:
        """Wait until it is empty."""
        ...


class CudaDevice(AbstractContextManager["CudaDevice"], Protocol):
    """A GPU; a context in which it is the current one."""

    @property
    def id(self) -> int:
        """Return its number, from 0."""
        ...

    @property
    def attributes(self) -> Mapping[str, int]:
        """Return the runtime's attributes, without the prefix ``cudaDevAttr``."""
        ...

    @property
    def mem_info(self) -> tuple[int, int]:
        """Return the bytes of its memory that are free, and all of them."""
        ...


class Runtime(Protocol):
    """The CUDA runtime."""

    CUDARuntimeError: type[Exception]

    def getDeviceCount(self) -> int:
        """Return how many GPUs there are."""
        ...

    def getDeviceProperties(self, device: int) -> Mapping[str, object]:
        """Return the properties of a GPU, its name in bytes among them."""
        ...

    def runtimeGetVersion(self) -> int:
        """Return the version, 13020 for 13.2."""
        ...

    def driverGetVersion(self) -> int:
        """Return the latest version of CUDA that the driver supports."""
        ...


class Driver(Protocol):
    """The CUDA driver."""

    CUDADriverError: type[Exception]

    def occupancyMaxActiveBlocksPerMultiprocessor(
        self, function: int, work_items: int, dynamic_local_memory: int, /
    ) -> int:
        """Return how many groups reside on a core at once, each with so many bytes of local memory beside its own."""
        ...


class Compiler(Protocol):
    """CuPy's use of compilers."""

    CompileException: type[Exception]


class Nvrtc(Protocol):
    """The compiler."""

    NVRTCError: type[Exception]

    def getVersion(self) -> tuple[int, int]:
        """Return major and minor version."""
        ...


class MemoryModule(Protocol):
    """CuPy's allocator."""

    OutOfMemoryError: type[Exception]


class Cuda(Protocol):
    """The module ``cupy.cuda``."""

    runtime: Runtime
    driver: Driver
    compiler: Compiler
    nvrtc: Nvrtc
    memory: MemoryModule
    Device: Callable[[int], CudaDevice]
    Event: Callable[[], CudaEvent]

    def get_current_stream(self) -> CupyStream:
        """Return the stream that launches go to."""
        ...

    def get_elapsed_time(self, start_event: CudaEvent, end_event: CudaEvent) -> float:
        """Return the milliseconds between two events."""
        ...


class CuPy(Protocol):
    """The module ``cupy``."""

    cuda: Cuda

    def RawModule(self, *, code: str, options: tuple[str, ...] = ()) -> Module:
        """Return what compiles *code* by NVRTC."""
        ...

    def empty(self, shape: int, dtype: type[np.generic]) -> CupyMemory:
        """Return device memory with any contents."""
        ...
