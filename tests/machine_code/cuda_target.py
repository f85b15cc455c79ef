"""CUDA source of Loopy programs, complete: every launch, and CUDA's own functions."""

from typing import Any

import cgen
import loopy as lp
import numpy as np
from loopy.kernel.function_interface import ScalarCallable
from loopy.target import DummyHostASTBuilder
from loopy.target.cuda import CUDACASTBuilder, CudaTarget
from loopy.types import NumpyType

FUNCTIONS = {"rsqrt": 1, "atan2": 2}
"""names and numbers of arguments of the functions that Loopy's CUDA target lists but cannot infer types for"""


class CudaFunction(ScalarCallable):
    """A function of CUDA's math library on real numbers, overloaded for float and double."""

    def with_types(self, arg_id_to_dtype: dict[int, Any], callables_table: Any) -> tuple[ScalarCallable, Any]:
        """Return the function for these arguments: the widest of their types is the type of all and of the result."""
        arguments = range(FUNCTIONS[self.name])
        if any(arg_id_to_dtype.get(position) is None for position in arguments):
            return self.copy(arg_id_to_dtype=arg_id_to_dtype), callables_table
        widest = NumpyType(np.result_type(*(arg_id_to_dtype[position].numpy_dtype for position in arguments)))
        types = dict.fromkeys((-1, *arguments), widest)
        return self.copy(name_in_target=self.name, arg_id_to_dtype=types), callables_table


class DeviceCode(CUDACASTBuilder):
    """Loopy's CUDA code, with the functions that it lists."""

    @property
    def known_callables(self) -> dict[str, Any]:
        """Return Loopy's functions and those of :data:`FUNCTIONS`."""
        return {**super().known_callables, **{name: CudaFunction(name=name) for name in FUNCTIONS}}


class HostCode(DummyHostASTBuilder):
    """One comment for each launch.

    Loopy goes on to the second launch only where the host's code may have conditions.
    """

    @property
    def can_implement_conditionals(self) -> bool:
        """Return that launches may be grouped under conditions."""
        return True

    def emit_if(self, condition_str: str, ast: cgen.Generable) -> cgen.Generable:
        """Return what is under the condition."""
        return ast

    def get_kernel_call(self, codegen_state: Any, name: str, gsize: Any, lsize: Any) -> cgen.Generable:
        """Return something to stand for the launch."""
        return cgen.Comment(f"launch {name}")

    @property
    def ast_block_class(self) -> type[cgen.Block]:
        """Return what holds several launches."""
        return cgen.Block

    @property
    def ast_block_scope_class(self) -> type[cgen.Block]:
        """Return what holds several launches."""
        return cgen.Block


class CompleteCudaTarget(CudaTarget):
    """Loopy's CUDA target, with every launch and CUDA's own functions."""

    def get_device_ast_builder(self) -> DeviceCode:
        """Return the generator of the device's code."""
        return DeviceCode(self)

    def get_host_ast_builder(self) -> HostCode:
        """Return the generator of the host's code."""
        return HostCode(self)


def linearized(program: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *program* for CUDA, preprocessed and linearized."""
    unit = program.copy(target=CompleteCudaTarget())
    if unit.default_entrypoint.linearization is not None:
        return unit
    return lp.linearize(lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=True))
