"""C expressions of Loopy's code generator, with marks in place of the parts that are evaluated separately."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from constantdict import constantdict
from loopy.codegen import CodeGenerationState
from loopy.codegen.tools import CodegenOperationCacheManager
from loopy.expression import dtype_to_type_context
from loopy.isl_helpers import static_value_of_pw_aff
from loopy.kernel.data import LocalInameTag, TemporaryVariable, VectorizeTag
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.symbolic import GroupHardwareAxisIndex, LocalHardwareAxisIndex, pw_aff_to_expr
from loopy.target.cuda import CudaTarget
from loopy.target.opencl import OpenCLTarget
from loopy.types import LoopyType
from pymbolic.mapper.stringifier import PREC_NONE

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import is_unrolled


@dataclass(frozen=True)
class Mark:
    """The meaning of a name in the text: an *expression* in the type context *context*."""

    kind: str
    """a load, the condition of a choice, a junction (and, or) of conditions, or a factor (first, later) of a square"""
    expression: Any
    context: str | None


class _Marking:
    """A mixin for a target's mapper from expressions to C, which makes it write marks."""

    marks: dict[str, Mark]
    kernel: Any
    infer_type: Any
    type_inf_mapper: Any
    codegen_state: Any

    def get_cache_key(self, *arguments: Any, **options: Any) -> object:
        """Return a unique key: equal loads in two places are two loads."""
        return object()

    def _mark(self, kind: str, expr: Any, context: str | None) -> prim.Variable:
        name = f"lpp_{kind}_{len(self.marks)}"
        self.marks[name] = Mark(kind, expr, context)
        return prim.Variable(name)

    def map_variable(self, expr: Any, context: Any) -> Any:
        if expr.name in self.kernel.all_inames() or expr.name in self.marks:
            return super().map_variable(expr, context)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return self._mark("load", expr, context)

    def map_subscript(self, expr: Any, context: Any) -> Any:
        return self._mark("load", expr, context)

    map_linear_subscript = map_subscript

    def map_if(self, expr: Any, context: Any) -> Any:
        written: Any = super().map_if(expr, context)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return prim.If(self._mark("condition", expr.condition, context), written.then, written.else_)

    def map_logical_and(self, expr: Any, context: Any) -> Any:
        return self._mark("junction", expr, context)

    map_logical_or = map_logical_and

    def map_power(self, expr: Any, context: Any) -> Any:
        """Mark the base of a power that is written as a product, in which it occurs several times."""
        base, is_complex = expr.base, self.infer_type(expr).is_complex()
        if not prim.is_constant(expr.exponent) or expr.exponent not in ((2, 3, 4) if is_complex else (2,)):
            return super().map_power(expr, context)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        if not prim.is_constant(base):
            base = self._squared([base] if is_complex else list(_factors(base)), self.infer_type(base), context)
        return super().map_power(prim.Power(base, expr.exponent), context)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def _squared(self, factors: list[Any], whole: LoopyType, context: Any) -> Any:
        """Return the product of *factors*, of type *whole*, as marks of the factors' types; -1 is not marked."""
        marked = list[Any]()
        for factor in factors:
            if prim.is_constant(factor) and factor == -1:
                marked.append(factor)
                continue
            mark = self._mark("first" if all(map(prim.is_constant, marked)) else "later", factor, context)
            dtype = whole if prim.is_constant(factor) else self.infer_type(factor)
            self.type_inf_mapper.new_assignments[mark.name] = TemporaryVariable(mark.name, dtype, shape=())
            marked.append(mark)
        return prim.Product(tuple(marked)) if len(marked) > 1 else marked[0]


def _factors(expr: Any) -> Iterator[Any]:
    """Yield the factors of *expr*; the text has no parentheses around nested products."""
    if isinstance(expr, prim.Product):
        for child in expr.children:
            yield from _factors(child)
    else:
        yield expr


class Writer:
    """Writes expressions of instructions within *inames*; :attr:`marks` has the meaning of names in the text."""

    def __init__(self, kernel: Kernel, inames: Collection[str]) -> None:
        self.kernel, self.marks = kernel, dict[str, Mark]()
        target: Any = kernel.loopy_kernel.target
        self.is_plain_c = not isinstance(target, (OpenCLTarget, CudaTarget))
        self._builder = target.get_device_ast_builder()
        state = _state(kernel, {name: _written(kernel, name) for name in inames})
        mapper: Any = type(self._builder.get_expression_to_c_expression_mapper(state))
        self._mapper = type("Marking", (_Marking, mapper), {})(state)
        self._mapper.marks = self.marks

    def context(self, dtype: LoopyType) -> str | None:
        """Return the type context of literals for a number of type *dtype*."""
        return dtype_to_type_context(self.kernel.loopy_kernel.target, dtype)

    def text(self, expr: Any, context: str | None, needed: LoopyType | None = None) -> str:
        """Return the text of *expr* in the type context *context*, converted to type *needed*."""
        written = self._mapper.rec(expr, context, needed)
        return self._builder.get_c_expression_to_code_mapper()(written, PREC_NONE)


def _state(kernel: Kernel, written: dict[str, Any]) -> CodeGenerationState:
    """Return the state of Loopy's generator within loops; *written* has replacements of their variables, or None."""
    loopy_kernel: Any = kernel.loopy_kernel
    variables = [*loopy_kernel.args, *loopy_kernel.temporary_variables.values()]
    return CodeGenerationState(
        kernel=loopy_kernel,
        target=loopy_kernel.target,
        implemented_domain=isl.Set.from_basic_set(isl.BasicSet.from_params(loopy_kernel.assumptions)),
        implemented_predicates=frozenset(),
        seen_dtypes=set(),
        seen_functions=set(),
        seen_atomic_dtypes=set(),
        var_subst_map=constantdict({name: value for name, value in written.items() if value is not None}),
        allow_complex=any(variable.dtype.involves_complex() for variable in variables),
        callables_table=kernel.callables,  # pyright: ignore[reportArgumentType]
        is_entrypoint=True,
        var_name_generator=loopy_kernel.get_var_name_generator(),
        is_generating_device_code=True,
        gen_program_name="",
        schedule_index_end=0,
        codegen_cache_manager=CodegenOperationCacheManager.from_kernel(loopy_kernel),
    )


def _written(kernel: Kernel, iname: str) -> Any:
    """Return the expression with which the generator replaces *iname*, in the first copy if it is unrolled."""
    loopy_kernel: Any = kernel.loopy_kernel
    if is_unrolled(loopy_kernel, iname) or loopy_kernel.iname_tags_of_type(iname, VectorizeTag):
        try:
            bounds = loopy_kernel.get_iname_bounds(iname, constants_only=True)
        except isl.Error:  # the number of copies depends on a size, so Loopy cannot unroll the loop
            return None
        return pw_aff_to_expr(static_value_of_pw_aff(bounds.lower_bound_pw_aff.coalesce(), constants_only=False))
    tag = kernel.hardware_axes.get(iname)
    if tag is None:
        return None
    axis = (LocalHardwareAxisIndex if isinstance(tag, LocalInameTag) else GroupHardwareAxisIndex)(tag.axis)
    return prim.flattened_sum([axis, pw_aff_to_expr(get_hw_axis_base_for_codegen(loopy_kernel, iname).to_pw_aff())])
