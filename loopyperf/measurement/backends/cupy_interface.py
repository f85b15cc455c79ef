"""Typed interface of the part of CuPy that is used here; CuPy has no annotations and is missing where ours are checked.

Names are CuPy's. All of it exists in CuPy 13 and 14, and test doubles implement exactly this interface.
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
        """Copy *arr* to this array."""
        ...

    def fill(self, value: int) -> None:
        """Write *value* to all elements."""
        ...


class Function(Protocol):
    """A device function of the driver."""

    ptr: int
    """its handle"""


class CupyKernel(Protocol):
    """A device function that is launched on the current stream when called."""

    @property
    def kernel(self) -> Function:
        """Return the driver's loaded function."""
        ...

    max_dynamic_shared_size_bytes: int
    """local memory that a launch may allocate in addition to the function's own; at most the device's limit"""

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[object, ...], *, shared_mem: int = 0
    ) -> None:
        """Launch *grid* groups of *block* work-items, each group with *shared_mem* additional bytes of local memory."""
        ...


class Module(Protocol):
    """A module of device functions, compiled when the first of them is requested."""

    def get_function(self, name: str) -> CupyKernel:
        """Return the function called *name*."""
        ...


class CudaEvent(Protocol):
    """A point in a stream with a time stamp of the device."""

    def record(self) -> None:
        """Place the event after everything that has been queued."""
        ...

    def synchronize(self) -> None:
        """Wait until the device reaches the event."""
        ...


class CupyStream(Protocol):
    """A queue of launches that are executed in order."""

    def synchronize(self) -> None:
        """Wait until it is empty."""
        ...


class CudaDevice(AbstractContextManager["CudaDevice"], Protocol):
    """A GPU; a context manager that makes it the current device."""

    @property
    def id(self) -> int:
        """Return the device's number, starting with 0."""
        ...

    @property
    def attributes(self) -> Mapping[str, int]:
        """Return the runtime's attributes by name, without the prefix ``cudaDevAttr``."""
        ...

    @property
    def mem_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the device's memory."""
        ...


class Runtime(Protocol):
    """The CUDA runtime."""

    CUDARuntimeError: type[Exception]

    def getDeviceCount(self) -> int:
        """Return the number of GPUs."""
        ...

    def getDeviceProperties(self, device: int) -> Mapping[str, object]:
        """Return the properties of a GPU, including its name in bytes."""
        ...

    def runtimeGetVersion(self) -> int:
        """Return the version, 13020 for 13.2."""
        ...

    def driverGetVersion(self) -> int:
        """Return the latest CUDA version that the driver supports."""
        ...


class Driver(Protocol):
    """The CUDA driver."""

    CUDADriverError: type[Exception]

    def occupancyMaxActiveBlocksPerMultiprocessor(
        self, function: int, work_items: int, dynamic_local_memory: int, /
    ) -> int:
        """Return the number of groups resident on a core at once, with *dynamic_local_memory* additional bytes each."""
        ...


class Compiler(Protocol):
    """CuPy's compiler interface."""

    CompileException: type[Exception]


class Nvrtc(Protocol):
    """The NVRTC compiler."""

    NVRTCError: type[Exception]

    def getVersion(self) -> tuple[int, int]:
        """Return the major and minor version."""
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
        """Return the stream that receives launches."""
        ...

    def get_elapsed_time(self, start_event: CudaEvent, end_event: CudaEvent) -> float:
        """Return the time between two events in milliseconds."""
        ...


class CuPy(Protocol):
    """The module ``cupy``."""

    cuda: Cuda

    def RawModule(self, *, code: str, options: tuple[str, ...] = ()) -> Module:
        """Return a module that compiles *code* with NVRTC."""
        ...

    def empty(self, shape: int, dtype: type[np.generic]) -> CupyMemory:
        """Return uninitialized device memory."""
        ...
