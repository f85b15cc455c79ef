"""What the code says of the number of passes of a loop, for all sizes that the assumptions of the kernel allow.

A loop is bounded by its own domain, given the loops around it and the hardware's inames that are used in it
(loopy/codegen/loop.py); further conditions are inside. A loop that Loopy writes out has them alone: each of its copies
is under those that all statements in it have in common.
"""

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, VectorizeTag

from loopyperf.idg.construction.slabs import Slab, Slabs, given
from loopyperf.idg.program import WORK_GROUP, WORK_ITEM, PassBound
from loopyperf.idg.warps.nest import Nest
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier
from loopyperf.polyhedral.sets import interval, tied_to

PARAM = isl.dim_type.param


_Key = tuple[str, frozenset[str], frozenset[str], frozenset[Slab]]
"""a loop, what bounds it, what it may depend on, and the slabs of the group"""


class LoopBounds:
    """The bounds of the loops of a kernel; those of loops over the same domain are found once."""

    def __init__(self, kernel: Kernel, slabs: Slabs) -> None:
        """Take the loops of *kernel*, and the *slabs* of its groups."""
        self._kernel, self._slabs = kernel, slabs
        self._found: dict[_Key, PassBound] = {}
        self._trips: dict[_Key, isl.PwAff] = {}

    def of(self, loops: Sequence[Nest], slabs: frozenset[Slab]) -> PassBound:
        """Return how often the innermost of *loops* is passed through, as its code for *slabs* says."""
        key = self._key(loops, slabs)
        if key not in self._found:
            self._found[key] = self._bound(*key)
        return self._found[key]

    def passes(self, loops: Sequence[Nest], slabs: frozenset[Slab], values: Mapping[str, int]) -> int | None:
        """Return how often a work-item goes through the innermost of *loops*, whose bounds depend on it.

        *values* are those of the sizes and of the hardware's inames; None where loops around are to be known, too.
        """
        if self.of(loops, slabs).loops or (trips := self._trips.get(self._key(loops, slabs))) is None:
            return None
        point = isl.Point.zero(trips.get_domain_space())
        for place in range(point.get_space().dim(PARAM)):
            name = trips.get_dim_name(PARAM, place)
            point = point.set_coordinate_val(PARAM, place, isl.Val(values.get(name or "", 0)))
        number = trips.eval(point)
        return max(number.to_python(), 0) if number.is_int() else 0

    def _key(self, loops: Sequence[Nest], slabs: frozenset[Slab]) -> _Key:
        loop = loops[-1]
        bounding = _in_all_statements(loop) if loop.is_unrolled else frozenset((loop.iname,))
        usable = _usable(self._kernel, loops)
        return loop.iname, bounding, usable, frozenset(slab for slab in slabs if slab[0] in usable)

    def _bound(self, iname: str, bounding: frozenset[str], usable: frozenset[str], slabs: frozenset[Slab]) -> PassBound:
        """Return how many values *iname* has in the domain of *bounding*, where those that are *usable* are given."""
        domain = self._kernel.loopy_kernel.get_inames_domain(bounding)
        if (values := interval(domain, iname, usable)) is not None:
            return PassBound((len(values),))
        domain = given(self._assumed(tied_to(domain, iname, usable)), usable - {iname})
        domain = self._slabs.within(domain, slabs)
        _, place = domain.get_var_dict()[iname]
        trips = domain.dim_max(place).sub(domain.dim_min(place)).add_constant_val(isl.Val(1))
        self._trips[iname, bounding, usable, slabs] = trips
        pieces = trips.gist(domain.params()).coalesce().get_pieces()
        names = {name for piece in pieces for name in _names(*piece)}
        axes = {name for name in names & usable if self._kernel.hardware_axes.get(name) is not None}
        causes = frozenset(self._in_words(name) for name in names - usable | axes)
        values = {value.get_constant_val().to_python() for _, value in pieces if value.is_cst()}
        is_known = all(value.is_cst() for _, value in pieces)
        has_or = any(where.n_basic_set() > 1 for where, _ in pieces[:-1])
        return PassBound(tuple(sorted(values)) if is_known else None, causes, frozenset(names & usable - axes), has_or)

    def _assumed(self, domain: isl.BasicSet) -> isl.Set:
        assumed = isl.Set.from_basic_set(self._kernel.assumptions).align_params(domain.get_space())
        return isl.Set.from_basic_set(domain).align_params(assumed.get_space()).intersect_params(assumed.params())

    def _in_words(self, name: str) -> str:
        tag = self._kernel.hardware_axes.get(name)
        if tag is None:
            return name
        return WORK_ITEM if isinstance(tag, LocalInameTag) else WORK_GROUP


def _in_all_statements(loop: Nest) -> frozenset[str]:
    """Return the inames that every statement in *loop* runs over."""
    return frozenset((loop.iname,)).union(
        frozenset[str].intersection(*(statement.inames for statement in loop.statements()))
    )


def _usable(kernel: Kernel, loops: Sequence[Nest]) -> frozenset[str]:
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
