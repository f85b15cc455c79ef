"""Types in which generated code evaluates operations, what replaces loop variables in it, and vector operations.

Loopy infers a type for each expression, but it generates C. A literal takes the type of its *type context*, which is
that of the assignee. C's conversions apply to operands. Sums and products are chains without parentheses, evaluated
from left to right. The rules are those of Loopy 2025.2: ``ExpressionToCExpressionMapper`` and
``CExpressionToCodeMapper`` in ``loopy/target/c/codegen/expression.py``, and ``ExpressionToPyOpenCLCExpressionMapper``
in ``loopy/target/pyopencl.py``, method by method under the same names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.codegen import UnvectorizableError
from loopy.diagnostic import StaticValueFindingError
from loopy.expression import (
    VectorizabilityChecker,
    dtype_to_type_context,  # pyright: ignore[reportUnknownVariableType]
)
from loopy.isl_helpers import static_value_of_pw_aff
from loopy.kernel.data import LocalInameTag, UnrolledIlpTag, UnrollTag, VectorizeTag
from loopy.kernel.instruction import Assignment, InstructionBase, MultiAssignmentBase
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.library.function import MakeTupleCallable
from loopy.symbolic import DependencyMapper, GroupHardwareAxisIndex, LocalHardwareAxisIndex, TypeCast, pw_aff_to_expr
from loopy.target.cuda import CudaTarget
from loopy.target.opencl import OpenCLTarget
from loopy.target.pyopencl import PyOpenCLTarget
from loopy.types import LoopyType
from pymbolic.mapper import Mapper, UnsupportedExpressionError
from pytools import memoize_method

from loopyperf.counts.arithmetic import (
    FLOATS,
    INDEX,
    INT,
    INTEGERS,
    Chain,
    Context,
    ExpressionTypes,
    Link,
    NumberType,
    as_operand,
    converted,
    joined,
    literal_type,
    number_type,
)
from loopyperf.counts.item import Kind
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.expressions import Same

REPEATED = (2, 3, 4)
"""exponents for which powers of complex numbers are written as products"""


class GeneratedCode(Mapper[Chain, [Context]]):
    """The evaluation of a kernel's expressions in the code that Loopy generates."""

    def __init__(self, kernel: Kernel) -> None:
        """Analyze expressions of *kernel*."""
        super().__init__()
        self.kernel = kernel
        self.inferred = ExpressionTypes(kernel)
        """types that Loopy infers; some of its rules depend on them"""
        self._chains: dict[tuple[Same[Any], Context], Chain] = {}
        self._target = kernel.loopy_kernel.target
        self._has_overloads = isinstance(self._target, (OpenCLTarget, CudaTarget))
        variables: list[Any] = [*kernel.loopy_kernel.args, *kernel.loopy_kernel.temporary_variables.values()]
        self._calls_functions = isinstance(self._target, PyOpenCLTarget) and any(
            variable.dtype.involves_complex() for variable in variables
        )
        """whether complex operations are function calls, whose operands join no chain of C operators"""

    # {{{ expressions of instructions and calls

    def chain(self, expression: Any, context: Context) -> Chain:
        """Return how *expression* is evaluated in type context *context*."""
        key = Same(expression), context
        known = self._chains.get(key)
        if known is None:
            known = self._chains[key] = self.rec(expression, context)
        return known

    def number(self, expression: Any, context: Context) -> NumberType:
        """Return the type of *expression* in *context*; raises :class:`UncountableError` if it is not a number."""
        return self.chain(expression, context).result

    def evaluated(self, instruction: MultiAssignmentBase) -> Iterator[tuple[Any, Context]]:
        """Yield the expressions that *instruction* assigns, with their type contexts: the types of the assignees.

        See ``emit_assignment`` and ``emit_tuple_assignment`` in ``loopy/target/c/__init__.py``.
        """
        expression: Any = instruction.expression
        names = instruction.assignee_var_names()
        variables: list[Any] = [self.kernel.loopy_kernel.get_var_descriptor(name) for name in names]
        contexts = [self.context(variable.dtype) for variable in variables]
        if isinstance(instruction, Assignment):
            yield expression, contexts[0]
        elif isinstance(self.kernel.callables.get(expression.function.name), MakeTupleCallable):
            yield from zip(expression.parameters, contexts, strict=True)
        else:
            yield expression, None

    def parameters(self, call: prim.Call) -> Iterator[tuple[Any, Context]]:
        """Yield the parameters of *call* with their type contexts; see ``ScalarCallable.emit_call``."""
        function: Any = call.function
        types: dict[int, Any] = self.kernel.callables[function.name].arg_id_to_dtype or {}
        for place, parameter in enumerate(call.parameters):
            dtype = types.get(place)
            yield parameter, self.context(dtype) if isinstance(dtype, LoopyType) else None

    @memoize_method
    def context(self, dtype: LoopyType) -> Context:
        """Return the type context of numbers of type *dtype*."""
        return dtype_to_type_context(self._target, dtype)

    # }}}

    # {{{ chains

    def _by_functions(self, expression: Any, context: Context) -> NumberType | None:
        """Return the result type if *expression* is written as calls of complex functions; otherwise None."""
        if not self._calls_functions or context in INTEGERS:
            return None
        result = self.inferred.number(expression)
        return result if result.is_complex else None

    def _combined(
        self, operator: str | None, kind: Kind, expr: Any, children: Iterable[Any], context: Context
    ) -> Chain:
        """Return the chain of *children*; chains of children are merged into it where C needs no parentheses.

        See ``join_rec`` and ``parenthesize_if_needed``: operands of the same precedence get no parentheses, at any
        position. If some operands are complex, the real ones are combined first, unless the kernel forbids it.
        """
        functions = self._by_functions(expr, context)
        if functions and self.kernel.loopy_kernel.options.allow_fp_reordering:
            children = sorted(children, key=lambda child: self.inferred.number(child).is_complex)
        links: list[Link] = []
        for child in children:
            inner = self.chain(child, context)
            is_argument = functions is not None and bool(links) and links[-1].result.is_complex
            is_open = inner.operator is not None and inner.operator == operator and not is_argument
            for link in inner.links if is_open else (as_operand(inner, child, context),):
                links.append(joined(links, link, kind, functions))
        return Chain(tuple(links), links[-1].result, None if functions else operator)

    def _pair(
        self, kind: Kind, left: Any, right: Any, contexts: tuple[Context, Context], result: NumberType | None = None
    ) -> Chain:
        """Return the operation on *left* and *right* in type *result*, or in the type to which C converts them."""
        first, second = self.number(left, contexts[0]), self.number(right, contexts[1])
        result = result or converted(first, second)
        links = Link(left, contexts[0], first, first), Link(right, contexts[1], second, result, kind, first)
        return Chain(links, result)

    def _leaf(self, expr: Any, context: Context, result: NumberType | None = None) -> Chain:
        result = result or self.inferred.number(expr)
        return Chain((Link(expr, context, result, result),), result)

    def map_sum(self, expr: prim.Sum, context: Context) -> Chain:
        return self._combined("+", "add", expr, expr.children, context)

    def map_product(self, expr: prim.Product, context: Context) -> Chain:
        return self._combined("*", "mul", expr, expr.children, context)

    def map_bitwise_and(self, expr: prim.BitwiseAnd, context: Context) -> Chain:
        return self._combined("&", "bitwise", expr, expr.children, context)

    def map_bitwise_or(self, expr: prim.BitwiseOr, context: Context) -> Chain:
        return self._combined("|", "bitwise", expr, expr.children, context)

    def map_bitwise_xor(self, expr: prim.BitwiseXor, context: Context) -> Chain:
        return self._combined("^", "bitwise", expr, expr.children, context)

    def map_min(self, expr: Any, context: Context) -> Chain:
        """Calls of functions of two arguments, starting with the last two."""
        return self._combined(None, "min/max", expr, reversed(expr.children), context)

    map_max = map_min

    # }}}

    # {{{ other operations

    def map_quotient(self, expr: prim.Quotient, context: Context) -> Chain:
        """Integers are converted to the type of the context before the division."""
        operands = expr.numerator, expr.denominator
        functions = self._by_functions(expr, context)
        quotient = self._pair("div", *operands, (context, context), functions)
        wanted = FLOATS.get(context or "", quotient.result)
        if wanted == quotient.result or not all(self.inferred.number(operand).is_integral for operand in operands):
            return quotient
        return self._pair("div", *operands, (context, context), wanted)

    def map_floor_div(self, expr: Any, context: Context) -> Chain:
        """Operands are integers in every type context."""
        inner = INDEX if context == INDEX else "i"
        return self._pair("div", expr.numerator, expr.denominator, (inner, inner))

    map_remainder = map_floor_div

    def map_power(self, expr: prim.Power, context: Context) -> Chain:
        """A square is written as a product but counted as one power; other powers are function calls."""
        exponent = expr.exponent if prim.is_constant(expr.exponent) else None
        functions = self._by_functions(expr, context)
        if functions and exponent in REPEATED:
            return self._repeated(expr.base, int(exponent), context)
        if not functions and exponent == 0:
            return self._leaf(1, context, INT)
        if not functions and exponent == 1:
            return self.chain(expr.base, context)
        if not functions and exponent == 2:
            return self._square(expr.base, context)
        result = functions or self.inferred.number(expr)
        if isinstance(self._target, CudaTarget) and not self.inferred.number(expr.exponent).is_integral:
            result = _chosen(result, [self.number(operand, context) for operand in (expr.base, expr.exponent)])
        return self._pair("pow", expr.base, expr.exponent, (context, context), result)

    def _square(self, base: Any, context: Context) -> Chain:
        if prim.is_constant(base):
            return self.chain(base * base, context)
        chain = self.chain(base, context)
        links = chain.links if chain.operator == "*" else (as_operand(chain, base, context),)
        again = Link(None, context, chain.result, chain.result, "mul" if chain.result.is_complex else "pow")
        return Chain((*links, again._replace(left=chain.result)), chain.result, "*")

    def _repeated(self, base: Any, times: int, context: Context) -> Chain:
        """Return the product, by function calls, that Loopy writes for a complex *base* to the power of *times*."""
        result = self.inferred.number(base)
        if prim.is_constant(base):
            return self._leaf(base, context, result)
        again = Link(None, context, result, result, "mul", result)
        return Chain((as_operand(self.chain(base, context), base, context), *[again] * (times - 1)), result)

    def map_comparison(self, expr: prim.Comparison, context: Context) -> Chain:
        """Literals take the type that Loopy infers for the difference of both sides."""
        left, right = cast("Any", expr.left), cast("Any", expr.right)
        inner = self.context(self.inferred(left - right))
        return replace(self._pair("compare", left, right, (inner, inner)), result=INT)

    def map_left_shift(self, expr: Any, context: Context) -> Chain:
        shifted = self.number(expr.shiftee, context)
        return self._pair("shift", expr.shiftee, expr.shift, (context, context), converted(shifted, shifted))

    map_right_shift = map_left_shift

    def map_bitwise_not(self, expr: prim.BitwiseNot, context: Context) -> Chain:
        child = self.number(expr.child, context)
        result = converted(child, child)
        return Chain((Link(expr.child, context, child, result, "bitwise"),), result)

    def map_logical_not(self, expr: prim.LogicalNot, context: Context) -> Chain:
        return Chain((Link(expr.child, context, self._truth, self._truth, "logic"),), INT)

    def map_logical_and(self, expr: prim.LogicalAnd | prim.LogicalOr, context: Context) -> Chain:
        first, *others = (Link(child, context, self._truth, self._truth) for child in expr.children)
        return Chain((first, *(link._replace(kind="logic", left=self._truth) for link in others)), INT)

    map_logical_or = map_logical_and

    @property
    def _truth(self) -> NumberType:
        return number_type(self.kernel.loopy_kernel.index_dtype)

    # }}}

    # {{{ conversions and choices

    def map_type_cast(self, expr: TypeCast, context: Context) -> Chain:
        """A cast to the type that Loopy infers anyway is not written; see ``wrap_in_typecast``."""
        if self.inferred(expr.child) == expr.type:
            return self.chain(expr.child, context)
        return self._leaf(expr, context, number_type(expr.type))

    def map_if(self, expr: prim.If, context: Context) -> Chain:
        """A side is converted to the type inferred for the whole if its own inferred type differs."""
        inferred = self.inferred(expr)
        sides = [
            self.number(side, context) if self.inferred(side) == inferred else number_type(inferred)
            for side in (expr.then, expr.else_)
        ]
        return self._leaf(expr, context, converted(*sides))

    # }}}

    # {{{ leaves

    def map_constant(self, expr: Any, context: Context) -> Chain:
        return self._leaf(expr, context, literal_type(expr, context))

    def map_variable(self, expr: prim.Variable, context: Context) -> Chain:
        written = self.stands_for(expr.name, context)
        return self._leaf(expr, context, self._type_of(expr.name)) if written is None else self.chain(written, context)

    def map_subscript(self, expr: prim.Subscript, context: Context) -> Chain:
        array = expr.aggregate
        return self._leaf(expr, context, self._type_of(array.name) if isinstance(array, prim.Variable) else None)

    @memoize_method
    def _type_of(self, variable: str) -> NumberType:
        return self.inferred.number(prim.Variable(variable))

    def stands_for(self, name: str, context: Context) -> Any:
        """Return the expression written for loop variable *name* outside of indices; None if it is the variable itself.

        An unrolled variable becomes a literal. A parallel one becomes the number of the work-item or group, plus the
        literals of its first value.
        """
        if context == INDEX or name not in self.kernel.loopy_kernel.inames:
            return None
        return self._written(name)

    @memoize_method
    def _written(self, iname: str) -> Any:
        return written_iname(self.kernel, iname)

    def map_call(self, expr: prim.Call, context: Context) -> Chain:
        """The type is the inferred one. If all inferred types are double, C's overloads for the written types apply."""
        result = self.inferred.number(expr)
        if self._has_overloads and result == FLOATS["d"]:
            types = [self.number(*parameter) for parameter in self.parameters(expr)]
            infers = [self.inferred.number(parameter) for parameter in expr.parameters]
            result = _chosen(result, types) if all(each == result for each in infers) else result
        return self._leaf(expr, context, result)

    def map_algebraic_leaf(self, expr: Any, context: Context) -> Chain:
        """Loads, calls and structure members have the type that Loopy infers."""
        return self._leaf(expr, context)

    handle_unsupported_expression = map_algebraic_leaf
    map_nan = map_algebraic_leaf

    # }}}


