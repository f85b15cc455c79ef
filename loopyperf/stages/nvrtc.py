"""Compilation of a kernel by NVRTC, without a device; imported only if it is requested."""

from collections.abc import Mapping
from dataclasses import replace

from loopy.target.opencl import OpenCLTarget

from loopyperf.compiler.cuda_code import CudaCode
from loopyperf.compiler.resources import WHEELS, Resources, compiled, library, library_for
from loopyperf.device.description import Device
from loopyperf.errors import CompilerError
from loopyperf.kernel import Program
from loopyperf.kernel.loopy_passes import as_translation_unit
from loopyperf.stages.cache import CACHE, ResultKind, json_result_kind
from loopyperf.stages.cache_keys import content_key

COMPILED: ResultKind[tuple[Resources, ...]] = json_result_kind("compiled", 4096, tuple[Resources, ...])
"""results by source text, architecture, options and compiler library"""
FAST = {"-cl-fast-relaxed-math": "-use_fast_math", "-cl-denorms-are-zero": "-ftz=true", "-cl-mad-enable": "-fmad=true"}
"""OpenCL compiler option -> equivalent CUDA option; other OpenCL options have no effect in CUDA"""


def installed_libraries() -> tuple[tuple[str, int], ...]:
    """Return path and size in bytes of the installed libraries, on which results depend."""
    paths = [path for wheel in WHEELS if (path := library((wheel,))) is not None]
    return tuple((str(path), path.stat().st_size) for path in paths)


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
    options = tuple(FAST[each] for each in cuda.options if each in FAST) if is_opencl else cuda.options
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
