"""Indices that contain loaded values, as ``x[zones[i] + 1]``: a base, which is loaded, and a known offset.

Accesses with the same base are at known distances from each other, whatever its value. ``typical`` may say how bases
follow each other: ``"consecutive"`` elements of the index array contain consecutive numbers, a stride class is the
distance between the addresses of neighboring lanes, and ``"constant"`` bases are equal. These make the index a known
function of the loops. Other bases are apart from each other, or fill a window of the array at random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import DependencyMapper, IdentityMapper

from loopyperf.counts.memory_accesses import reference, scaled_by_data, symbolic_strides
from loopyperf.counts.sizes import CONSECUTIVE, CONSTANT, PERMUTATION, window_of
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.memory.index_values import data_of, inames_of_data, index_values
from loopyperf.memory.rows import APART, Visit, in_rows, is_data, with_data
from loopyperf.polyhedral.affine import Affine

SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Scattered:
    """Bases that are anywhere in a window."""

    axis: int
    """place, among the indices of a cell, of the index that the base is added to"""
    step: int
    """growth of this index if the base grows by one"""
    window: int | None
    """number of values of a base; None if each of as many values as there are bases in the launch occurs once"""

    def untouched(self, share: float, draws: int, everywhere: int) -> float:
        """Return the probability that *draws* bases, of *everywhere* in the launch, miss a block of memory.

        *share* is the probability that a base touches the block.
        """
        if self.window is not None:
            return (1 - min(share, 1)) ** draws
        return max(0.0, 1 - draws / everywhere) ** (share * everywhere)


@dataclass(frozen=True, slots=True)
class Located:
    """The cells of an access as indices with distances."""

    pairs: tuple[tuple[Any, int], ...]
    """an expression of loop variables, and the bytes between neighbors along it"""
    base: str = ""
    """loaded values, apart from each other, from which the cells start; empty if there are none"""
    scattered: Scattered | None = None
    """the window of these values; None if it is unknown"""


def located(
    visit: Visit, indices: Sequence[Any], axes: Sequence[int], width: int, pattern: str | None
) -> Located | None:
    """Return the cells of an access to elements of *width* bytes at *indices*; None if data determines their distances.

    *axes* are the bytes between neighbors along each index. *pattern* is the typical pattern of loaded values.
    """
    pairs: list[tuple[Any, int]] = []
    bases: list[str] = []
    scattered: Scattered | None = None
    for index, distance in zip(indices, axes, strict=True):
        in_row = in_rows(visit, index, distance)
        if in_row is None:
            return None
        if len(in_row) > 1 or not is_data(visit, index) or not (leaves := loaded_values(visit.kernel, index)):
            pairs += in_row
            continue
        known = followed(visit.kernel, visit.sizes, index, distance, width, pattern)
        if known is not None:
            place, apart = known
            pairs += [(prim.Variable(iname), APART + distance) for iname in apart]
            pairs.append((place, distance))
            continue
        if scaled_by_data(visit.kernel, (index,)):
            return None
        written = with_values(index, visit.kernel.integer_temporaries)
        names = data_of(visit.kernel, written, visit.loops.starts)
        differ = inames_of_data(visit.kernel, names) & {*visit.points.get_var_names_not_none(SET)}
        step = _growth(visit, written)
        pairs += [(prim.Variable(iname), APART + (step * distance or distance)) for iname in sorted(differ)]
        bases.append(f"{step}*({', '.join(sorted(map(str, leaves)))})")
        if pattern is not None and (pattern == PERMUTATION or window_of(pattern) is not None):
            scattered = Scattered(len(pairs), step, window_of(pattern))
        pairs.append((with_data(visit.kernel, written), distance))
    return Located(tuple(pairs), "; ".join(bases), scattered if len(bases) == 1 else None)


def loaded_values(kernel: Kernel, index: Any) -> frozenset[Any]:
    """Return the loaded and computed values in *index*, except those that only decide between branches."""
    finder = _Values(include_subscripts=True, include_calls=True)
    leaves = finder(with_values(index, kernel.integer_temporaries))
    return frozenset(each for each in leaves if not isinstance(each, prim.Variable) or each.name in _computed(kernel))


def _computed(kernel: Kernel) -> Mapping[str, Any]:
    return kernel.loopy_kernel.temporary_variables


class _Values(DependencyMapper[[]]):
    """Finds the variables, loaded values and calls outside of conditions."""

    def map_if(self, expr: prim.If) -> Any:
        return self.combine([self.rec(expr.then), self.rec(expr.else_)])


def _growth(visit: Visit, written: Any) -> int:
    """Return the growth of an index if the loaded value in it grows by one."""
    known = {**dict.fromkeys(visit.points.get_var_names_not_none(SET), 0), **visit.sizes}
    ends = (index_values(with_data(visit.kernel, written, value), known) for value in (0, 1))
    return -int(next(ends)) + int(next(ends))


# {{{ loaded values that are a known function of the loops


def followed(
    kernel: Kernel, sizes: Mapping[str, int], index: Any, distance: int, width: int, pattern: str | None
) -> tuple[Any, tuple[str, ...]] | None:
    """Return *index* with loaded values replaced by those of *pattern*; None if it does not determine them.

    *distance* is the bytes between neighbors along the index, *width* the bytes of an element. The second value is the
    inames along which values are apart: with a stride class, only the distance of lanes is known.
    """
    written = with_values(index, kernel.integer_temporaries)
    if pattern == CONSTANT:
        return with_data(kernel, written), ()
    if pattern is None or pattern == PERMUTATION or window_of(pattern) is not None or pattern.endswith(">4"):
        return None
    try:
        placed = _Places(kernel)(written)
    except _NotLoadedError:
        return None
    if pattern == CONSECUTIVE:
        return with_values(placed, sizes), ()
    offset = with_data(kernel, written)
    base = Affine.of(placed - offset, sizes)
    lanes = frozenset[str]() if base is None else kernel.lane_inames(base.variables)
    step, rest = divmod(int(pattern.split("/")[-1]) * width, abs(distance))
    if base is None or len(lanes) != 1 or rest:
        return None
    between = base.factor(*lanes)
    near = {name for name, factor in base.terms if factor % between == 0} if step else lanes
    within = Affine.total({name: factor // between * step for name, factor in base.terms if name in near})
    return within.expression + offset, tuple(name for name, _ in base.terms if name not in near)


class _NotLoadedError(UncountableError):
    """A value that is not an element of an argument."""


class _Places(IdentityMapper[[]]):
    """Replaces loaded values by the places of their elements in their arrays."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def map_variable(self, expr: prim.Variable) -> Any:
        if not self.kernel.is_known(expr):
            raise _NotLoadedError(f"{expr} is not loaded")
        return expr

    def map_subscript(self, expr: prim.Subscript) -> Any:
        name = getattr(expr.aggregate, "name", "")
        if name not in self.kernel.loopy_kernel.arg_dict:
            raise _NotLoadedError(f"{expr} is not an element of an argument")
        found = reference(self.kernel, name, tuple(map(self.rec, expr.index_tuple)), "load")
        assert found is not None, f"an argument with elements is in memory: {expr}"
        strides = symbolic_strides(self.kernel, found, {})
        return sum(index * stride for index, stride in zip(found.index, strides, strict=True))

    def map_call(self, expr: prim.Call) -> Any:
        raise _NotLoadedError(f"{expr} is not loaded")


# }}}
