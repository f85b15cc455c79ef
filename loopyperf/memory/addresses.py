"""Byte addresses that the lanes of a warp access, as a function of the iterations of the surrounding loops."""

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

from loopyperf.counts.item import STRIDE_CLASSES, MemorySpace
from loopyperf.counts.lanes import index_values
from loopyperf.counts.memory_accesses import Reference, element_strides, known_shape, value_at
from loopyperf.counts.sizes import BITS, BOUND, CONSECUTIVE, PERMUTATION, check_pattern, sizes_in_words, window_of
from loopyperf.display import Note, NoteKind
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.idg.warp_classes import Integers
from loopyperf.idg.warp_iterations import WarpIterations
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumption
from loopyperf.memory.index_values import data_of, index_periods, lane_axes_of_data
from loopyperf.memory.residues import AddressStride, Loops
from loopyperf.memory.rows import APART, RowIndex, Visit, followed, is_data, row_index
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.sets import as_int

ALWAYS_NUMBERED = 2**15
"""sizes below this limit cannot overflow 64 bits in products of three and a few bits more"""
DRAWS = 64
"""random addresses of a warp, of which a typical one is used"""


@dataclass(frozen=True)
class LaneAddresses:
    """Addresses of one reference in the lanes of one warp, in bytes from an address aligned to a line."""

    expression: Any
    """the known part of the address, in units"""
    unit: int
    """bytes that a lane accesses"""
    values: Mapping[str, Any]
    """values of sizes, and of hardware inames in each lane"""
    loops: tuple[str, ...]
    by_data: Integers
    """bytes that data adds in each lane, as far as they differ between lanes"""
    assumed: tuple[Assumption, ...]

    def at(self, iterations: Mapping[str, Any]) -> Integers:
        """Return the addresses at loop values *iterations*; the last axis of the result is the lane."""
        values = {**iterations, **self.values}
        known = index_values(self.expression, values) if self._affine is None else self._affine.at(values)
        return np.asarray(known, dtype=np.int64) * self.unit + self.by_data

    def at_all(self, iterations: Integers, times: Sequence[int]) -> Iterator[tuple[Integers, int]]:
        """Yield the distinct addresses at *iterations* (a row for each), up to whole lines, with their multiplicities.

        *times* is the multiplicity of each iteration.
        """
        columns = {loop: values[:, np.newaxis] for loop, values in zip(self.loops, iterations.T, strict=True)}
        addresses = np.broadcast_to(self.at(columns), (len(iterations), len(self.by_data)))
        in_first_line = addresses - addresses.min(axis=1, keepdims=True) // LINE * LINE
        found, places = np.unique(in_first_line, axis=0, return_inverse=True)
        numbers = [0] * len(found)
        for place, number in zip(places.reshape(-1).tolist(), times, strict=True):
            numbers[place] += number
        yield from zip(found, numbers, strict=True)

    @cached_property
    def steps(self) -> tuple[int, ...] | None:
        """Return the bytes by which an iteration of each loop moves all lanes; None if this is not constant."""
        known = self._affine
        return None if known is None else tuple(known.factor(loop) * self.unit for loop in self.loops)

    def progress(self, loops: Loops) -> Sequence[AddressStride]:
        """Return how the addresses move along *loops* (numbers); raises :class:`NotPeriodicError` without a period."""
        names = [self.loops[loop] for loop in loops]
        found = index_periods(self._with(names), frozenset(self.loops), self._uniform)
        start = dict.fromkeys(self.loops, 0)
        first = self.at(start)
        moved = {loop: self.at({**start, loop: found[loop]}) - first for loop in names if loop in found}
        # All lanes move equally, so one represents them.
        return tuple(
            AddressStride(found[loop], int(moved[loop].flat[0])) if loop in found else AddressStride(1, 0)
            for loop in names
        )

    def added(self, loops: Loops, values: Integers) -> Integers | None:
        """Return the bytes that *loops* (numbers) at *values* add to the addresses of all lanes.

        *values* has a row for each point. None if the bytes depend on the lane or on other loops.
        """
        columns = {self.loops[loop]: column for loop, column in zip(loops, values.T, strict=True)}
        own = self._with(columns)
        if not get_dependencies(own) <= columns.keys() | self._uniform.keys():
            return None
        known = index_values(own, {**self._uniform, **columns})
        return np.broadcast_to(np.asarray(known, dtype=np.int64) * self.unit, len(values))

    def _with(self, loops: Iterable[str]) -> Any:
        """Return the sum of the terms that depend on *loops*."""
        return sum(each for each in self._summands if not get_dependencies(each).isdisjoint(loops))

    @cached_property
    def _affine(self) -> Affine[str] | None:
        """Return :attr:`expression` as an affine function of loops and lane values; None if it is not affine."""
        known = Affine.of(self.expression, self._uniform)
        if known is None:
            return None
        terms = (term for term in known.terms if term[0] in self.values or term[0] in self.loops)  # data counts as zero
        return Affine(tuple(terms), known.constant)

    @cached_property
    def _summands(self) -> Sequence[Any]:
        return list(_summands(self.expression))

    @cached_property
    def _uniform(self) -> Mapping[str, int]:
        """Return the values that are the same in all lanes."""
        return {name: value for name, value in self.values.items() if isinstance(value, int)}


