"""Edges of a rolled graph in words: of which pass of which loop a definition is, and when."""

from collections.abc import Iterator
from typing import Any

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, lag
from loopyperf.polyhedral.affine import Affine


def when(edge: Edge) -> str:
    """Return the condition of *edge*, empty if none.

    That there is the pass which its source is of goes without saying.
    """
    condition = edge.condition
    parts: tuple[Any, ...] = condition.children if isinstance(condition, prim.LogicalAnd) else (condition,)
    worded = [part for part in parts if part is not None and not _says_that_pass_exists(part, edge)]
    return " and ".join(map(str, worded))


def _says_that_pass_exists(condition: Any, edge: Edge) -> bool:
    match condition:
        case prim.Comparison(left=left, operator=operator, right=0):
            return str(operator) == ">=" and Affine.around(left) in edge.passes
        case _:
            return False


def of_pass(graph: Idg, edge: Edge) -> str:
    """Return of which pass the source of *edge* is, e.g. ``"k - 1"`` or ``"k = 15"``; empty if that of the target."""
    return ", ".join(_passes(graph, edge))


def _passes(graph: Idg, edge: Edge) -> Iterator[str]:
    for loop, number in zip(graph.loops_around[edge.source], edge.passes, strict=False):
        earlier = lag(number, loop.name)
        if earlier is None:
            yield f"{loop.name} = {number}"
        elif earlier:
            yield f"{loop.name} - {earlier}"
