"""The instruction dependence graphs of a kernel, as users ask for them."""

import weakref
from collections.abc import Mapping
from typing import Any

from loopyperf.counts.typical import Typical
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice, given_device
from loopyperf.device.substitutes import completed
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.memory import source_launch as construction
from loopyperf.memory.kernel_profile import KernelIdg, KernelProfile
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.predict.case import admitted_sizes, merged_sizes, prepared
from loopyperf.properties.unified import item_named

LANES = 32
"""of a warp, on all devices of NVIDIA and some of AMD"""


def instruction_graph(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    warp_size: int | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> KernelIdg:
    """Return the source graph of *program* at *sizes*, with executions per warp: that of its longest launch.

    It is the graph of the launch's representative warp. The graphs of other launches, and of other kinds of warps with
    how many there are, are in its ``launches``. What nvcc makes of a graph is :func:`loopyperf.compiler.lowered`.
    Sizes are the kernel's integer parameters as keywords; one that collides with an option goes through *parameters*.
    *typical* states what the source does not tell (see :func:`loopyperf.count`). All that the source graph needs to
    know of a *device* (see :func:`loopyperf.load_device`) is the number of lanes of a warp; *warp_size* states it
    without one. It is 32 where neither is given.

    Raises :class:`KernelError` for a kernel that Loopy cannot schedule, :class:`UncountableError` for what depends on
    data of which nothing is stated, :class:`UnknownDeviceError` for a device that is not described, and
    :class:`ParameterError` for wrong sizes and options.
    """
    return kernel_profile(
        program, device=device, warp_size=warp_size, typical=typical, parameters=merged_sizes(parameters, sizes)
    ).graph


def kernel_profile(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    warp_size: int | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> KernelProfile:
    """Return what *program* does at *sizes*: its launches, their classes of warps, what each executes and accesses.

    Arguments and errors are those of :func:`instruction_graph`. All models of a device begin with this value.
    """
    lanes = _lanes(device, warp_size)
    merged = merged_sizes(parameters, sizes)
    kernel = prepared(program, merged)
    stated = Typical(typical or {}, item_named)
    profile = construction.kernel_profile(kernel, admitted_sizes(kernel, merged), stated, lanes)
    stated.check_all_asked(kernel.name)
    return profile


def timed_kernel(
    program: Program, device: Device, typical: Mapping[str, Any] | None, sizes: Mapping[str, Any]
) -> TimedKernel:
    """Return the graphs of *program* at *sizes* on *device*, what all models of a device begin with.

    The latest one is kept, since several models are often asked about the same kernel one after the other. Raises what
    :func:`instruction_graph` raises.
    """
    asked = (device, repr(typical), repr(sizes))
    latest = _latest.get("kernel")
    if latest is not None and latest[0]() is program and latest[1] == asked:
        return latest[2]
    profile = kernel_profile(
        program, warp_size=completed(device).needed("warp_size"), typical=typical, parameters=sizes
    )
    kernel = TimedKernel(profile, device)
    _latest["kernel"] = (weakref.ref(program), asked, kernel)
    return kernel


_latest: dict[str, tuple[weakref.ref[Program], tuple[Any, ...], TimedKernel]] = {}


def _lanes(device: DeviceChoice | None, warp_size: object) -> int:
    if warp_size is None:
        if device is None:
            return LANES
        return completed(given_device(device)).needed("warp_size")
    if device is not None:
        raise ParameterError("warp_size and device both state the lanes of a warp: give one of the two")
    if isinstance(warp_size, bool) or not isinstance(warp_size, int) or warp_size < 1:
        raise ParameterError(f"warp_size is a number of lanes, 1 or more; received {warp_size!r}")
    return warp_size
