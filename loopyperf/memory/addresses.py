"""The byte address that each lane of a warp accesses, as a function of the passes of the loops around."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.data import LocalInameTag
from loopy.symbolic import get_dependencies
from loopy.typing import auto

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory_accesses import Reference, element_strides
from loopyperf.counts.sizes import BITS, BOUND, sizes_in_words
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.idg.warps.warp_classes import Integers
from loopyperf.idg.warps.warp_iterations import WarpIterations
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumption
from loopyperf.memory.index_values import data_of, index_periods, index_values, lane_axes_of_data
from loopyperf.memory.residues import AddressStride, Loops
from loopyperf.memory.rows import APART, RowIndex, Visit, is_data, row_index
from loopyperf.memory.sectors import LINE
from loopyperf.polyhedral.affine import Affine

ALWAYS_NUMBERED = 2**15
"""sizes below it may be multiplied with each other three times"""


@dataclass(frozen=True)
class LaneAddresses:
    """The addresses of one reference in the lanes of one warp, in bytes from an address aligned to a line."""

    expression: Any
    """what is known of the address, in units"""
    unit: int
    """bytes that a lane accesses"""
    values: Mapping[str, Any]
    """of sizes, and of the hardware's inames in each lane"""
    loops: tuple[str, ...]
    by_data: Integers
    """bytes that data adds in each lane, as far as lanes differ"""
    assumed: tuple[Assumption, ...]

    def at(self, passes: Mapping[str, Any]) -> Integers:
        """Return the addresses where the loops have the values *passes*: the lanes are the last axis."""
        values = {**passes, **self.values}
        known = index_values(self.expression, values) if self._affine is None else self._affine.at(values)
        return np.asarray(known, dtype=np.int64) * self.unit + self.by_data

    def at_all(self, passes: Integers, times: Sequence[int]) -> Iterator[tuple[Integers, int]]:
        """Yield the addresses that differ by more than lines at *passes*, a row for each, and how often these are.

        Each pass happens so many *times*.
        """
        columns = {loop: values[:, np.newaxis] for loop, values in zip(self.loops, passes.T, strict=True)}
        addresses = np.broadcast_to(self.at(columns), (len(passes), len(self.by_data)))
        in_first_line = addresses - addresses.min(axis=1, keepdims=True) // LINE * LINE
        found, places = np.unique(in_first_line, axis=0, return_inverse=True)
        numbers = [0] * len(found)
        for place, number in zip(places.reshape(-1).tolist(), times, strict=True):
            numbers[place] += number
        yield from zip(found, numbers, strict=True)

    @cached_property
    def steps(self) -> tuple[int, ...] | None:
        """Return by how many bytes a pass of each loop moves all lanes on; None where that is no number."""
        known = self._affine
        return None if known is None else tuple(known.factor(loop) * self.unit for loop in self.loops)

    def progress(self, loops: Loops) -> Sequence[AddressStride]:
        """Return how the addresses move along *loops*, by number; raises :class:`NotPeriodicError` without a period."""
        names = [self.loops[loop] for loop in loops]
        found = index_periods(self._with(names), frozenset(self.loops), self._uniform)
        start = dict.fromkeys(self.loops, 0)
        first = self.at(start)
        moved = {loop: self.at({**start, loop: found[loop]}) - first for loop in names if loop in found}
        # All lanes move together, so one stands for them.
        return tuple(
            AddressStride(found[loop], int(moved[loop].flat[0])) if loop in found else AddressStride(1, 0)
            for loop in names
        )

    def added(self, loops: Loops, values: Integers) -> Integers | None:
        """Return the bytes that *loops*, by number, add to the addresses of all lanes, where they have *values*.

        *values* has a row for each point. None where lanes, or other loops, make a difference.
        """
        columns = {self.loops[loop]: column for loop, column in zip(loops, values.T, strict=True)}
        own = self._with(columns)
        if not get_dependencies(own) <= columns.keys() | self._uniform.keys():
            return None
        known = index_values(own, {**self._uniform, **columns})
        return np.broadcast_to(np.asarray(known, dtype=np.int64) * self.unit, len(values))

    def _with(self, loops: Iterable[str]) -> Any:
        """Return the sum of what depends on *loops*."""
        return sum(each for each in self._summands if not get_dependencies(each).isdisjoint(loops))

    @cached_property
    def _affine(self) -> Affine[str] | None:
        """Return :attr:`expression` as a sum of multiples of loops and lanes' values; None where it is none."""
        known = Affine.of(self.expression, self._uniform)
        if known is None:
            return None
        terms = (term for term in known.terms if term[0] in self.values or term[0] in self.loops)  # data is zero
        return Affine(tuple(terms), known.constant)

    @cached_property
    def _summands(self) -> Sequence[Any]:
        return list(_summands(self.expression))

    @cached_property
    def _uniform(self) -> Mapping[str, int]:
        """Return the values that are the same in all lanes."""
        return {name: value for name, value in self.values.items() if isinstance(value, int)}


