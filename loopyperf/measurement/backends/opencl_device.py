"""Choosing an OpenCL device, and what is recorded of it."""

import os
import warnings
from contextlib import suppress
from typing import cast

import pyopencl as cl

from loopyperf.errors import BackendError, LoopyperfWarning, one_line
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.environment import Environment, Threads

INSTALL = "install an OpenCL driver, or PoCL, which makes the processor a device: pip install 'loopyperf[opencl]'"

WARP_SIZES = {
    "cl_nv_device_attribute_query": cl.device_info.WARP_SIZE_NV,
    "cl_amd_device_attribute_query": cl.device_info.WAVEFRONT_WIDTH_AMD,
}
"""extension -> what to ask for; OpenCL itself states sub-groups of a kernel, not of a device"""

POCL_PLATFORM = "Portable Computing Language"
POCL_THREADS = "POCL_MAX_PTHREAD_COUNT"
"""The environment variable that PoCL reads when its platform is first looked at."""


def choose_device(name: str | None = None) -> cl.Device:
    """Return the first device in whose name, or platform's name, *name* occurs, in upper or lower case.

    Without *name* it is the one that pyopencl chooses (the first of the first platform, or what ``PYOPENCL_CTX``
    says). Raises :class:`BackendError` saying which devices there are.
    """
    devices = available_devices()
    if not devices:
        raise BackendError(f"no OpenCL device was found on any platform; {INSTALL}")
    if name is None:
        return _default_device()
    wanted = name.casefold()
    for device in devices:
        if wanted in _full_name(device).casefold():
            return device
    found = "; ".join(_full_name(device) for device in devices)
    raise BackendError(f"no OpenCL device matches {name!r}; there are: {found}")


def check_compiler(context: cl.Context) -> None:
    """Raise :class:`BackendError` where the driver compiles nothing, e.g. a PoCL older than the processor."""
    try:
        cl.Program(context, "kernel void nothing() {}").build()
    except cl.Error as error:
        (device,) = context.devices
        reason = one_line(error).rpartition("error: ")[2].partition(" Device ")[0]
        raise BackendError(
            f"the driver of {_full_name(device)} compiles nothing ({reason:.80}); install another one, "
            "e.g. apt-get install pocl-opencl-icd"
        ) from error


def available_devices() -> tuple[cl.Device, ...]:
    """Return the devices of all OpenCL platforms; raises :class:`BackendError` if there is no platform."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise BackendError(f"no OpenCL platform was found ({error}); {INSTALL}") from error
    return tuple(device for platform in platforms for device in _devices_of(platform))


def describe_environment(device: cl.Device) -> Environment:
    """Return the environment of *device*; warns where its times will not repeat."""
    threads = pocl_threads(device)
    if threads == "unset":
        warnings.warn(
            f"{POCL_THREADS} is not set, so PoCL runs a thread on every core, and its times vary by a factor of two on "
            f"a shared machine; set {POCL_THREADS}=1 before Python starts",
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


def describe_limits(device: cl.Device) -> Limits:
    """Return the limits of *device*.

    All arguments together get a quarter of its memory: what OpenCL guarantees for a single buffer, and it leaves room
    for NumPy's copies where the device is the processor.
    """
    return Limits(
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
    """Return how many work-items *device* says that it executes together; 1 if it says nothing."""
    for extension, field in WARP_SIZES.items():
        if extension in device.extensions.split():
            with suppress(cl.Error):
                return cast("int", device.get_info(field))
    return 1


def groups_at_once(device: cl.Device, kernel: cl.Kernel, work_items: int) -> int:
    """Return how many groups of *work_items* of *kernel* the device runs at once, as far as OpenCL tells.

    A processor runs one on each core, by one thread each: PoCL with one thread runs one. Of others OpenCL tells how
    large a group of the kernel may be, hence for how many of its own there are registers, and its local memory: so many
    reside on a core at least.
    """
    cores = device.max_compute_units
    if device.type & cl.device_type.CPU:
        return cores
    asked = cl.kernel_work_group_info
    groups = kernel.get_work_group_info(asked.WORK_GROUP_SIZE, device) // work_items
    local_memory = kernel.get_work_group_info(asked.LOCAL_MEM_SIZE, device)
    if local_memory:
        groups = min(groups, device.local_mem_size // local_memory)
    return cores * max(1, groups)


def pocl_threads(device: cl.Device) -> Threads:
    """Return how many threads PoCL was asked for, ``"unset"`` if it was not told, None if *device* is not PoCL's."""
    if device.platform.name != POCL_PLATFORM:
        return None
    asked = os.environ.get(POCL_THREADS, "")
    return int(asked) if asked.isdecimal() else "unset"


def _default_device() -> cl.Device:
    try:
        return cl.choose_devices(interactive=False)[0]
    except (RuntimeError, cl.Error) as error:
        found = "; ".join(_full_name(device) for device in available_devices())
        raise BackendError(f"pyopencl chose no device ({error}); name one of: {found}") from error


def _devices_of(platform: cl.Platform) -> list[cl.Device]:
    try:
        return platform.get_devices()
    except cl.Error:
        # A driver without a device says so by an error.
        return []


def _full_name(device: cl.Device) -> str:
    return f"{device.platform.name}: {device.name.strip()}"
