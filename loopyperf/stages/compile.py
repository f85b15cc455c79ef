"""The second stage of a prediction: the machine program, by the compiler model or with registers from NVRTC.

NVRTC (:mod:`loopyperf.stages.nvrtc`) compiles the kernel as CUDA, without a device.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from loopyperf.compiler.machine_program import BYTES, MachineLaunch, MachineProgram, compile_profile
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.errors import CompilerError, MeasurementError, ParameterError
from loopyperf.kernel import Program
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.stages.cache import ResultKind
from loopyperf.stages.case import Case, case_of, found_once
from loopyperf.stages.profile import kernel_profile

if TYPE_CHECKING:
    from loopyperf.compiler.resources import Resources

MACHINE: ResultKind[MachineProgram] = ResultKind("machine", 1)
"""the latest machine program; see :data:`loopyperf.stages.profile.PROFILE`"""


Compiler = Literal["model", "nvrtc", "auto"]
"""source of registers, spills and the location of private arrays: the compiler model, NVRTC, or NVRTC if available"""
COMPILERS = get_args(Compiler)


def check_compiler(compiler: object) -> None:
    """Raise :class:`ParameterError` unless *compiler* is one of :data:`COMPILERS`."""
    if compiler not in COMPILERS:
        raise ParameterError(f"compiler must be one of {', '.join(map(repr, COMPILERS))}; got {compiler!r:.80}")


UNSURE = "private arrays may be in registers or in memory; compiler='nvrtc' (extra cuda-compiler) determines which"
"""note of the compiler model"""


def machine_program(
    program: Program | Case,
    /,
    *,
    device: DeviceChoice,
    compiler: Compiler = "model",
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> MachineProgram:
    """Return the predicted machine code of a kernel: machine graphs, registers and resident groups.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit, or a :class:`Case`, which has its sizes and typical values.
    device
        Name of a device, path of a device file, or a loaded device (see :func:`loopyperf.load_device`).
    compiler
        Source of registers, spills and the placement of private arrays (see :func:`loopyperf.estimate`).
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
    CompilerError, MeasurementError
        If NVRTC fails with ``compiler="nvrtc"``.

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
    check_compiler(compiler)
    case, known = case_of(program, typical, parameters, sizes), given_device(device)
    key = case.typical, case.sizes, known, *versions_of(compiler)
    return found_once(
        MACHINE, case.kernel, key, lambda: compile_case(case, kernel_profile(case, device=known), known, compiler)
    )


def versions_of(compiler: Compiler) -> tuple[object, ...]:
    """Return what results of *compiler* depend on: for NVRTC, path and size in bytes of the installed libraries."""
    if compiler == "model":
        return ()
    return compiler, *_nvrtc().installed_libraries()


def _nvrtc() -> Any:
    """Return the module that calls NVRTC, imported only if it is requested."""
    return import_module("loopyperf.stages.nvrtc")


def compile_case(case: Case, profile: KernelProfile, device: Device, compiler: Compiler) -> MachineProgram:
    """Return the machine program of *profile*, that of *case*, by *compiler*.

    For an OpenCL kernel, NVRTC only tells where arrays are more likely. If NVRTC is used, the notes compare its result
    with the compiler model. Raises :class:`CompilerError` or :class:`MeasurementError` if NVRTC fails with ``"nvrtc"``.
    """
    machine = compile_profile(profile, device)
    if compiler == "model":
        is_known = any(launch.unsure for launch in machine.launches) and device.vendor == "NVIDIA"
        return replace(machine, notes=(UNSURE,) if is_known else ())
    start = time.perf_counter()
    try:
        found: Mapping[str, Resources] = _nvrtc().compiled_kernel(case.kernel, device)
    except (CompilerError, MeasurementError) as error:
        if compiler == "nvrtc":
            raise
        failed = f"NVRTC failed; using the compiler model for registers and private arrays: {error}"
        return replace(machine, notes=(failed,))
    changed = "; ".join(_changed(launch, found[launch.name]) for launch in machine.launches if launch.name in found)
    note = f"compiled by NVRTC in {1e3 * (time.perf_counter() - start):.0f} ms: {changed}"
    return replace(compile_profile(profile, device, compiled=found), notes=(note,))


def _changed(model: MachineLaunch, found: "Resources") -> str:
    """Return text that compares the resources *found* for a launch with those of the *model*."""
    parts = [f"{found.registers} registers (model {model.registers})", f"{found.stack_frame} bytes of stack"]
    if found.spill_stores or model.spilled:
        parts.append(f"{found.spill_stores} bytes spilled (model {BYTES * model.spilled})")
    return f"{model.name} {', '.join(parts)}"
