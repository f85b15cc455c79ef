"""Tiles: what a work-group reads of an array, fetched into local memory by its work-items together."""

from collections.abc import Mapping

import islpy as isl
import loopy as lp
from loopy.kernel import LoopKernel

from loopyperf.errors import MeasurementError


def with_local_tile(
    unit: lp.TranslationUnit,
    array: str,
    *,
    swept: str,
    outer: str,
    axes: Mapping[str, str | None],
    name: str | None = None,
) -> lp.TranslationUnit:
    """Return *unit* with the tile that a group reads of *array* over the *swept* inames fetched into local memory.

    The tile is the smallest box around what is read, fetched anew in each iteration of the *outer* inames; both are
    lists with commas, as loopy takes them. It is called *name*, by default ``<array>_tile``. *array* may have a tag
    (``"x$far"``): then only accesses with this tag read the tile.

    *axes* names the inames of the fetch, one for each axis of the array, and says for each over which local axis
    (``"l.0"``) it is spread; None leaves it a loop. One that is longer than the group is along its axis is fetched in
    rounds: it is split, and ``<iname>_outer`` is the loop over the rounds.

    Raises :class:`MeasurementError` if the kernel has no inames on one of these local axes, or if the tile's length
    along it is not a constant.
    """
    unit = lp.add_prefetch(
        unit,
        array,
        swept,
        dim_arg_names=list(axes),
        default_tag=None,
        temporary_name=name or f"{array.partition('$')[0]}_tile",
        temporary_address_space=lp.AddressSpace.LOCAL,
        fetch_outer_inames=outer,
        fetch_bounding_box=True,
    )
    for iname, axis in axes.items():
        # Loopy makes no iname where the tile is one element long.
        if axis is not None and iname in unit.default_entrypoint.inames:
            unit = _spread(unit, iname, axis)
    return unit


def _spread(unit: lp.TranslationUnit, iname: str, axis: str) -> lp.TranslationUnit:
    lanes = _extent(unit.default_entrypoint, axis)
    if _length(unit.default_entrypoint, iname) <= lanes:
        return lp.tag_inames(unit, {iname: axis})
    return lp.split_iname(unit, iname, lanes, inner_tag=axis)


def _extent(kernel: LoopKernel, axis: str) -> int:
    on_axis = [iname for iname in kernel.inames if axis in map(str, kernel.iname_tags(iname))]
    if not on_axis:
        raise MeasurementError(
            f"no iname of kernel {kernel.name} is on local axis {axis!r}, so a tile cannot be spread over it; map the "
            "kernel's own loops to work-items first"
        )
    return max(_length(kernel, iname) for iname in on_axis)


def _length(kernel: LoopKernel, iname: str) -> int:
    try:
        return kernel.get_constant_iname_length(iname)
    except isl.Error as error:
        raise MeasurementError(
            f"the length of iname {iname!r} of kernel {kernel.name} is not a constant, so it cannot be spread over "
            "work-items; split the loops that a tile is read in, and sweep the inner ones"
        ) from error
