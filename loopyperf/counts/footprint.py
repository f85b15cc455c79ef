"""Which cells of an array a kernel touches, and how densely (Stevens and Klöckner, Algorithm 2).

The density of an access is the touched share of the cells between each lane's address and the next lane's. Classes
describe large problems: densities are taken at one large admissible size, exactly, and the end of the array, where a
last lane has no neighbour, does not tip a class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import islpy as isl
from loopy.diagnostic import UnableToDetermineAccessRangeError
from loopy.symbolic import get_access_map

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.memory import LanePattern, Reference, element_strides
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

PARAM = isl.dim_type.param
LARGE_SIZES = tuple(2**exponent for exponent in (20, 16, 12, 10, 8, 6, 4, 2, 0))


def large_sizes(kernel: Kernel) -> dict[str, int]:
    """Return one size that the kernel's assumptions admit, each parameter as large as 2^20 if it may be."""
    admissible = isl.Set.from_basic_set(kernel.assumptions)
    for name in sorted(kernel.parameters):
        bounds = (_at_least(admissible.get_space(), name, size) for size in LARGE_SIZES)
        admissible = next((s for s in (admissible & bound for bound in bounds) if not s.is_empty()), admissible)
    point = admissible.sample_point()
    return {
        name: point.get_coordinate_val(PARAM, admissible.get_var_dict()[name][1]).to_python()
        for name in kernel.parameters
    }


def _at_least(space: isl.Space, name: str, size: int) -> isl.Set:
    constraint = isl.Constraint.ineq_from_names(space, {name: 1, 1: -size})
    return isl.Set.universe(space).add_constraint(constraint)


@dataclass(frozen=True)
class Footprint:
    """The cells of one array that a kernel touches at *sizes*."""

    kernel: Kernel
    counter: ExecutionCounter
    array: str
    references: tuple[tuple[Site, Reference], ...]
    sizes: Mapping[str, int]

    @cached_property
    def cells(self) -> isl.Set:
        """Return the union of all cells touched, over the array's axes."""
        return reduce(isl.Set.union, (self.touched(site, ref) for site, ref in self.references)).coalesce()

    def touched(self, site: Site, ref: Reference) -> isl.Set:
        """Return the cells that *ref* touches at *site*."""
        points = self.counter.points(site)
        try:
            return _fixed(get_access_map(points, ref.index or ()).range(), self.sizes).coalesce()
        except UnableToDetermineAccessRangeError as error:
            raise UncountableError(
                f"instruction {site.instruction!r}: the cells of {ref.array!r} that it touches are not an affine "
                "function of its loops, so how densely they lie is not known"
            ) from error

    def density(self, site: Site, ref: Reference, pattern: LanePattern) -> Fraction:
        """Return the touched share of the cells between neighbouring lanes, without the array's end."""
        between = self._between_lanes(self.touched(site, ref), pattern)
        filled = _number(between)
        used = _number(between & self.cells)
        return Fraction(max(used - (pattern.stride - 1), 1), filled)

    def _between_lanes(self, cells: isl.Set, pattern: LanePattern) -> isl.Set:
        """Return the cells from each of *cells* up to where the next lane's address is."""
        strides = element_strides(self.kernel, self.array, self.sizes)
        moved = max(range(len(strides)), key=lambda axis: abs(pattern.steps[axis] * strides[axis]))
        step = pattern.steps[moved]
        low, high = (0, step) if step > 0 else (step + 1, 1)
        tests = [f"x{moved} + {low} <= y{moved} < x{moved} + {high}"]
        for axis, stride in enumerate(strides):
            if stride > strides[moved]:
                tests.append(f"y{axis} = x{axis}")
            elif stride < strides[moved]:
                tests.append(f"0 <= y{axis} < {_extent(strides, axis)}")
        before, after = (", ".join(f"{letter}{axis}" for axis in range(len(strides))) for letter in "xy")
        return cells.apply(isl.Map(f"{{ [{before}] -> [{after}] : {' and '.join(tests)} }}"))


def _extent(strides: Sequence[int], axis: int) -> int:
    """Return how many cells of *axis* lie between neighbours along the next slower axis."""
    return min(stride for stride in strides if stride > strides[axis]) // strides[axis]


def _fixed(points: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    for name, (kind, index) in points.get_var_dict(PARAM).items():
        points = points.fix_val(kind, index, isl.Val(sizes[name]))
    return points.project_out(PARAM, 0, points.dim(PARAM))


def _number(cells: isl.Set) -> int:
    return QuasiPolynomial.of_points(cells, isl.BasicSet("{ : }"))()
