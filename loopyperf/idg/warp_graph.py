"""Construction of the instruction dependence graph of one warp."""

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.arithmetic import number_type
from loopyperf.counts.conditions import Conditions, plain_text
from loopyperf.counts.item import MemorySpace, Operation
from loopyperf.counts.memory_accesses import element_strides, element_type, symbolic_strides
from loopyperf.counts.steps import Step, Value
from loopyperf.device.parts import Pipeline
from loopyperf.idg.definitions import Cells, Flow, dependences
from loopyperf.idg.graph import Idg
from loopyperf.idg.last_writes import LastWrite, shared_loops
from loopyperf.idg.launch_program import Draft, ExecutedLaunch
from loopyperf.idg.program import (
    DataCondition,
    Dependence,
    Edge,
    Idle,
    Instruction,
    Item,
    Iteration,
    Loop,
    Opcode,
    Operand,
    Predicate,
)
from loopyperf.idg.warp_classes import Nest, Statement, first_value
from loopyperf.idg.warp_iterations import affine_function_of, condition_on
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.launches import Barrier
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.points import Points
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.sets import as_int

# {{{ idle instructions: a warp reaches them with no active lane; other warps of the launch execute them
#
# The hardware still issues some of them (:mod:`loopyperf.compiler.predication`).


def idle_instructions(executed: ExecutedLaunch, instructions: dict[int, Instruction]) -> Idle | None:
    """Return the idle *instructions*, given by program position; None if there are none."""
    numbers = {place: number for number, place in enumerate(instructions)}
    if not numbers:
        return None
    alive = sorted(executed.numbers)
    after = [bisect(alive, place) for place in instructions]
    loops = [tuple(nest.iname for nest in executed.draft(place).statement.loops) for place in instructions]
    edges = tuple(edge for place in instructions for edge in _operands(executed, place, numbers))
    return Idle(tuple(instructions.values()), edges, tuple(zip(after, loops, strict=True)))


def execute(executed: ExecutedLaunch) -> Iterator[tuple[int, int]]:
    """Yield (program position, number of times reached) of the drafts that the warp reaches but does not execute."""
    for place, draft in enumerate(executed.program.drafts) if executed.numbers else ():
        if place not in executed.numbers and not executed.of_launch(place).is_empty():
            loops, nest = draft.statement.loops, executed.warp.nest(draft.statement.loops)
            if not any(nest.visited(loops[:depth]).is_empty for depth in range(1, len(loops) + 1)):
                yield place, nest.iterations(loops).number if loops else 1


def _operands(executed: ExecutedLaunch, place: int, numbers: dict[int, int]) -> Iterator[Edge]:
    draft = executed.draft(place)
    loops = draft.statement.loops
    names = [nest.iname for nest in loops]
    for slot, value in enumerate(draft.step.operands):
        for node in executed.nodes_of(value):
            if node in numbers and executed.draft(node).statement.loops == loops:
                yield Edge.within(numbers[node], numbers[place], names, operand=slot)


# }}}


# {{{ edges: the definitions that each instruction uses, and their loop iterations


SET = isl.dim_type.set
Distance = tuple[int, ...]
Piece = tuple[Points, tuple[Iteration, ...], Distance]
"""(iterations of the loops around the target, iterations of the source in terms of those, distance)"""


def edges(executed: ExecutedLaunch) -> Iterator[Edge]:
    """Yield the edges between the *executed* instructions."""
    for target in executed.numbers:
        yield from _within(executed, target)
    cells = Cells(executed)
    for found in dependences(list(cells.accesses())):
        for operand in found.target.operands:
            for edge in _of(executed, found, operand):
                yield edge
                for node in () if found.source.is_part else executed.draft(found.source.node).step.beside:
                    yield edge.between(executed.numbers[node], edge.target)
    for accesses in cells.before_barriers():
        for found in dependences(accesses):
            if found.source.node == accesses[0].node:
                yield from _of(executed, found, None)


# {{{ edges within one iteration of one statement


