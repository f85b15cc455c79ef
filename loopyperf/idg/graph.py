"""The instruction dependence graph of one warp, rolled and unrolled.

Vertices are warp instructions; edges lead from a definition to its uses (Lemeire, section 3.1.1; Cornelis, section
III.C). The graph stores a loop as its body and its trip count. Each edge stores the distance between its ends in
iterations of the enclosing loops, so a loop of a million iterations costs one body. :meth:`Idg.unrolled` returns the
flat graph of the papers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from types import MappingProxyType
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
    Opcode,
    Operand,
    lag,
    number_loops,
    placed,
)
from loopyperf.polyhedral.affine import Affine, Symbol, names_in_expression
from loopyperf.polyhedral.expressions import (
    IterationRanges,
    Same,
    conjunction,
    holds,
    in_terms_of,
    in_terms_of_all,
    times_held,
    valued,
)
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.units import amount, number_of

# {{{ unrolling: one instruction per execution of a rolled program


OF_EDGES = ("loops_around", "definitions", "order", "backwards")
"""cached properties of a graph that depend only on its edges and its body"""
LIMIT = 100_000
"""default maximum number of instructions of a flat graph"""
Execution = tuple[int, tuple[int, ...]]
"""(index of an instruction, iteration of each enclosing loop, outermost first)"""


def flattened(
    instructions: Sequence[Instruction], definitions: Sequence[Sequence[Edge]], body: Sequence[Item], limit: int = LIMIT
) -> tuple[tuple[Instruction, ...], tuple[Edge, ...]]:
    """Return one instruction for each execution in *body*, and the edges between them.

    *definitions* are the incoming edges of each instruction. Raises :class:`GraphError` for more than *limit*
    executions.
    """
    places: dict[Execution, int] = {}
    found: list[Instruction] = []
    edges: list[Edge] = []
    for place, iterations in executions(instructions, body):
        if len(found) == limit:
            raise GraphError(
                f"the flat graph has more than {limit} instructions; call unrolled(limit=...) with a higher limit"
            )
        here = len(found)
        places[place, tuple(iterations.values())] = here
        values: Mapping[str, Iteration] = {name: Affine((), number) for name, number in iterations.items()}
        found.append(replace(addressed(instructions[place], values), executions=1, condition=None))
        for edge in definitions[place]:
            source = edge.source, tuple(int(iteration.at(iterations)) for iteration in edge.iterations)
            if holds(edge.condition, iterations) and source in places:
                edges.append(Edge(places[source], here, through=edge.through, operand=edge.operand))
    return tuple(found), tuple(edges)


def addressed(
    instruction: Instruction, iterations: Mapping[str, Iteration], executions: int | Fraction | None = None
) -> Instruction:
    """Return *instruction* with *iterations* substituted in its operands, addresses, elements and condition.

    The new condition is False if it never holds and None if it always holds. *executions* replaces the number of
    executions, if given.
    """
    old = expressions_in(instruction)
    if not any(isinstance(each, (Affine, Polynomial, prim.ExpressionNode)) for each in old):
        return instruction
    elements, known = _elements(instruction), instruction.operands
    condition, address, symbolic, *others = in_terms_of_all(old, iterations)
    left = iter(others[len(known) :])
    moved = [None if element is None else _located(element, next(left), next(left)) for element in elements]
    return replace(
        instruction,
        executions=instruction.executions if executions is None else executions,
        condition=None if condition is True else condition,
        operands=tuple([_operand(*each) for each in zip(instruction.operands, others, moved, strict=False)]),
        address=address,
        symbolic=symbolic,
        defines=tuple([each for each in moved[len(known) :] if each is not None]),
        on_data=tuple(
            [replace(each, iterations=tuple(islice(left, len(each.iterations)))) for each in instruction.on_data]
        ),
    )


def _operand(operand: Operand, known: Any, element: Element | None) -> Operand:
    if operand.known is known and operand.element is element:
        return operand
    # A value of unrolled loops is a constant of the machine code; a size is a number from the start.
    is_integer = operand.is_integer and (known is operand.known or bool(names_in_expression(known)))
    return Operand(known, operand.is_negated, element, is_integer)


def _located(element: Element, address: Affine[Symbol] | None, member: Any) -> Element:
    is_same = address is element.address and member is element.member
    return element if is_same else replace(element, address=address, member=member)


def expressions_in(instruction: Instruction) -> list[Any]:
    """Return the expressions of *instruction* that may depend on iterations.

    The order is: condition, address, symbolic address, operands, elements, iterations of conditions on data.
    """
    parts = [part for each in _elements(instruction) if each is not None for part in (each.address, each.member)]
    known = [operand.known for operand in instruction.operands]
    tested = [iteration for condition in instruction.on_data for iteration in condition.iterations]
    return [instruction.condition, instruction.address, instruction.symbolic, *known, *parts, *tested]


def _elements(instruction: Instruction) -> list[Element | None]:
    return [*[operand.element for operand in instruction.operands], *instruction.defines]


def executions(
    instructions: Sequence[Instruction], body: Sequence[Item], around: IterationRanges = MappingProxyType({})
) -> Iterator[tuple[int, IterationRanges]]:
    """Yield the index of each executed instruction in execution order, with its loop iterations by loop name.

    *around* has the iterations of loops around *body*.
    """
    for item in body:
        if isinstance(item, Loop):
            for number in range(valued(item.trips, around)):
                yield from executions(instructions, item.body, {**around, item.name: number})
        elif instructions[item].condition is None or holds(instructions[item].condition, around):
            yield item, around


def number_of_runs(condition: Any, loops: Sequence[Loop]) -> int:
    """Return the number of iterations of *loops* (outermost first) in which *condition* holds."""
    return times_held(condition, [(loop.name, loop.trips) for loop in loops])


def runs_of_all(conditions: Sequence[Any], around: Sequence[Sequence[Loop]]) -> list[int]:
    """Return the execution count for each of *conditions*, given the loops *around* each (outermost first)."""
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
    """static instructions, each once, normally in program order"""
    edges: tuple[Edge, ...]
    """dependences: from definitions to uses"""
    body: tuple[Item, ...]
    """instructions and loops in program order; the graph assigns the loop numbers"""
    idle: Idle | None = None
    """source graphs only: instructions that the warp reaches with no active lane; None if there are none"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", number_loops(self.body))
        number = len(self.instructions)
        for edge in self.edges:
            if not (0 <= edge.source < number and 0 <= edge.target < number):
                raise GraphError(
                    f"edge {edge.source} -> {edge.target} refers to a missing instruction; "
                    f"the graph has {number_of(number, 'instruction')}, numbered from 0"
                )
        _ = self.order

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields only; cached properties are not pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_edges(cls, kinds: Sequence[str], edges: Sequence[tuple[int, ...]], trips: int = 1) -> "Idg":
        """Return a hand-written graph, given the kind of each instruction and (source, target) edges.

        Each kind is also the name of the instruction's pipeline. With *trips* > 1, the instructions form the body of a
        loop of that many iterations, and an edge may have a third number: its distance in iterations. With *trips* = 1,
        edges with a nonzero distance are dropped.

        Raises :class:`GraphError` for an edge that refers to a missing instruction, a cycle of edges within one
        iteration, and a backward edge within one iteration.
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
                f"edge {edge.source} -> {edge.target} points backward; list definitions before uses, "
                "or give a loop-carried edge its distance in iterations"
            )
        return graph

    def changed(self, instructions: Sequence[Instruction]) -> "Idg":
        """Return the graph with its instructions replaced one for one; the same object if nothing changes."""
        if all(new is old for new, old in zip(instructions, self.instructions, strict=True)):
            return self
        # Neither the checks of a graph nor its order depend on what the instructions do.
        found = object.__new__(Idg)
        known = vars(self)
        vars(found).update({name: known[name] for name in OF_EDGES if name in known})
        vars(found).update(instructions=tuple(instructions), edges=self.edges, body=self.body, idle=None)
        return found

    @cached_property
    def stored(self) -> frozenset[str]:
        """Return the arrays to which instructions store."""
        stores = (instruction.reference for instruction in self.instructions if instruction.kind == Opcode.STORE)
        return frozenset(reference.array for reference in stores if reference is not None)

    # {{{ loops, incoming edges and order of instructions

    @cached_property
    def loops_around(self) -> tuple[tuple[Loop, ...], ...]:
        """Return the enclosing loops of each instruction, outermost first."""
        found = dict(placed(self.body))
        return tuple(found[place] for place in range(len(self.instructions)))

    @cached_property
    def definitions(self) -> tuple[tuple[Edge, ...], ...]:
        """Return the incoming edges of each instruction."""
        found: list[list[Edge]] = [[] for _ in self.instructions]
        for edge in self.edges:
            found[edge.target].append(edge)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Return the instructions in topological order of the dependences within one iteration."""
        number = len(self.instructions)
        if all(edge.source < edge.target or any(edge.distance) for edge in self.edges):
            return tuple(range(number))
        same_iteration = [(edge.source, edge.target) for edge in self.edges if not any(edge.distance)]
        position = {place: position for position, (place, _) in enumerate(placed(self.body))}
        if len(position) == number and all(position[source] < position[target] for source, target in same_iteration):
            return tuple(position)
        return _order(number, same_iteration)

    @cached_property
    def backwards(self) -> tuple[Edge, ...]:
        """Return the edges within one iteration whose target precedes their source in program order."""
        position = {place: position for position, (place, _) in enumerate(placed(self.body))}
        apart = ((edge, position[edge.target] - position[edge.source]) for edge in self.edges if not edge.is_carried)
        return tuple(edge for edge, later in apart if later < 0)

    # }}}

    @property
    def executed(self) -> int | Fraction:
        """Return the number of instructions that the warp executes."""
        return sum((instruction.executions for instruction in self.instructions), 0)

    def mix(self) -> dict[tuple[str, str], int | Fraction]:
        """Return (kind, type) -> the number of such instructions that the warp executes."""
        return self._executions_by(lambda each: (each.kind, each.dtype))

    def _executions_by(self, key: Callable[[Instruction], tuple[str, str]]) -> dict[tuple[str, str], int | Fraction]:
        found: dict[tuple[str, str], int | Fraction] = {}
        for instruction in self.instructions:
            found[key(instruction)] = found.get(key(instruction), 0) + instruction.executions
        return found

    def report_text(self) -> ReportText:
        """Return a table of the instructions executed per warp by kind, most frequent first."""
        found = self._executions_by(lambda each: (f"{each.kind} {each.dtype}".strip(), each.subsystem))
        rows = [(*key, amount(found[key])) for key in sorted(found, key=lambda key: -found[key])]
        executed = Table(("instruction", "pipeline", "executions per warp"), rows, text=2)
        return ReportText(self._summary(), tables=[executed, *self._further_tables()])

    def _summary(self) -> str:
        loops = sum(isinstance(item, Loop) for item in self.body)
        rolled = f", {number_of(loops, 'loop')}" if loops else ""
        return (
            f"per warp: {len(self.instructions)} instructions{rolled}, {len(self.edges)} edges; "
            f"{amount(self.executed)} instructions executed"
        )

    def _further_tables(self) -> tuple[Table, ...]:
        return ()

    def unrolled(self, limit: int = LIMIT) -> "Idg":
        """Return the flat graph: one instruction per execution, no loops.

        Raises :class:`GraphError` for more than *limit* executions.
        """
        instructions, edges = flattened(self.instructions, self.definitions, self.body, limit)
        return Idg(instructions, edges, tuple(range(len(instructions))))


