"""The executions of a rolled program one by one, each with what it waits for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, cast

import pymbolic
import pymbolic.primitives as prim
from pymbolic import evaluate
from pymbolic.mapper.dependency import DependencyMapper
from pymbolic.mapper.substitutor import substitute

from loopyperf.errors import GraphError
from loopyperf.idg.program import Edge, Element, Instruction, Item, Iteration, Loop, Operand
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.ranges import Box, mentions, truth

LIMIT = 100_000
"""instructions of a flat graph, unless another limit is asked for"""
WALKED = 8
"""passes of an innermost loop that are looked at one by one"""

Passes = Mapping[str, int]
"""loop -> number of the pass that it is in"""
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
    """Return *instruction* where loops are in *passes*: what it works on, and the elements that it accesses."""
    return replace(
        instruction,
        operands=tuple(_operand(each, passes) for each in instruction.operands),
        address=None if instruction.address is None else instruction.address.replaced(passes),
        symbolic=None if instruction.symbolic is None else instruction.symbolic.in_terms_of(passes),
        defines=tuple(_element(each, passes) for each in instruction.defines),
    )


def _operand(operand: Operand, passes: Mapping[str, Iteration]) -> Operand:
    if operand.known is None and operand.element is None:
        return operand
    element = None if operand.element is None else _element(operand.element, passes)
    return replace(operand, known=in_terms_of(operand.known, passes), element=element)


def _element(element: Element, passes: Mapping[str, Iteration]) -> Element:
    address = None if element.address is None else element.address.replaced(passes)
    return replace(element, address=address, member=in_terms_of(element.member, passes))


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
        elif holds(instructions[item].condition, around):
            yield item, around


def _source(edge: Edge, passes: Passes) -> Execution | None:
    """Return what *edge* leads from in these *passes* of the loops around its target."""
    if not holds(edge.condition, passes):
        return None
    return edge.source, tuple(int(each.at(passes)) for each in edge.passes)


def number_of_runs(condition: Any, loops: Sequence[Loop]) -> int:
    """Return in how many passes of *loops*, the outermost first, *condition* holds.

    The passes of a loop are halved until it is certain for a part of them which tests of the condition hold in it.
    Parts in which the same tests are left are taken together, so that tests of different loops are multiplied.
    """
    return _runs(condition, loops, {})


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


def _runs(condition: Any, loops: Sequence[Loop], passes: Passes) -> int:
    """Return in how many passes of *loops* what is left of a *condition* holds, *passes* being those around them."""
    if not loops:
        return int(holds(condition, {}))
    (outer, *inner), trips = loops, valued(loops[0].trips, passes)
    if outer.name in names_in([loop.trips for loop in inner]):
        each = ({outer.name: number} for number in range(trips))
        return sum(_runs(in_terms_of(condition, one), inner, {**passes, **one}) for one in each)
    box = {loop.name: (0, loop.trips - 1 if isinstance(loop.trips, int) else inf) for loop in inner}
    rests = Counter[Any]()
    for rest, number in _rests(condition, outer.name, range(trips), box):
        rests[rest] += number
    return sum(number * _runs(rest, inner, passes) for rest, number in rests.items())


def _rests(condition: Any, name: str, part: range, box: Box) -> Iterator[tuple[Any, int]]:
    """Yield what is left of *condition* in *part* of the passes of a loop, each with the number of passes.

    The loops inside are in *box*. Where the condition does not hold, nothing is left.
    """
    if not part:
        return
    rest = _undecided(condition, {**box, name: (part[0], part[-1])})
    if not mentions(rest, name):
        if rest is not False:
            yield rest, len(part)
    elif len(part) <= WALKED and not box:
        yield True, sum(holds(rest, {name: number}) for number in part)
    elif len(part) == 1:
        yield in_terms_of(rest, {name: part[0]}), 1
    else:
        middle = len(part) // 2
        for half in (part[:middle], part[middle:]):
            yield from _rests(rest, name, half, box)


def _undecided(condition: Any, box: Box) -> Any:
    """Return what of *condition* is not certain in *box*; True or False where all of it is."""
    known = truth(condition)(box)
    if known is not None:
        return known
    match condition:
        case prim.LogicalAnd(children=children) | prim.LogicalOr(children=children):
            left = [each for each in (_undecided(child, box) for child in children) if not isinstance(each, bool)]
            return type(condition)(tuple(left)) if len(left) > 1 else left[0]
        case prim.LogicalNot(child=child):
            return prim.LogicalNot(_undecided(child, box))
        case _:
            return condition


def names_in(expressions: Sequence[Any]) -> set[str]:
    """Return the names of what *expressions* depend on; some may be sums of multiples."""
    found: set[str] = set()
    for each in expressions:
        if isinstance(each, prim.ExpressionNode):
            found.update(map(str, DependencyMapper()(each)))
        elif isinstance(each, Affine):
            found.update(cast("Iteration", each).names)
    return found


def in_terms_of(expression: Any, passes: Mapping[str, Any]) -> Any:
    """Return *expression* where loops are in *passes*, evaluated where nothing else is in it.

    Passes are numbers, expressions, or sums of multiples.
    Sums of multiples are written in one way: what is the same address has the same text.
    """
    if not isinstance(expression, prim.ExpressionNode):
        return expression
    if isinstance(expression, prim.Variable):
        return _expression(passes.get(expression.name, expression))
    if (known := Affine.of(expression, passes)) is not None:
        return known.expression
    if isinstance(expression, prim.Comparison):
        left, right = in_terms_of(expression.left, passes), in_terms_of(expression.right, passes)
        found = prim.Comparison(left, expression.operator, right)
        return holds(found, {}) if isinstance(left, int) and isinstance(right, int) else found
    if isinstance(expression, prim.LogicalAnd):
        return _all(in_terms_of(each, passes) for each in expression.children)
    found = substitute(expression, {name: _expression(each) for name, each in passes.items()})
    if isinstance(found, prim.ExpressionNode) and not DependencyMapper()(found):
        return cast("Any", evaluate(found))
    return found


def _expression(value: Any) -> Any:
    return cast("Iteration", value).expression if isinstance(value, Affine) else value


def _all(tests: Iterable[Any]) -> Any:
    """Return on what condition all *tests* hold: whether they do, where none is left that depends on anything."""
    left: list[Any] = []
    for test in tests:
        if test is False:
            return False
        left += [test] if test is not True else []
    return prim.LogicalAnd(tuple(left)) if len(left) > 1 else next(iter(left), True)


def valued(expression: Any, passes: Passes) -> int:
    """Return the integer that *expression* is in these *passes*."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, prim.Variable):
        return passes[expression.name]
    return int(_in_passes(expression, passes))


def holds(condition: Any, passes: Passes) -> bool:
    """Return whether *condition*, None for one that always does, holds in these *passes*."""
    if not isinstance(condition, prim.ExpressionNode):
        return condition is None or bool(condition)
    return bool(_in_passes(condition, passes))


def _in_passes(expression: prim.ExpressionNode, passes: Passes) -> Any:
    names, function = _compiled(expression)
    return function(*[passes[name] for name in names])


@lru_cache(maxsize=1 << 14)
def _compiled(expression: prim.ExpressionNode) -> tuple[Sequence[str], Callable[..., Any]]:
    """Return *expression* as a function of the passes of some loops, and their names: many passes ask for its value."""
    names = sorted(names_in([expression]))
    # Loops may be called as Python's keywords are.
    arguments = [f"pass_{number}" for number in range(len(names))]
    renamed = substitute(expression, {name: prim.Variable(each) for name, each in zip(names, arguments, strict=True)})
    return names, cast("Any", pymbolic.compile(renamed, arguments))
