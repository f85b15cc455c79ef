"""What becomes of a kernel on a device, as users ask for it: its profile, its machine program, its timed program."""

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
    """Return what the compiler is expected to make of *program* at *sizes* for *device*.

    It has the machine graph of each class of warps, the registers that they take, and how many groups reside at once.
    Other arguments and errors are those of :func:`kernel_profile`; it also raises :class:`OccupancyError` for a group
    that fits on no core.
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
    """Return what a core of *device* executes of *program* at *sizes*, and how long each instruction takes.

    Models of a device and the simulator are arithmetic on this value. Arguments and errors are those of
    :func:`compiled_program`; it also raises :class:`MissingNumberError` for a throughput that the device's description
    lacks.
    """
    known = given_device(device)
    return on_device.program_timing(
        machine_program(program, device=known, typical=typical, parameters=merged_sizes(parameters, sizes)), known
    )


@dataclass(frozen=True)
class Stages:
    """What becomes of a kernel on a device: what it does, what the compiler makes of it, what a core executes."""

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
    """Return what becomes of a kernel on *device*; see :func:`loopyperf.compiler.machine_program.compiled_program`."""
    machine = compiler.compiled_program(profile, device, placement, concurrent_groups, compiled)
    return Stages(profile, machine, on_device.program_timing(machine, device))


def stages_of(case: Case, device: Device) -> Stages:
    """Return what becomes of *case* on *device*, what all models of it begin with; see :func:`program_timing`."""
    profile = cached_profile(case, device)
    machine = machine_of(profile, device)
    return Stages(profile, machine, timed_of(machine, device))


def timed_kernel(case: Case, device: Device) -> TimedProgram:
    """Return what a core of *device* executes of *case*; see :func:`stages_of`."""
    return stages_of(case, device).timed


# {{{ what was found before of an equal kernel, by the cache


PROFILED: ResultKind[str] = json_result_kind("profiled", 4096, str)


def found_on_device(
    kind: ResultKind[Found], case: Case, device: Device, find: Callable[[TimedProgram], Found]
) -> Found:
    """Return what *find* finds of *case* on *device*; it depends on nothing else. See :func:`timed_kernel`."""
    asked = device, case.typical, case.sizes
    return found_once(kind, case.kernel, asked, lambda: find(timed_kernel(case, device)))


def profiled_name(case: Case, device: Device) -> str:
    """Return the name of the kernel of *case*; raises what :func:`cached_profile` raises, where it has no profile."""
    asked = completed(device).needed("warp_size"), case.typical, case.sizes
    return found_once(PROFILED, case.kernel, asked, lambda: cached_profile(case, device).kernel)


# }}}


# {{{ each stage, of which the latest is kept: several models are often asked about the same kernel in turn


def _latest(make: Callable[[Given, By], Made]) -> Callable[[Given, By], Made]:
    """Return *make*, keeping its latest answer."""
    known: list[tuple[weakref.ref[Any], tuple[Any, ...], Made]] = []

    @wraps(make)
    def kept(given: Given, by: By) -> Made:
        of, stated = (given.kernel, (given.typical, given.sizes)) if isinstance(given, Case) else (given, ())
        asked = by, repr(stated)
        if not known or known[0][0]() is not of or known[0][1] != asked:
            made = make(given, by)
            known[:] = [(weakref.ref(of), asked, made)]
        return known[0][2]

    return kept


def cached_profile(case: Case, device: Device) -> KernelProfile:
    """Return what *case* does in warps of *device*, for all that have as many lanes; see :func:`kernel_profile`."""
    return _profiled(case, completed(device).needed("warp_size"))


@_latest
def machine_of(profile: KernelProfile, device: Device) -> MachineProgram:
    """Return what the compiler makes of *profile* for *device*; see :func:`compiled_program`."""
    return compiler.compiled_program(profile, device)


@_latest
def timed_of(machine: MachineProgram, device: Device) -> TimedProgram:
    """Return what a core of *device* executes of *machine*; see :func:`program_timing`."""
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
        raise ParameterError("warp_size and device both state the lanes of a warp: give one of the two")
    if isinstance(warp_size, bool) or not isinstance(warp_size, int) or warp_size < 1:
        raise ParameterError(f"warp_size is a number of lanes, 1 or more; received {warp_size!r}")
    return warp_size
