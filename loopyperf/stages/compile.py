"""The second stage of a prediction: the machine program, by the compiler model or with registers from NVRTC.

NVRTC compiles the kernel as CUDA, without a device.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from loopy.target.opencl import OpenCLTarget

from loopyperf.compiler.cuda_code import CudaCode
from loopyperf.compiler.machine_program import BYTES, MachineLaunch, MachineProgram, compile_profile
from loopyperf.compiler.resources import WHEELS, Resources, compiled, library, library_for
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.errors import CompilerError, MeasurementError, ParameterError
from loopyperf.kernel import Program
from loopyperf.kernel.loopy_passes import as_translation_unit
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.stages.cache import CACHE, ResultKind, json_result_kind
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import Case, case_of, found_once
from loopyperf.stages.profile import kernel_profile

MACHINE: ResultKind[MachineProgram] = ResultKind("machine", 1)
"""the latest machine program; see :data:`loopyperf.stages.profile.PROFILE`"""
COMPILED: ResultKind[tuple[Resources, ...]] = json_result_kind("compiled", 4096, tuple[Resources, ...])
"""results by source text, architecture, options and compiler library"""
FAST = {"-cl-fast-relaxed-math": "-use_fast_math", "-cl-denorms-are-zero": "-ftz=true", "-cl-mad-enable": "-fmad=true"}
"""OpenCL compiler option -> equivalent CUDA option; other OpenCL options have no effect in CUDA"""


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
    paths = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    return compiler, *((str(path), path.stat().st_size) for path in paths)


def compile_case(case: Case, profile: KernelProfile, device: Device, compiler: Compiler) -> MachineProgram:
    """Return the machine program of *profile*, that of *case*, by *compiler*.

    For an OpenCL kernel, NVRTC only tells where arrays are more likely. If NVRTC is used, the notes compare its result
    with the compiler model. Raises :class:`CompilerError` or :class:`MeasurementError` if NVRTC fails with ``"nvrtc"``.
    """
    machine = compile_profile(profile, device)
    if compiler == "model":
        is_known = any(each.unsure for each in machine.launches) and device.vendor == "NVIDIA"
        return replace(machine, notes=(UNSURE,) if is_known else ())
    start = time.perf_counter()
    try:
        found = compiled_kernel(case.kernel, device)
    except (CompilerError, MeasurementError) as error:
        if compiler == "nvrtc":
            raise
        failed = f"NVRTC failed; using the compiler model for registers and private arrays: {error}"
        return replace(machine, notes=(failed,))
    changed = "; ".join(_changed(each, found[each.name]) for each in machine.launches if each.name in found)
    note = f"compiled by NVRTC in {1e3 * (time.perf_counter() - start):.0f} ms: {changed}"
    return replace(compile_profile(profile, device, compiled=found), notes=(note,))


def _changed(model: MachineLaunch, found: Resources) -> str:
    """Return text that compares the resources *found* for a launch with those of the *model*."""
    parts = [f"{found.registers} registers (model {model.registers})", f"{found.stack_frame} bytes of stack"]
    if found.spill_stores or model.spilled:
        parts.append(f"{found.spill_stores} bytes spilled (model {BYTES * model.spilled})")
    return f"{model.name} {', '.join(parts)}"


def compiled_kernel(program: Program, device: Device) -> Mapping[str, Resources]:
    """Return launch name -> resources of *program* compiled by NVRTC for *device*.

    Raises :class:`CompilerError` if NVRTC is not installed, does not support *device* or rejects the source, and
    :class:`MeasurementError` if Loopy cannot generate CUDA for the kernel.
    """
    architecture = architecture_of(device)
    path = library_for(architecture)
    unit = as_translation_unit(program)
    cuda = CudaCode(unit)
    is_opencl = isinstance(unit.target, OpenCLTarget)
    options = _for_cuda(cuda.options) if is_opencl else cuda.options
    key = content_key((cuda.source, architecture, options, str(path), path.stat().st_size))
    assert key is not None, "text has a digest"
    found = CACHE.find(COMPILED, key, lambda: compiled(cuda.source, architecture, options))
    return {each.function: replace(each, is_by_another=is_opencl) for each in found}


def architecture_of(device: Device) -> str:
    """Return the compiler's name for the architecture of *device*, e.g. ``"sm_70"``.

    Raises :class:`CompilerError` for a device of another vendor or without a compute capability.
    """
    major, dot, minor = device.target.partition(".")
    if device.vendor != "NVIDIA" or not (dot and major.isdigit() and minor.isdigit()):
        raise CompilerError(
            f"NVRTC needs a CUDA compute capability; {device.slug!r} has target {device.target!r}; use compiler='model'"
        )
    return f"sm_{major}{minor}"


def _for_cuda(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the CUDA equivalents of the OpenCL *options* that have one."""
    return tuple(FAST[each] for each in options if each in FAST)
