"""The stages of a prediction as functions: kernel profile, machine program, timed program."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from loopyperf.compiler import Placement
from loopyperf.compiler import machine_program as compiler
from loopyperf.compiler.machine_program import MachineProgram
from loopyperf.compiler.resources import Resources
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.device.substitutes import completed
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.memory.kernel_profile import KernelIdg, KernelProfile
from loopyperf.models import program_timing as on_device
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, admitted_sizes, found_once, merged_sizes, structure_of

Given = TypeVar("Given")
By = TypeVar("By")
Made = TypeVar("Made")
Found = TypeVar("Found")
LANES = 32
"""default warp size, that of all NVIDIA and some AMD devices"""


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
    """Return the source instruction dependence graph of a kernel, with executions per warp.

    The graph is that of the representative warp of the longest launch. Its ``launches`` have the graphs of the other
    launches and warp classes, with the number of warps of each class. The source graph does not depend on a compiler;
    :func:`loopyperf.compiler.lowered` models what nvcc makes of it.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
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
    """Return the launches of a kernel, their warp classes, and the instructions and accesses of each class.

    All models that use a device start from this value.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
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
    return _profiled(Case(program, merged_sizes(parameters, sizes), typical), _lanes(device, warp_size))


def machine_program(
    program: Program,
    /,
    *,
    device: DeviceChoice,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> MachineProgram:
    """Return the predicted machine code of a kernel: machine graphs, registers and resident groups.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
    device
        Name of a device, path of a device file, or a loaded device (see :func:`loopyperf.load_device`).
    typical
        Typical values for what the source does not determine (see :func:`loopyperf.count`).
    parameters
        Sizes by name, for sizes whose names collide with an option.
    **sizes
        Values of the kernel's integer parameters.

    Returns
    -------
    MachineProgram
        For each launch, the machine graph of each warp class, the registers per work-item, and the number of groups
        that are resident on a core at once.

    Raises
    ------
    KernelError, UncountableError, UnknownDeviceError, ParameterError
        As :func:`instruction_graph`.
    OccupancyError
        If a group does not fit on a core.

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
    >>> machine = lpp.machine_program(knl, device="nvidia-titan-v", n=1024)
    >>> machine.launches[0].spilled
    0
    """
    profile = kernel_profile(program, device=device, typical=typical, parameters=merged_sizes(parameters, sizes))
    return compiler.compiled_program(profile, given_device(device))


def timed_program(
    program: Program,
    /,
    *,
    device: DeviceChoice,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> TimedProgram:
    """Return the instructions that a core executes for a kernel, and the latencies of each.

    Device models and the simulator do only arithmetic on this value.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
    device
        Name of a device, path of a device file, or a loaded device (see :func:`loopyperf.load_device`).
    typical
        Typical values for what the source does not determine (see :func:`loopyperf.count`).
    parameters
        Sizes by name, for sizes whose names collide with an option.
    **sizes
        Values of the kernel's integer parameters.

    Returns
    -------
    TimedProgram
        The timed instructions, occupancy and memory traffic of each launch.

    Raises
    ------
    KernelError, UncountableError, UnknownDeviceError, ParameterError, OccupancyError
        As :func:`machine_program`.
    MissingNumberError
        If the device parameters lack a throughput that the kernel needs.

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
    >>> timed = lpp.timed_program(knl, device="nvidia-titan-v", n=1024)
    >>> timed.device.slug, timed.launches[0].warps_per_group
    ('nvidia-titan-v', 4)
    """
    known = given_device(device)
    return on_device.program_timing(
        machine_program(program, device=known, typical=typical, parameters=merged_sizes(parameters, sizes)), known
    )


@dataclass(frozen=True)
class Stages:
    """The three stages of a kernel on a device."""

    profile: KernelProfile
    machine: MachineProgram
    timed: TimedProgram


def staged(
    profile: KernelProfile,
    device: Device,
    placement: Placement = "likelier",
    concurrent_groups: int | None = None,
    compiled: Mapping[str, Resources] | None = None,
) -> Stages:
    """Return the stages of *profile* on *device*; see :func:`loopyperf.compiler.machine_program.compiled_program`."""
    machine = compiler.compiled_program(profile, device, placement, concurrent_groups, compiled)
    return Stages(profile, machine, on_device.program_timing(machine, device))


def stages_of(case: Case, device: Device) -> Stages:
    """Return the stages of *case* on *device*, from which all device models start; cached."""
    profile = cached_profile(case, device)
    machine = machine_of(profile, device)
    return Stages(profile, machine, timed_of(machine, device))


def timed_kernel(case: Case, device: Device) -> TimedProgram:
    """Return the timed program of *case* on *device*; see :func:`timed_program`."""
    return stages_of(case, device).timed


# {{{ results cached for equal kernels


PROFILED: ResultKind[str] = json_result_kind("profiled", 4096, str)


def found_on_device(
    kind: ResultKind[Found], case: Case, device: Device, find: Callable[[TimedProgram], Found]
) -> Found:
    """Return *find* of the timed program of *case* on *device*, cached; the result must depend on nothing else."""
    inputs = device, case.typical, case.sizes
    return found_once(kind, case.kernel, inputs, lambda: find(timed_kernel(case, device)))


def profiled_name(case: Case, device: Device) -> str:
    """Return the kernel name of *case*; raises as :func:`cached_profile` if the kernel has no profile."""
    inputs = completed(device).needed("warp_size"), case.typical, case.sizes
    return found_once(PROFILED, case.kernel, inputs, lambda: cached_profile(case, device).kernel)


# }}}


# {{{ stages, each with a cache of the latest result, since several models often predict the same kernel in turn


def _latest(make: Callable[[Given, By], Made]) -> Callable[[Given, By], Made]:
    """Return *make* with a cache of its latest result."""
    known: list[tuple[weakref.ref[Any], tuple[Any, ...], Made]] = []

    @wraps(make)
    def kept(given: Given, by: By) -> Made:
        source, options = (given.kernel, (given.typical, given.sizes)) if isinstance(given, Case) else (given, ())
        try:
            inputs = by, repr(options)
        except ValueError:  # an integer of thousands of digits
            return make(given, by)
        if not known or known[0][0]() is not source or known[0][1] != inputs:
            made = make(given, by)
            known[:] = [(weakref.ref(source), inputs, made)]
        return known[0][2]

    return kept


def cached_profile(case: Case, device: Device) -> KernelProfile:
    """Return the profile of *case*, shared by devices with the same warp size; see :func:`kernel_profile`."""
    return _profiled(case, completed(device).needed("warp_size"))


@_latest
def machine_of(profile: KernelProfile, device: Device) -> MachineProgram:
    """Return the machine program of *profile* for *device*; see :func:`compiled_program`."""
    return compiler.compiled_program(profile, device)


@_latest
def timed_of(machine: MachineProgram, device: Device) -> TimedProgram:
    """Return the timed program of *machine* on *device*; see :func:`program_timing`."""
    return on_device.program_timing(machine, device)


@_latest
def _profiled(case: Case, lanes: int) -> KernelProfile:
    structure = structure_of(case)
    profile = structure.profile(admitted_sizes(structure.kernel, case.sizes), lanes)
    structure.typical.check_all_used(structure.kernel.name)
    return profile


# }}}


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
