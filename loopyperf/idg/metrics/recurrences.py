"""How fast a loop can go at best: what a pass hands on to the next one cannot be hurried by doing other things meanwhile.

    RecMII = max over the cycles of dependences of Σ Λ / Σ distance

A processor that executes out of order begins a pass before the last one has ended, so that of a chain of results only
what goes round the loop is waited for. Rau, "Iterative modulo scheduling" (1994), section 2: the recurrence bound.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Item, Loop

UNREACHED = -1.0


def slowest_recurrence(graph: Idg, completion: Sequence[float], places: Mapping[int, float]) -> float:
    """Return the cycles that the loop takes whose passes wait longest for each other, in all its passes.

    *completion* is Λ of each instruction, in cycles. Of *places* are the instructions that are looked at, each with
    how much of its executions counts. Cycles through one carried dependence are found, those through several are not.
    """
    return max((_of_loop(graph, loop, level, completion, places) for loop, level in _loops(graph.body)), default=0.0)


def _of_loop(graph: Idg, loop: Loop, level: int, completion: Sequence[float], places: Mapping[int, float]) -> float:
    inside = {place for place in _inside(loop) if place in places}
    after: dict[int, list[int]] = {}
    carried: list[Edge] = []
    for edge in graph.edges:
        if edge.through != "data" or not {edge.source, edge.target} <= inside:
            continue
        if not edge.is_carried:
            after.setdefault(edge.source, []).append(edge.target)
        elif not any(edge.distance[:level]) and sum(edge.distance[level : level + 1]):
            carried.append(edge)
    order = [place for place in graph.order if place in inside]
    # What goes round is executed as often as the seldomest instruction of it, so the ends of the edge tell.
    return max((_round(graph, edge, level, order, after, completion) * _passes(graph, edge, places) for edge in carried), default=0.0)


def _round(
    graph: Idg, edge: Edge, level: int, order: Sequence[int], after: Mapping[int, Collection[int]], completion: Sequence[float]
) -> float:
    """Return the cycles from a result to the one that is made of it *edge* later, for each pass between."""
    longest = dict.fromkeys(order, UNREACHED) | {edge.target: completion[edge.target]}
    for place in order:
        if longest[place] >= 0:
            for target in after.get(place, ()):
                longest[target] = max(longest[target], longest[place] + completion[target])
    return max(longest[edge.source], 0.0) / edge.distance[level]


def _passes(graph: Idg, edge: Edge, places: Mapping[int, float]) -> float:
    return min(float(graph.instructions[end].executions) * places[end] for end in (edge.source, edge.target))


def _loops(body: Sequence[Item], level: int = 0) -> Iterator[tuple[Loop, int]]:
    """Yield the loops of *body*, each with how many are around it."""
    for item in body:
        if isinstance(item, Loop):
            yield item, level
            yield from _loops(item.body, level + 1)


def _inside(loop: Loop) -> Iterator[int]:
    for item in loop.body:
        if isinstance(item, Loop):
            yield from _inside(item)
        else:
            yield item
