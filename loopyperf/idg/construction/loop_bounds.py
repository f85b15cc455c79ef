"""What the code says of the number of passes of a loop, for all sizes that the assumptions of the kernel allow.

A loop is bounded by its own domain, given the loops around it and the hardware's inames that are used in it
(loopy/codegen/loop.py); further conditions are inside. A loop that Loopy writes out has them alone: each of its copies
is under those that all statements in it have in common.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, reduce

import islpy as isl
import numpy as np
from loopy.codegen.loop import get_slab_decomposition
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, VectorizeTag

from loopyperf.idg.program import WORK_GROUP, WORK_ITEM, LoopBound
from loopyperf.idg.warps.warp_classes import Integers, Loops, Nest
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.affine import Affine, Atom
from loopyperf.polyhedral.points import Membership, membership
from loopyperf.polyhedral.sets import SetMemory, dimension_interval, projected, tied_to

# {{{ parts of the range of a group's number for which Loopy writes programs of their own
#
# ``split_iname(..., slabs=...)``.
#
# In the bulk of the groups no bound has to be looked at; what is different in the first or last ones stands in copies
# of the program that other groups go by.


SET, PARAM = isl.dim_type.set, isl.dim_type.param

Slab = tuple[str, str]
"""an iname, and the part of its range: "initial", "bulk" or "final" """


class Slabs:
    """The slabs of the groups of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        loopy_kernel = kernel.loopy_kernel
        self._conditions: dict[Slab, isl.Set] = {}
        for iname, increments in loopy_kernel.iname_slab_increments.items():
            if any(increments) and isinstance(kernel.hardware_axes.get(iname), GroupInameTag):
                with suppress(NotImplementedError):  # Loopy writes no code for it, either
                    for name, where in get_slab_decomposition(loopy_kernel, iname):
                        self._conditions[iname, name] = given(isl.Set.from_basic_set(where), (iname,)).params()

    def of(self, values: Mapping[str, int]) -> frozenset[Slab]:
        """Return the slabs that a group is in, given the *values* of sizes and of the group's inames."""
        return frozenset(
            slab for slab, where in self._conditions.items() if slab[0] in values and not _at(where, values).is_empty()
        )

    def within(self, points: isl.Set, slabs: Iterable[Slab]) -> isl.Set:
        """Return those of *points* that are in *slabs*, whose inames are among their parameters or dimensions."""
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
    """Return *points* with those of its dimensions as parameters that are among *names*."""
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
"""a loop, what bounds it, what it may depend on, and the slabs of the group"""