def _within(executed: ExecutedLaunch, target: int) -> Iterator[Edge]:
    """Yield the edges to *target* from instructions of the same statement and iteration."""
    draft = executed.draft(target)
    data = [(slot, node) for slot, value in enumerate(draft.step.operands) for node in executed.nodes_of(value)]
    found = [(slot, source) for slot, source in data if source in executed.numbers]
    yield from (_in_same_iteration(executed, source, target, Dependence.DATA, slot) for slot, source in found)
    deciding = dict.fromkeys(value.node for value in draft.controls)
    for source in () if found else deciding:
        if source is not None and source in executed.numbers:
            yield _in_same_iteration(executed, source, target, Dependence.CONTROL)


def _in_same_iteration(
    executed: ExecutedLaunch, source: int, target: int, through: Dependence, operand: int | None = None
) -> Edge:
    loops = [nest.iname for nest in executed.draft(source).statement.loops]
    return Edge.within(executed.numbers[source], executed.numbers[target], loops, through, operand)


# }}}


# {{{ edges through cells


def _of(executed: ExecutedLaunch, found: LastWrite | Flow, operand: int | None) -> Iterator[Edge]:
    """Yield the edges of the dependence *found* to *operand*."""
    source, target = found.source.node, found.target.node
    ends = executed.numbers[source], executed.numbers[target]
    loops = executed.draft(target).statement.loops
    everywhere = executed.runs[target].iterations
    kinds = executed.draft(source).step.kind, executed.draft(target).step.kind
    through = Dependence.MEMORY if kinds[0] == Opcode.STORE else Dependence.DATA
    through = Dependence.SYNCHRONIZATION if Opcode.BARRIER in kinds else through
    if isinstance(found, LastWrite):
        if not found.is_exact:
            executed.not_exact[found.target.array] = None
        pieces = [_piece(executed, found, everywhere)]
    else:
        known = _pieces(executed, found)
        pieces = (
            (condition_on(where, everywhere, loops), iterations, distance) for where, iterations, distance in known
        )
    for condition, iterations, distance in pieces:
        if condition is not False:
            yield Edge(*ends, distance, iterations, condition, through, operand)


def _piece(
    executed: ExecutedLaunch, found: LastWrite, everywhere: Points
) -> tuple[Any, tuple[Iteration, ...], Distance]:
    """Return condition, source iterations and distance of *found*; *everywhere* has the target's iterations."""
    names = found.target.variables
    distance: list[int] = []
    for name, iterations in zip(names[: shared_loops(found.source, found.target)], found.iterations, strict=False):
        apart = Affine(((name, 1),)) - iterations
        ranges = [apart.between(dict(zip(names, where, strict=True))) for where in found.where]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if low != high and any(distance):
            break
        distance.append(low)
        if low != high:
            break
    loops = executed.draft(found.target.node).statement.loops
    condition = executed.warp.nest(loops).condition(found.where, everywhere, loops)
    return condition, cast("tuple[Iteration, ...]", found.iterations), tuple(distance)


def _pieces(executed: ExecutedLaunch, found: Flow) -> Iterator[Piece]:
    before, after = (executed.draft(each.node).statement.loops for each in (found.source, found.target))
    numbered = found.relation.apply_domain(executed.warp.nest(after).numbering(after))
    numbered = numbered.apply_range(executed.warp.nest(before).numbering(before))
    single: list[tuple[isl.Set, isl.MultiAff]] = []
    isl.PwMultiAff.from_map(numbered).foreach_piece(lambda where, value: single.append((where, value)))
    for piece, value in single:
        iterations = tuple(
            Affine.around(affine_function_of(value.get_at(place), after)) for place in range(len(before))
        )
        for where, distance in _distances(piece, value, shared_loops(found.source, found.target)):
            yield Points(where), iterations, distance


