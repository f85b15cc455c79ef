"""Choosing a CUDA device, and what is recorded of it."""

import re
from pathlib import Path

from loopyperf.errors import BackendError
from loopyperf.measurement.backends.cupy_interface import CudaDevice, CuPy
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.environment import Environment

DRIVER_FILE = Path("/proc/driver/nvidia/version")
"""where Linux tells the version of the driver's module"""
VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")


def choose_device(cupy: CuPy, name: str | None = None) -> CudaDevice:
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


def describe_environment(cupy: CuPy, device: CudaDevice, driver_file: Path = DRIVER_FILE) -> Environment:
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


def describe_limits(device: CudaDevice) -> Limits:
    """Return the limits of *device*.

    All arguments together get a quarter of its memory, as on OpenCL: the same kernels are measured at the same sizes.
    CUDA tells the size of the second cache, and not how long its lines are.
    """
    attributes, (_, memory) = device.attributes, device.mem_info
    return Limits(
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
