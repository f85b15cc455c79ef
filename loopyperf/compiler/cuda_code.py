"""A Loopy kernel as CUDA source; this module needs neither a device nor CuPy nor a compiler.

The generated host program (:mod:`loopyperf.compiler.cuda_target`) computes grids, executes the loops around launches
and allocates global temporaries.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import loopy as lp
import numpy as np
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.kernel import LoopKernel
from loopy.target.cuda import CudaTarget
from loopy.target.opencl import OpenCLTarget
from loopy.translation_unit import TranslationUnit

from loopyperf.compiler.cuda_target import CompleteCudaTarget
from loopyperf.errors import MeasurementError
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.loopy_passes import without_dumps

INLINE = re.compile(r"\bstatic inline (?!__device__)")
"""prefix of a function in Loopy's preambles for C"""


class CudaCode:
    """A Loopy kernel as CUDA source and a host program."""

    kernel: LoopKernel
    source: str
    """all device functions, ``extern "C"``, without headers"""

    def __init__(self, unit: TranslationUnit) -> None:
        """Generate the CUDA code of *unit*, which may have an OpenCL or CUDA target.

        Raises :class:`MeasurementError` if it has another target, or if Loopy cannot generate CUDA for it.
        """
        self.kernel = unit.default_entrypoint
        try:
            # Loopy's annotation is wrong.
            with without_dumps():
                generated: object = lp.generate_code_v2(for_cuda(unit))
        except NotImplementedError as error:
            raise MeasurementError(f"Loopy cannot generate CUDA code for this kernel: {error}") from error
        code = cast("TranslationUnitCodeGenerationResult", generated)
        self.source = INLINE.sub("static inline __device__ ", code.device_code())
        namespace: dict[str, Any] = {"_lpy_np": np}  # as Loopy calls it
        exec(code.host_code(), namespace)
        self.host: Callable[..., object] = namespace[code.host_programs[self.kernel.name].name]

    @property
    def options(self) -> tuple[str, ...]:
        """Return the kernel's compiler options."""
        return tuple(self.kernel.options.build_options)


def for_cuda(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* for CUDA; volatile accesses remain volatile.

    Raises :class:`MeasurementError` if its target is neither OpenCL nor CUDA.
    """
    target: Any = unit.target
    if isinstance(target, CompleteCudaTarget):
        return unit
    if not isinstance(target, OpenCLTarget | CudaTarget):
        raise MeasurementError(
            f"the kernel's target is {type(target).__name__}; create it with target=lp.PyOpenCLTarget()"
        )
    return unit.copy(target=CompleteCudaTarget(is_volatile=isinstance(target, VOLATILE)))