def _distances(where: isl.Set, source: isl.MultiAff, shared: int) -> Iterator[tuple[isl.Set, Distance]]:
    """Yield (subset of *where*, distance of the source in iterations of the *shared* loops).

    For a loop in which the distance varies, it is the minimum, and the inner loops are omitted.
    """
    found: list[int] = []
    for place in range(shared):
        space = isl.LocalSpace.from_space(source.get_at(place).get_domain_space())
        apart = isl.Aff.var_on_domain(space, SET, place).sub(source.get_at(place))
        if apart.is_cst():
            found.append(as_int(apart.get_constant_val()))
            continue
        if any(found):
            break
        iterations = isl.PwAff.from_aff(apart)
        earlier = where & iterations.pos_set()
        if not earlier.is_empty():
            least = isl.Map.from_pw_aff(iterations.intersect_domain(earlier)).range().dim_min_val(0)
            yield earlier, (*found, as_int(least))
        where = where & iterations.zero_set()
        if where.is_empty():
            return
        found.append(0)
    yield where, tuple(found)


# }}}


# }}}


# {{{ warp graph


def warp_graph(executed: ExecutedLaunch) -> Idg:
    """Return the source graph of the warp class of *executed*."""
    instructions = tuple(_instruction(executed, place) for place in executed.numbers)
    body = tuple(_body(executed, executed.program.nest, ()))
    # An idle instruction accesses nothing.
    idle = {
        place: replace(_instruction(executed, place), executions=number, condition=None, origin=None, is_idle=True)
        for place, number in execute(executed)
    }
    return Idg(instructions, tuple(edges(executed)), body, idle_instructions(executed, idle))


def _body(executed: ExecutedLaunch, nest: Nest, loops: tuple[Nest, ...]) -> Iterator[Item]:
    for item in nest.body:
        if isinstance(item, Statement):
            places = executed.program.of_statement[item.number]
            yield from (executed.numbers[place] for place in places if place in executed.numbers)
        else:
            inside = (*loops, item)
            body = tuple(_body(executed, item, inside))
            if body:
                trips = executed.warp.nest(inside).trips(inside)
                bound = executed.program.bounds.of(inside, executed.slabs)
                yield Loop(item.iname, trips, body, item.is_unrolled, bound, lanes=executed.iterations_of_lanes(inside))


# {{{ instructions


def _instruction(executed: ExecutedLaunch, place: int) -> Instruction:
    """Return the instruction at *place*, shared by the warp classes in which it is the same."""
    draft, run = executed.draft(place), executed.runs[place]
    number: int | Fraction = run.iterations.number
    if not executed.kind.is_uniform:
        number = Fraction(Points(executed.of_all(place)).number, executed.kind.warps)
    nest = executed.warp.nest(draft.statement.loops)
    key = place, nest, run.values, number, executed.slabs, tuple(executed.warp.host.items())
    known = executed.launch.instructions
    if key not in known:
        known[key] = _made(executed, place, number)
    return known[key]


def _made(executed: ExecutedLaunch, place: int, number: int | Fraction) -> Instruction:
    draft, run = executed.draft(place), executed.runs[place]
    step = draft.step
    total = number * run.weight * (1 if step.number is None else step.number)
    dtype, subsystem = _type_and_subsystem(step)
    return Instruction(
        kind=Opcode(step.kind),
        dtype=dtype,
        subsystem=subsystem,
        source="" if isinstance(draft.statement.what, Barrier) else draft.statement.name,
        text=draft.text,
        function=step.function,
        reference=draft.reference,
        executions=int(total) if total == int(total) else total,
        condition=run.condition,
        operands=tuple(_operand(executed, value, draft) for value in step.operands),
        address=_address(executed, draft),
        symbolic=_symbolic_address(executed, draft),
        tests=executed.program.tests.of(draft.statement.inames, executed.slabs),
        part=step.part,
        is_bound=place in executed.program.bounding,
        is_index=draft.expression is not None,
        origin=None if draft.reference is None else place,
        scalar=_scalar(executed, draft),
        predicates=frozenset(_predicates(executed, draft)),
        on_data=tuple(sorted(_on_data(draft, run.on_data), key=str)),
        is_assumed=step.number is not None,
        is_volatile=draft.reference is not None
        and (draft.reference.update is not None or isinstance(executed.kernel.loopy_kernel.target, VOLATILE)),
        defines=executed.program.private.defined(place, partial(executed.in_iterations, statement=draft.statement)),
    )


SPECIAL_UNIT = (Opcode.SPECIAL, Opcode.DIV, Opcode.POW)
"""operations that the single-precision and integer units do not execute"""


