"""Known values of integers in a kernel: temporaries defined by an expression, arguments that define array layouts.

If ``t = i + 3`` is the only definition of a temporary, ``a[t]`` is ``a[i + 3]``, and a loop up to ``t`` is a loop up to
``i + 3``. Only these forms show which lanes access which elements, and how often an instruction executes. The
computation of the temporary is still counted where it occurs. Some integer arguments are strides and offsets of arrays;
others only appear in arithmetic.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import permutations
from math import prod
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag, SeparateArrayArrayDimTag
from loopy.kernel.data import AddressSpace, ValueArg
from loopy.kernel.instruction import Assignment, CInstruction, InstructionBase, MultiAssignmentBase
from loopy.symbolic import SubstitutionMapper, TypeCast, WalkMapper, get_dependencies, isl_set_from_expr
from loopy.types import LoopyType

from loopyperf.polyhedral.sets import parameters_of


def values_of_temporaries(kernel: LoopKernel, instructions: Sequence[InstructionBase]) -> dict[str, Any]:
    """Return temporary -> its value, free of other temporaries; *instructions* are in execution order.

    A temporary has a known value if it has one unconditional definition, and all uses come later and inside the same
    loops.
    """
    written = Counter(name for instruction in instructions for name in instruction.assignee_var_names())
    values: dict[str, Any] = {}
    for place, instruction in enumerate(instructions):
        name = _defined(kernel, instruction)
        if name is not None and written[name] == 1 and _is_used_later(kernel, name, instructions, place):
            values[name] = with_values(instruction.expression, values)
    return values


def with_values(expression: Any, values: Mapping[str, Any]) -> Any:
    """Return *expression* with names replaced by their *values*."""
    if values.keys().isdisjoint(get_dependencies(expression)):
        return expression
    return SubstitutionMapper(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)(
        expression
    )


def _defined(kernel: LoopKernel, instruction: InstructionBase) -> str | None:
    """Return the integer temporary that *instruction* defines unconditionally from integers; None if there is none."""
    if not isinstance(instruction, Assignment) or instruction.predicates:
        return None
    name = instruction.assignee.name if isinstance(instruction.assignee, prim.Variable) else ""
    variable = kernel.temporary_variables.get(name)
    if variable is None or variable.address_space != AddressSpace.PRIVATE:
        return None
    if not (isinstance(variable.dtype, LoopyType) and variable.dtype.is_integral()):
        return None
    finder = _Rounded()
    finder(instruction.expression)
    return None if finder.found else name


class _Rounded(WalkMapper[[]]):
    """Finds constants and operations whose results may not be integers."""

    found = False

    def map_constant(self, expr: Any) -> None:
        self.found |= not isinstance(expr, (int, np.integer))

    def visit(self, expr: Any) -> bool:
        self.found |= isinstance(expr, (prim.Quotient, prim.Power, TypeCast))
        return not self.found


def _is_used_later(kernel: LoopKernel, name: str, instructions: Sequence[InstructionBase], place: int) -> bool:
    inames = frozenset[str](instructions[place].within_inames)
    users = list(_users(kernel, name, instructions))
    return min(users, default=place + 1) > place and all(inames <= instructions[user].within_inames for user in users)


def _users(kernel: LoopKernel, name: str, instructions: Sequence[InstructionBase]) -> Iterator[int]:
    """Yield the positions of instructions that read *name*, or are inside loops whose bounds use it."""
    homes = [domain for domain in kernel.domains if name in domain.get_var_dict(isl.dim_type.param)]
    bounded = frozenset[str]().union(*(home.get_var_names_not_none(isl.dim_type.set) for home in homes))
    for place, instruction in enumerate(instructions):
        if name in instruction.read_dependency_names() or bounded & instruction.within_inames:
            yield place


# {{{ arguments that affect no loop, condition, address or length


def plain_scalars(kernel: LoopKernel, candidates: Collection[str]) -> frozenset[str]:
    """Return the integer arguments among *candidates* that affect only computed values.

    Loops, conditions, addresses and lengths do not depend on them. Foreign code may use whatever it reads in any way.
    """
    deciding = set(_names_that_decide(kernel))
    waiting = list(deciding)
    while waiting:
        name = waiting.pop()
        if name in kernel.temporary_variables:
            writers = (kernel.id_to_insn[writer] for writer in kernel.writer_map().get(name, ()))
            found = frozenset[str]().union(*(writer.read_dependency_names() for writer in writers)) - deciding
            deciding |= found
            waiting += found
    return frozenset(candidates) - deciding


def _names_that_decide(kernel: LoopKernel) -> Iterator[str]:
    """Yield the names in loop bounds, conditions, addresses and lengths."""
    for constraints in (*kernel.domains, kernel.assumptions):
        yield from parameters_of(constraints)
    for variable in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(variable, ArrayBase):
            yield from frozenset[str]().union(*names_in_array(variable))
    for instruction in kernel.instructions:
        for predicate in instruction.predicates:
            yield from get_dependencies(predicate)
        if isinstance(instruction, MultiAssignmentBase):
            found = _Deciding()
            for expression in (*instruction.assignees, instruction.expression):
                found(expression)
            yield from found.names
        elif isinstance(instruction, CInstruction):
            yield from instruction.read_dependency_names()


def names_in_array(array: ArrayBase) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in the lengths of *array*, and the names in its strides and offset."""
    stated: Any = array
    shape: Any = stated.shape
    lengths = cast("tuple[Any, ...]", shape if isinstance(shape, tuple) else ())
    strides: Any = [getattr(tag, "stride", None) for tag in stated.dim_tags or ()]
    return _names_in(lengths), _names_in((*strides, stated.offset))


