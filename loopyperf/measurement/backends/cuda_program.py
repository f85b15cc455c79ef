"""A Loopy kernel as CUDA source and a fixed list of launches; nothing here needs a device, or CuPy.

The host program that comes with the source (:mod:`loopyperf.measurement.backends.cuda_target`) computes grids, runs the
loops around launches and allocates global temporaries. It is run once for each size, and what it launches is kept.
"""

import re
from collections.abc import Callable, Mapping
from inspect import signature
from itertools import zip_longest
from typing import Any, NamedTuple, cast

import loopy as lp
import numpy as np
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.kernel import LoopKernel
from loopy.target.cuda import CudaTarget
from loopy.target.opencl import OpenCLTarget
from loopy.translation_unit import TranslationUnit

from loopyperf.errors import MeasurementError
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.measurement.backends.cuda_target import ALLOCATE, LAUNCH, CompleteCudaTarget
from loopyperf.measurement.backends.repetition import check_launches

Extent = tuple[int, int, int]
"""lengths along x, y and z: Loopy's axes 0, 1 and 2"""
MOST_GROUPS: Extent = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""of a grid, on every CUDA device (CUDA C++ programming guide, technical specifications per compute capability)"""
INLINE = re.compile(r"\bstatic inline (?!__device__)")
"""what Loopy's preambles for C have before a function"""


class Launch(NamedTuple):
    """One launch of a device function with its arguments."""

    function: str
    grid: Extent
    """groups"""
    group: Extent
    """work-items of a group"""
    arguments: tuple[object, ...]
    """in the order of the function's parameters: arrays as they were given, NumPy scalars of the parameters' types"""


class CudaProgram:
    """A Loopy kernel as CUDA source, with what its host program launches."""

    kernel: LoopKernel
    source: str
    """all device functions, ``extern "C"``, without any header"""

    def __init__(self, unit: TranslationUnit) -> None:
        """Generate the code of *unit*, built for OpenCL or CUDA.

        Raises :class:`MeasurementError` if it is for another target, or if Loopy cannot write CUDA for it.
        """
        self.kernel = unit.default_entrypoint
        try:
            # Loopy's annotation names another class.
            with without_dumps():
                generated: object = lp.generate_code_v2(for_cuda(unit))
        except NotImplementedError as error:
            raise MeasurementError(f"Loopy has no CUDA code for this kernel: {error}") from error
        code = cast("TranslationUnitCodeGenerationResult", generated)
        self.source = INLINE.sub("static inline __device__ ", code.device_code())
        namespace: dict[str, Any] = {"_lpy_np": np}  # as Loopy calls it
        exec(code.host_code(), namespace)
        self._host: Callable[..., object] = namespace[code.host_programs[self.kernel.name].name]

    @property
    def options(self) -> tuple[str, ...]:
        """Return what the kernel asks of the compiler."""
        return tuple(self.kernel.options.build_options)

    def launches(self, arguments: Mapping[str, object], allocate: Callable[[int], object]) -> tuple[Launch, ...]:
        """Return what one run of the kernel launches, given arrays and numbers by argument name.

        *allocate* makes a global temporary of so many bytes. Launches without groups are left out. Raises
        :class:`MeasurementError` for more than 1000 launches, for a grid that CUDA does not have, and where an
        argument is missing.
        """
        recorder = _Recorder()
        names = signature(self._host).parameters.keys() - {LAUNCH, ALLOCATE}
        if missing := sorted(names - arguments.keys()):
            raise MeasurementError(
                f"the code of kernel {self.kernel.name} also takes {', '.join(missing)}; give arrays their offset and "
                "strides when building the kernel"
            )
        self._host(recorder.launch, allocate, **{name: arguments[name] for name in names})
        return tuple(recorder.launches)


def for_cuda(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* for CUDA; accesses that are volatile stay so.

    Raises :class:`MeasurementError` if it is built for a target that is neither OpenCL nor CUDA.
    """
    target: Any = unit.target
    if isinstance(target, CompleteCudaTarget):
        return unit
    if not isinstance(target, OpenCLTarget | CudaTarget):
        raise MeasurementError(
            f"the kernel is built for {type(target).__name__}; build it with target=lp.PyOpenCLTarget()"
        )
    return unit.copy(target=CompleteCudaTarget(is_volatile=isinstance(target, VOLATILE)))


class _Recorder:
    """Writes down what the host program launches."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def launch(self, name: str, counts: tuple[int, ...], sizes: tuple[int, ...], *arguments: object) -> None:
        check_launches(len(self.launches))
        grid, group = _extent(counts), _extent(sizes)
        if any(count > most for count, most in zip(grid, MOST_GROUPS, strict=True)):
            raise MeasurementError(
                f"{name} has a grid of {'x'.join(map(str, grid))} groups, and CUDA has at most "
                f"{'x'.join(map(str, MOST_GROUPS))}; map the longest loop to g.0, or measure a smaller size"
            )
        if all(grid):
            self.launches.append(Launch(name, grid, group, arguments))


def _extent(lengths: tuple[int, ...]) -> Extent:
    x, y, z = (length for length, _ in zip_longest(lengths, range(3), fillvalue=1))
    return int(x), int(y), int(z)
