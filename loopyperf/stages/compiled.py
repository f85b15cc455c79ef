"""Registers, spills and stack of a kernel from NVRTC, which compiles it as CUDA without a device; cached."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

from loopy.target.opencl import OpenCLTarget

from loopyperf.compiler.machine_program import BYTES, MachineLaunch, MachineProgram, compiled_program
from loopyperf.compiler.resources import WHEELS, Resources, compiled, library, library_for
from loopyperf.device.description import Device
from loopyperf.errors import CompilerError, MeasurementError, ParameterError
from loopyperf.kernel import Program
from loopyperf.kernel.loopy_passes import as_translation_unit
from loopyperf.measurement.backends.cuda_program import CudaProgram
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.stages.cache import ResultKind, json_result_kind, recalled
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import Case
from loopyperf.stages.stages import machine_of

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


def compiled_machine(
    case: Case, profile: KernelProfile, device: Device, by: Compiler
) -> tuple[MachineProgram, Mapping[str, Resources] | None, tuple[str, ...]]:
    """Return the machine program of *case* for *device*, the resources that NVRTC reports, and notes.

    See :func:`compiled_for` for the last two.
    """
    machine = machine_of(profile, device)
    compiled, notes = compiled_for(case, machine, device, by)
    if compiled is not None:
        machine = compiled_program(profile, device, compiled=compiled)
    return machine, compiled, notes


def installed_compilers() -> tuple[tuple[str, int], ...]:
    """Return (path, size in bytes) of the installed NVRTC libraries, on which results depend."""
    paths = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    return tuple((str(path), path.stat().st_size) for path in paths)


def compiled_for(
    case: Case, machine: MachineProgram, device: Device, by: Compiler
) -> tuple[Mapping[str, Resources] | None, tuple[str, ...]]:
    """Return the resources of each launch of *case* from NVRTC, and notes on the compile time and on differences.

    The differences are those to the compiler model's *machine*. The resources are None for ``"model"``, and for
    ``"auto"`` if NVRTC fails. For an OpenCL kernel, NVRTC only tells where arrays are more likely. Raises
    :class:`CompilerError` or :class:`MeasurementError` if NVRTC fails with ``"nvrtc"``.
    """
    if by == "model":
        is_known = any(each.unsure for each in machine.launches) and device.vendor == "NVIDIA"
        return None, (UNSURE,) if is_known else ()
    start = time.perf_counter()
    try:
        found = compiled_kernel(case.kernel, device)
    except (CompilerError, MeasurementError) as error:
        if by == "nvrtc":
            raise
        return None, (f"NVRTC failed; using the compiler model for registers and private arrays: {error}",)
    changed = [_changed(each, found[each.name]) for each in machine.launches if each.name in found]
    milliseconds = 1e3 * (time.perf_counter() - start)
    return found, (f"compiled by NVRTC in {milliseconds:.0f} ms: {'; '.join(changed)}",)


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
    cuda = CudaProgram(unit)
    is_opencl = isinstance(unit.target, OpenCLTarget)
    options = _for_cuda(cuda.options) if is_opencl else cuda.options
    key = content_key((COMPILED.name, cuda.source, architecture, options, str(path), path.stat().st_size))
    assert key is not None, "text has a digest"
    found = recalled(COMPILED, key, lambda: compiled(cuda.source, architecture, options))
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
