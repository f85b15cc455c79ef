"""Trip counts of loops as the generated code has them, for all sizes that the kernel's assumptions allow.

Loopy bounds a loop by its own domain, given the enclosing loops and the hardware inames used in it
(loopy/codegen/loop.py); other conditions are inside the loop. An unrolled loop has only conditions: each of its copies
is under those that all statements in it have in common.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, reduce

import islpy as isl
import numpy as np
from loopy.codegen.loop import get_slab_decomposition
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, VectorizeTag
from pytools import memoize_method

from loopyperf.idg.program import WORK_GROUP, WORK_ITEM, LoopBound, Predicate, Predicates
from loopyperf.idg.warp_classes import Integers, Loops
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.affine import Affine, Atom
from loopyperf.polyhedral.points import Membership, membership
from loopyperf.polyhedral.quasipolynomial import affine_of
from loopyperf.polyhedral.sets import SetMemory, as_int, dimension_interval, names_involved, projected, tied_to

# {{{ slabs: ranges of the group index for which Loopy generates separate code, ``split_iname(..., slabs=...)``
#
# The code for the bulk of the groups needs no bound checks. The first and last groups execute separate copies of the
# program, which other groups skip.


SET, PARAM = isl.dim_type.set, isl.dim_type.param

Slab = tuple[str, str]
"""(iname, part of its range: "initial", "bulk" or "final")"""


class Slabs:
    """The slabs of the groups of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        loopy_kernel = kernel.loopy_kernel
        self._conditions: dict[Slab, isl.Set] = {}
        for iname, increments in loopy_kernel.iname_slab_increments.items():
            if any(increments) and isinstance(kernel.hardware_axes.get(iname), GroupInameTag):
                with suppress(NotImplementedError):  # Loopy generates no code for it either
                    for name, where in get_slab_decomposition(loopy_kernel, iname):
                        self._conditions[iname, name] = given(isl.Set.from_basic_set(where), (iname,)).params()

    def of(self, values: Mapping[str, int]) -> frozenset[Slab]:
        """Return the slabs that contain a group, given the *values* of sizes and of the group's inames."""
        return frozenset(
            slab for slab, where in self._conditions.items() if slab[0] in values and not _at(where, values).is_empty()
        )

    def within(self, points: isl.Set, slabs: Iterable[Slab]) -> isl.Set:
        """Return the *points* inside *slabs*; slabs over inames that *points* lacks are ignored."""
        for slab in sorted(slabs):
            places = points.get_var_dict()
            if (iname := slab[0]) not in places:
                continue
            kind, place = places[iname]
            inside = given(points, (iname,)).intersect_params(self._conditions[slab])
            if kind == SET:
                _, there = inside.get_var_dict()[iname]
                inside = inside.move_dims(SET, place, PARAM, there, 1)
            points = inside
        return points


def given(points: isl.Set, names: Iterable[str]) -> isl.Set:
    """Return *points* with its dimensions among *names* turned into parameters."""
    for name in sorted(set(names).intersection(points.get_var_names_not_none(SET))):
        kind, place = points.get_var_dict()[name]
        points = points.move_dims(PARAM, points.dim(PARAM), kind, place, 1)
    return points


def _at(where: isl.Set, values: Mapping[str, int]) -> isl.Set:
    for place in range(where.dim(PARAM)):
        name = where.get_dim_name(PARAM, place)
        if name is not None and name in values:
            where = where.fix_val(PARAM, place, isl.Val(values[name]))
    return where


# }}}


# {{{ loop bounds


_Key = tuple[str, frozenset[str], frozenset[str], frozenset[Slab]]
"""(loop, inames of the domain that bounds it, inames that the bounds may depend on, slabs of the group)"""