def _summands(expression: Any) -> Iterator[Any]:
    """Yield the terms of the sum *expression*, with products of numbers and sums expanded."""
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


def lane_addresses(ref: Reference, iterations: WarpIterations, pattern: str | None = None) -> LaneAddresses:
    """Return the addresses of *ref* in *iterations*; *pattern* is that of loaded indices: see :meth:`Typical.stride`.

    Arrays start at a line boundary, local arrays at the first bank. Raises :class:`UncountableError` if an index
    depends on an unknown value, and :class:`ParameterError` for an invalid pattern.
    """
    if pattern is not None:
        check_pattern(pattern, STRIDE_CLASSES, "pattern")
    if pattern is None and (rows := _listed_rows(ref, iterations)):
        return _in_rows(ref, iterations, rows)
    if pattern is not None and (followed := _followed(ref, iterations, pattern)) is not None:
        return addresses_at(ref, iterations, iterations.lockstep.in_iterations(_position(ref, iterations, followed)))
    position = _position(ref, iterations, ref.index)
    data = data_of(iterations.kernel, position, iterations.data_starts)
    shared = _sharing(iterations, lane_axes_of_data(iterations.kernel, ref.index, iterations.data_starts))
    unit = ref.bits // 8
    by_data, assumed = np.zeros_like(shared), ()
    if data and ref.update is not None and pattern is None:
        by_data, assumed = _updated_by_data(ref, shared, unit, _elements(ref, iterations))
    elif data:
        by_data, assumed = _apart_by_data(ref, shared, pattern, unit)
    if data and pattern is not None and len(set(shared.tolist())) > 1:
        position = 0  # the pattern alone determines the addresses
    found = addresses_at(ref, iterations, iterations.lockstep.in_iterations(position))
    return replace(found, by_data=by_data, assumed=(*assumed, *found.assumed))