def _chosen(function: NumberType, parameters: Iterable[NumberType]) -> NumberType:
    """Return the type of the C++ or OpenCL overload of a *function* of doubles: float for float *parameters* only."""
    return FLOATS["f"] if all(parameter == FLOATS["f"] for parameter in parameters) else function


# {{{ code that replaces loop variables


def written_iname(kernel: Kernel, iname: str) -> Any:
    """Return the expression that generated code has instead of *iname*; None if it is a variable.

    See ``generate_unroll_loop`` and ``set_up_hw_parallel_loops`` in ``loopy/codegen/loop.py``. An unrolled loop without
    a constant first value or a constant iteration count is treated as not unrolled.
    """
    loopy_kernel = kernel.loopy_kernel
    if loopy_kernel.iname_tags_of_type(iname, (UnrollTag, UnrolledIlpTag, VectorizeTag)):
        try:
            lower: Any = loopy_kernel.get_iname_bounds(iname, constants_only=True).lower_bound_pw_aff.coalesce()
            first = pw_aff_to_expr(static_value_of_pw_aff(lower, constants_only=False))
        except (StaticValueFindingError, isl.Error):  # isl.Error: there is no constant bound
            return None
        return first if prim.is_constant(first) else None
    tag = kernel.hardware_axes.get(iname)
    if tag is None:
        return None
    base = pw_aff_to_expr(get_hw_axis_base_for_codegen(loopy_kernel, iname).to_pw_aff())
    axis = LocalHardwareAxisIndex if isinstance(tag, LocalInameTag) else GroupHardwareAxisIndex
    return None if prim.is_zero(base) else prim.flattened_sum([axis(tag.axis), base])


