"""What the integers of a kernel stand for: temporaries that are sums of others, arguments that lay out arrays.

Where ``t = i + 3`` is all that a temporary ever is, ``a[t]`` is ``a[i + 3]``, and a loop up to ``t`` one up to
``i + 3``: which lanes access which elements, and how often something runs, shows only in the latter. What computes the
temporary is counted where it stands. Of the integers among the arguments, some are strides and offsets of arrays, and
some are only computed with.
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


def values_of_temporaries(kernel: LoopKernel, instructions: Sequence[InstructionBase]) -> dict[str, Any]:
    """Return temporary -> its value, without other temporaries in it; *instructions* are in the order of the code.

    A temporary has one value if there is one definition, on no condition, and all that uses it comes later in the same
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
    """Return *expression* with *values* in place of their names."""
    if values.keys().isdisjoint(get_dependencies(expression)):
        return expression
    return SubstitutionMapper(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)(
        expression
    )


def _defined(kernel: LoopKernel, instruction: InstructionBase) -> str | None:
    """Return the integer temporary that *instruction* defines, if it does so by integers and on no condition."""
    if not isinstance(instruction, Assignment) or instruction.predicates:
        return None
    name = instruction.assignee.name if isinstance(instruction.assignee, prim.Variable) else ""
    variable = kernel.temporary_variables.get(name)
    if variable is None or variable.address_space != AddressSpace.PRIVATE:
        return None
    is_integer = isinstance(variable.dtype, LoopyType) and variable.dtype.is_integral()
    return name if is_integer and _of_integers(instruction.expression) else None


def _of_integers(expression: Any) -> bool:
    """Return whether nothing in *expression* is rounded when it becomes an integer, as far as its operations tell."""
    finder = _Rounded()
    finder(expression)
    return not finder.found


class _Rounded(WalkMapper[[]]):
    """Finds numbers and operations whose results are not integers."""

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
    """Yield the places of instructions that read *name*, or are in loops that it bounds."""
    homes = [domain for domain in kernel.domains if name in domain.get_var_dict(isl.dim_type.param)]
    bounded = frozenset[str]().union(*(home.get_var_names_not_none(isl.dim_type.set) for home in homes))
    for place, instruction in enumerate(instructions):
        if name in instruction.read_dependency_names() or bounded & instruction.within_inames:
            yield place


# {{{ arguments that no loop, condition, address or length depends on


def plain_scalars(kernel: LoopKernel, candidates: Collection[str]) -> frozenset[str]:
    """Return those of *candidates*, names of integer arguments, of which nothing but values that are computed depends.

    Foreign code may do anything with what it reads.
    """
    deciding = set(_names_that_decide(kernel))
    waiting = list(deciding)
    while waiting:
        name = waiting.pop()
        if name in kernel.temporary_variables:
            found = {each for writer in kernel.writer_map().get(name, ()) for each in _read(kernel, writer)} - deciding
            deciding |= found
            waiting += found
    return frozenset(candidates) - deciding


def _read(kernel: LoopKernel, writer: str) -> frozenset[str]:
    return frozenset(kernel.id_to_insn[writer].read_dependency_names())


def _names_that_decide(kernel: LoopKernel) -> Iterator[str]:
    """Yield what loops, conditions, addresses and lengths are written with."""
    for constraints in (*kernel.domains, kernel.assumptions):
        for name, (kind, place) in constraints.get_var_dict(isl.dim_type.param).items():
            if constraints.involves_dims(kind, place, 1):
                yield name
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
    """Return the names in the lengths of *array*, and those in its strides and its offset."""
    stated: Any = array
    shape: Any = stated.shape
    lengths = cast("tuple[Any, ...]", shape if isinstance(shape, tuple) else ())
    strides: Any = [getattr(tag, "stride", None) for tag in stated.dim_tags or ()]
    return _names_in(lengths), _names_in((*strides, stated.offset))


def _names_in(expressions: Iterable[Any]) -> frozenset[str]:
    stated = (each for each in expressions if each is not None and not isinstance(each, (str, type)))
    return frozenset[str]().union(*map(get_dependencies, stated))


class _Deciding(WalkMapper[[]]):
    """Collects what indices and conditions in an expression are written with."""

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


