"""Parts of the range of a group's number for which Loopy writes programs of their own: ``split_iname(..., slabs=...)``.

In the bulk of the groups no bound has to be looked at; what is different in the first or last ones stands in copies of
the program that other groups go by.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import islpy as isl
from loopy.codegen.loop import get_slab_decomposition
from loopy.kernel.data import GroupInameTag

from loopyperf.kernel import Kernel

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
