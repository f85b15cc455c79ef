"""The number of passes of a loop as Loopy writes it into the code: what a compiler can tell of it.

Conditions inside a loop are no part of its bounds, and which work-item it is may be (loopy/codegen/loop.py).
"""

from collections.abc import Iterator, Sequence

import islpy as isl
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, VectorizeTag

from loopyperf.idg.program import Bound
from loopyperf.idg.warps.nest import Nest
from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier

SET = isl.dim_type.set
PARAM = isl.dim_type.param


def written_bound(kernel: Kernel, loops: Sequence[Nest]) -> Bound:
    """Return how often the innermost of *loops* is passed through, as its code says."""
    loop = loops[-1]
    domain = isl.Set.from_basic_set(kernel.loopy_kernel.get_inames_domain(frozenset([loop.iname])))
    assumed = isl.Set.from_basic_set(kernel.assumptions).align_params(domain.get_space())
    domain = domain.align_params(assumed.get_space()).intersect_params(assumed.params())
    domain = _with_parameters(domain, _usable(kernel, loops))
    _, place = domain.get_var_dict()[loop.iname]
    trips = domain.dim_max(place).sub(domain.dim_min(place)).add_constant_val(isl.Val(1))
    pieces = trips.gist(domain.params()).coalesce().get_pieces()
    if all(value.is_cst() for _, value in pieces):
        values = (value.get_constant_val().to_python() for _, value in pieces)
        return Bound(tuple(sorted(set(values))))
    return Bound(None, frozenset(_kinds(kernel, {name for piece in pieces for name in _names(*piece)})))


def _with_parameters(domain: isl.Set, names: frozenset[str]) -> isl.Set:
    """Return *domain* with those of its dimensions as parameters that are among *names*."""
    for name in sorted(names.intersection(domain.get_var_names_not_none(SET))):
        kind, place = domain.get_var_dict()[name]
        domain = domain.move_dims(PARAM, domain.dim(PARAM), kind, place, 1)
    return domain


def _usable(kernel: Kernel, loops: Sequence[Nest]) -> frozenset[str]:
    """Return the inames that the bounds of the innermost of *loops* may depend on.

    Those are the loops around it and, of the hardware's inames, those that are used in it. Where there is a barrier
    inside, all work-items pass through it alike.
    """
    statements = list(loops[-1].statements())
    used = frozenset[str]().union(*(statement.inames for statement in statements))
    crosses = any(isinstance(statement.what, Barrier) for statement in statements)
    tags = (GroupInameTag,) if crosses else (GroupInameTag, LocalInameTag)
    along = {name for name in used if isinstance(kernel.hardware_axis(name), tags)}
    ours = kernel.loopy_kernel.iname_tags_of_type
    around = {nest.iname for nest in loops[:-1] if not ours(nest.iname, (IlpBaseTag, VectorizeTag))}
    return frozenset(along | around)


def _names(where: isl.Set, value: isl.Aff) -> Iterator[str]:
    """Yield the parameters that *value* depends on, or the condition under which it holds."""
    for place in range(where.dim(PARAM)):
        if where.involves_dims(PARAM, place, 1) or value.involves_dims(PARAM, place, 1):
            yield where.get_dim_name(PARAM, place) or ""


def _kinds(kernel: Kernel, names: set[str]) -> Iterator[str]:
    """Yield what *names* are, in words."""
    for name in names:
        tag = kernel.hardware_axis(name) if name in kernel.loopy_kernel.all_inames() else None
        if isinstance(tag, LocalInameTag):
            yield "the work-item"
        elif isinstance(tag, GroupInameTag):
            yield "the work-group"
        else:
            yield name
