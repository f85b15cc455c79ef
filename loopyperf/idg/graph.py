"""The instruction dependence graph of one warp, with its loops rolled up, and its executions one by one.

Vertices are warp instructions, edges lead from a definition to its uses (Lemeire, section 3.1.1; Cornelis, section
III.C). A loop is kept as its body and its number of passes: an edge says by how many passes of the loops around it its
ends are apart, so a loop of a million passes costs one body. :meth:`Idg.unrolled` gives the flat graph of the papers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pymbolic.primitives as prim

from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import GraphError
from loopyperf.idg.program import (
    Edge,
    Element,
    Idle,
    Instruction,
    Item,
    Iteration,
    Loop,
    Operand,
    lag,
    number_loops,
    placed,
)
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.expressions import IterationRanges, holds, in_terms_of, in_terms_of_all, times_held, valued
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.sets import Same
from loopyperf.units import amount, number_of

# {{{ the executions of a rolled program one by one, each with what it waits for


LIMIT = 100_000
"""instructions of a flat graph, unless another limit is asked for"""
Execution = tuple[int, tuple[int, ...]]
"""an instruction, and the pass of each loop around it, from the outermost on"""


def flattened(
    instructions: Sequence[Instruction], definitions: Sequence[Sequence[Edge]], body: Sequence[Item], limit: int = LIMIT
) -> tuple[tuple[Instruction, ...], tuple[Edge, ...]]:
    """Return an instruction for each execution in *body*, and the edges between them.

    *definitions* are the edges that lead to each instruction. Raises :class:`GraphError` for more than *limit*.
    """
    places: dict[Execution, int] = {}
    found: list[Instruction] = []
    edges: list[Edge] = []
    for place, passes in executions(instructions, body):
        if len(found) == limit:
            raise GraphError(f"more than {limit} executions: unrolled(limit=...) sets another limit")
        here = len(found)
        places[place, tuple(passes.values())] = here
        found.append(_in_iteration(instructions[place], passes))
        for edge in definitions[place]:
            source = _source(edge, passes)
            if source is not None and source in places:
                edges.append(Edge(places[source], here, through=edge.through, operand=edge.operand))
    return tuple(found), tuple(edges)


def _in_iteration(instruction: Instruction, passes: IterationRanges) -> Instruction:
    values: Mapping[str, Iteration] = {name: Affine((), number) for name, number in passes.items()}
    return replace(addressed(instruction, values), executions=1, condition=None)


def addressed(
    instruction: Instruction, passes: Mapping[str, Iteration], executions: int | Fraction | None = None
) -> Instruction:
    """Return *instruction* where loops are in *passes*: what it works on, and the elements that it accesses.

    Its condition is False where it does not hold, None where it does. It has so many *executions*, if they are given.
    """
    old = expressions_in(instruction)
    if not any(isinstance(each, (Affine, Polynomial, prim.ExpressionNode)) for each in old):
        return instruction
    elements, known = _elements(instruction), instruction.operands
    condition, address, symbolic, *others = in_terms_of_all(old, passes)
    left = iter(others[len(known) :])
    moved = [None if each is None else _located(each, next(left), next(left)) for each in elements]
    return replace(
        instruction,
        executions=instruction.executions if executions is None else executions,
        condition=None if condition is True else condition,
        operands=tuple([_operand(*each) for each in zip(instruction.operands, others, moved, strict=False)]),
        address=address,
        symbolic=symbolic,
        defines=tuple([each for each in moved[len(known) :] if each is not None]),
    )


def _operand(operand: Operand, known: Any, element: Element | None) -> Operand:
    is_same = operand.known is known and operand.element is element
    return operand if is_same else Operand(known, operand.is_negated, element, operand.is_integer)


def _located(element: Element, address: Affine[Symbol] | None, member: Any) -> Element:
    is_same = address is element.address and member is element.member
    return element if is_same else replace(element, address=address, member=member)


def expressions_in(instruction: Instruction) -> list[Any]:
    """Return what of *instruction* may depend on passes: its condition and addresses, then operands, then elements."""
    parts = [part for each in _elements(instruction) if each is not None for part in (each.address, each.member)]
    known = [each.known for each in instruction.operands]
    return [instruction.condition, instruction.address, instruction.symbolic, *known, *parts]


def _elements(instruction: Instruction) -> list[Element | None]:
    return [*[each.element for each in instruction.operands], *instruction.defines]


def executions(instructions: Sequence[Instruction], body: Sequence[Item]) -> Iterator[tuple[int, IterationRanges]]:
    """Yield the instructions of *body* in the order in which they are executed, each with the passes it is in."""
    return _executions(instructions, body, {})


def _executions(
    instructions: Sequence[Instruction], body: Sequence[Item], around: IterationRanges
) -> Iterator[tuple[int, IterationRanges]]:
    for item in body:
        if isinstance(item, Loop):
            for number in range(valued(item.trips, around)):
                yield from _executions(instructions, item.body, {**around, item.name: number})
        elif instructions[item].condition is None or holds(instructions[item].condition, around):
            yield item, around


def _source(edge: Edge, passes: IterationRanges) -> Execution | None:
    """Return what *edge* leads from in these *passes* of the loops around its target."""
    if not holds(edge.condition, passes):
        return None
    return edge.source, tuple(int(each.at(passes)) for each in edge.iterations)


def number_of_runs(condition: Any, loops: Sequence[Loop]) -> int:
    """Return in how many passes of *loops*, the outermost first, *condition* holds."""
    return times_held(condition, [(loop.name, loop.trips) for loop in loops])


def runs_of_all(conditions: Sequence[Any], around: Sequence[Sequence[Loop]]) -> list[int]:
    """Return how often instructions on *conditions* are run, given the loops *around* each, the outermost first."""
    known: dict[Any, int] = {}
    found: list[int] = []
    for condition, loops in zip(conditions, around, strict=True):
        key = (condition, tuple([(loop.name, loop.trips) for loop in loops]))
        if key not in known:
            known[key] = number_of_runs(condition, loops)
        found.append(known[key])
    return found


# }}}


# {{{ graph


@dataclass(frozen=True, repr=False)
class Idg(Shown):
    """The instruction dependence graph of one warp."""

    instructions: tuple[Instruction, ...]
    """numbered in the order of the program, each once, however often loops run it"""
    edges: tuple[Edge, ...]
    """which of them use what others define"""
    body: tuple[Item, ...]
    """instructions and loops in the order of the program; a graph numbers its loops itself"""
    idle: Idle | None = None
    """of a source graph: what the warp comes by without any of its lanes taking part, where there is such"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", number_loops(self.body))
        number = len(self.instructions)
        for edge in self.edges:
            if not (0 <= edge.source < number and 0 <= edge.target < number):
                raise GraphError(f"edge {edge.source} -> {edge.target} leads out of {number} instructions")
        _ = self.order

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: what was derived from them is not pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_edges(cls, kinds: Sequence[str], edges: Sequence[tuple[int, ...]], trips: int = 1) -> "Idg":
        """Return a graph typed in by hand: the kind of each instruction, and edges from definitions to uses.

        *kinds* name the pipelines too. With *trips*, the instructions are the body of a loop of so many passes, and an
        edge may have a third number: by how many passes the definition is earlier (of a single pass, none is). Raises
        :class:`GraphError` for an edge that leads nowhere, for a cycle of edges inside a pass, and for an edge there
        that leads backwards.
        """
        instructions = tuple(Instruction(kind, subsystem=kind, text=kind, executions=trips) for kind in kinds)
        everything = tuple(range(len(kinds)))
        apart = [(source, target, distance[0] if distance else 0) for source, target, *distance in edges]
        if trips == 1:
            graph = cls(instructions, tuple(Edge(s, t) for s, t, distance in apart if not distance), everything)
        else:
            carried = tuple(Edge(s, t, (d,), (Affine((("pass", 1),), -d),)) for s, t, d in apart)
            graph = cls(instructions, carried, (Loop("pass", trips, everything),))
        if graph.backwards:
            edge = graph.backwards[0]
            raise GraphError(
                f"edge {edge.source} -> {edge.target} leads backwards: list instructions in the order of the program, "
                "each after those that it waits for; of an earlier pass is an edge with its distance, in passes"
            )
        return graph

    def changed(self, instructions: Sequence[Instruction]) -> "Idg":
        """Return the graph with other *instructions* in place of its own, as many; itself if all are its own."""
        is_same = all(new is old for new, old in zip(instructions, self.instructions, strict=True))
        return self if is_same else Idg(tuple(instructions), self.edges, self.body)

    # {{{ what is where

    @cached_property
    def loops_around(self) -> tuple[tuple[Loop, ...], ...]:
        """Return for each instruction the loops around it, the outermost first."""
        found = dict(placed(self.body))
        return tuple(found[place] for place in range(len(self.instructions)))

    @cached_property
    def definitions(self) -> tuple[tuple[Edge, ...], ...]:
        """Return for each instruction the edges that lead to it."""
        found: list[list[Edge]] = [[] for _ in self.instructions]
        for edge in self.edges:
            found[edge.target].append(edge)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Return the instructions in an order in which each comes after those of its own pass that it waits for."""
        number = len(self.instructions)
        if all(edge.source < edge.target or any(edge.distance) for edge in self.edges):
            return tuple(range(number))
        in_pass = [(edge.source, edge.target) for edge in self.edges if not any(edge.distance)]
        position = {place: position for position, (place, _) in enumerate(placed(self.body))}
        if len(position) == number and all(position[source] < position[target] for source, target in in_pass):
            return tuple(position)
        return _order(number, in_pass)

    @cached_property
    def backwards(self) -> tuple[Edge, ...]:
        """Return the edges to what comes earlier in the same pass of the program than what it waits for."""
        position = {place: position for position, (place, _) in enumerate(placed(self.body))}
        apart = ((edge, position[edge.target] - position[edge.source]) for edge in self.edges if not edge.is_carried)
        return tuple(edge for edge, later in apart if later < 0)

    # }}}

    @property
    def executed(self) -> int | Fraction:
        """Return how many instructions the warp executes."""
        return sum((instruction.executions for instruction in self.instructions), 0)

    def mix(self) -> dict[tuple[str, str], int | Fraction]:
        """Return (kind, type) -> how many of these instructions the warp executes."""
        found: dict[tuple[str, str], int | Fraction] = {}
        for each in self.instructions:
            key = (each.kind, each.dtype)
            found[key] = found.get(key, 0) + each.executions
        return found

    def report_text(self) -> ReportText:
        """Return how often a warp executes instructions of each kind, most often first."""
        executed = Table(("instruction", "pipeline", "executed by a warp"), self._executed_by_kind(), text=2)
        return ReportText(self._summary(), tables=[executed, *self._further_tables()])

    def _summary(self) -> str:
        loops = sum(isinstance(item, Loop) for item in self.body)
        rolled = f", {number_of(loops, 'loop')}" if loops else ""
        return (
            f"of a warp: {len(self.instructions)} instructions{rolled}, {len(self.edges)} edges; "
            f"{amount(self.executed)} instructions are executed"
        )

    def _executed_by_kind(self) -> list[tuple[str, str, str]]:
        """Return kind and type, pipeline, and how often a warp executes such instructions, most often first."""
        found: dict[tuple[str, str], int | Fraction] = {}
        for each in self.instructions:
            key = (f"{each.kind} {each.dtype}".strip(), each.subsystem)
            found[key] = found.get(key, 0) + each.executions
        return [(*key, amount(found[key])) for key in sorted(found, key=lambda key: -found[key])]

    def _further_tables(self) -> tuple[Table, ...]:
        return ()

    def unrolled(self, limit: int = LIMIT) -> "Idg":
        """Return the flat graph: an instruction for each execution, no loops.

        Raises :class:`GraphError` where these are more than *limit*.
        """
        instructions, edges = flattened(self.instructions, self.definitions, self.body, limit)
        return Idg(instructions, edges, tuple(range(len(instructions))))


def distinct(graphs: Sequence[Idg]) -> tuple[list[Idg], list[int]]:
    """Return *graphs*, each object once, and where each of them is among those."""
    places: dict[Same[Idg], int] = {}
    where = [places.setdefault(Same(each), len(places)) for each in graphs]
    return [each.value for each in places], where


def checked_access(graph: Idg, number: int) -> int:
    """Return the place in the program of the access that *number* of *graph* is; raises :class:`GraphError`."""
    if not 0 <= number < len(graph.instructions):
        raise GraphError(f"the graph has instructions 0 to {len(graph.instructions) - 1}, received {number}")
    instruction = graph.instructions[number]
    if instruction.origin is None:
        raise GraphError(f"instruction {number} ({instruction.kind}) accesses no array: ask for a load or a store")
    return instruction.origin


def _order(number: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    waiting: dict[int, list[int]] = {place: [] for place in range(number)}
    for source, target in edges:
        waiting[target].append(source)
    try:
        return tuple(TopologicalSorter(waiting).static_order())
    except CycleError as error:
        cycle = " -> ".join(map(str, error.args[1]))
        raise GraphError(f"instructions wait for each other within one pass: {cycle}") from error


# }}}


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
    passes = dict(zip(between, second.iterations, strict=True))
    through = tuple(each.replaced(passes) for each in first.iterations)
    before = None if first.condition is None else in_terms_of(first.condition, passes)
    tests = [test for test in (second.condition, before) if test is not None]
    return replace(
        second,
        source=first.source,
        iterations=through,
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
