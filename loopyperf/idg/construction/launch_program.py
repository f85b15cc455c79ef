"""The instruction dependence graph of one warp, from the linearized schedule of its launch."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import aff_to_expr, get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.execution import ExecutionCounter
from loopyperf.counts.memory import element_strides, symbolic_strides
from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.counts.typical import Typical
from loopyperf.idg.construction.dataflow import CellAccess, dependences, flow, is_affine, with_values
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.lane_bounds import Bounds, tests_of_work_items
from loopyperf.idg.construction.translation import Translator
from loopyperf.idg.construction.values import Read, Value
from loopyperf.idg.graph import Idg
from loopyperf.idg.polynomial import Polynomial
from loopyperf.idg.program import Edge, Instruction, Item, Loop, Operand
from loopyperf.idg.warps.executions import LaunchExecutions, WarpExecutions, condition_on, naming
from loopyperf.idg.warps.kinds import Kind, kinds_of
from loopyperf.idg.warps.nest import Nest, Statement, nest_of
from loopyperf.idg.warps.warp import iname_values
from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier, Launch

SET = isl.dim_type.set
IN = isl.dim_type.in_
HANDED_ON = "what the barriers hand on"
STORE = ("store", "local")


class LaunchProgram:
    """What every warp of one launch executes, as far as it does not depend on the warp."""

    def __init__(self, kernel: Kernel, launch: Launch, typical: Typical) -> None:
        """Translate *launch* of *kernel*."""
        self.kernel, self.launch, self.typical = kernel, launch, typical
        self.counter = ExecutionCounter(kernel, typical)
        self.nest = nest_of(kernel, launch)
        self.translator = Translator(kernel, typical)
        self.of_statement: dict[int, range] = {}
        self.places: dict[int, tuple[int, ...]] = {}
        self._tests: dict[frozenset[str], frozenset[str]] = {}
        self._bounds: dict[int, Bounds] = {}
        self._translate(self.nest, ())

    def _translate(self, nest: Nest, around: tuple[int, ...]) -> None:
        for place, item in enumerate(nest.body):
            if isinstance(item, Nest):
                self._translate(item, (*around, place))
            else:
                first = len(self.translator.drafts)
                with naming(item):
                    self.translator.translate(item)
                self.of_statement[id(item)] = range(first, len(self.translator.drafts))
                self.places[id(item)] = (*around, place)

    def tests(self, inames: frozenset[str]) -> frozenset[str]:
        """Return the conditions that decide which work-items execute what uses *inames*."""
        if inames not in self._tests:
            self._tests[inames] = tests_of_work_items(self.kernel, self.launch, inames)
        return self._tests[inames]

    def bounds(self, nest: Nest) -> Bounds:
        """Return what the bounds of *nest* depend on."""
        if id(nest) not in self._bounds:
            self._bounds[id(nest)] = Bounds(self.kernel, nest)
        return self._bounds[id(nest)]

    @property
    def drafts(self) -> list[Draft]:
        """Return the instructions in the order of the program."""
        return self.translator.drafts


def warp_graph(program: LaunchProgram, launch: LaunchExecutions, kind: Kind) -> Idg:
    """Return the source graph of the warps of *kind* of the launch of *program*."""
    return _WarpGraph(program, WarpExecutions(launch, kind.example), kind).graph()


def kinds_of_warps(program: LaunchProgram, launch: LaunchExecutions) -> list[Kind]:
    """Return the kinds of warps of the launch of *program*, those of most warps first."""
    executions = [launch.by_place(draft.statement, draft.conditions) for draft in program.drafts]
    return kinds_of(launch.warps, list({id(each): each for each in executions}.values()))


class _WarpGraph:
    def __init__(self, program: LaunchProgram, executions: WarpExecutions, kind: Kind) -> None:
        self.program, self.executions, self.kind = program, executions, kind
        self.kernel = program.kernel
        self.runs = [executions.run(draft.statement, draft.conditions) for draft in program.drafts]
        alive = [place for place in range(len(program.drafts)) if not self._is_idle(place)]
        self.numbers = {place: number for number, place in enumerate(alive)}
        """of those instructions that the warp executes"""
        self._firsts: dict[int, Any] = {}

    def _is_idle(self, place: int) -> bool:
        return not self.runs[place].number and (self.kind.is_uniform or self._by_kind(place).is_empty())

    def _by_kind(self, place: int) -> isl.Set:
        """Return what all warps of a kind that is not uniform execute."""
        assert self.kind.places is not None
        draft = self.program.drafts[place]
        found = self.executions.of_launch.by_place(draft.statement, draft.conditions)
        return found & self.kind.places.insert_dims(SET, self.kind.places.dim(SET), len(draft.statement.loops))

    def graph(self) -> Idg:
        instructions = tuple(self._instruction(place) for place in self.numbers)
        return Idg(instructions, tuple(self._edges()), tuple(self._body(self.program.nest, ())))

    # {{{ the program

    def _body(self, nest: Nest, loops: tuple[Nest, ...]) -> Iterator[Item]:
        for item in nest.body:
            if isinstance(item, Statement):
                yield from (self.numbers[place] for place in self._of(item) if place in self.numbers)
            else:
                inside = (*loops, item)
                body = tuple(self._body(item, inside))
                if body:
                    trips = self.executions.trips(inside)
                    bounds = self.program.bounds(item)
                    yield Loop(item.iname, trips, body, item.is_unrolled, bounds.are_known, bounds.lanes_part)

    def _of(self, statement: Statement) -> range:
        return self.program.of_statement[id(statement)]

    def _instruction(self, place: int) -> Instruction:
        draft = self.program.drafts[place]
        run = self.runs[place]
        number: int | Fraction = run.number
        if not self.kind.is_uniform:
            number = Fraction(number_of_points(self._by_kind(place)), self.kind.warps)
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
            operands=tuple(self._operand(value, draft) for value in draft.operands),
            address=self._address(draft),
            symbolic=self._symbolic_address(draft),
            tests=self.program.tests(draft.statement.inames),
            is_index=draft.expression is not None,
        )

    def _operand(self, value: Value, draft: Draft) -> Operand:
        known = value.known if value.node is None else self.program.drafts[value.node].expression
        known = None if known is None else self._in_passes(known, draft.statement.loops)
        return Operand(known, value.is_negated)

    def _address(self, draft: Draft) -> Any:
        """Return how many elements from the first one of its array *draft* accesses; None where data tells."""
        ref = draft.reference
        if ref is None or not all(get_dependencies(each) <= self._variables for each in ref.index):
            return None
        strides = element_strides(self.kernel, ref, self.executions.sizes)
        elements = sum((stride * each for stride, each in zip(strides, ref.index, strict=True)), 0)
        return self._in_passes(elements, draft.statement.loops)

    def _symbolic_address(self, draft: Draft) -> Polynomial | None:
        """Return the address of *draft* with sizes by name; None where data tells it."""
        ref = draft.reference
        if ref is None or not all(get_dependencies(each) <= self._variables for each in ref.index):
            return None
        strides = symbolic_strides(self.kernel, ref, self.executions.sizes)
        elements = sum((stride * each for stride, each in zip(strides, ref.index, strict=True)), 0)
        loops = draft.statement.loops
        firsts = (self._first(nest, loops[:depth]) for depth, nest in enumerate(loops, 1))
        passes = {nest.iname: prim.Variable(nest.iname) + first for nest, first in zip(loops, firsts, strict=True)}
        known = Polynomial.of(elements)
        axes = {
            name: self.kernel.hardware_axis(name) for name in known.variables & self.kernel.loopy_kernel.all_inames()
        }
        where = {name: prim.Variable(str(axis)) for name, axis in axes.items() if axis is not None}
        return known.in_terms_of(where | passes)

    @cached_property
    def _variables(self) -> frozenset[str]:
        return self.kernel.parameters | self.kernel.loopy_kernel.all_inames()

    def _in_passes(self, expression: Any, loops: tuple[Nest, ...]) -> Any:
        """Return *expression* of loop variables and sizes as one of the passes of *loops*."""
        if not isinstance(expression, prim.ExpressionNode):
            return expression
        values: dict[str, Any] = dict(self.executions.sizes) | self.executions.host
        for depth, nest in enumerate(loops, 1):
            first = self._first(nest, loops[:depth])
            values[nest.iname] = prim.Variable(nest.iname) + first
        return substitute(expression, values)

    def _first(self, nest: Nest, loops: tuple[Nest, ...]) -> Any:
        if id(nest) not in self._firsts:
            self._firsts[id(nest)] = self.executions.first(loops)
        return self._firsts[id(nest)]

    # }}}

    # {{{ edges

    def _edges(self) -> Iterator[Edge]:
        for target in self.numbers:
            yield from self._within(target)
        accesses = list(self._accesses())
        nodes = {access.name: node for access, node, _ in accesses}
        slots = {access.name: operands for access, _, operands in accesses}
        for found in dependences([access for access, _, _ in accesses]):
            ends = nodes[found.source], nodes[found.target]
            for operand in slots[found.target]:
                yield from self._of_dependence(*ends, found.relation, operand)
        yield from self._before_barriers()

    def _within(self, target: int) -> Iterator[Edge]:
        """Yield the edges from what is computed in the pass that *target* is in."""
        draft = self.program.drafts[target]
        data = [(slot, value.node) for slot, value in enumerate(draft.operands)]
        found = [(slot, source) for slot, source in data if source is not None and source in self.numbers]
        yield from (self._in_same_pass(source, target, "data", slot) for slot, source in found)
        deciding = dict.fromkeys(value.node for value in draft.controls)
        for source in () if found else deciding:
            if source is not None and source in self.numbers:
                yield self._in_same_pass(source, target, "control")

    def _in_same_pass(self, source: int, target: int, through: Any, operand: int | None = None) -> Edge:
        loops = self.program.drafts[source].statement.loops
        same = tuple(prim.Variable(nest.iname) for nest in loops)
        return Edge(self.numbers[source], self.numbers[target], (0,) * len(loops), same, None, through, operand)

    def _of_dependence(self, source: int, target: int, relation: isl.Map, operand: int | None = None) -> Iterator[Edge]:
        """Yield the edges from executions of *source* to those of *target* that *relation* assigns to them."""
        before, after = (self.program.drafts[place].statement.loops for place in (source, target))
        numbered = relation.apply_domain(self.executions.numbering(after))
        numbered = numbered.apply_range(self.executions.numbering(before))
        through = self._through(source, target)
        shared = sum(one is other for one, other in zip(before, after, strict=False))
        everywhere = self.runs[target].passes
        for piece, value in _pieces(numbered):
            passes = tuple(_named(value.get_at(place), after) for place in range(len(before)))
            for where, distance in _distances(piece, value, shared):
                condition = condition_on(where, everywhere, after)
                ends = self.numbers[source], self.numbers[target]
                yield Edge(*ends, distance, passes, condition, through, operand)

    def _through(self, source: int, target: int) -> Any:
        kinds = {self.program.drafts[place].kind for place in (source, target)}
        if "barrier" in kinds:
            return "synchronization"
        return "memory" if self.program.drafts[source].kind == "store" else "data"

    # }}}

    # {{{ cells

    def _accesses(self) -> Iterator[tuple[CellAccess, int, list[int | None]]]:
        """Yield the accesses of cells, each with the instruction that does it, and with its operands that they are."""
        number = count()
        for definition in self.program.translator.definitions:
            if definition.node in self.numbers:
                cell = definition.variable, definition.index
                access, _ = self._access(next(number), definition.node, *cell, is_write=True)
                yield access, definition.node, []
        for place in self.numbers:
            draft = self.program.drafts[place]
            reads: dict[Read, list[int | None]] = {}
            for slot, value in enumerate((*draft.operands, *draft.controls)):
                if value.read is not None:
                    reads.setdefault(value.read, []).append(slot if slot < len(draft.operands) else None)
            for read, operands in reads.items():
                access, _ = self._access(next(number), place, read.variable, read.index, is_write=False)
                yield access, place, operands
        for place, array, index, is_write in self._in_memory():
            access, _ = self._access(next(number), place, array, index, is_write)
            yield access, place, [None]

    def _in_memory(self) -> Iterator[tuple[int, str, tuple[Any, ...] | None, bool]]:
        """Yield the accesses of arrays in memory, and those of what barriers hand on."""
        for place in self.numbers:
            draft = self.program.drafts[place]
            if draft.kind == "barrier":
                yield place, HANDED_ON, None, False
                yield place, HANDED_ON, None, True
            elif (ref := draft.reference) is not None and ref.array not in self._exchanged:
                yield place, ref.array, ref.index, ref.direction == "store"
            elif ref is not None and ref.direction == "load":
                yield place, HANDED_ON, None, False

    @cached_property
    def _exchanged(self) -> frozenset[str]:
        """Return the local arrays that work-items exchange values through, with barriers between."""
        drafts = [self.program.drafts[place] for place in self.numbers]
        stored = [ref.array for draft in drafts if (ref := draft.reference) and (ref.direction, ref.space) == STORE]
        return frozenset(stored) if any(draft.kind == "barrier" for draft in drafts) else frozenset()

    def _before_barriers(self) -> Iterator[Edge]:
        """Yield the edges from stores to the barrier that comes next, which hands on what they stored."""
        drafts = self.program.drafts
        number = count()
        barriers = [
            self._access(next(number), place, HANDED_ON, None, is_write=True)
            for place in self.numbers
            if drafts[place].kind == "barrier"
        ]
        stores = [
            self._access(next(number), place, HANDED_ON, None, is_write=False)
            for place in self.numbers
            if (ref := drafts[place].reference) and ref.array in self._exchanged and ref.direction == "store"
        ]
        if not stores:
            return
        nodes = {access.name: node for access, node in (*barriers, *stores)}
        for found in flow([access for access, _ in stores], [access for access, _ in barriers], backwards=True):
            last = found.relation.reverse().lexmax()
            yield from self._of_dependence(nodes[found.target], nodes[found.source], last)

    def _access(
        self, number: int, place: int, array: str, index: tuple[Any, ...] | None, is_write: bool
    ) -> tuple[CellAccess, int]:
        draft = self.program.drafts[place]
        variables = tuple(nest.iname for nest in draft.statement.loops)
        if index is not None:
            index = tuple(with_values(expression, self._uniform) for expression in index)
            index = index if is_affine(self.runs[place].values, variables, index) else None
        access = CellAccess(
            f"A{number}",
            array,
            index,
            variables,
            self.runs[place].values,
            self.program.places[id(draft.statement)],
            is_write,
            is_certain=self.runs[place].weight == 1,
        )
        return access, place

    @cached_property
    def _uniform(self) -> dict[str, int]:
        """Return the values of sizes, and of the hardware's inames in the first lane."""
        values = dict(self.executions.sizes) | self.executions.host
        inames = frozenset[str]().union(*(draft.statement.inames for draft in self.program.drafts))
        lanes = iname_values(self.kernel, self.executions.warp, inames, self.executions.sizes)
        return values | {name: int(each[0]) for name, each in lanes.items()}

    # }}}