def _names_in(expressions: Iterable[Any]) -> frozenset[str]:
    stated = (each for each in expressions if each is not None and not isinstance(each, (str, type)))
    return frozenset[str]().union(*map(get_dependencies, stated))


class _Deciding(WalkMapper[[]]):
    """Collects the names in the indices and conditions of an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def map_subscript(self, expr: prim.Subscript) -> None:
        self.names |= get_dependencies(expr.index_tuple)
        super().map_subscript(expr)

    def map_if(self, expr: prim.If) -> None:
        self.names |= get_dependencies(expr.condition)
        super().map_if(expr)


# }}}


# {{{ array layouts given by parameters
#
# Arrays are contiguous unless their strides and offsets are given. Frameworks generate kernels with
# ``dim_tags="stride:auto"`` and ``offset=lp.auto``, and pass the strides of their arrays, which are nearly always
# contiguous.


PARAM = isl.dim_type.param
Layout = Mapping[str, Any]
"""stride or offset -> its value in elements, as an expression"""


def integer_arguments(kernel: LoopKernel) -> frozenset[str]:
    """Return the names of the integer arguments of *kernel*."""
    scalars = (each for each in kernel.args if isinstance(each, ValueArg))
    return frozenset(each.name for each in scalars if each.dtype is not None and each.dtype.is_integral())


def contiguous_layout(kernel: LoopKernel) -> dict[str, Any]:
    """Return stride or offset argument -> its value in a contiguous array, for arguments with no other use.

    Arrays are row-major, or have the first other order that agrees with their fixed strides. Omitted are values that
    depend on an axis of unknown length, and values on which two arrays disagree.
    """
    arrays: list[Any] = [each for each in kernel.args if isinstance(each, ArrayBase)]
    free = integer_arguments(kernel) - frozenset(_used_otherwise(kernel))
    values: defaultdict[str, list[Any]] = defaultdict(list)
    for array in arrays if free else ():
        for name, value in _contiguous(array, free):
            values[name].append(value)
    agreed = {name: each[0] for name, each in values.items() if None not in each and len(set(map(_factors, each))) == 1}
    for _ in agreed:  # a stride may be a multiple of another
        agreed = {name: with_values(value, agreed) for name, value in agreed.items()}
    return {name: value for name, value in agreed.items() if not get_dependencies(value) & agreed.keys()}


def with_layout(kernel: LoopKernel, layout: Layout, left_out: Collection[str]) -> LoopKernel:
    """Return *kernel* with the values of *layout* in its arguments; *left_out* are removed from its assumptions.

    The arguments found by :func:`contiguous_layout` occur nowhere else in a kernel.
    """
    if not layout:
        return kernel
    arguments = [_array_with(each, layout) if isinstance(each, ArrayBase) else each for each in kernel.args]
    return kernel.copy(args=arguments, assumptions=_without(kernel.assumptions, layout, left_out))


def _used_otherwise(kernel: LoopKernel) -> Iterator[str]:
    """Yield the names used anywhere but in the assumptions and in the strides and offsets of array arguments."""
    for domain in kernel.domains:
        yield from parameters_of(domain)
    for instruction in kernel.instructions:
        yield from instruction.read_dependency_names()
    for variable in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(variable, ArrayBase):
            lengths, layout = names_in_array(variable)
            yield from lengths
            yield from () if variable.name in kernel.arg_dict else layout


# {{{ contiguous strides


def _contiguous(array: Any, free: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield each of *free* in the layout of *array* with its value if the array is contiguous; None if unknown."""
    tags = cast("Sequence[Any]", array.dim_tags or ())
    axes = [axis for axis, tag in enumerate(tags) if not isinstance(tag, SeparateArrayArrayDimTag)]
    lengths = cast("Sequence[Any]", array.shape if isinstance(array.shape, tuple) else (None,) * len(tags))
    if all(isinstance(tags[axis], FixedStrideArrayDimTag) for axis in axes):
        stated = [(tags[axis].stride, lengths[axis]) for axis in axes]
        for (stride, _), value in zip(stated, _strides(stated, free), strict=True):
            if (name := _name(stride)) in free:
                yield name, value
    if (name := _name(array.offset)) in free:
        yield name, 0