class LoopBounds:
    """The bounds of the loops of a kernel; those of loops over the same domain are found once."""

    def __init__(self, kernel: Kernel, slabs: Slabs) -> None:
        """Take the loops of *kernel*, and the *slabs* of its groups."""
        self._kernel, self._slabs = kernel, slabs
        self._loops: dict[Loops, tuple[str, frozenset[str], frozenset[str]]] = {}
        self._found: dict[_Key, LoopBound] = {}
        self._trips: dict[_Key, _Trips] = {}

    def of(self, loops: Loops, slabs: frozenset[Slab]) -> LoopBound:
        """Return how often the innermost of *loops* is passed through, as its code for *slabs* says."""
        key = self._key(loops, slabs)
        if key not in self._found:
            self._found[key] = self._bound(*key)
        return self._found[key]

    def iterations(
        self, loops: Loops, slabs: frozenset[Slab], known: Mapping[str, int], lanes: Mapping[str, Integers]
    ) -> tuple[int, ...]:
        """Return how often each lane goes through the innermost of *loops*, if its bounds depend on the work-item.

        *known* are the values of what is the same for all lanes, *lanes* those of hardware inames in each. Empty where
        the bounds do not depend on it, and where loops around are to be known, too.
        """
        bound = self.of(loops, slabs)
        trips = self._trips.get(self._key(loops, slabs))
        if WORK_ITEM not in bound.depends_on or bound.loops or trips is None:
            return ()
        number = len(next(iter(lanes.values())))
        columns = [lanes.get(name, np.array([known.get(name, 0)])) for name in trips.names]
        return tuple(np.broadcast_to(trips.at(columns), number).tolist())

    def _key(self, loops: Loops, slabs: frozenset[Slab]) -> _Key:
        if loops not in self._loops:
            loop = loops[-1]
            bounding = _in_all_statements(loop) if loop.is_unrolled else frozenset((loop.iname,))
            self._loops[loops] = loop.iname, bounding, _usable(self._kernel, loops)
        iname, bounding, usable = self._loops[loops]
        return iname, bounding, usable, frozenset(slab for slab in slabs if slab[0] in usable)

    def _bound(self, iname: str, bounding: frozenset[str], usable: frozenset[str], slabs: frozenset[Slab]) -> LoopBound:
        """Return how many values *iname* has in the domain of *bounding*, where those that are *usable* are given."""
        domain = self._kernel.loopy_kernel.get_inames_domain(bounding)
        if (values := dimension_interval(domain, iname, usable)) is not None:
            return LoopBound((len(values),))
        domain = given(self._assumed(tied_to(domain, iname, usable)), usable - {iname})
        domain = self._slabs.within(domain, slabs)
        _, place = domain.get_var_dict()[iname]
        trips = domain.dim_max(place).sub(domain.dim_min(place)).add_constant_val(isl.Val(1))
        self._trips[iname, bounding, usable, slabs] = _Trips(trips)
        pieces = trips.gist(domain.params()).coalesce().get_pieces()
        names = {name for piece in pieces for name in _names(*piece)}
        axes = {name for name in names & usable if self._kernel.hardware_axes.get(name) is not None}
        causes = frozenset(self._in_words(name) for name in names - usable | axes)
        values = {value.get_constant_val().to_python() for _, value in pieces if value.is_cst()}
        is_known = all(value.is_cst() for _, value in pieces)
        has_or = any(where.n_basic_set() > 1 for where, _ in pieces[:-1])
        return LoopBound(tuple(sorted(values)) if is_known else None, causes, frozenset(names & usable - axes), has_or)

    def _assumed(self, domain: isl.BasicSet) -> isl.Set:
        assumed = isl.Set.from_basic_set(self._kernel.assumptions).align_params(domain.get_space())
        return isl.Set.from_basic_set(domain).align_params(assumed.get_space()).intersect_params(assumed.params())

    def _in_words(self, name: str) -> str:
        tag = self._kernel.hardware_axes.get(name)
        if tag is None:
            return name
        return WORK_ITEM if isinstance(tag, LocalInameTag) else WORK_GROUP


