"""How many distinct elements of each global array a kernel touches, as functions of its sizes.

The union, over all loads and stores, of the elements that their loops reach: what has to be moved at least once.
"""

from dataclasses import dataclass
from functools import reduce

import islpy as isl
from loopy.diagnostic import UnableToDetermineAccessRangeError
from loopy.symbolic import get_access_map, get_dependencies

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.kernel_counts import memory_references
from loopyperf.counts.memory import Reference
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.counts.typical import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel


@dataclass(frozen=True)
class TouchedCells:
    """What a kernel touches of one array."""

    cells: QuasiPolynomial
    """distinct elements that affine accesses reach"""
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
        if ref.space == "global":
            by_array.setdefault(ref.array, []).append((site, ref))
    return {array: _touched(counter, refs) for array, refs in by_array.items()}


def _touched(counter: ExecutionCounter, references: list[tuple[Site, Reference]]) -> TouchedCells:
    """Return what *references*, which are of one array, touch."""
    forms = {(len(ref.index), ref.is_linear) for _, ref in references}
    cells = [_cells(counter, site, ref) for site, ref in references]
    known = [each for each in cells if each is not None]
    number = QuasiPolynomial.constant(0, counter.kernel.assumptions)
    if known and len(forms) == 1:
        every = reduce(isl.Set.union, known).coalesce()
        number = QuasiPolynomial.of_points(every, counter.kernel.assumptions)
    return TouchedCells(number, references[0][1].bits, len(forms) == 1 and len(known) == len(cells))


def _cells(counter: ExecutionCounter, site: Site, ref: Reference) -> isl.Set | None:
    """Return the elements that *ref* reaches at *site*; None where they are no affine function of its loops.

    Of a loop that starts from data, only the number of passes is known, and not where they are.
    """
    if not counter.loops(site.inames).starts.keys().isdisjoint(get_dependencies(ref.index)):
        return None
    points = counter.points(site).align_params(counter.kernel.assumptions.get_space())
    try:
        return get_access_map(points, ref.index).range()
    except (UnableToDetermineAccessRangeError, UncountableError):
        return None
