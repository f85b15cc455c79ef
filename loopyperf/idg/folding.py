"""What a compiler computes itself, or need not compute: index arithmetic, copies of registers, results nobody uses."""

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge
from loopyperf.idg.rewriting import composed, rewritten

LASTING = ("store", "barrier")
"""instructions whose effect lasts, whether another one uses a result of theirs or not"""


def without_index_arithmetic(graph: Idg) -> Idg:
    """Return *graph* with addresses folded into loads and stores: affine ones are immediates of the machine."""
    kept = [place for place, each in enumerate(graph.instructions) if not each.is_index]
    return rewritten(graph, kept, graph.edges)


def without_moves(graph: Idg) -> Idg:
    """Return *graph* with each use of a copied register leading from what the register was copied from."""
    edges = list(graph.edges)
    moves = {place for place, each in enumerate(graph.instructions) if each.kind == "move"}
    for move in sorted(moves):
        before = [edge for edge in edges if edge.target == move and edge.through == "data"]
        after = [edge for edge in edges if edge.source == move and edge.target != move]
        others = [edge for edge in edges if move not in (edge.source, edge.target)]
        edges = [*others, *(composed(graph, first, second) for second in after for first in before)]
    return rewritten(graph, [place for place in range(len(graph.instructions)) if place not in moves], edges)


def without_unused(graph: Idg) -> Idg:
    """Return *graph* without the instructions on whose results nothing that lasts depends."""
    sources: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.target, []).append(edge)
    needed: set[int] = set()
    pending = [place for place, each in enumerate(graph.instructions) if each.kind in LASTING]
    while pending:
        place = pending.pop()
        if place not in needed:
            needed.add(place)
            pending += [edge.source for edge in sources.get(place, [])]
    return rewritten(graph, sorted(needed), graph.edges)