class _Trips:
    """A number of passes as a function of parameters, at many of their values at once."""

    def __init__(self, number: isl.PwAff) -> None:
        self._number = number
        self.names = [str(number.get_dim_name(PARAM, place)) for place in range(number.dim(PARAM))]

    @cached_property
    def _pieces(self) -> list[tuple[Membership, Affine[Atom], int]]:
        dimensions = [((PARAM, place), f"x{place}") for place in range(len(self.names))]
        pieces = self._number.get_pieces()
        return [(membership(_of_parameters(where)), *Affine.of_isl(value, dimensions)) for where, value in pieces]

    def at(self, values: Sequence[Integers]) -> Integers:
        """Return the number where the parameters have *values*, which broadcast together; 0 where it is none."""
        found = np.zeros(np.broadcast_shapes(*(each.shape for each in values)), dtype=np.int64)
        named = {f"x{place}": each for place, each in enumerate(values)}
        for holds, number, divisor in self._pieces:
            found = np.where(holds(values), np.maximum(number.at(named) // divisor, 0), found)
        return found


def _of_parameters(where: isl.Set) -> isl.Set:
    """Return the values of the parameters for which *where* holds, as points."""
    places = isl.Set.from_params(where.params())
    return places.move_dims(SET, 0, PARAM, 0, places.dim(PARAM))


def _in_all_statements(loop: Nest) -> frozenset[str]:
    """Return the inames that every statement in *loop* runs over."""
    return frozenset((loop.iname,)).union(
        frozenset[str].intersection(*(statement.inames for statement in loop.statements()))
    )


def _usable(kernel: Kernel, loops: Loops) -> frozenset[str]:
    """Return the inames that the bounds of the innermost of *loops* may depend on.

    Those are the loops around it and, of the hardware's inames, those that are used in it. Where there is a barrier
    inside, all work-items pass through it alike.
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
    """Yield the parameters that *value* depends on, or the condition under which it holds."""
    for place in range(where.dim(PARAM)):
        if where.involves_dims(PARAM, place, 1) or value.involves_dims(PARAM, place, 1):
            yield where.get_dim_name(PARAM, place) or ""


# {{{ conditions that the compiler writes tests for: which work-items a statement is for
#
# The question is what a kernel says for all sizes that its assumptions allow, not for one warp at one size: so the
# compiler asks it.


ONE = isl.Val(1)
Axes = tuple[GroupInameTag | LocalInameTag | None, ...]


class WorkItemTests:
    """The conditions of one launch; those of statements for the same work-items are found once."""

    def __init__(self, kernel: Kernel, launch: Launch, slabs: Slabs) -> None:
        """Look at *launch* of *kernel*, and at the *slabs* of its groups."""
        self._kernel, self._launch, self._slabs = kernel, launch, slabs
        self._found: dict[tuple[frozenset[str], frozenset[Slab]], frozenset[str]] = {}
        self._alike = SetMemory[dict[Axes, frozenset[str]]]()

    def of(self, inames: frozenset[str], slabs: frozenset[Slab]) -> frozenset[str]:
        """Return the conditions that decide which work-items of *slabs* execute what uses *inames*, loops aside.

        They are in words of isl, with hardware inames called by their axes: those of two statements are the same or
        not.
        """
        key = (inames, frozenset(slab for slab in slabs if slab[0] in inames))
        if key not in self._found:
            self._found[key] = self._tests(*key)
        return self._found[key]

    def _tests(self, inames: frozenset[str], slabs: frozenset[Slab]) -> frozenset[str]:
        tags = {name for name in inames if self._kernel.hardware_axes.get(name) is not None}
        if not tags:
            return frozenset()
        points = self._slabs.within(_points(self._kernel, inames, tags), slabs)
        axes = tuple(map(self._kernel.hardware_axes.get, points.get_var_names_not_none(SET)))
        alike = self._alike.setdefault(points, {})
        if axes not in alike:
            alike[axes] = self._constraints(points, axes)
        return alike[axes]

    def _constraints(self, points: isl.Set, axes: Axes) -> frozenset[str]:
        """Return what *points*, the dimensions of which number *axes*, says beside where each local axis ends."""
        local = {place: tag.axis for place, tag in enumerate(axes) if isinstance(tag, LocalInameTag)}
        grid = _with_any(points, local)
        for place, axis in local.items():
            first, extent = points.dim_min_val(place), self._launch.local_axes[axis].max_val()
            if first.is_int() and extent.is_int():
                last = first.add(extent).sub(ONE)
                grid = grid.lower_bound_val(SET, place, first).upper_bound_val(SET, place, last)
        tested = points.coalesce().gist(grid)
        for place, tag in enumerate(axes):
            tested = tested.set_dim_name(SET, place, str(tag).replace(".", ""))
        constraints = (str(each) for part in tested.get_basic_sets() for each in part.get_constraints())
        return frozenset(each.partition(" : ")[2] for each in constraints)


def _points(kernel: Kernel, inames: Collection[str], kept: Collection[str]) -> isl.Set:
    """Return the values that those of *inames* to be *kept* have in any pass of the others."""
    domain = kernel.domain(inames)
    nowhere = isl.Set.empty(domain.get_space()).project_out_except(sorted(kept), [SET])
    parts = (isl.Set.from_basic_set(projected(basic, kept)) for basic in domain.get_basic_sets())
    return reduce(isl.Set.union, parts, nowhere).intersect_params(isl.Set.from_basic_set(kernel.assumptions))


def _with_any(points: isl.Set, places: Collection[int]) -> isl.Set:
    """Return *points* and all that differ from them in the dimensions at *places* alone."""
    for place in places:
        points = points.project_out(SET, place, 1).insert_dims(SET, place, 1)
    return points


# }}}


# }}}
