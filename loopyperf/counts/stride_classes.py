"""Stride classes of global accesses: the distance between lanes, and the used share of the memory between them.

The used share, or density, is that of the cells that the kernel touches in the memory between the addresses of
neighboring lanes, including the gaps of padded layouts (Stevens and Klöckner, Algorithm 2). Classes describe large
problems (section 2.1), so densities are computed exactly at one large admissible size. The end of the array, where the
last lane has no neighbor, is excluded.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain
from math import ceil
from operator import itemgetter, mul
from typing import Any

import islpy as isl

from loopyperf.counts.conditions import Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import STRIDE_CLASSES
from loopyperf.counts.lanes import EvenLanes, Lanes, LanesByData, UnevenLanes, lanes_of
from loopyperf.counts.memory_accesses import (
    Reference,
    check_length,
    element_strides,
    in_elements,
    is_one_array,
    position,
    scaled_by_data,
)
from loopyperf.counts.sizes import CONSECUTIVE, CONSTANT
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumption
from loopyperf.polyhedral.points import at_sizes
from loopyperf.polyhedral.quasi_affine import quasi_affine_map
from loopyperf.polyhedral.quasipolynomial import number_of_points
from loopyperf.polyhedral.sets import as_int

PARAM = isl.dim_type.param
SET = isl.dim_type.set
LARGE = (*(2**exponent for exponent in (20, 16, 12, 10, 8, 6, 4, 2, 0)), 0)


# {{{ large sizes


def large_sizes(kernel: Kernel) -> dict[str, int]:
    """Return one size that the kernel's assumptions admit, with each parameter at least 2^20 if possible."""
    return _sample(kernel, isl.Set.from_basic_set(kernel.assumptions))


def spacious_sizes(kernel: Kernel, points: isl.Set) -> dict[str, int]:
    """Return one admissible size at which *points* extend over 2^20 along each dimension if possible.

    Equally large parameters are not enough: a loop from m to n is empty.
    """
    admissible = isl.Set.from_basic_set(kernel.assumptions)
    for place in range(admissible.dim(PARAM)):
        admissible = _enlarged(admissible, _parameter(admissible, place), (0,))
    both = points.flat_product(points)
    for dim in range(points.dim(SET)):
        apart = (_apart(both, dim, size) for size in LARGE)
        admissible = _first_possible(admissible, apart)
    return _sample(kernel, admissible)


