"""How fast a loop can go at best, however much is done at the same time: each pass waits for what the last one made.

    RecMII = max over the cycles of dependences of Σ Λ / Σ distance

A processor that executes out of order begins a pass before the last one has ended, so that of a chain of results only
what goes round the loop is waited for. Rau, "Iterative modulo scheduling" (1994), section 2: the recurrence bound.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Item, Loop, placed


def slowest_recurrence(graph: Idg, completion: Sequence[float], places: Mapping[int, float]) -> Mapping[int, float]:
    """Return what the loop waits for whose passes wait longest for each other: instruction -> cycles in all passes.

    *completion* is Λ of each instruction, in cycles. Of *places* are the instructions that are looked at, each with
    how much of its executions counts. Cycles through one carried dependence are found, those through several are not.
    """
    found = (each for loop, level in _loops(graph.body) for each in _of_loop(graph, loop, level, completion, places))
    return max(found, key=lambda waited: sum(waited.values()), default=dict[int, float]())


def _of_loop(
    graph: Idg, loop: Loop, level: int, completion: Sequence[float], places: Mapping[int, float]
) -> Iterator[Mapping[int, float]]:
    inside = {place for place, _ in placed(loop.body) if place in places}
    order = [place for place in graph.order if place in inside]
    after: dict[int, list[int]] = {}
    carried: list[Edge] = []
    for edge in graph.edges:
        if edge.through != Dependence.DATA or not {edge.source, edge.target} <= inside:
            continue
        if not edge.is_carried:
            after.setdefault(edge.source, []).append(edge.target)
        elif not any(edge.distance[:level]) and any(edge.distance[level : level + 1]):
            carried.append(edge)
    for edge in carried:
        passes = min(float(graph.instructions[end].executions) * places[end] for end in (edge.source, edge.target))
        times = passes / edge.distance[level]
        yield {place: completion[place] * times for place in _round(edge, order, after, completion)}


def _round(
    edge: Edge, order: Sequence[int], after: Mapping[int, Collection[int]], completion: Sequence[float]
) -> Iterator[int]:
    """Yield the instructions on the longest way from the target of a carried *edge* to its source in the next pass."""
    longest, before = {edge.target: completion[edge.target]}, dict[int, int]()
    for place in order:
        for target in after.get(place, ()) if place in longest else ():
            later = longest[place] + completion[target]
            if later > longest.get(target, 0.0):
                longest[target], before[target] = later, place
    place = edge.source
    while place in longest:
        yield place
        if place not in before:
            return
        place = before[place]


def _loops(body: Sequence[Item], level: int = 0) -> Iterator[tuple[Loop, int]]:
    """Yield the loops of *body*, each with how many are around it."""
    for item in body:
        if isinstance(item, Loop):
            yield item, level
            yield from _loops(item.body, level + 1)
