"""A fake CuPy with memory on the host, a record of launches, and a clock that a test controls.

It executes no kernels. A test can set the effect of a device function on memory, by the function's name.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np

ATTRIBUTES = {
    "MaxThreadsPerBlock": 1024,
    "MaxSharedMemoryPerBlock": 49152,
    "MultiProcessorCount": 132,
    "WarpSize": 32,
    "ClockRate": 1_980_000,
    "L2CacheSize": 50 * 2**20,
}
"""of an H100, as the CUDA runtime reports them"""
MEMORY = 80 * 2**30


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime."""


class CUDADriverError(RuntimeError):
    """An error of the CUDA driver."""


class NVRTCError(RuntimeError):
    """An error of NVRTC."""


class CompileError(Exception):
    """A compile error."""


class OutOfMemoryError(MemoryError):
    """An allocation error."""


class Memory:
    """Device memory, stored on the host and filled with 0xA5 until it is written."""

    def __init__(self, machine: "FakeCuPy", nbytes: int) -> None:
        self._machine = machine
        self.contents = np.full(nbytes, 0xA5, np.uint8)

    def get(self) -> np.ndarray:
        self._machine.check()
        return self.contents.copy()

    def set(self, arr: np.ndarray) -> None:
        assert (arr.dtype, arr.shape) == (np.uint8, self.contents.shape)
        self.contents[:] = arr

    def fill(self, value: int) -> None:
        self.contents[:] = value
        self._machine.filled.append(len(self.contents))

    def viewed(self, dtype: type[np.generic]) -> np.ndarray:
        """Return a view of the memory as numbers of the given type."""
        return self.contents.view(dtype)


class Device(AbstractContextManager["Device"]):
    """A GPU."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.attributes = dict(ATTRIBUTES)
        self.mem_info = (MEMORY // 2, MEMORY)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""


class Function:
    """A device function."""

    def __init__(self, machine: "FakeCuPy", name: str) -> None:
        self._machine, self.name = machine, name
        self.kernel = SimpleNamespace(ptr=name)
        self.max_dynamic_shared_size_bytes = 0

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...], *, shared_mem: int = 0) -> None:
        self._machine.launched.append((self.name, grid, block, args, shared_mem))
        own = self._machine.duration + self._machine.seconds_of_group * prod(grid)
        self._machine.seconds += float(args[0]) * 1e-9 if self.name == "hold" else own
        self._machine.effects.get(self.name, lambda *_: None)(*args)


class Module:
    """Compiled source."""

    def __init__(self, machine: "FakeCuPy", code: str, options: tuple[str, ...]) -> None:
        self._machine, self.code, self.options = machine, code, options

    def get_function(self, name: str) -> Function:
        if self._machine.refusal is not None:
            raise CompileError(self._machine.refusal)
        assert f" {name}(" in self.code, f"the source has no function {name}"
        return self._machine.functions.setdefault(name, Function(self._machine, name))


class Event:
    """A point in time."""

    def __init__(self, machine: "FakeCuPy") -> None:
        self._machine, self.seconds = machine, 0.0

    def record(self) -> None:
        self._machine.launched.append("event")
        self.seconds = self._machine.seconds

    def synchronize(self) -> None:
        self._machine.check()


class Stream:
    """A queue that is always empty."""

    def __init__(self, machine: "FakeCuPy") -> None:
        self._machine = machine

    def synchronize(self) -> None:
        self._machine.check()


class FakeCuPy:
    """The module ``cupy`` on a machine with GPUs of the given *names*."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.launched: list[Any] = []
        """launches and events in order: a function's name, grid, group, arguments, dynamic local memory"""
        self.functions: dict[str, Function] = {}
        self.effects: dict[str, Callable[..., object]] = {}
        """by function, the effect of a launch on its arguments"""
        self.duration = 2e-6
        """seconds of each launch"""
        self.seconds_of_group = 0.0
        """additional seconds for each group of a launch"""
        self.seconds = 0.0
        self.host_seconds = 0.0
        self.refusal: str | None = None
        """the compile error, if there is one"""
        self.is_lost = False
        """whether a kernel has left the device unusable"""
        self.modules: list[Module] = []
        self.allocated: list[Memory] = []
        self.filled: list[int] = []
        """sizes in bytes of the fills"""
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=lambda: len(self.names),
            getDeviceProperties=lambda number: {"name": self.names[number].encode()},
            runtimeGetVersion=lambda: 13020,
            driverGetVersion=lambda: 13000,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(
                CUDADriverError=CUDADriverError,
                occupancyMaxActiveBlocksPerMultiprocessor=lambda function, size, memory: self.resident(size, memory),
            ),
            compiler=SimpleNamespace(CompileException=CompileError),
            nvrtc=SimpleNamespace(NVRTCError=NVRTCError, getVersion=lambda: (13, 2)),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            Device=Device,
            Event=lambda: Event(self),
            get_current_stream=lambda: Stream(self),
            get_elapsed_time=lambda start, end: 1e3 * (end.seconds - start.seconds),
        )

    def RawModule(self, *, code: str, options: tuple[str, ...] = ()) -> Module:  # noqa: N802
        self.modules.append(Module(self, code, options))
        return self.modules[-1]

    def empty(self, shape: int, dtype: type[np.generic]) -> Memory:
        assert dtype is np.uint8
        if shape > MEMORY:
            raise OutOfMemoryError(f"Out of memory allocating {shape} bytes")
        self.allocated.append(Memory(self, shape))
        return self.allocated[-1]

    def empty_bytes(self, nbytes: int) -> Memory:
        """Return device memory."""
        return self.empty(nbytes, np.uint8)

    def resident(self, work_items: int, local_memory: int) -> int:
        """Return the number of groups resident on a core, limited only by work-items and local memory."""
        return min(2048 // work_items, 32, 228 * 1024 // (1024 + local_memory))

    def check(self) -> None:
        """Raise CUDA's error if a kernel has left the device unusable."""
        if self.is_lost:
            raise CUDADriverError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")

    def host_clock(self) -> float:
        """Return the host's time in seconds; each call advances it by one microsecond."""
        self.host_seconds += 1e-6
        return self.host_seconds

    def kernels(self) -> list[str]:
        """Return the names of the launched functions, except the hold kernel."""
        return [launch[0] for launch in self.launched if launch != "event" and launch[0] != "hold"]