def _apart(both: isl.Set, dim: int, distance: int) -> isl.Set:
    """Return the sizes at which two points can be *distance* apart along *dim*; *both* is the set of all pairs."""
    farther = isl.Constraint.alloc_inequality(isl.LocalSpace.from_space(both.get_space()))
    farther = farther.set_coefficient_val(SET, dim, isl.Val(-1)).set_constant_val(isl.Val(-distance))
    farther = farther.set_coefficient_val(SET, both.dim(SET) // 2 + dim, isl.Val(1))
    return both.add_constraint(farther).params()


def _sample(kernel: Kernel, admissible: isl.Set) -> dict[str, int]:
    places = {name: admissible.get_var_dict()[name][1] for name in sorted(kernel.parameters)}
    for place in places.values():
        admissible = _enlarged(admissible, _parameter(admissible, place))
    point = admissible.sample_point()
    return {name: as_int(point.get_coordinate_val(PARAM, place)) for name, place in places.items()}


def _parameter(params: isl.Set, place: int) -> isl.PwAff:
    return isl.PwAff.var_on_domain(isl.LocalSpace.from_space(params.get_space()), PARAM, place)


def _enlarged(admissible: isl.Set, quantity: isl.PwAff, sizes: Sequence[int] = LARGE) -> isl.Set:
    """Return the part of *admissible* where *quantity* is at least the first possible one of *sizes*, if any."""
    space = isl.LocalSpace.from_space(quantity.get_domain_space())
    bounds = (isl.PwAff.from_aff(isl.Aff.val_on_domain(space, isl.Val(size))) for size in sizes)
    return _first_possible(admissible, (quantity.ge_set(bound) for bound in bounds))


def _first_possible(admissible: isl.Set, wishes: Iterable[isl.Set]) -> isl.Set:
    """Return the part of *admissible* that meets the first possible one of *wishes*; all of it if none is possible."""
    candidates = (admissible & wish for wish in wishes)
    return next((candidate for candidate in candidates if not candidate.is_empty()), admissible)


# }}}


class Footprint:
    """The cells of one array that a kernel touches at *sizes*, as far as the source determines them."""

    def __init__(
        self,
        counter: ExecutionCounter,
        references: Sequence[tuple[Site, Reference]],
        sizes: Mapping[str, int],
        in_elements: bool = False,
    ) -> None:
        """Collect the cells of *references*, which access one array with one element size.

        A cell is given by its index along each axis or, with *in_elements*, by its distance in memory from the first
        one.
        """
        self.counter = counter
        self.references = references
        self.sizes = sizes
        self.in_elements = in_elements
        self._strides = (1,) if in_elements else element_strides(counter.kernel, references[0][1], sizes)

    @cached_property
    def cells(self) -> isl.Set:
        """Return the union of all touched cells."""
        return reduce(isl.Set.union, self._known).coalesce()

    @cached_property
    def _known(self) -> list[isl.Set]:
        found = (self.touched(site, ref) for site, ref in self.references)
        return [cells for cells in found if cells is not None]

    def touched(self, site: Site, ref: Reference) -> isl.Set | None:
        """Return the cells that *ref* touches at *site*; None if they are not quasi-affine in its loops."""
        try:
            points = at_sizes(self.counter.points(site), self.sizes)
            access = quasi_affine_map(points, tuple(with_values(index, self.sizes) for index in ref.index))
        except UncountableError:
            return None
        cells = access.range().coalesce()
        return cells.apply(self._to_element(ref)).coalesce() if self.in_elements and not ref.is_linear else cells

    def _to_element(self, ref: Reference) -> isl.Map:
        """Return the map from indices of *ref*, in which isl simplifies cells better, to distances in memory."""
        strides = element_strides(self.counter.kernel, ref, self.sizes)
        indices = ", ".join(f"x{axis}" for axis in range(len(strides)))
        element = " + ".join(f"{stride}*x{axis}" for axis, stride in enumerate(strides))
        return isl.Map(f"{{ [{indices}] -> [{element}] }}")

    def density(self, lanes: isl.Set, pattern: EvenLanes) -> Fraction | None:
        """Return the touched share of the memory between neighboring *lanes*; None if no lane has a neighbor.

        *lanes* are the cells that an access touches; *pattern* is its step from lane to lane.
        """
        neighboured = lanes & lanes.apply(self._to_neighbour(pattern).reverse())
        return None if neighboured.is_empty() else self.density_of_lone_lanes(neighboured, pattern)

    def density_of_lone_lanes(self, lanes: isl.Set, pattern: EvenLanes) -> Fraction:
        """Return the touched share of the memory up to the place of each lane's missing neighbor."""
        moved, steps = self._upward(pattern)
        between = lanes.apply(self._up_to_neighbour(moved, steps[moved]))
        return self._share(between, moved, self.cells)

    def _share(self, between: isl.Set, moved: int, cells: isl.Set) -> Fraction:
        """Return the share of *cells* in the memory of *between*, which has all cells at each index along *moved*."""
        rows = between
        for axis in reversed(range(between.dim(SET))):
            if self._is_within(axis, moved):
                rows = rows.project_out(SET, axis, 1)
        elements = number_of_points(rows) * abs(self._strides[moved])
        return Fraction(number_of_points(between & cells), elements)

    def share_reached(self, lanes: Sequence[tuple[int, ...]]) -> Fraction | None:
        """Return the touched share of the memory from the first of the cells *lanes* up to, but without, the last.

        None if no cells are known, or if *lanes* are in separate arrays.
        """
        moving = [axis for axis, places in enumerate(zip(*lanes, strict=True)) if len(set(places)) > 1]
        if not self._known or any(not self._strides[axis] for axis in moving):
            return None
        cells = self.cells | _cells(lanes)
        if len(moving) > 1:
            return self._share_spanned(lanes, cells)
        (moved,) = moving
        first, last = (bound(lanes, key=itemgetter(moved)) for bound in (min, max))
        between = _cells([first]).apply(self._up_to_neighbour(moved, last[moved] - first[moved]))
        return self._share(between, moved, cells)

    def _share_spanned(self, lanes: Sequence[tuple[int, ...]], cells: isl.Set) -> Fraction:
        """Return the share of the memory spanned by *lanes* that *cells*, all at different addresses, fill."""
        addresses = [sum(map(mul, place, self._strides)) for place in lanes]
        first, last = min(addresses), max(addresses)
        axes = [f"x{axis}" for axis in range(len(self._strides))]
        element = " + ".join(f"{stride}*{axis}" for axis, stride in zip(axes, self._strides, strict=True))
        span = isl.Set(f"{{ [{', '.join(axes)}] : {first} <= {element} < {last} }}")
        return Fraction(number_of_points(cells & span), last - first)

    # {{{ from lane to lane

    def _upward(self, pattern: EvenLanes) -> tuple[int, tuple[int, ...]]:
        """Return the axis with the largest step in memory, and the steps to the lane's neighbor upward along it."""
        lengths = [abs(step * stride) for step, stride in zip(pattern.steps, self._strides, strict=True)]
        axis = max(range(len(lengths)), key=lengths.__getitem__)
        sign = 1 if pattern.steps[axis] > 0 else -1
        return axis, tuple(sign * step for step in pattern.steps)

    def _to_neighbour(self, pattern: EvenLanes) -> isl.Map:
        _, steps = self._upward(pattern)
        return _cell_map(len(steps), (f"y{axis} = x{axis} + {step}" for axis, step in enumerate(steps)))

    def _up_to_neighbour(self, moved: int, step: int) -> isl.Map:
        """Return the map from a lane's cell to all cells before its neighbor's, *step* further along axis *moved*."""
        tests = [f"x{moved} <= y{moved} < x{moved} + {step}"]
        for axis in range(len(self._strides)):
            if self._is_within(axis, moved):
                tests.append(f"0 <= y{axis} < {_extent(self._strides, axis)}")
            elif axis != moved:
                tests.append(f"y{axis} = x{axis}")
        return _cell_map(len(self._strides), tests)

    def _is_within(self, axis: int, moved: int) -> bool:
        """Return whether neighbors along *axis* lie between neighbors along *moved*."""
        return 0 < abs(self._strides[axis]) < abs(self._strides[moved])

    # }}}


def _cells(places: Iterable[tuple[int, ...]]) -> isl.Set:
    return isl.Set(f"{{ {'; '.join(str(list(place)) for place in places)} }}")


def _cell_map(axes: int, tests: Iterable[str]) -> isl.Map:
    before, after = (", ".join(f"{letter}{axis}" for axis in range(axes)) for letter in "xy")
    return isl.Map(f"{{ [{before}] -> [{after}] : {' and '.join(tests)} }}")


def _extent(strides: Sequence[int], axis: int) -> int:
    """Return how many cells of *axis* fit between neighbors along the next slower axis."""
    own = abs(strides[axis])
    return ceil(Fraction(min(abs(stride) for stride in strides if abs(stride) > own), own))


EDGE = Fraction(1, 64)
"""excess over a half, a third or a quarter that is attributed to the edge of an array and does not change the class"""

FAR_APART = "1/>4"
"""class of lanes with unrelated addresses"""


def stride_class(stride: int, density: Fraction) -> str:
    """Return the amortized stride fraction, e.g. ``"1"``, ``"2/3"``, ``"4/>4"``.

    *density* is the used share of the cells between two lanes. It is rounded up to halves, thirds or quarters, with a
    tolerance of :data:`EDGE`, and ignored for strides 0 and 1.
    """
    if stride <= 1:
        return str(stride)
    parts = min(stride, 4)
    used = min(max(ceil(density * parts - EDGE), 1), parts)
    return f"{used}/{stride}" if stride <= 4 else f"{used}/>4"


class StrideClassifier:
    """Classifies the global accesses of one kernel and collects its assumptions in :attr:`assumed`."""

    def __init__(self, counter: ExecutionCounter, references: Sequence[tuple[Site, Reference]]) -> None:
        """Use all *references* of the kernel with their sites."""
        self.counter = counter
        self.references = references
        self.assumed: dict[Assumption, None] = {}
        """assumptions in the order in which they were made"""
        self._footprints: dict[tuple[str, bool, int, tuple[int, ...]], Footprint] = {}
        self._classes: dict[tuple[frozenset[str], Conditions, Reference], str] = {}
        self._elements: dict[Any, Reference] = {}
        self._arrays_by_element: dict[Any, bool] = {}

    def stride_class(self, site: Site, ref: Reference) -> str:
        """Return the amortized stride fraction of *ref* at *site*; raises :class:`UncountableError`."""
        key = (site.inames, site.conditions, ref)
        check_length(self.counter.kernel, self.counter.typical, ref)
        if key not in self._classes:
            self._classes[key] = self._classified(site, ref)
        return self._classes[key]

    def _classified(self, site: Site, ref: Reference) -> str:
        sizes = self._large_sizes
        form, lanes = self._lanes(site, ref, sizes)
        if lanes is None:  # e.g. a loop from m to n, which is empty if all sizes are equally large
            sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
            form, lanes = self._lanes(site, ref, sizes)
        assert lanes is not None, f"an access that never executes has no tally: {ref}"
        match lanes:
            case LanesByData():
                return self._class_by_data(ref, lanes)
            case UnevenLanes(stride=stride) if stride <= 1:
                self._note_shared(ref, lanes)
                return stride_class(stride, Fraction(1))
            case EvenLanes(stride=stride) if stride <= 1:
                return stride_class(stride, Fraction(1))
            case UnevenLanes():
                return self._class_of_uneven(site, ref, form, lanes, sizes)
            case EvenLanes():
                return self._class_of_even(site, ref, form, lanes)

    def _class_by_data(self, ref: Reference, lanes: LanesByData) -> str:
        typical, scaled = self.counter.typical, scaled_by_data(self.counter.kernel, ref.index)
        given = typical.stride(ref.array, STRIDE_CLASSES, chain(*scaled.values()))
        if given is None:
            self._assume(
                ref,
                f"addresses depend on data ({SUBJECTS}); neighboring lanes are assumed far apart (stride {FAR_APART}), "
                f"typical={{{NAME!r}: '1'}} selects another stride",
            )
        if given == CONSECUTIVE:
            strides = element_strides(self.counter.kernel, ref, self._large_sizes)
            pairs = zip(ref.index, strides, strict=True)
            stride = abs(sum(stride for index, stride in pairs if not self.counter.kernel.is_known(index)))
            return stride_class(stride, Fraction(1, max(1, stride)))
        if given == CONSTANT:
            return "0"
        return given if given in STRIDE_CLASSES else FAR_APART

    def _note_shared(self, ref: Reference, lanes: UnevenLanes) -> None:
        if lanes.sharing:
            self._assume(
                ref,
                f"neighboring lanes share elements of {SUBJECTS} "
                f"({lanes.sharing}), which has no stride class; assumed stride {lanes.stride}",
            )

    def _assume(self, ref: Reference, sentence: str) -> None:
        self.assumed[ref.assumption(sentence)] = None

    # {{{ forms

    def _lanes(self, site: Site, ref: Reference, sizes: Mapping[str, int]) -> tuple[Reference, Lanes | None]:
        """Return *ref* in the form in which the cells of its array are analyzed, and how its lanes move."""
        kernel = self.counter.kernel
        form = self._by_element(site, ref, sizes)
        if not form.is_linear and is_one_array(kernel, ref) and self._is_by_element(ref, sizes):
            form = replace(ref, index=(position(kernel, ref, sizes),), is_linear=True)
        return form, lanes_of(kernel, site.inames, self.counter.loops(site.inames), form, sizes)

    def _is_by_element(self, ref: Reference, sizes: Mapping[str, int]) -> bool:
        """Return whether an access to the array of *ref* is analyzed by element number."""
        key = (ref.array, ref.bits, tuple(sizes.values()))
        if key not in self._arrays_by_element:
            same_array = (each for each in self.references if (each[1].array, each[1].bits) == (ref.array, ref.bits))
            self._arrays_by_element[key] = any(self._by_element(*each, sizes).is_linear for each in same_array)
        return self._arrays_by_element[key]

    def _by_element(self, site: Site, ref: Reference, sizes: Mapping[str, int]) -> Reference:
        """Return *ref* with a single element index, if that is simpler than an index for each axis."""
        key = (site.inames, ref, tuple(sizes.values()))
        if key not in self._elements:
            self._elements[key] = ref
            with suppress(UncountableError):  # counting the loops raises the same error
                # Lanes disabled by conditions still count as neighbors.
                points = at_sizes(self.counter.loops(site.inames).points, sizes)
                self._elements[key] = in_elements(self.counter.kernel, ref, points, sizes)
        return self._elements[key]

    # }}}

    # {{{ classes by density

    def _note_unused(self, ref: Reference, why: str) -> None:
        self._assume(ref, f"{why} ({SUBJECTS}); memory between their lanes is assumed unused")

    def _class_of_uneven(
        self, site: Site, ref: Reference, form: Reference, lanes: UnevenLanes, sizes: Mapping[str, int]
    ) -> str:
        reached = self._footprint(form, sizes).share_reached(lanes.indices)
        if reached is None or self._footprint(ref, sizes).touched(site, ref) is None:
            self._note_unused(ref, "addresses are not affine in loop variables")
        return stride_class(lanes.stride, reached or lanes.density)

    def _class_of_even(self, site: Site, ref: Reference, form: Reference, lanes: EvenLanes) -> str:
        footprint = self._footprint(form, self._large_sizes)
        touched = footprint.touched(site, form)
        if touched is None:
            self._note_unused(ref, "addresses are not affine in loop variables")
            return stride_class(lanes.stride, lanes.density)
        if density := footprint.density(touched, lanes):
            return stride_class(lanes.stride, density)
        alone = None
        if not touched.is_empty():
            alone = stride_class(lanes.stride, footprint.density_of_lone_lanes(touched, lanes))
        return self._class_of_few_lanes(site, ref, alone)

    def _class_of_few_lanes(self, site: Site, ref: Reference, alone: str | None) -> str:
        """Return the stride class of an access that has no neighboring lanes if all sizes are equally large.

        If no lane has a neighbor at any size, it is the class *alone* of the lanes at these sizes, if there are any.
        """
        sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
        form, lanes = self._lanes(site, ref, sizes)
        if isinstance(lanes, UnevenLanes):  # equally large sizes exclude some cases
            return alone or self._class_of_uneven(site, ref, form, lanes, sizes)
        assert isinstance(lanes, EvenLanes), "whether data moves lanes does not depend on sizes"
        if lanes.stride <= 1:
            return str(lanes.stride)
        footprint = self._footprint(form, sizes)
        touched = footprint.touched(site, form)
        assert touched is not None, "whether cells are known does not depend on sizes"
        density = footprint.density(touched, lanes)
        if density is None and alone is not None:
            return alone
        return stride_class(lanes.stride, density or footprint.density_of_lone_lanes(touched, lanes))

    @cached_property
    def _large_sizes(self) -> dict[str, int]:
        return large_sizes(self.counter.kernel)

    def _footprint(self, form: Reference, sizes: Mapping[str, int]) -> Footprint:
        key = (form.array, form.is_linear, form.bits, tuple(sizes.values()))
        if key not in self._footprints:
            same_array = [
                (site, self._by_element(site, other, sizes) if form.is_linear else other)
                for site, other in self.references
                if (other.array, other.bits) == (form.array, form.bits) and (form.is_linear or not other.is_linear)
            ]
            self._footprints[key] = Footprint(self.counter, same_array, sizes, form.is_linear)
        return self._footprints[key]

    # }}}