def addresses_at(ref: Reference, iterations: WarpIterations, position: Any) -> LaneAddresses:
    """Return the addresses of *ref* at *position*, an expression in elements from the first one of its array.

    Raises as :func:`lane_addresses`.
    """
    offset, unknown = _offset(ref, iterations)
    values = {**iterations.sizes, **_lane_values(iterations)}
    expression = position + offset
    _check_known(iterations, ref, expression, values.keys() | iterations.data_starts.keys())
    _check_numbered(iterations, ref, expression, values)
    apart = np.zeros(iterations.warp.lanes, dtype=np.int64)
    return LaneAddresses(expression, ref.bits // 8, values, iterations.loops, apart, unknown)


# {{{ position in the array


def _position(ref: Reference, iterations: WarpIterations, indices: Sequence[Any]) -> Any:
    """Return the distance of the element at *indices* from the array's first one, in units of the accessed size."""
    strides = element_strides(iterations.kernel, ref, iterations.sizes)
    return sum(index * stride for index, stride in zip(indices, strides, strict=True) if stride)


def _elements(ref: Reference, iterations: WarpIterations) -> int | None:
    """Return the number of elements of the array; None if its shape is unknown."""
    shape = known_shape(iterations.kernel, ref.array)
    return None if shape is None else prod(value_at(each, iterations.sizes, "the length of an axis") for each in shape)


def _offset(ref: Reference, iterations: WarpIterations) -> tuple[Any, tuple[Assumption, ...]]:
    """Return the start of the array in its buffer, in elements, with the assumptions made."""
    array = iterations.kernel.arrays.get(ref.array)
    assert array is not None, f"a reference is to an array in memory: {ref}"
    offset: Any = array.offset or 0
    if offset is not auto and get_dependencies(offset) <= iterations.sizes.keys():
        return offset, ()
    return 0, (
        Assumption(
            f"start of {SUBJECTS} in its buffer is unknown; assumed a multiple of {LINE} bytes", ref.array, ref.array
        ),
    )


def _lane_values(iterations: WarpIterations) -> dict[str, Any]:
    """Return the values of hardware inames; those of groups are integers, the same for all lanes."""
    axes = {name: iterations.kernel.hardware_axes.get(name) for name in iterations.lane_values}
    return {
        name: values if isinstance(axes[name], LocalInameTag) else int(values[0])
        for name, values in iterations.lane_values.items()
    }


def _check_known(iterations: WarpIterations, ref: Reference, expression: Any, known: set[str]) -> None:
    kernel = iterations.kernel.loopy_kernel
    unknown = (get_dependencies(expression) - known - set(iterations.loops)) & (
        kernel.inames.keys() | kernel.arg_dict.keys()
    )
    sizes = sorted(unknown & iterations.kernel.parameters)
    if sizes:
        raise ParameterError(f"the address of {ref.array!r} depends on {', '.join(sizes)}; give it as a size")
    loops = sorted(unknown & kernel.inames.keys())
    if loops:
        raise UncountableError(f"the index of {ref.array!r} depends on {', '.join(loops)}, not a loop around it")


def _check_numbered(iterations: WarpIterations, ref: Reference, expression: Any, values: Mapping[str, Any]) -> None:
    """Raise :class:`ParameterError` if an address at the first or last iterations of all loops overflows 64 bits."""
    if max(map(abs, iterations.sizes.values()), default=0) < ALWAYS_NUMBERED:
        return
    exact = {name: np.asarray(value, dtype=object) for name, value in values.items()}
    for activity in iterations.activities:
        for end in (activity.iterations.set.dim_min_val, activity.iterations.set.dim_max_val):
            at = {loop: np.asarray(as_int(end(place)), object) for place, loop in enumerate(iterations.loops)}
            with suppress(ZeroDivisionError):  # in a branch that does not execute
                reached = np.max(np.abs(index_values(expression, {**exact, **at}))) * ref.bits // 8
                if reached >= BOUND:
                    raise ParameterError(
                        f"at {sizes_in_words(iterations.sizes)} an access of {ref.array!r} reaches byte "
                        f"{float(reached):.3g}, but addresses end at 2^{BITS} = {float(BOUND):.3g}; use smaller sizes"
                    )


# }}}


# {{{ rows that start at loaded positions


def _listed_rows(ref: Reference, iterations: WarpIterations) -> dict[int, RowIndex]:
    """Return axis -> row of its index; empty if no index depends on data, or one does other than by its row."""
    if ref.space == MemorySpace.LOCAL:
        return {}
    visit = Visit(iterations.kernel, iterations.sizes, iterations.counted, iterations.points)
    by_data = {axis: index for axis, index in enumerate(ref.index) if is_data(visit, index)}
    rows = {axis: row_index(visit, index) for axis, index in by_data.items()}
    listed = {axis: row for axis, row in rows.items() if row is not None and row.number is not None}
    return listed if len(listed) == len(rows) else {}


def _in_rows(ref: Reference, iterations: WarpIterations, rows: Mapping[int, RowIndex]) -> LaneAddresses:
    indices = [rows[axis].index if axis in rows else index for axis, index in enumerate(ref.index)]
    found = addresses_at(ref, iterations, iterations.lockstep.in_iterations(_position(ref, iterations, indices)))
    assumed = (
        ref.assumption(f"row starts depend on data ({SUBJECTS}); assuming adjacent rows of {row.length} elements")
        for row in rows.values()
    )
    return replace(found, assumed=(*assumed, *found.assumed))


# }}}


# {{{ lanes that differ by data


def _followed(ref: Reference, iterations: WarpIterations, pattern: str) -> list[Any] | None:
    """Return the indices of *ref* with loaded values that follow *pattern*; None if it does not determine them."""
    kernel = iterations.kernel
    visit = Visit(kernel, iterations.sizes, iterations.counted, iterations.points)
    strides = element_strides(kernel, ref, iterations.sizes)
    found: list[Any] = []
    for index, stride in zip(ref.index, strides, strict=True):
        if is_data(visit, index):
            known = followed(kernel, iterations.sizes, index, stride or 1, 1, pattern)
            if known is None or any(isinstance(kernel.hardware_axes.get(each), LocalInameTag) for each in known[1]):
                return None
            index = known[0]
        found.append(index)
    return found


def _sharing(iterations: WarpIterations, axes: frozenset[int]) -> Integers:
    """Return a number for each lane; lanes with equal numbers have equal data, which may differ along *axes*."""
    ids = iterations.warp.local_ids
    own = [ids[axis] for axis in sorted(axes & ids.keys())]
    if not own:
        return np.zeros(iterations.warp.lanes, dtype=np.int64)
    return np.unique(np.stack(own), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _apart_by_data(
    ref: Reference, shared: Integers, pattern: str | None, unit: int
) -> tuple[Integers, tuple[Assumption, ...]]:
    """Return the bytes that data adds in each lane, with the assumptions made."""
    if len(set(shared.tolist())) == 1:
        sentence = f"addresses depend on data ({SUBJECTS}), assumed to add multiples of {LINE} bytes"
        return np.zeros_like(shared), (ref.assumption(sentence),)
    if ref.space == MemorySpace.LOCAL:
        sentence = f"addresses depend on data ({SUBJECTS}); lanes are assumed to use different banks"
        return shared * unit, (ref.assumption(sentence),)
    if pattern is not None and (window := window_of(pattern)) is not None:
        return _at_random(window, len(shared), unit)[shared], ()
    if pattern is None or pattern == PERMUTATION or pattern.endswith(">4"):
        sentence = (
            f"addresses depend on data ({SUBJECTS}); lanes are assumed to share no sector; "
            f"typical={{{NAME!r}: '1'}} selects another stride"
        )
        # Squares, so that distances between lanes differ.
        return shared**2 * APART, () if pattern else (ref.assumption(sentence),)
    return shared * (1 if pattern == CONSECUTIVE else int(pattern.split("/")[-1])) * unit, ()


def _at_random(window: int, lanes: int, unit: int) -> Integers:
    """Return random multiples of *unit* bytes in a *window* of elements, with a typical number of sectors."""
    draws = np.random.default_rng(lanes).integers(0, window, (DRAWS, lanes)) * unit
    numbers = [len(np.unique(draw // SECTOR)) for draw in draws]
    return draws[min(range(DRAWS), key=lambda place: abs(numbers[place] - np.mean(numbers)))]


def _updated_by_data(
    ref: Reference, shared: Integers, unit: int, elements: int | None
) -> tuple[Integers, tuple[Assumption, ...]]:
    """Return the bytes that data adds in each lane to the address of an atomic update, with the assumptions made.

    Lanes with different data are spread over the typical number of elements, by default over as many as there are.
    """
    assert ref.update is not None
    different = len(set(shared.tolist()))
    number = ref.update.distinct or min(different, different if elements is None else elements)
    apart = APART if elements is None else unit if ref.space == MemorySpace.LOCAL else elements // number * unit
    by_data = shared % number * apart
    if ref.update.distinct or different == 1:
        return by_data, ()
    sentence = (
        f"atomic updates of {SUBJECTS} depend on data; the lanes of a warp are assumed to update {number} elements; "
        f"typical={{'distinct({NAME})': ...}} sets their number"
    )
    return by_data, (Assumption(Note(NoteKind.ATOMIC_UPDATES, sentence), ref.array, ref.array),)


# }}}