def _summands(expression: Any) -> Iterator[Any]:
    """Yield what *expression* is the sum of; products of a number and a sum are multiplied out."""
    if isinstance(expression, prim.Sum):
        for child in expression.children:
            yield from _summands(child)
        return
    if isinstance(expression, prim.Product):
        sums = [child for child in expression.children if isinstance(child, prim.Sum)]
        factors = [child for child in expression.children if not isinstance(child, prim.Sum)]
        if len(sums) == 1 and all(isinstance(factor, int) for factor in factors):
            yield from (prod(factors) * each for each in _summands(sums[0]))
            return
    yield expression


def lane_addresses(ref: Reference, passes: WarpIterations, stride: str | None = None) -> LaneAddresses:
    """Return the addresses of *ref* in *passes*; where lanes differ by data, *stride* is their stride class.

    Arrays begin at a line, and local arrays at the first bank. Raises :class:`UncountableError` where an index
    depends on what has no value, :class:`ParameterError` for a stride that is no class.
    """
    if stride not in (None, *STRIDE_CLASSES):
        raise ParameterError(f"a stride class is one of {', '.join(STRIDE_CLASSES)}; received {stride!r}")
    if stride is None and (rows := _listed_rows(ref, passes)):
        return _in_rows(ref, passes, rows)
    position = _position(ref, passes, ref.index)
    data = data_of(passes.kernel, position, passes.data_starts)
    shared = _sharing(passes, lane_axes_of_data(passes.kernel, ref.index, passes.data_starts))
    unit = ref.bits // 8
    by_data, assumed = _apart_by_data(ref, shared, stride, unit) if data else (np.zeros_like(shared), ())
    if data and stride is not None and len(set(shared.tolist())) > 1:
        position = 0  # the stride says it all
    found = addresses_at(ref, passes, passes.lockstep.in_iterations(position))
    return replace(found, by_data=by_data, assumed=(*assumed, *found.assumed))