def distinct(graphs: Sequence[Idg]) -> tuple[list[Idg], list[int]]:
    """Return the distinct objects among *graphs*, and the index of each graph in that list."""
    places: dict[Same[Idg], int] = {}
    where = [places.setdefault(Same(graph), len(places)) for graph in graphs]
    return [place.value for place in places], where


def checked_access(graph: Idg, number: int) -> int:
    """Return the program position of the access that instruction *number* performs.

    Raises :class:`GraphError` if there is no such instruction, or if it is neither a load nor a store.
    """
    if not 0 <= number < len(graph.instructions):
        raise GraphError(f"the graph has instructions 0 to {len(graph.instructions) - 1}, got {number}")
    instruction = graph.instructions[number]
    if instruction.origin is None:
        raise GraphError(
            f"instruction {number} ({instruction.kind}) does not access an array; pass the number of a load or store"
        )
    return instruction.origin


def _order(number: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    waiting: dict[int, list[int]] = {place: [] for place in range(number)}
    for source, target in edges:
        waiting[target].append(source)
    try:
        return tuple(TopologicalSorter(waiting).static_order())
    except CycleError as error:
        cycle = " -> ".join(map(str, error.args[1]))
        raise GraphError(f"cyclic dependence within one iteration: {cycle}") from error


# }}}


def rewritten(
    graph: Idg,
    kept: Sequence[int],
    edges: Sequence[Edge],
    replaced: Mapping[int, Instruction] | None = None,
    merged: Mapping[int, int] | None = None,
) -> Idg:
    """Return *graph* with only the *kept* instructions, some of them *replaced*, and with *edges* between them.

    *merged* maps a removed instruction to the kept one that takes over its edges. All instructions are given by their
    indices in *graph*. Empty loops are removed.
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
    """Return the edges whose ends both have new *numbers*, renumbered and without duplicates."""
    found: dict[tuple[int, int, int | None], list[Edge]] = {}
    for edge in edges:
        if edge.source in numbers and edge.target in numbers:
            source, target = numbers[edge.source], numbers[edge.target]
            parallel = found.setdefault((source, target, edge.operand), [])
            new = edge.between(source, target)
            if not parallel or new not in parallel:
                parallel.append(new)
    return tuple([edge for parallel in found.values() for edge in parallel])


def _items(body: Sequence[Item], numbers: Mapping[int, int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            inside = tuple(_items(item.body, numbers))
            if inside:
                yield replace(item, body=inside)
        elif item in numbers:
            yield numbers[item]


def composed(graph: Idg, first: Edge, second: Edge) -> Edge:
    """Return the edge from the source of *first* to the target of *second*, which starts where *first* ends."""
    between = [loop.name for loop in graph.loops_around[first.target]]
    iterations = dict(zip(between, second.iterations, strict=True))
    through = tuple(iteration.replaced(iterations) for iteration in first.iterations)
    before = None if first.condition is None else in_terms_of(first.condition, iterations)
    return replace(
        second,
        source=first.source,
        iterations=through,
        condition=conjunction(second.condition, before),
        distance=distance(graph, first.source, second.target, through),
    )


def distance(graph: Idg, source: int, target: int, iterations: Sequence[Iteration]) -> tuple[int, ...]:
    """Return the distance of *source* before *target* in iterations of each common loop, as far as it is constant."""
    found: list[int] = []
    pairs = zip(graph.loops_around[source], graph.loops_around[target], iterations, strict=False)
    for one, other, each in pairs:
        if one.number != other.number:
            break
        earlier = lag(each, one.name)
        if earlier is None:
            return (*found, int(source >= target))
        found.append(earlier)
    return tuple(found)
