"""The executions of a rolled program one by one, each with what it waits for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim

from loopyperf.errors import GraphError
from loopyperf.idg.program import Edge, Instruction, Item, Iteration, Loop
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import Passes, holds, in_terms_of_all, times_held, valued
from loopyperf.polyhedral.polynomial import Polynomial

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
        found.append(_in_pass(instructions[place], passes))
        for edge in definitions[place]:
            source = _source(edge, passes)
            if source is not None and source in places:
                edges.append(Edge(places[source], here, through=edge.through, operand=edge.operand))
    return tuple(found), tuple(edges)


def _in_pass(instruction: Instruction, passes: Passes) -> Instruction:
    values: Mapping[str, Iteration] = {name: Affine((), number) for name, number in passes.items()}
    return replace(addressed(instruction, values), executions=1, condition=None)


def addressed(instruction: Instruction, passes: Mapping[str, Iteration]) -> Instruction:
    """Return *instruction* where loops are in *passes*: what it works on, and the elements that it accesses.

    Its condition is False where it does not hold, None where it does.
    """
    elements = [each.element for each in instruction.operands] + [*instruction.defines]
    parts = [part for each in elements if each is not None for part in (each.address, each.member)]
    known = [each.known for each in instruction.operands]
    old = [instruction.condition, instruction.address, instruction.symbolic, *known, *parts]
    if not any(isinstance(each, (Affine, Polynomial, prim.ExpressionNode)) for each in old):
        return instruction
    condition, address, symbolic, *others = in_terms_of_all(old, passes)
    left = iter(others[len(known) :])
    moved = [None if each is None else replace(each, address=next(left), member=next(left)) for each in elements]
    return replace(
        instruction,
        condition=None if condition is True else condition,
        operands=tuple(
            each if each.known is known and each.element is element else replace(each, known=known, element=element)
            for each, known, element in zip(instruction.operands, others, moved, strict=False)
        ),
        address=address,
        symbolic=symbolic,
        defines=tuple(each for each in moved[len(known) :] if each is not None),
    )


def executions(instructions: Sequence[Instruction], body: Sequence[Item]) -> Iterator[tuple[int, Passes]]:
    """Yield the instructions of *body* in the order in which they are executed, each with the passes it is in."""
    return _executions(instructions, body, {})


def _executions(
    instructions: Sequence[Instruction], body: Sequence[Item], around: Passes
) -> Iterator[tuple[int, Passes]]:
    for item in body:
        if isinstance(item, Loop):
            for number in range(valued(item.trips, around)):
                yield from _executions(instructions, item.body, {**around, item.name: number})
        elif instructions[item].condition is None or holds(instructions[item].condition, around):
            yield item, around


def _source(edge: Edge, passes: Passes) -> Execution | None:
    """Return what *edge* leads from in these *passes* of the loops around its target."""
    if not holds(edge.condition, passes):
        return None
    return edge.source, tuple(int(each.at(passes)) for each in edge.passes)


def number_of_runs(condition: Any, loops: Sequence[Loop]) -> int:
    """Return in how many passes of *loops*, the outermost first, *condition* holds."""
    return times_held(condition, [(loop.name, loop.trips) for loop in loops])


def runs_of_all(instructions: Sequence[Instruction], around: Sequence[Sequence[Loop]]) -> list[int]:
    """Return how often the program runs each of *instructions*, given the loops *around* each, the outermost first."""
    known: dict[Any, int] = {}
    found: list[int] = []
    for each, loops in zip(instructions, around, strict=True):
        key = (each.condition, tuple((loop.name, loop.trips) for loop in loops))
        if key not in known:
            known[key] = number_of_runs(each.condition, loops)
        found.append(known[key])
    return found