# }}}


# {{{ loops executed at once, as vector operations


NOT_IN_VECTORS = (AssertionError, NotImplementedError, UnsupportedExpressionError, UnvectorizableError, ValueError)
"""exceptions of Loopy's vectorizability checker, intended or not, for what is not a vector operation"""


class VectorLoop:
    """A loop that an instruction executes as one vector operation."""

    def __init__(self, kernel: Kernel, iname: str) -> None:
        """Check the loop over *iname*."""
        self.iname = iname
        length: Any = kernel.loopy_kernel.get_constant_iname_length(iname)
        self.length = int(length)
        """vector length"""
        self._is_vector = VectorizabilityChecker(kernel.loopy_kernel, iname, self.length)

    def is_vector(self, expression: Any) -> bool:
        """Return whether *expression* has a value for each iteration of the loop, or one value for all."""
        try:
            return self._is_vector(expression)
        except NOT_IN_VECTORS:  # e.g. a function call at a place that Loopy's checker does not visit
            return True

    def stores(self, assignment: Assignment) -> bool:
        """Return whether Loopy writes *assignment* as one operation; raises any of :data:`NOT_IN_VECTORS`.

        Loopy does not check all operands and may then generate invalid code; this method checks all of them.
        """
        stores, computes = self._is_vector(assignment.assignee), self._is_vector(assignment.expression)
        for leaf in DependencyMapper(include_subscripts=True)(assignment.expression):
            self._is_vector(leaf)
        return stores or not computes


