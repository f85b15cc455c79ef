"""What NVIDIA's compiler makes of a kernel for a device: compiled by NVRTC as CUDA, no device needed, and cached."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

from loopy.target.opencl import OpenCLTarget

from loopyperf.compiler.machine_program import BYTES, MachineLaunch, MachineProgram, compiled_program
from loopyperf.compiler.resources import WHEELS, Resources, compiled, library, library_for
from loopyperf.device.description import Device
from loopyperf.errors import CompilerError, MeasurementError
from loopyperf.kernel import Program
from loopyperf.kernel.loopy_passes import as_translation_unit
from loopyperf.measurement.backends.cuda_program import CudaProgram
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.stages.cache import ResultKind, json_result_kind, recalled
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import Case
from loopyperf.stages.stages import machine_of

COMPILED: ResultKind[tuple[Resources, ...]] = json_result_kind("compiled", 4096, tuple[Resources, ...])
"""by the source text, the architecture, the options and the compiler's file"""
FAST = {"-cl-fast-relaxed-math": "-use_fast_math", "-cl-denorms-are-zero": "-ftz=true", "-cl-mad-enable": "-fmad=true"}
"""options of OpenCL's compilers -> those of CUDA that mean the same; others of OpenCL's have no effect there"""


Compiler = Literal["model", "nvrtc", "auto"]
"""what tells registers, spills and where private arrays live: the compiler model, NVRTC, or NVRTC where it can"""
COMPILERS = get_args(Compiler)


UNSURE = "it is not sure where all private arrays are; NVIDIA's compiler tells: compiler='nvrtc' (extra cuda-compiler)"
"""the note of the compiler model"""


def compiled_machine(
    case: Case, profile: KernelProfile, device: Device, by: Compiler
) -> tuple[MachineProgram, Mapping[str, Resources] | None, tuple[str, ...]]:
    """Return what the compiler makes of *case* for *device*, with what NVRTC found and notes; see compiled_for."""
    machine = machine_of(profile, device)
    compiled, notes = compiled_for(case, machine, device, by)
    if compiled is not None:
        machine = compiled_program(profile, device, compiled=compiled)
    return machine, compiled, notes


def installed_compilers() -> tuple[tuple[str, int], ...]:
    """Return the files of NVRTC that there are, with their sizes: answers depend on them."""
    paths = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    return tuple((str(path), path.stat().st_size) for path in paths)


def compiled_for(
    case: Case, machine: MachineProgram, device: Device, by: Compiler
) -> tuple[Mapping[str, Resources] | None, tuple[str, ...]]:
    """Return what NVRTC makes of *case*, and notes: what that cost, and where the model of *machine* has it otherwise.

    The result is None *by* the model, and by ``"auto"`` where NVRTC fails. For an OpenCL kernel, NVRTC only says where
    arrays are likelier. Raises :class:`CompilerError` and :class:`MeasurementError` if NVRTC fails by ``"nvrtc"``.
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
        return None, (f"registers and private arrays are those of the compiler model: {error}",)
    changed = [_changed(each, found[each.name]) for each in machine.launches if each.name in found]
    milliseconds = 1e3 * (time.perf_counter() - start)
    return found, (f"compiled by NVRTC in {milliseconds:.0f} ms: {'; '.join(changed)}",)


def _changed(model: MachineLaunch, found: Resources) -> str:
    """Return what a compiler *found* about a launch, and what the *model* has."""
    parts = [f"{found.registers} registers (model {model.registers})", f"{found.stack_frame} bytes of stack"]
    if found.spill_stores or model.spilled:
        parts.append(f"{found.spill_stores} bytes spilled (model {BYTES * model.spilled})")
    return f"{model.name} {', '.join(parts)}"


def compiled_kernel(program: Program, device: Device) -> Mapping[str, Resources]:
    """Return what NVRTC makes of *program* for *device*: the resources of each launch, by its name.

    Raises :class:`CompilerError` where NVRTC is not installed, does not compile for *device* or refuses the source, and
    :class:`MeasurementError` where Loopy cannot write CUDA for the kernel.
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
    """Return the architecture of *device* as compilers call it, e.g. ``"sm_70"``.

    Raises :class:`CompilerError` for a device of another vendor, or one whose description does not tell.
    """
    major, dot, minor = device.target.partition(".")
    if device.vendor != "NVIDIA" or not (dot and major.isdigit() and minor.isdigit()):
        raise CompilerError(
            f"NVRTC compiles for NVIDIA GPUs, {device.slug!r} has the target {device.target!r}; use compiler='model'"
        )
    return f"sm_{major}{minor}"


def _for_cuda(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of OpenCL's *options* that CUDA's compilers have a word for, in theirs."""
    return tuple(FAST[each] for each in options if each in FAST)