def addresses_at(ref: Reference, passes: WarpIterations, position: Any) -> LaneAddresses:
    """Return the addresses of *ref* where it is *position*, an expression, elements from the first one of its array.

    Raises as :func:`lane_addresses`.
    """
    offset, unknown = _offset(ref, passes)
    values = {**passes.sizes, **_lane_values(passes)}
    expression = position + offset
    _check_known(passes, ref, expression, values.keys() | passes.data_starts.keys())
    _check_numbered(passes, ref, expression, values)
    apart = np.zeros(passes.warp.lanes, dtype=np.int64)
    return LaneAddresses(expression, ref.bits // 8, values, passes.loops, apart, unknown)


# {{{ the position in the array


def _position(ref: Reference, passes: WarpIterations, indices: Sequence[Any]) -> Any:
    """Return how far the element at *indices* lies from the first one of the array of *ref*, in what it accesses."""
    strides = element_strides(passes.kernel, ref, passes.sizes)
    return sum(index * stride for index, stride in zip(indices, strides, strict=True) if stride)


def _offset(ref: Reference, passes: WarpIterations) -> tuple[Any, tuple[Assumption, ...]]:
    """Return where the array begins in its buffer, in elements, and what had to be assumed."""
    array = passes.kernel.arrays.get(ref.array)
    assert array is not None, f"a reference to what lives in memory: {ref}"
    offset: Any = array.offset or 0
    if offset is not auto and get_dependencies(offset) <= passes.sizes.keys():
        return offset, ()
    return 0, (
        Assumption(
            f"where {SUBJECTS} starts in its buffer is unknown; assumed a multiple of {LINE} bytes",
            ref.array,
            ref.array,
        ),
    )


def _lane_values(passes: WarpIterations) -> dict[str, Any]:
    """Return the values of the hardware's inames: an integer for those of groups, which are the same for all lanes."""
    axes = {name: passes.kernel.hardware_axes.get(name) for name in passes.lane_values}
    return {
        name: values if isinstance(axes[name], LocalInameTag) else int(values[0])
        for name, values in passes.lane_values.items()
    }


def _check_known(passes: WarpIterations, ref: Reference, expression: Any, known: set[str]) -> None:
    kernel = passes.kernel.loopy_kernel
    unknown = (get_dependencies(expression) - known - set(passes.loops)) & (
        kernel.inames.keys() | kernel.arg_dict.keys()
    )
    sizes = sorted(unknown & passes.kernel.parameters)
    if sizes:
        raise ParameterError(f"the address of {ref.array!r} depends on {', '.join(sizes)}: state it among the sizes")
    loops = sorted(unknown & kernel.inames.keys())
    if loops:
        raise UncountableError(f"the index of {ref.array!r} depends on {', '.join(loops)}, no loop around the access")


def _check_numbered(passes: WarpIterations, ref: Reference, expression: Any, values: Mapping[str, Any]) -> None:
    """Raise :class:`ParameterError` where an address, at the first or last passes of all loops, has too many digits."""
    if max(map(abs, passes.sizes.values()), default=0) < ALWAYS_NUMBERED:
        return
    exact = {name: np.asarray(value, dtype=object) for name, value in values.items()}
    for activity in passes.activities:
        for end in (activity.iterations.set.dim_min_val, activity.iterations.set.dim_max_val):
            at = {loop: np.asarray(end(place).to_python(), object) for place, loop in enumerate(passes.loops)}
            with suppress(ZeroDivisionError):  # in a branch that is not taken
                reached = np.max(np.abs(index_values(expression, {**exact, **at}))) * ref.bits // 8
                if reached >= BOUND:
                    raise ParameterError(
                        f"at {sizes_in_words(passes.sizes)} an access of {ref.array!r} goes {float(reached):.3g} bytes "
                        f"far, and addresses are told up to 2^{BITS} = {float(BOUND):.3g}: take smaller sizes"
                    )


# }}}


# {{{ rows that data begins


def _listed_rows(ref: Reference, passes: WarpIterations) -> dict[int, RowIndex]:
    """Return axis -> the row that the index goes through; empty where data tells an index in another way, or none."""
    if ref.space == MemorySpace.LOCAL:
        return {}
    visit = Visit(passes.kernel, passes.sizes, passes.counted, passes.points)
    by_data = {axis: index for axis, index in enumerate(ref.index) if is_data(visit, index)}
    rows = {axis: row_index(visit, index) for axis, index in by_data.items()}
    listed = {axis: row for axis, row in rows.items() if row is not None and row.number is not None}
    return listed if len(listed) == len(rows) else {}


def _in_rows(ref: Reference, passes: WarpIterations, rows: Mapping[int, RowIndex]) -> LaneAddresses:
    indices = [rows[axis].index if axis in rows else index for axis, index in enumerate(ref.index)]
    found = addresses_at(ref, passes, passes.lockstep.in_iterations(_position(ref, passes, indices)))
    assumed = (
        ref.assumption(f"data says where rows start ({SUBJECTS}); assumed adjacent, {row.length} elements each")
        for row in rows.values()
    )
    return replace(found, assumed=(*assumed, *found.assumed))


# }}}


# {{{ lanes told apart by data


def _sharing(passes: WarpIterations, axes: frozenset[int]) -> Integers:
    """Return a number for each lane: the same for lanes between which data that differs along *axes* does not."""
    ids = passes.warp.local_ids
    own = [ids[axis] for axis in sorted(axes & ids.keys())]
    if not own:
        return np.zeros(passes.warp.lanes, dtype=np.int64)
    return np.unique(np.stack(own), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _apart_by_data(
    ref: Reference, shared: Integers, stride: str | None, unit: int
) -> tuple[Integers, tuple[Assumption, ...]]:
    """Return the bytes that data adds in each lane, and what was assumed of it."""
    if len(set(shared.tolist())) == 1:
        sentence = f"addresses depend on data ({SUBJECTS}), which is assumed to add multiples of {LINE} bytes"
        return np.zeros_like(shared), (ref.assumption(sentence),)
    if ref.space == MemorySpace.LOCAL:
        sentence = f"addresses depend on data ({SUBJECTS}); lanes are assumed to use different banks"
        return shared * unit, (ref.assumption(sentence),)
    if stride is None or stride.endswith(">4"):
        sentence = (
            f"addresses depend on data ({SUBJECTS}); lanes are assumed to share no sector, "
            f"typical={{{NAME!r}: '1'}} states another stride"
        )
        # Squares, so that lanes are not equally far apart.
        return shared**2 * APART, () if stride else (ref.assumption(sentence),)
    return shared * int(stride.split("/")[-1]) * unit, ()


# }}}