class LoopBounds:
    """The bounds of the loops of a kernel, cached per domain."""

    def __init__(self, kernel: Kernel, slabs: Slabs) -> None:
        self._kernel, self._slabs = kernel, slabs
        self._trips: dict[_Key, _Trips] = {}

    def of(self, loops: Loops, slabs: frozenset[Slab]) -> LoopBound:
        """Return the bound of the innermost of *loops* in the code for *slabs*."""
        return self._bound(*self._key(loops, slabs))

    def iterations(
        self, loops: Loops, slabs: frozenset[Slab], known: Mapping[str, int], lanes: Mapping[str, Integers]
    ) -> tuple[int, ...]:
        """Return the trip count of each lane in the innermost of *loops*, if its bounds depend on the work-item.

        *known* has the values that are the same for all lanes, *lanes* the values of hardware inames per lane. The
        result is empty if the bounds do not depend on the work-item, or if they also depend on enclosing loops.
        """
        bound = self.of(loops, slabs)
        trips = self._trips.get(self._key(loops, slabs))
        if WORK_ITEM not in bound.depends_on or bound.loops or trips is None:
            return ()
        number = len(next(iter(lanes.values())))
        columns = [lanes.get(name, np.array([known.get(name, 0)])) for name in trips.names]
        return tuple(np.broadcast_to(trips.at(columns), number).tolist())

    def _key(self, loops: Loops, slabs: frozenset[Slab]) -> _Key:
        bounding, usable = self._inames(loops)
        return loops[-1].iname, bounding, usable, frozenset(slab for slab in slabs if slab[0] in usable)

    @memoize_method
    def _inames(self, loops: Loops) -> tuple[frozenset[str], frozenset[str]]:
        """Return the inames of the domain that bounds the innermost of *loops*, and those it may depend on."""
        loop = loops[-1]
        bounding = frozenset((loop.iname,))
        if loop.is_unrolled:
            bounding |= frozenset[str].intersection(*(statement.inames for statement in loop.statements()))
        return bounding, _usable(self._kernel, loops)

    @memoize_method
    def _bound(self, iname: str, bounding: frozenset[str], usable: frozenset[str], slabs: frozenset[Slab]) -> LoopBound:
        """Return the number of values of *iname* in the domain of *bounding*, given the *usable* inames."""
        domain = self._kernel.loopy_kernel.get_inames_domain(bounding)
        if (values := dimension_interval(domain, iname, usable)) is not None:
            return LoopBound((len(values),))
        points = isl.Set.from_basic_set(tied_to(domain, iname, usable))
        assumed = isl.Set.from_basic_set(self._kernel.assumptions).align_params(points.get_space())
        points = points.align_params(assumed.get_space()).intersect_params(assumed.params())
        domain = self._slabs.within(given(points, usable - {iname}), slabs)
        _, place = domain.get_var_dict()[iname]
        trips = domain.dim_max(place).sub(domain.dim_min(place)).add_constant_val(isl.Val(1))
        self._trips[iname, bounding, usable, slabs] = _Trips(trips)
        pieces = trips.gist(domain.params()).coalesce().get_pieces()
        names = {name for piece in pieces for name in _names(*piece)}
        axes = {name for name in names & usable if self._kernel.hardware_axes.get(name) is not None}
        causes = frozenset(self._in_words(name) for name in names - usable | axes)
        values = {as_int(value.get_constant_val()) for _, value in pieces if value.is_cst()}
        is_known = all(value.is_cst() for _, value in pieces)
        has_or = any(where.n_basic_set() > 1 for where, _ in pieces[:-1])
        return LoopBound(tuple(sorted(values)) if is_known else None, causes, frozenset(names & usable - axes), has_or)

    def _in_words(self, name: str) -> str:
        tag = self._kernel.hardware_axes.get(name)
        if tag is None:
            return name
        return WORK_ITEM if isinstance(tag, LocalInameTag) else WORK_GROUP


