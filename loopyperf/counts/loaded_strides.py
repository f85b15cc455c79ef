"""Strides that are loaded: data that multiplies a loop variable, as in ``x[base[c] + stride[i]*layer]``.

Neighbours along that loop are an unknown number of elements apart, unless ``typical`` states what the factor is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import DependencyMapper, IdentityMapper, SubstitutionMapper, WalkMapper, get_dependencies

from loopyperf.counts.memory import Reference, known_shape
from loopyperf.counts.typical import Typical
from loopyperf.kernel import Kernel
from loopyperf.kernel.integer_temporaries import substituted


def resolved(
    kernel: Kernel, typical: Typical, index: tuple[Any, ...], temporaries: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return *index* where data that multiplies loop variables has the value that is *typical*, if that is stated.

    *temporaries* are written as what they stand for.
    """
    write = _StatedFactors(kernel, typical)
    return tuple(substituted(write(each), temporaries) for each in index)


def scaled_by_data(kernel: Kernel, expressions: tuple[Any, ...]) -> dict[str, list[str]]:
    """Return iname -> the names of the data that multiplies or divides it in *expressions*."""
    found = _Scaled(kernel)
    for each in expressions:
        found(each)
    return found.found


def ask_length(kernel: Kernel, typical: Typical, ref: Reference) -> None:
    """Ask *typical* how many elements the array of *ref* has, where neither its index nor its shape tells."""
    if any(_is_data(kernel, index) for index in ref.index) and known_shape(kernel, ref.array) is None:
        typical.length(ref.array)


def _is_data(kernel: Kernel, expression: Any) -> bool:
    return not get_dependencies(expression) <= kernel.loopy_kernel.all_inames() | kernel.parameters


def _names_of_data(kernel: Kernel, expression: Any) -> Iterator[str]:
    """Yield the names of arrays, functions and variables that *expression* takes its data from."""
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(expression):
        name = getattr(getattr(part, "aggregate", getattr(part, "function", part)), "name", str(part))
        value = kernel.integer_temporaries.get(name)
        if value is not None:
            yield from _names_of_data(kernel, value)
        elif name not in kernel.loopy_kernel.all_inames() | kernel.parameters:
            yield name


class _Scaled(WalkMapper[[]]):
    """Finds inames that data multiplies or divides."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.found: dict[str, list[str]] = {}

    def map_product(self, expr: prim.Product) -> None:
        for factor in expr.children:
            self._add(factor, [child for child in expr.children if child is not factor])
        super().map_product(expr)

    def map_floor_div(self, expr: prim.FloorDiv | prim.Remainder) -> None:
        self._add(expr.denominator, [expr.numerator])
        self.rec(expr.numerator)

    map_remainder = map_floor_div

    def map_subscript(self, expr: prim.Subscript) -> None:
        """What is looked up is data, however its index is made."""

    def map_call(self, expr: prim.Call) -> None:
        """So is what a function returns."""

    def _add(self, factor: Any, others: list[Any]) -> None:
        if _is_data(self.kernel, factor):
            for iname in sorted(get_dependencies(tuple(others)) & self.kernel.loopy_kernel.all_inames()):
                self.found.setdefault(iname, []).extend(_names_of_data(self.kernel, factor))


class _StatedFactors(IdentityMapper[[]]):
    """Writes the stated value of data that multiplies inames."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        super().__init__()
        self.kernel, self.typical = kernel, typical
        self._inames = kernel.loopy_kernel.all_inames()

    def map_product(self, expr: prim.Product) -> Any:
        is_data = [_is_data(self.kernel, child) for child in expr.children]
        if all(is_data) or not self._inames & get_dependencies(expr):
            return super().map_product(expr)
        valued = SubstitutionMapper(self._value)
        factors: list[Any] = [
            valued(child) if is_looked_up else self.rec(child)
            for child, is_looked_up in zip(expr.children, is_data, strict=True)
        ]
        return prim.Product(tuple(factors))

    def _value(self, leaf: Any) -> Any:
        name = getattr(getattr(leaf, "aggregate", leaf), "name", "")
        if name in self._inames or name in self.kernel.parameters:
            return None
        value = self.kernel.integer_temporaries.get(name)
        if value is not None:
            return SubstitutionMapper(self._value)(value)
        return self.typical.factor(name)
