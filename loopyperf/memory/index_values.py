"""Periods of indices along loops, and the data in indices."""

import operator
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import lcm
from typing import Any

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.symbolic import DependencyMapper, get_dependencies
from pymbolic.mapper import Mapper

from loopyperf.counts.lanes import index_values
from loopyperf.counts.memory_accesses import scaled_by_data
from loopyperf.kernel import Kernel
from loopyperf.memory.residues import TooManyOffsetsError

CACHED_INDICES = 1 << 9
"""expressions whose variables are cached"""
Periods = Mapping[str, int]
"""loop -> iterations after which an index grows by a constant, whatever its value"""


class NotPeriodicError(TooManyOffsetsError):
    """An index that is neither affine in the loops nor becomes so by integer divisions alone."""


# {{{ periods


def index_periods(expression: Any, loops: frozenset[str], uniform: Mapping[str, int]) -> Periods:
    """Return the period of *expression* in each of *loops* on which it depends; it is 1 if the expression is affine.

    *uniform* has the values that are the same for all lanes and iterations; factors and divisors may contain only
    these. Raises :class:`NotPeriodicError` if there is no period.
    """
    return _Periods(loops, uniform)(expression)


class _Periods(Mapper[Periods, []]):
    """If e grows by c in every p iterations, e // d grows by c in every p*d; applied from the inside out."""

    def __init__(self, loops: frozenset[str], uniform: Mapping[str, int]) -> None:
        super().__init__()
        self.loops = loops
        self.uniform = uniform

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Periods:
        if not self.loops & get_dependencies(expr):
            return {}
        try:
            return super().rec(expr)
        except NotImplementedError as error:  # raised by pymbolic's mappers for nodes that they do not handle
            raise NotPeriodicError(f"no period of {expr} ({type(expr).__name__})") from error

    __call__ = rec

    def map_variable(self, expr: prim.Variable) -> Periods:
        return {expr.name: 1}

    def map_sum(self, expr: prim.Sum) -> Periods:
        found = [self.rec(child) for child in expr.children]
        names = frozenset[str]().union(*found)
        return {name: lcm(*(each.get(name, 1) for each in found)) for name in names}

    def map_product(self, expr: prim.Product) -> Periods:
        moving = [child for child in expr.children if self.loops & get_dependencies(child)]
        for child in expr.children:
            if child is not moving[0]:
                self._constant(child)
        return self.rec(moving[0])

    def map_floor_div(self, expr: prim.FloorDiv | prim.Remainder) -> Periods:
        divisor = abs(self._constant(expr.denominator))
        return {name: period * divisor for name, period in self.rec(expr.numerator).items()}

    map_remainder = map_floor_div

    def map_type_cast(self, expr: Any) -> Periods:
        return self.rec(expr.child)

    map_type_annotation = map_type_cast

    def map_subscript(self, expr: prim.Subscript | prim.Call) -> Periods:
        return {}

    map_call = map_subscript

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> Periods:
        raise NotImplementedError

    def _constant(self, expr: Any) -> int:
        unknown = get_dependencies(expr) - self.uniform.keys()
        if unknown:
            raise NotPeriodicError(f"no period: {expr} depends on {', '.join(sorted(unknown))}")
        return operator.index(index_values(expr, self.uniform))


# }}}


# {{{ data in indices
#
# Data is what the kernel loads or computes. It may differ along some inames.


def data_of(kernel: Kernel, expression: Any, starts: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of variables and inames on which the data in *expression* depends; empty if it has no data.

    *starts* maps loops that start from data to that data, on which values loaded in such a loop depend.
    """
    names: set[str] = set()
    for part in _leaves(expression):
        if not isinstance(part, prim.Variable):
            looked_up = get_dependencies(part)
            names |= looked_up.union(*(starts[loop] for loop in looked_up & starts.keys()))
        elif part.name in starts:
            names |= starts[part.name]
        elif part.name in kernel.loopy_kernel.temporary_variables:
            names.add(part.name)
    return frozenset(names)


@lru_cache(maxsize=CACHED_INDICES)
def _leaves(expression: Any) -> frozenset[Any]:
    """Return the variables of *expression*; loaded values and function calls are single leaves."""
    return frozenset(DependencyMapper(include_subscripts=True, include_calls=True)(expression))


def axes_of_data(kernel: Kernel, names: Iterable[str]) -> frozenset[int]:
    """Return the local axes along which values that depend on *names* may differ between work-items."""
    tags = map(kernel.hardware_axes.get, inames_of_data(kernel, names))
    return frozenset(tag.axis for tag in tags if isinstance(tag, LocalInameTag))


def lane_axes_of_data(kernel: Kernel, index: tuple[Any, ...], starts: Mapping[str, frozenset[str]]) -> frozenset[int]:
    """Return the local axes along which data makes a difference between work-items that access an array at *index*.

    Along them data may differ, or it multiplies the number of the work-item. See :func:`data_of` for *starts*.
    """
    data = frozenset[str]().union(*(data_of(kernel, each, starts) for each in index))
    scaled = map(kernel.hardware_axes.get, scaled_by_data(kernel, index))
    return axes_of_data(kernel, data) | {tag.axis for tag in scaled if isinstance(tag, LocalInameTag)}


def inames_of_data(kernel: Kernel, names: Iterable[str]) -> frozenset[str]:
    """Return the inames along which values that depend on *names* may differ.

    A private value may differ along the inames that decide what a work-item computes, along those of its inputs, and,
    if it has several values, along all loops around its computation. Local memory may differ between groups.
    """
    variables, inames = kernel.loopy_kernel.temporary_variables, kernel.loopy_kernel.all_inames()
    pending, seen = set(names), set[str]()
    while pending:
        name = pending.pop()
        seen.add(name)
        if name not in variables:
            continue
        is_private = variables[name].address_space == AddressSpace.PRIVATE
        for instruction in kernel.loopy_kernel.writer_map().get(name, ()):
            writer = kernel.loopy_kernel.id_to_insn[instruction]
            around = frozenset[str](writer.within_inames)
            if is_private:
                pending |= kernel.deciding(writer) - seen
            if name not in kernel.integer_temporaries:
                tags = {iname: kernel.hardware_axes.get(iname) for iname in around}
                seen.update(iname for iname, tag in tags.items() if tag is None or isinstance(tag, GroupInameTag))
    return frozenset(seen & inames)


# }}}