class _Trips:
    """A trip count as a function of parameters, evaluated on arrays."""

    def __init__(self, number: isl.PwAff) -> None:
        self._number = number
        self.names = [str(number.get_dim_name(PARAM, place)) for place in range(number.dim(PARAM))]

    @cached_property
    def _pieces(self) -> list[tuple[Membership, Affine[Atom], int]]:
        dimensions = [((PARAM, place), f"x{place}") for place in range(len(self.names))]
        pieces = self._number.get_pieces()
        return [(membership(_of_parameters(where)), *affine_of(value, dimensions)) for where, value in pieces]

    def at(self, values: Sequence[Integers]) -> Integers:
        """Return the trip count at parameter *values*, arrays that broadcast together; 0 where it is undefined."""
        found = np.zeros(np.broadcast_shapes(*(value.shape for value in values)), dtype=np.int64)
        named = {f"x{place}": value for place, value in enumerate(values)}
        for holds, number, divisor in self._pieces:
            found = np.where(holds(values), np.maximum(number.at(named) // divisor, 0), found)
        return found


def _of_parameters(where: isl.Set) -> isl.Set:
    """Return the parameter values in *where* as a set of points."""
    places = isl.Set.from_params(where.params())
    return places.move_dims(SET, 0, PARAM, 0, places.dim(PARAM))


def _usable(kernel: Kernel, loops: Loops) -> frozenset[str]:
    """Return the inames on which the bounds of the innermost of *loops* may depend.

    These are the enclosing loops and the hardware inames used in the loop. If the loop contains a barrier, local
    inames are excluded because all work-items execute the same iterations.
    """
    statements = list(loops[-1].statements())
    used = frozenset[str]().union(*(statement.inames for statement in statements))
    crosses = any(isinstance(statement.what, Barrier) for statement in statements)
    tags = (GroupInameTag,) if crosses else (GroupInameTag, LocalInameTag)
    along = {name for name in used if isinstance(kernel.hardware_axes.get(name), tags)}
    ours = kernel.loopy_kernel.iname_tags_of_type
    around = {nest.iname for nest in loops[:-1] if not ours(nest.iname, (IlpBaseTag, VectorizeTag))}
    return frozenset(along | around)


def _names(where: isl.Set, value: isl.Aff) -> Iterator[str]:
    """Yield the parameters on which *value*, or its validity condition *where*, depends."""
    for place in range(where.dim(PARAM)):
        if where.involves_dims(PARAM, place, 1) or value.involves_dims(PARAM, place, 1):
            yield where.get_dim_name(PARAM, place) or ""


# {{{ tests in the generated code that select the work-items of a statement
#
# They hold for all sizes that the kernel's assumptions allow, as for the compiler, not for one warp at one size.


ONE = isl.Val(1)
Axes = tuple[GroupInameTag | LocalInameTag | None, ...]


class WorkItemTests:
    """The work-item tests of one launch, cached per set of work-items."""

    def __init__(self, kernel: Kernel, launch: Launch, slabs: Slabs) -> None:
        self._kernel, self._launch, self._slabs = kernel, launch, slabs
        self._alike = SetMemory[dict[Axes, Predicates]]()

    def of(self, inames: frozenset[str], slabs: frozenset[Slab]) -> Predicates:
        """Return the conditions that select the work-items of *slabs* for a statement over *inames*, without loops.

        They are isl constraints, with hardware inames named by axis.
        """
        return self._tests(inames, frozenset(slab for slab in slabs if slab[0] in inames))

    @memoize_method
    def _tests(self, inames: frozenset[str], slabs: frozenset[Slab]) -> Predicates:
        tags = {name for name in inames if self._kernel.hardware_axes.get(name) is not None}
        if not tags:
            return frozenset()
        points = self._slabs.within(_points(self._kernel, inames, tags), slabs)
        axes = tuple(map(self._kernel.hardware_axes.get, points.get_var_names_not_none(SET)))
        alike = self._alike.setdefault(points, {})
        if axes not in alike:
            alike[axes] = self._constraints(points, axes)
        return alike[axes]

    def _constraints(self, points: isl.Set, axes: Axes) -> Predicates:
        """Return the constraints of *points*, whose dimensions are *axes*, beyond the extents of the local axes."""
        local = {place: tag.axis for place, tag in enumerate(axes) if isinstance(tag, LocalInameTag)}
        grid = points
        for place, axis in local.items():
            grid = grid.project_out(SET, place, 1).insert_dims(SET, place, 1)
            first, extent = points.dim_min_val(place), self._launch.local_axes[axis].max_val()
            if first.is_int() and extent.is_int():
                last = first.add(extent).sub(ONE)
                grid = grid.lower_bound_val(SET, place, first).upper_bound_val(SET, place, last)
        tested = points.coalesce().gist(grid)
        for place, tag in enumerate(axes):
            tested = tested.set_dim_name(SET, place, str(tag).replace(".", ""))
        constraints = (constraint for part in tested.get_basic_sets() for constraint in part.get_constraints())
        return frozenset(
            Predicate(str(constraint).partition(" : ")[2], holds=True, names=names_involved(constraint, SET, PARAM))
            for constraint in constraints
        )


def _points(kernel: Kernel, inames: Collection[str], kept: Collection[str]) -> isl.Set:
    """Return the values of the *kept* inames, projecting out the other *inames*."""
    domain = kernel.domain(inames)
    nowhere = isl.Set.empty(domain.get_space()).project_out_except(sorted(kept), [SET])
    parts = (isl.Set.from_basic_set(projected(basic, kept)) for basic in domain.get_basic_sets())
    return reduce(isl.Set.union, parts, nowhere).intersect_params(isl.Set.from_basic_set(kernel.assumptions))


# }}}


# }}}