def _pieces(relation: isl.Map) -> list[tuple[isl.Set, isl.MultiAff]]:
    """Return what the single-valued *relation* maps to, by where it does."""
    found: list[tuple[isl.Set, isl.MultiAff]] = []
    isl.PwMultiAff.from_map(relation).foreach_piece(lambda where, value: found.append((where, value)))
    return found


def _named(value: isl.Aff, loops: Sequence[Nest]) -> Any:
    """Return *value* as an integer, or as an expression of the passes of *loops*."""
    if value.is_cst():
        return value.get_constant_val().to_python()
    for place, nest in enumerate(loops):
        value = value.set_dim_name(IN, place, nest.iname)
    return aff_to_expr(value)


def _distances(where: isl.Set, source: isl.MultiAff, shared: int) -> Iterator[tuple[isl.Set, tuple[int, ...]]]:
    """Yield by how many passes of each of the *shared* loops the source is earlier, with where it is by so many.

    In a loop by whose passes it is not always equally far, they are the least. They say nothing of the loops inside.
    """
    found: list[int] = []
    for place in range(shared):
        space = isl.LocalSpace.from_space(source.get_at(place).get_domain_space())
        apart = isl.Aff.var_on_domain(space, SET, place).sub(source.get_at(place))
        if apart.is_cst():
            found.append(apart.get_constant_val().to_python())
            continue
        if any(found):
            break
        passes = isl.PwAff.from_aff(apart)
        earlier = where & passes.pos_set()
        if not earlier.is_empty():
            yield earlier, (*found, passes.intersect_domain(earlier).min_val().to_python())
        where = where & passes.zero_set()
        if where.is_empty():
            return
        found.append(0)
    yield where, tuple(found)
