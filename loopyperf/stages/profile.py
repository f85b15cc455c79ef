"""The first stage of a prediction: the profile of a kernel at given sizes."""

from collections.abc import Mapping
from typing import Any

from loopyperf.counts.sizes import Typical
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.device.substitutes import completed
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.memory.kernel_profile import KernelIdg, KernelProfile
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, admitted_sizes, case_of, found_once, layout_of, prepared

LANES = 32
"""default warp size, that of all NVIDIA and some AMD devices"""
PROFILE: ResultKind[KernelProfile] = ResultKind("profile", 1)
"""the latest profile, since several models often predict the same kernel in turn; profiles may have megabytes"""
STRUCTURES: ResultKind[KernelStructure] = ResultKind("structure", 64)
"""size-independent analyses, of some hundred kilobytes each"""
NAME: ResultKind[str] = json_result_kind("profiled", 4096, str)


def instruction_graph(
    program: Program | Case,
    /,
    *,
    device: DeviceChoice | None = None,
    warp_size: int | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> KernelIdg:
    """Return the source instruction dependence graph of a kernel, with executions per warp.

    The graph is that of the representative warp of the longest launch. Its ``launches`` have the graphs of the other
    launches and warp classes, with the number of warps of each class. The source graph does not depend on a compiler;
    :func:`loopyperf.compiler.lowered` models what nvcc makes of it.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit, or a :class:`Case`, which has its sizes and typical values.
    device
        A device that gives the warp size (see :func:`loopyperf.load_device`).
    warp_size
        Number of lanes of a warp; pass it or *device*, not both. The default without *device* is 32.
    typical
        Typical values for what the source does not determine (see :func:`loopyperf.count`).
    parameters
        Sizes by name, for sizes whose names collide with an option.
    **sizes
        Values of the kernel's integer parameters.

    Returns
    -------
    KernelIdg
        The graph. ``mix()`` returns executed instructions by kind and type, ``unrolled()`` the flat graph.

    Raises
    ------
    KernelError
        If Loopy cannot schedule the kernel.
    UncountableError
        If executions depend on data without a typical value.
    UnknownDeviceError
        If the device is unknown.
    ParameterError
        If a size or option is invalid.

    Examples
    --------
    >>> import loopy as lp, loopyperf as lpp, numpy as np
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0<=i<n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a,out", np.float32, shape="n"), "..."],
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> graph = lpp.instruction_graph(knl, n=1024)
    >>> graph.mix()["mul", "f32"], graph.mix()["load", "b32"]
    (1, 1)
    """
    case = case_of(program, typical, parameters, sizes)
    return kernel_profile(case, device=device, warp_size=warp_size).graph


def kernel_profile(
    program: Program | Case,
    /,
    *,
    device: DeviceChoice | None = None,
    warp_size: int | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> KernelProfile:
    """Return the launches of a kernel, their warp classes, and the instructions and accesses of each class.

    All models that use a device start from this value.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit, or a :class:`Case`, which has its sizes and typical values.
    device
        A device that gives the warp size (see :func:`loopyperf.load_device`).
    warp_size
        Number of lanes of a warp; pass it or *device*, not both. The default without *device* is 32.
    typical
        Typical values for what the source does not determine (see :func:`loopyperf.count`).
    parameters
        Sizes by name, for sizes whose names collide with an option.
    **sizes
        Values of the kernel's integer parameters.

    Returns
    -------
    KernelProfile
        The profile of the kernel at these sizes.

    Raises
    ------
    KernelError, UncountableError, UnknownDeviceError, ParameterError
        As :func:`instruction_graph`.

    Examples
    --------
    >>> import loopy as lp, loopyperf as lpp, numpy as np
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0<=i<n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a,out", np.float32, shape="n"), "..."],
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> profile = lpp.kernel_profile(knl, n=1024)
    >>> profile.launches[0].groups, profile.launches[0].name
    (8, 'loopy_kernel')
    """
    case, lanes = case_of(program, typical, parameters, sizes), _lanes(device, warp_size)

    def profile() -> KernelProfile:
        structure = _structure_of(case)
        found = structure.profile(admitted_sizes(structure.kernel, case.sizes), lanes)
        structure.typical.check_all_used(structure.kernel.name)
        return found

    return found_once(PROFILE, case.kernel, (case.typical, case.sizes, lanes), profile)


def _structure_of(case: Case) -> KernelStructure:
    """Return the size-independent analysis of the kernel of *case*, cached."""
    kernel = prepared(case.kernel)
    layout = layout_of(kernel.contiguous.keys() & case.sizes.keys(), case.sizes)

    def structure() -> KernelStructure:
        return KernelStructure(kernel.laid_out(dict(layout)), Typical(case.typical or {}))

    return found_once(STRUCTURES, case.kernel, (case.typical, layout), structure)


def profiled_name(case: Case, device: Device) -> str:
    """Return the kernel name of *case*; raises as :func:`kernel_profile` if the kernel has no profile."""
    inputs = completed(device).needed("warp_size"), case.typical, case.sizes
    return found_once(NAME, case.kernel, inputs, lambda: kernel_profile(case, device=device).kernel)


def _lanes(device: DeviceChoice | None, warp_size: object) -> int:
    if warp_size is None:
        if device is None:
            return LANES
        return completed(given_device(device)).needed("warp_size")
    if device is not None:
        raise ParameterError("warp_size and device both set the warp size; pass only one of them")
    if isinstance(warp_size, bool) or not isinstance(warp_size, int) or warp_size < 1:
        raise ParameterError(f"warp_size must be a positive integer, got {warp_size!r}")
    return warp_size
