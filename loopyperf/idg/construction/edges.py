"""The edges of a warp's graph: what each instruction uses, and which pass of which loop that is of."""

from collections.abc import Iterator
from typing import cast

import islpy as isl

from loopyperf.idg.construction.cells import Cells
from loopyperf.idg.construction.dataflow import Flow, dependences
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.last_writes import LastWrite, shared_loops
from loopyperf.idg.program import Dependence, Edge, Iteration, Opcode
from loopyperf.idg.warps.pass_expressions import affine_function_of, condition_on
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Points, union

SET = isl.dim_type.set
Distance = tuple[int, ...]
Piece = tuple[Points, tuple[Iteration, ...], Distance]
"""passes of the loops around the target, those of the loops around the source then, and by how many it is earlier"""


def edges(executed: Executed) -> Iterator[Edge]:
    """Yield the edges between the instructions that are *executed*."""
    for target in executed.numbers:
        yield from _within(executed, target)
    cells = Cells(executed)
    for found in dependences(list(cells.accesses())):
        for operand in found.target.operands:
            for edge in _of(executed, found, operand):
                yield edge
                for node in () if found.source.is_part else executed.draft(found.source.node).beside:
                    yield edge.between(executed.numbers[node], edge.target)
    for accesses in cells.before_barriers():
        for found in dependences(accesses):
            if found.source.node == accesses[0].node:
                yield from _of(executed, found, None)


# {{{ in one pass of one statement


def _within(executed: Executed, target: int) -> Iterator[Edge]:
    """Yield the edges from what is computed in the pass that *target* is in."""
    draft = executed.draft(target)
    data = [(slot, node) for slot, value in enumerate(draft.operands) for node in executed.nodes_of(value)]
    found = [(slot, source) for slot, source in data if source in executed.numbers]
    yield from (_in_same_pass(executed, source, target, Dependence.DATA, slot) for slot, source in found)
    deciding = dict.fromkeys(value.node for value in draft.controls)
    for source in () if found else deciding:
        if source is not None and source in executed.numbers:
            yield _in_same_pass(executed, source, target, Dependence.CONTROL)


def _in_same_pass(
    executed: Executed, source: int, target: int, through: Dependence, operand: int | None = None
) -> Edge:
    loops = [nest.iname for nest in executed.draft(source).statement.loops]
    return Edge.within(executed.numbers[source], executed.numbers[target], loops, through, operand)


# }}}


# {{{ through cells


def _of(executed: Executed, found: LastWrite | Flow, operand: int | None) -> Iterator[Edge]:
    """Yield the edges that what was *found* makes, to that *operand*."""
    source, target = found.source.node, found.target.node
    loops = executed.draft(target).statement.loops
    everywhere = executed.runs[target].passes
    through = _through(executed, source, target)
    pieces = [_piece(found)] if isinstance(found, LastWrite) else _pieces(executed, found)
    for where, passes, distance in pieces:
        condition = condition_on(where, everywhere, loops)
        yield Edge(executed.numbers[source], executed.numbers[target], distance, passes, condition, through, operand)


def _through(executed: Executed, source: int, target: int) -> Dependence:
    kinds = executed.draft(source).kind, executed.draft(target).kind
    if Opcode.BARRIER in kinds:
        return Dependence.SYNCHRONIZATION
    return Dependence.MEMORY if kinds[0] == Opcode.STORE else Dependence.DATA


def _piece(found: LastWrite) -> Piece:
    names = found.target.variables
    distance: list[int] = []
    for name, passes in zip(names[: shared_loops(found.source, found.target)], found.passes, strict=False):
        apart = Affine(((name, 1),)) - passes
        ranges = [apart.between(dict(zip(names, where, strict=True))) for where in found.where]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if low != high and any(distance):
            break
        distance.append(low)
        if low != high:
            break
    where = union([Points(each) for each in found.where], len(names))
    return where, cast("tuple[Iteration, ...]", found.passes), tuple(distance)


def _pieces(executed: Executed, found: Flow) -> Iterator[Piece]:
    before, after = (executed.draft(each.node).statement.loops for each in (found.source, found.target))
    numbered = found.relation.apply_domain(executed.warp.numbering(after))
    numbered = numbered.apply_range(executed.warp.numbering(before))
    single: list[tuple[isl.Set, isl.MultiAff]] = []
    isl.PwMultiAff.from_map(numbered).foreach_piece(lambda where, value: single.append((where, value)))
    for piece, value in single:
        passes = tuple(Affine.around(affine_function_of(value.get_at(place), after)) for place in range(len(before)))
        for where, distance in _distances(piece, value, shared_loops(found.source, found.target)):
            yield Points(where), passes, distance


def _distances(where: isl.Set, source: isl.MultiAff, shared: int) -> Iterator[tuple[isl.Set, Distance]]:
    """Yield by how many passes of each of the *shared* loops the source is earlier, with where it is by so many.

    In a loop by whose passes it is not always equally far, they are the least. They say nothing of the loops inside.
    """
    found: list[int] = []
    for place in range(shared):
        space = isl.LocalSpace.from_space(source.get_at(place).get_domain_space())
        apart = isl.Aff.var_on_domain(space, SET, place).sub(source.get_at(place))
        if apart.is_cst():
            found.append(apart.get_constant_val().to_python())
            continue
        if any(found):
            break
        passes = isl.PwAff.from_aff(apart)
        earlier = where & passes.pos_set()
        if not earlier.is_empty():
            yield earlier, (*found, passes.intersect_domain(earlier).min_val().to_python())
        where = where & passes.zero_set()
        if where.is_empty():
            return
        found.append(0)
    yield where, tuple(found)


# }}}
