"""The cells of an array that a kernel touches, and their density (Stevens and Klöckner, Algorithm 2).

The density of an access is the touched share of the memory between the addresses of neighboring lanes, including the
gaps of padded layouts. Stride classes describe large problems, so densities are computed exactly at one large
admissible size. The end of the array, where the last lane has no neighbor, is excluded.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from math import ceil
from operator import itemgetter, mul

import islpy as isl

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.lanes import EvenLanes
from loopyperf.counts.memory_accesses import Reference, element_strides
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.polyhedral.isl_values import as_int
from loopyperf.polyhedral.quasi_affine import quasi_affine_map
from loopyperf.polyhedral.quasipolynomial import number_of_points

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
            points = fixed_parameters(self.counter.points(site), self.sizes)
            access = quasi_affine_map(points, tuple(with_values(each, self.sizes) for each in ref.index))
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


def fixed_parameters(points: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    """Return *points* with the parameters fixed at *sizes*."""
    for name, (kind, index) in points.get_var_dict(PARAM).items():
        points = points.fix_val(kind, index, isl.Val(sizes[name]))
    return points.project_out(PARAM, 0, points.dim(PARAM))
