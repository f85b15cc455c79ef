"""Generate CUDA source from a Loopy program, with the parameters and sizes of its launches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
from loopy.kernel.array import ArrayBase
from loopy.schedule import CallKernel, get_insn_ids_for_block_at
from loopy.schedule.tools import get_subkernel_arg_info
from pymbolic import evaluate

from loopyperf.compiler.cuda_code import for_cuda

Extent = tuple[int, int, int]
"""lengths or positions along x, y and z"""
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a device function."""

    name: str
    nbytes: int
    is_pointer: bool


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """One ``__global__`` function and its launch."""

    name: str
    parameters: tuple[Parameter, ...]
    grid: Callable[[Mapping[str, int]], Extent]
    """numbers of groups for given sizes"""
    group: Callable[[Mapping[str, int]], Extent]
    """numbers of work-items of a group for given sizes"""


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA code with its device functions, in the order of their launches."""

    code: str
    functions: tuple[DeviceFunction, ...]


def cuda_source(program: lp.TranslationUnit) -> CudaSource:
    """Return the CUDA source of *program*."""
    unit = for_cuda(program)
    if unit.default_entrypoint.linearization is None:
        unit = lp.linearize(lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=True))
    kernel = unit.default_entrypoint
    functions = tuple(
        _device_function(unit, position, item.kernel_name)
        for position, item in enumerate(kernel.linearization)
        if isinstance(item, CallKernel)
    )
    return CudaSource(lp.generate_code_v2(unit).device_code(), functions)


def _device_function(unit: lp.TranslationUnit, position: int, name: str) -> DeviceFunction:
    kernel = unit.default_entrypoint
    instructions = get_insn_ids_for_block_at(kernel.linearization, position)
    grid, group = kernel.get_grid_sizes_for_insn_ids_as_exprs(instructions, unit.callables_table)
    names = get_subkernel_arg_info(kernel, name).passed_names
    return DeviceFunction(name, tuple(_parameter(kernel, name) for name in names), _extent(grid), _extent(group))


def _parameter(kernel: lp.LoopKernel, name: str) -> Parameter:
    variable: Any = kernel.arg_dict.get(name) or kernel.temporary_variables.get(name)
    if variable is None:  # the iname of a host loop around the launch
        return Parameter(name, kernel.index_dtype.itemsize, is_pointer=False)
    if isinstance(variable, ArrayBase):
        return Parameter(name, POINTER_BYTES, is_pointer=True)
    return Parameter(name, variable.dtype.itemsize, is_pointer=False)


def _extent(lengths: tuple[Any, ...]) -> Callable[[Mapping[str, int]], Extent]:
    def evaluated(sizes: Mapping[str, int]) -> Extent:
        values = [int(evaluate(length, dict(sizes))) for length in lengths]
        x, y, z = [*values, 1, 1, 1][:3]
        return x, y, z

    return evaluated
