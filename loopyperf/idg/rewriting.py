"""Graphs with some instructions taken out, merged or replaced; what the others wait for stays what it was."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Iteration, Loop, lag
from loopyperf.polyhedral.expressions import in_terms_of


def rewritten(
    graph: Idg,
    kept: Sequence[int],
    edges: Sequence[Edge],
    replaced: Mapping[int, Instruction] | None = None,
    merged: Mapping[int, int] | None = None,
) -> Idg:
    """Return *graph* with those instructions alone that are *kept*, some *replaced*, and with *edges* between them.

    What is *merged* with an instruction that is kept has its edges. All are named by their places in *graph*. Loops in
    which nothing is left go too.
    """
    is_whole = len(kept) == len(graph.instructions)
    if is_whole and not replaced and tuple(edges) == graph.edges:
        return graph
    numbers = {place: number for number, place in enumerate(kept)}
    new = replaced or {}
    instructions = tuple([new.get(place, graph.instructions[place]) for place in kept])
    body = graph.body if is_whole else tuple(_items(graph.body, numbers))
    ends = numbers | {place: numbers[first] for place, first in (merged or {}).items()}
    return Idg(instructions, between_kept(edges, ends), body)


def between_kept(edges: Iterable[Edge], numbers: Mapping[int, int]) -> tuple[Edge, ...]:
    """Return those of *edges* of which both ends have new *numbers*, between these, each once."""
    found: dict[tuple[int, int, int | None], list[Edge]] = {}
    for edge in edges:
        if edge.source in numbers and edge.target in numbers:
            source, target = numbers[edge.source], numbers[edge.target]
            alike = found.setdefault((source, target, edge.operand), [])
            new = edge.between(source, target)
            if not alike or new not in alike:
                alike.append(new)
    return tuple([edge for alike in found.values() for edge in alike])


def _items(body: Sequence[Item], numbers: Mapping[int, int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            inside = tuple(_items(item.body, numbers))
            if inside:
                yield replace(item, body=inside)
        elif item in numbers:
            yield numbers[item]


def composed(graph: Idg, first: Edge, second: Edge) -> Edge:
    """Return the edge from what *first* leads from to what *second* leads to, through the instruction between."""
    between = [loop.name for loop in graph.loops_around[first.target]]
    passes = dict(zip(between, second.passes, strict=True))
    through = tuple(each.replaced(passes) for each in first.passes)
    before = None if first.condition is None else in_terms_of(first.condition, passes)
    tests = [test for test in (second.condition, before) if test is not None]
    return replace(
        second,
        source=first.source,
        passes=through,
        condition=prim.LogicalAnd(tuple(tests)) if len(tests) > 1 else next(iter(tests), None),
        distance=distance(graph, first.source, second.target, through),
    )


def distance(graph: Idg, source: int, target: int, passes: Sequence[Iteration]) -> tuple[int, ...]:
    """Return by how many passes of each loop around both *source* is earlier, as far as that is always the same."""
    found: list[int] = []
    pairs = zip(graph.loops_around[source], graph.loops_around[target], passes, strict=False)
    for one, other, each in pairs:
        if one.number != other.number:
            break
        earlier = lag(each, one.name)
        if earlier is None:
            return (*found, int(source >= target))
        found.append(earlier)
    return tuple(found)
