"""Edges of a rolled graph in words: of which pass of which loop the definition is."""

from collections.abc import Iterator

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge


def which_pass(graph: Idg, edge: Edge) -> str:
    """Return of which pass of the loops around it the source of *edge* is: empty if of that of the target."""
    return ", ".join(_passes(graph, edge))


def _passes(graph: Idg, edge: Edge) -> Iterator[str]:
    around = graph.loops_around[edge.source]
    for level, (loop, number) in enumerate(zip(around, edge.passes, strict=False)):
        distance = edge.distance[level] if level < len(edge.distance) else None
        if distance == 0 or number == prim.Variable(loop.name):
            continue
        is_relative = distance is not None and number == prim.Variable(loop.name) - distance
        text = f"{loop.name} - {distance}" if is_relative or _is_earlier(number, loop.name, distance) else None
        yield text or f"{loop.name} = {number}"


def _is_earlier(number: object, name: str, distance: int | None) -> bool:
    """Return whether *number* is the pass *distance* before that of the loop called *name*."""
    return distance is not None and str(number) in (f"{-distance} + {name}", f"{name} + {-distance}")