# {{{ how arrays lie in memory where parameters say it
#
# Strides and offsets are contiguous unless they are given. Frameworks generate such kernels, with
# ``dim_tags="stride:auto"`` and ``offset=lp.auto``, and pass what their arrays happen to have, which is nearly always
# contiguous.


PARAM = isl.dim_type.param
Layout = Mapping[str, Any]
"""stride or offset -> its value in elements, an expression"""


def integer_arguments(kernel: LoopKernel) -> frozenset[str]:
    """Return the names of the integers among the arguments of *kernel*."""
    scalars = (each for each in kernel.args if isinstance(each, ValueArg))
    return frozenset(each.name for each in scalars if each.dtype is not None and each.dtype.is_integral())


def contiguous_layout(kernel: LoopKernel) -> dict[str, Any]:
    """Return the integer arguments that are strides and offsets alone, with their values in contiguous arrays.

    The elements of an array lie side by side: in row-major order, or in the first other order that agrees with the
    strides that are no such parameters. What an axis of unknown length decides, and what two arrays disagree on, is
    left out.
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
    """Return *kernel* with the values of *layout* in its arguments; its assumptions name none of *left_out* any more.

    Nothing else of a kernel has what :func:`contiguous_layout` finds.
    """
    if not layout:
        return kernel
    arguments = [_array_with(each, layout) if isinstance(each, ArrayBase) else each for each in kernel.args]
    return kernel.copy(args=arguments, assumptions=_without(kernel.assumptions, layout, left_out))


def _used_otherwise(kernel: LoopKernel) -> Iterator[str]:
    """Yield the names in all of *kernel* but its assumptions and the strides and offsets of its arguments."""
    for domain in kernel.domains:
        for name, (kind, place) in domain.get_var_dict(PARAM).items():
            if domain.involves_dims(kind, place, 1):
                yield name
    for instruction in kernel.instructions:
        yield from instruction.read_dependency_names()
    for variable in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(variable, ArrayBase):
            lengths, layout = names_in_array(variable)
            yield from lengths
            yield from () if variable.name in kernel.arg_dict else layout


# {{{ contiguous strides


def _contiguous(array: Any, free: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield those of *free* that *array* has, with what they are where it is contiguous; None where that is unknown."""
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
    """Return the stride of each of *axes*, of which the stated stride and the length are known, if it is contiguous."""
    row_major = range(len(axes))[::-1]
    if all(_name(stride) in free for stride, _ in axes):
        return _in_order(axes, row_major, free)[0]
    orders = (tuple(row_major), tuple(reversed(row_major)), *permutations(row_major))
    found = (_in_order(axes, order, free) for order in orders)
    return next((strides for strides, agree in found if agree), _in_order(axes, row_major, free)[0])


def _in_order(axes: Sequence[tuple[Any, Any]], order: Sequence[int], free: frozenset[str]) -> tuple[list[Any], bool]:
    """Return the strides of *axes* in *order*, the innermost first, and whether the stated ones are contiguous."""
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
    """Return the name of the variable that *stated* is; empty where it is none."""
    return stated.name if isinstance(stated, prim.Variable) else stated if isinstance(stated, str) else ""


def _factors(expression: Any) -> tuple[int, frozenset[tuple[str, int]]]:
    """Return the number and the other factors that *expression* is the product of."""
    product = prim.flattened_product((expression,))
    parts = product.children if isinstance(product, prim.Product) else (product,)
    numbers = [int(cast("int", part)) for part in parts if prim.is_constant(part)]
    return prod(numbers), frozenset(Counter(str(part) for part in parts if not prim.is_constant(part)).items())


# }}}


# {{{ what a kernel has in place of parameters


def _array_with(array: Any, layout: Layout) -> Any:
    tags = tuple(
        tag.copy(stride=with_values(tag.stride, layout)) if isinstance(tag, FixedStrideArrayDimTag) else tag
        for tag in array.dim_tags or ()
    )
    offset = layout.get(_name(array.offset), array.offset)
    return array.copy(dim_tags=tags if array.dim_tags is not None else None, offset=offset)


def _without(assumptions: isl.BasicSet, layout: Layout, names: Collection[str]) -> isl.BasicSet:
    """Return *assumptions* where *names* have the values of *layout*, without them."""
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
        pass  # a product of sizes is no affine value: what is assumed of it says nothing of them
    return assumptions.project_out(PARAM, assumptions.get_var_dict(PARAM)[name][1], 1)


# }}}


# }}}