def _type_and_subsystem(step: Step) -> tuple[str, Pipeline | MemorySpace]:
    """Return the type of the result of *step*, and the subsystem that executes it."""
    if step.reference is not None:
        return f"b{step.reference.bits}", step.reference.space
    if not isinstance(step.item, Operation):
        return "", Pipeline.BARRIER if step.kind == Opcode.BARRIER else Pipeline.ALU
    if step.item.dtype == "f64":
        return step.item.dtype, Pipeline.FP64
    return step.item.dtype, Pipeline.SFU if step.item.kind in SPECIAL_UNIT else Pipeline.ALU


def _operand(executed: ExecutedLaunch, value: Value, draft: Draft) -> Operand:
    known = value.known if value.node is None else executed.draft(value.node).expression
    names = get_dependencies(known) if isinstance(known, prim.ExpressionNode) else frozenset[str]()
    is_integer = bool(names) and names <= executed.kernel.known_names
    known = None if known is None else executed.in_iterations(known, draft.statement)
    element = executed.program.private.read(value, partial(executed.in_iterations, statement=draft.statement))
    return Operand(known, value.is_negated, element, is_integer)


def _predicates(executed: ExecutedLaunch, draft: Draft) -> Iterator[Predicate]:
    """Yield the source-level conditions on the work-item under which *draft* executes."""
    for condition in draft.step.conditions:
        inames = get_dependencies(condition.expression) & executed.kernel.loopy_kernel.all_inames()
        tags = {name: tag for name in inames if (tag := executed.kernel.hardware_axes.get(name)) is not None}
        if executed.kernel.is_known(condition.expression) and tags:
            words = {name: prim.Variable(str(tag).replace(".", "")) for name, tag in tags.items()}
            written = substitute(condition.expression, words)
            yield Predicate(str(written), condition.holds, frozenset(get_dependencies(written)))


def _on_data(draft: Draft, conditions: Conditions) -> Iterator[DataCondition]:
    """Yield the *conditions* on data under which *draft* executes."""
    for condition in conditions:
        found = draft.evaluations[condition.expression]
        iterations: Iterator[Iteration] = (Affine(((nest.iname, 1),)) for nest in found.loops)
        yield DataCondition(plain_text(condition.expression), condition.holds, found.version, tuple(iterations))


def _scalar(executed: ExecutedLaunch, draft: Draft) -> str:
    """Return the scalar type of the array that *draft* accesses; empty if it accesses none."""
    array = None if draft.reference is None else executed.kernel.arrays.get(draft.reference.array)
    return "" if array is None else number_type(element_type(array)).scalar


def _address(executed: ExecutedLaunch, draft: Draft) -> Affine[Symbol] | None:
    """Return the offset in elements at which *draft* accesses its array; None if it depends on data."""
    elements = _elements(executed, draft, element_strides)
    return None if elements is None else Affine.around(executed.in_iterations(elements, draft.statement))


def _symbolic_address(executed: ExecutedLaunch, draft: Draft) -> Polynomial[Symbol] | None:
    """Return the offset in elements with sizes as symbols; None if it depends on data."""
    elements = _elements(executed, draft, symbolic_strides)
    if elements is None:
        return None
    known = Polynomial.of(executed.launch.lockstep(draft.statement.inames).in_iterations(elements))
    inames = executed.kernel.loopy_kernel.all_inames() & known.variables
    axes = {name: axis for name in inames if (axis := executed.kernel.hardware_axes.get(name)) is not None}
    first = {name: first_value(executed.kernel, name, executed.launch.sizes) for name in axes}
    iterations = executed.values_in_iterations(draft.statement.loops)
    return known.in_terms_of({name: prim.Variable(str(axis)) + first[name] for name, axis in axes.items()} | iterations)


def _elements(executed: ExecutedLaunch, draft: Draft, strides: Callable[..., Iterable[Any]]) -> Any:
    ref = draft.reference
    if ref is None or not all(get_dependencies(index) <= executed.kernel.known_names for index in ref.index):
        return None
    apart = strides(executed.kernel, ref, executed.launch.sizes)
    return sum((stride * each for stride, each in zip(apart, ref.index, strict=True)), 0)


# }}}


# }}}