def vector_loop(kernel: Kernel, instruction: InstructionBase) -> VectorLoop | None:
    """Return the loop that *instruction* executes as one vector operation; None if there is none.

    Loopy unrolls the loop if it cannot vectorize it, or if some iterations are skipped.
    """
    tagged = (name for name in instruction.within_inames if kernel.loopy_kernel.iname_tags_of_type(name, VectorizeTag))
    iname = next(tagged, None)
    if iname is None or not isinstance(instruction, Assignment) or instruction.atomicity:
        return None
    try:
        loop = VectorLoop(kernel, iname)
        at_once = loop.stores(instruction) and _is_whole(kernel, instruction.within_inames, iname)
    except NOT_IN_VECTORS:
        return None
    return loop if at_once else None


def _is_whole(kernel: Kernel, inames: frozenset[str], iname: str) -> bool:
    """Return whether the loop over *iname* always executes all of its iterations.

    With slabs, all but the last one do; the last one executes element by element but is counted as a vector operation.
    """
    if any(any(slabs) for slabs in kernel.loopy_kernel.iname_slab_increments.values()):
        return True
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    points = kernel.domain(inames).intersect_params(assumed)
    kind, place = points.get_var_dict()[iname]
    anywhere = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    first, last = points.dim_min_val(place), points.dim_max_val(place)
    return points.is_equal(anywhere.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last))


# }}}
