"""How many distinct elements of each global array a kernel touches, as functions of its sizes.

The union, over all loads and stores, of the elements that their loops reach: what has to be moved at least once. What
is stored after it was loaded has to be moved twice: that is told where each store has a load of the same element, in
its own instruction or in one that this depends on. Of other arrays that are loaded and stored, it is not known what
comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import cast

import islpy as isl
from loopy.symbolic import get_dependencies

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.kernel_counts import memory_references
from loopyperf.counts.memory import Reference
from loopyperf.counts.typical import Typical
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial


@dataclass(frozen=True)
class TouchedCells:
    """What a kernel touches of one array."""

    cells: QuasiPolynomial
    """distinct elements that affine accesses reach"""
    stored_after_loads: QuasiPolynomial
    """those of them that are stored, where each is loaded before; none where it is not known that they are"""
    bits: int
    """of an element"""
    is_complete: bool
    """whether these are all: the addresses of none are data"""


def touched_cells(kernel: Kernel, typical: Typical) -> dict[str, TouchedCells]:
    """Return array -> what *kernel* touches of it, of the arrays in global memory.

    Conditions on data are taken to hold. Raises :class:`UncountableError` for loops bounded by data of which nothing is
    stated.
    """
    counter = ExecutionCounter(kernel, typical)
    by_array: dict[str, list[tuple[Site, Reference]]] = {}
    for site, ref in memory_references(kernel, typical):
        if ref.space == MemorySpace.GLOBAL:
            by_array.setdefault(ref.array, []).append((site, ref))
    return {array: _touched(counter, refs) for array, refs in by_array.items()}


def _touched(counter: ExecutionCounter, references: list[tuple[Site, Reference]]) -> TouchedCells:
    """Return what *references*, which are of one array, touch."""
    forms = {(len(ref.index), ref.is_linear) for _, ref in references}
    cells = [_cells(counter, site, ref) for site, ref in references]
    is_complete = len(forms) == 1 and all(each is not None for each in cells)
    stores = [at for at, (_, ref) in enumerate(references) if ref.direction == "store"]
    is_updated = is_complete and all(_is_loaded_before(counter.kernel, references[at], references) for at in stores)
    return TouchedCells(
        cells=_number(counter, cells if len(forms) == 1 else []),
        stored_after_loads=_number(counter, [cells[at] for at in stores] if is_updated else []),
        bits=references[0][1].bits,
        is_complete=is_complete,
    )


def _number(counter: ExecutionCounter, cells: list[isl.Set | None]) -> QuasiPolynomial:
    """Return how many distinct elements *cells* have, of those that are known."""
    known = [each for each in cells if each is not None]
    if not known:
        return QuasiPolynomial.constant(0, counter.kernel.assumptions)
    return QuasiPolynomial.of_points(reduce(isl.Set.union, known).coalesce(), counter.kernel.assumptions)


def _is_loaded_before(kernel: Kernel, store: tuple[Site, Reference], references: list[tuple[Site, Reference]]) -> bool:
    """Return whether each pass of *store* comes after one that loads what it stores, of *references* to its array."""
    site, stored = store
    needed = cast("Mapping[str, frozenset[str]]", kernel.loopy_kernel.recursive_insn_dep_map())
    before = needed[site.source] | {site.source}
    return any(
        ref.direction == "load"
        and ref.index == stored.index
        and other.source in before
        and (other.inames, other.conditions) == (site.inames, site.conditions)
        for other, ref in references
    )


def _cells(counter: ExecutionCounter, site: Site, ref: Reference) -> isl.Set | None:
    """Return the elements that *ref* reaches at *site*; None where they are no affine function of its loops.

    Of a loop that starts from data, only the number of passes is known, and not where they are.
    """
    if not counter.loops(site.inames).starts.keys().isdisjoint(get_dependencies(ref.index)):
        return None
    points = counter.points(site).align_params(counter.kernel.assumptions.get_space())
    try:
        return quasi_affine_map(points, ref.index).range()
    except NotQuasiAffineError:
        return None
