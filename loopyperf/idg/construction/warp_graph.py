"""The instruction dependence graph of one warp."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.arithmetic import number_type
from loopyperf.counts.memory import element_strides, element_type, symbolic_strides
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.edges import edges
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.idle import come_by, idle_part
from loopyperf.idg.construction.values import Value
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import NOT, Instruction, Item, Loop, Operand
from loopyperf.idg.warps.nest import Nest, Statement
from loopyperf.idg.warps.warp import first_value
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.launches import Barrier
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.points import Points
from loopyperf.polyhedral.polynomial import Polynomial


def warp_graph(executed: Executed) -> Idg:
    """Return the source graph of warps of which *executed* says what they execute."""
    instructions = tuple(_instruction(executed, place) for place in executed.numbers)
    body = tuple(_body(executed, executed.program.nest, ()))
    idle = {place: _idle_instruction(executed, place, number) for place, number in come_by(executed)}
    return Idg(instructions, tuple(edges(executed)), body, idle_part(executed, idle))


def _body(executed: Executed, nest: Nest, loops: tuple[Nest, ...]) -> Iterator[Item]:
    for item in nest.body:
        if isinstance(item, Statement):
            places = executed.program.of_statement[item.number]
            yield from (executed.numbers[place] for place in places if place in executed.numbers)
        else:
            inside = (*loops, item)
            body = tuple(_body(executed, item, inside))
            if body:
                trips, bound = executed.warp.trips(inside), executed.program.bounds.of(inside, executed.slabs)
                yield Loop(item.iname, trips, body, item.is_unrolled, bound, lanes=executed.passes_of_lanes(inside))


# {{{ instructions


def _instruction(executed: Executed, place: int) -> Instruction:
    draft, run = executed.draft(place), executed.runs[place]
    number: int | Fraction = run.passes.number
    if not executed.kind.is_uniform:
        number = Fraction(Points(executed.of_all(place)).number, executed.kind.warps)
    total = number * run.weight * (1 if draft.number is None else draft.number)
    return Instruction(
        kind=draft.kind,
        dtype=draft.dtype,
        subsystem=draft.subsystem,
        source="" if isinstance(draft.statement.what, Barrier) else draft.statement.name,
        text=draft.text,
        reference=draft.reference,
        executions=int(total) if total == int(total) else total,
        condition=run.condition,
        operands=tuple(_operand(executed, value, draft) for value in draft.operands),
        address=_address(executed, draft),
        symbolic=_symbolic_address(executed, draft),
        tests=executed.program.tests.of(draft.statement.inames, executed.slabs),
        part=draft.part,
        is_bound=place in executed.program.bounding,
        is_index=draft.expression is not None,
        origin=None if draft.reference is None else place,
        scalar=_scalar(executed, draft),
        predicates=frozenset(_predicates(executed, draft)),
        is_stated=draft.number is not None,
        is_volatile=draft.reference is not None and isinstance(executed.kernel.loopy_kernel.target, VOLATILE),
        defines=executed.program.private.defined(place, _to_passes(executed, draft)),
    )


def _idle_instruction(executed: Executed, place: int, number: int) -> Instruction:
    """Return the instruction at *place* as one that is come by so often; it accesses nothing."""
    return replace(_instruction(executed, place), executions=number, condition=None, origin=None, is_idle=True)


def _operand(executed: Executed, value: Value, draft: Draft) -> Operand:
    known = value.known if value.node is None else executed.draft(value.node).expression
    is_integer = isinstance(known, prim.ExpressionNode) and get_dependencies(known) <= executed.kernel.known_names
    known = None if known is None else executed.in_passes(known, draft.statement)
    element = executed.program.private.read(value, _to_passes(executed, draft))
    return Operand(known, value.is_negated, element, is_integer)


def _predicates(executed: Executed, draft: Draft) -> Iterator[str]:
    """Yield the conditions written in the source that decide which work-items execute *draft*."""
    for each in draft.conditions:
        inames = get_dependencies(each.expression) & executed.kernel.loopy_kernel.all_inames()
        tags = {name: tag for name in inames if (tag := executed.kernel.hardware_axes.get(name)) is not None}
        if executed.kernel.is_known(each.expression) and tags:
            words = {name: prim.Variable(str(tag).replace(".", "")) for name, tag in tags.items()}
            yield f"{'' if each.holds else NOT}{substitute(each.expression, words)}"


def _scalar(executed: Executed, draft: Draft) -> str:
    """Return the type of the numbers in the array that *draft* accesses, empty where it accesses none."""
    array = None if draft.reference is None else executed.kernel.arrays.get(draft.reference.array)
    return "" if array is None else number_type(element_type(array)).scalar


def _to_passes(executed: Executed, draft: Draft) -> Callable[[Any], Any]:
    return lambda expression: executed.in_passes(expression, draft.statement)


def _address(executed: Executed, draft: Draft) -> Affine[Symbol] | None:
    """Return how many elements from the first one of its array *draft* accesses; None where data tells."""
    elements = _elements(executed, draft, element_strides)
    return None if elements is None else Affine.around(executed.in_passes(elements, draft.statement))


def _symbolic_address(executed: Executed, draft: Draft) -> Polynomial[Symbol] | None:
    """Return the address of *draft* with sizes by name; None where data tells it."""
    elements = _elements(executed, draft, symbolic_strides)
    if elements is None:
        return None
    known = Polynomial.of(executed.launch.lockstep(draft.statement.inames).in_passes(elements))
    inames = executed.kernel.loopy_kernel.all_inames() & known.variables
    axes = {name: axis for name in inames if (axis := executed.kernel.hardware_axes.get(name)) is not None}
    first = {name: first_value(executed.kernel, name, executed.launch.sizes) for name in axes}
    passes = executed.values_in_passes(draft.statement.loops)
    return known.in_terms_of({name: prim.Variable(str(axis)) + first[name] for name, axis in axes.items()} | passes)


def _elements(executed: Executed, draft: Draft, strides: Callable[..., Iterable[Any]]) -> Any:
    ref = draft.reference
    if ref is None or not all(get_dependencies(each) <= executed.kernel.known_names for each in ref.index):
        return None
    apart = strides(executed.kernel, ref, executed.launch.sizes)
    return sum((stride * each for stride, each in zip(apart, ref.index, strict=True)), 0)


# }}}
