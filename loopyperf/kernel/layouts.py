"""How arrays lie in memory where parameters say it: strides and offsets, which are contiguous unless they are given.

Frameworks generate such kernels (``dim_tags="stride:auto"``, ``offset=lp.auto``), and pass what their arrays happen to
have, which is nearly always contiguous.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import permutations
from math import prod
from typing import Any, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag, SeparateArrayArrayDimTag
from loopy.kernel.data import ValueArg
from loopy.symbolic import get_dependencies, isl_set_from_expr

from .integer_temporaries import substituted
from .plain_scalars import names_in_array

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
        agreed = {name: substituted(value, agreed) for name, value in agreed.items()}
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
        tag.copy(stride=substituted(tag.stride, layout)) if isinstance(tag, FixedStrideArrayDimTag) else tag
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