def _strides(axes: Sequence[tuple[Any, Any]], free: frozenset[str]) -> list[Any]:
    """Return the stride of each of *axes*, pairs of given stride and length, in a contiguous array."""
    row_major = range(len(axes))[::-1]
    if all(_name(stride) in free for stride, _ in axes):
        return _in_order(axes, row_major, free)[0]
    orders = (tuple(row_major), tuple(reversed(row_major)), *permutations(row_major))
    found = (_in_order(axes, order, free) for order in orders)
    return next((strides for strides, agree in found if agree), _in_order(axes, row_major, free)[0])


def _in_order(axes: Sequence[tuple[Any, Any]], order: Sequence[int], free: frozenset[str]) -> tuple[list[Any], bool]:
    """Return the contiguous strides of *axes* in *order*, innermost first, and whether the given ones agree."""
    strides: list[Any] = [None] * len(axes)
    step: Any = 1
    agree = True
    for axis in order:
        stride, length = axes[axis]
        if _name(stride) not in free:
            agree &= step is None or bool(get_dependencies(stride) & free) or _factors(stride) == _factors(step)
            step = stride
        strides[axis] = step
        step = None if step is None or length is None else prim.flattened_product((step, length))
    return strides, agree


def _name(stated: Any) -> str:
    """Return the name of *stated* if it is a variable or a string, else an empty string."""
    return stated.name if isinstance(stated, prim.Variable) else stated if isinstance(stated, str) else ""


def _factors(expression: Any) -> tuple[int, frozenset[tuple[str, int]]]:
    """Return the numeric factor of the product *expression*, and its other factors."""
    product = prim.flattened_product((expression,))
    parts = product.children if isinstance(product, prim.Product) else (product,)
    numbers = [int(cast("int", part)) for part in parts if prim.is_constant(part)]
    return prod(numbers), frozenset(Counter(str(part) for part in parts if not prim.is_constant(part)).items())


# }}}


# {{{ replacing layout parameters


def _array_with(array: Any, layout: Layout) -> Any:
    tags = tuple(
        tag.copy(stride=with_values(tag.stride, layout)) if isinstance(tag, FixedStrideArrayDimTag) else tag
        for tag in array.dim_tags or ()
    )
    offset = layout.get(_name(array.offset), array.offset)
    return array.copy(dim_tags=tags if array.dim_tags is not None else None, offset=offset)


def _without(assumptions: isl.BasicSet, layout: Layout, names: Collection[str]) -> isl.BasicSet:
    """Return *assumptions* with *names* replaced by their values in *layout*."""
    named = [name for name in names if name in assumptions.get_var_dict(PARAM)]
    return reduce(lambda assumed, name: _eliminated(assumed, name, layout[name]), named, assumptions)


def _eliminated(assumptions: isl.BasicSet, name: str, value: Any) -> isl.BasicSet:
    names = sorted({name, *get_dependencies(value), *assumptions.get_var_dict(PARAM)})
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=names)
    assumptions = assumptions.align_params(space)
    try:
        equal = isl_set_from_expr(space, prim.Comparison(prim.Variable(name), "==", value)).params()
        assumptions &= equal.get_basic_sets()[0].align_params(assumptions.get_space())
    except (ExpressionToAffineConversionError, isl.Error):
        pass  # a product of sizes is not affine, so an assumption about it does not constrain the sizes
    return assumptions.project_out(PARAM, assumptions.get_var_dict(PARAM)[name][1], 1)


# }}}


# }}}
