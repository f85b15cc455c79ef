"""The instruction dependence graph of one warp."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.memory import element_strides, symbolic_strides
from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.edges import edges
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.values import Value
from loopyperf.idg.graph import Idg
from loopyperf.idg.polynomial import Polynomial
from loopyperf.idg.program import Instruction, Item, Loop, Operand
from loopyperf.idg.warps.nest import Nest, Statement
from loopyperf.launches import Barrier


def warp_graph(executed: Executed) -> Idg:
    """Return the source graph of warps of which *executed* says what they execute."""
    instructions = tuple(_instruction(executed, place) for place in executed.numbers)
    return Idg(instructions, tuple(edges(executed)), tuple(_body(executed, executed.program.nest, ())))


def _body(executed: Executed, nest: Nest, loops: tuple[Nest, ...]) -> Iterator[Item]:
    for item in nest.body:
        if isinstance(item, Statement):
            places = executed.program.of_statement[id(item)]
            yield from (executed.numbers[place] for place in places if place in executed.numbers)
        else:
            inside = (*loops, item)
            body = tuple(_body(executed, item, inside))
            if body:
                trips, bound = executed.warp.trips(inside), executed.program.bounds.of(inside)
                yield Loop(item.iname, trips, body, item.is_unrolled, bound)


# {{{ instructions


def _instruction(executed: Executed, place: int) -> Instruction:
    draft, run = executed.draft(place), executed.runs[place]
    number: int | Fraction = run.passes.number
    if not executed.kind.is_uniform:
        number = Fraction(number_of_points(executed.of_all(place)), executed.kind.warps)
    total = number * run.weight * draft.number
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
        tests=executed.program.tests(draft.statement.inames),
        is_index=draft.expression is not None,
        origin=None if draft.reference is None else place,
        defines=executed.program.private.defined(place, _to_passes(executed, draft)),
    )


def _operand(executed: Executed, value: Value, draft: Draft) -> Operand:
    known = value.known if value.node is None else executed.draft(value.node).expression
    known = None if known is None else executed.in_passes(known, draft.statement)
    return Operand(known, value.is_negated, executed.program.private.read(value, _to_passes(executed, draft)))


def _to_passes(executed: Executed, draft: Draft) -> Callable[[Any], Any]:
    return lambda expression: executed.in_passes(expression, draft.statement)


def _address(executed: Executed, draft: Draft) -> Any:
    """Return how many elements from the first one of its array *draft* accesses; None where data tells."""
    ref = draft.reference
    if ref is None or not all(map(executed.kernel.is_known, ref.index)):
        return None
    strides = element_strides(executed.kernel, ref, executed.launch.sizes)
    elements = sum((stride * each for stride, each in zip(strides, ref.index, strict=True)), 0)
    return executed.in_passes(elements, draft.statement)


def _symbolic_address(executed: Executed, draft: Draft) -> Polynomial | None:
    """Return the address of *draft* with sizes by name; None where data tells it."""
    ref = draft.reference
    if ref is None or not all(map(executed.kernel.is_known, ref.index)):
        return None
    strides = symbolic_strides(executed.kernel, ref, executed.launch.sizes)
    elements = sum((stride * each for stride, each in zip(strides, ref.index, strict=True)), 0)
    known = Polynomial.of(executed.launch.lockstep(draft.statement.inames).in_passes(elements))
    loops = draft.statement.loops
    firsts = (executed.warp.first(loops[:depth]) for depth in range(1, len(loops) + 1))
    passes = {nest.iname: prim.Variable(nest.iname) + first for nest, first in zip(loops, firsts, strict=True)}
    inames = known.variables & executed.kernel.loopy_kernel.all_inames()
    axes = {name: axis for name in inames if (axis := executed.kernel.hardware_axis(name)) is not None}
    return known.in_terms_of({name: prim.Variable(str(axis)) for name, axis in axes.items()} | passes)


# }}}
