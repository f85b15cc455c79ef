"""Global value numbering and loop-invariant code motion: equal values are computed once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import pymbolic.primitives as prim

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg, number_of_runs, rewritten
from loopyperf.idg.program import (
    STAYING,
    Edge,
    Instruction,
    Item,
    Iteration,
    Loop,
    Opcode,
    integer_if_whole,
    loops_in,
    placed,
)
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import conjunction, names_of

COMMUTATIVE = (Opcode.ADD, Opcode.MUL, Opcode.MIN_MAX)


def without_common_subexpressions(graph: Idg) -> Idg:
    """Return *graph* with equal computations and loads in the same iteration merged.

    A value is loaded again after a store to its array, and from local memory after a barrier.
    """
    same = _Merger(graph).same
    merged = {place: first for place, first in enumerate(same) if place != first}
    kept = [place for place in range(len(same)) if place not in merged]
    return rewritten(graph, kept, [edge for edge in graph.edges if edge.target not in merged], merged=merged)


def computed_once(graph: Idg) -> Idg:
    """Return *graph* with work that iterations and unrolled copies share done once.

    The result has no edges.
    """
    moved = without_invariants(graph)
    return rewritten(moved, [place for place, first in enumerate(_Merger(moved).same) if place == first], ())


class _Known(NamedTuple):
    """An earlier computation."""

    place: int
    instruction: Instruction
    barrier: int | None
    """the latest barrier before it"""

    def reaches(self, later: "_Known") -> bool:
        """Return whether it was computed in all cases in which *later* is.

        If no barrier is between them, both are guarded by one and the same test. No value passes from the guarded part
        of one test to that of the next. Arithmetic is computed for all lanes, whatever the predicates.
        """
        own, other = self.instruction, later.instruction
        if own.reference is None:
            own = replace(own, predicates=other.predicates)
        is_guarded = bool(own.tests or own.on_data)
        return own.executes_whenever(other) and (not is_guarded or self.barrier == later.barrier)


class _Merger:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.same = list(range(len(graph.instructions)))
        """instruction -> first instruction with the same value"""

        self._keys: dict[int, Any] = {}
        self._merge(graph.body)

    def _merge(self, body: Sequence[Item]) -> None:
        found: dict[Any, list[_Known]] = {}
        versions: dict[str, int] = {}
        for item in body:
            if isinstance(item, Loop):
                self._merge(item.body)
                found = {}  # values in registers before a loop may not be there after it
                continue
            instruction = self.graph.instructions[item]
            if instruction.kind == Opcode.BARRIER:
                versions[""] = item
            elif instruction.kind == Opcode.STORE and instruction.reference is not None:
                versions[instruction.reference.array] = item
            elif (what := self._what(item, instruction, versions)) is not None:
                own = _Known(item, instruction, versions.get(""))
                known = found.setdefault(what, [])
                same = (each.place for each in known if each.reaches(own) and self._key(each.place) == self._key(item))
                self.same[item] = next(same, item)
                # A value that no lane computes cannot be reused.
                if self.same[item] == item and not instruction.is_idle:
                    known.append(own)

    def _what(self, place: int, instruction: Instruction, versions: dict[str, int]) -> Any:
        """Return a key that equal instructions share; None if *instruction* is never merged. See also :meth:`_key`."""
        if instruction.kind in STAYING or instruction.is_assumed:
            return None
        what = (instruction.kind, instruction.dtype, instruction.part)
        if instruction.kind == Opcode.LOAD:
            if instruction.reference is None or instruction.is_volatile:
                return None
            ref = instruction.reference
            barrier = versions.get("") if ref.space == MemorySpace.LOCAL or ref.array in self.graph.stored else None
            where = instruction.address if instruction.symbolic is None else instruction.symbolic
            return (*what, ref.array, ref.bits, where, versions.get(ref.array), barrier)
        return (*what, frozenset([self.same[edge.source] for edge in self.graph.definitions[place]]))

    def _key(self, place: int) -> Any:
        """Return the second part of the key: operands, or the index of an indirect load."""
        if place not in self._keys:
            self._keys[place] = self._found(place, self.graph.instructions[place])
        return self._keys[place]

    def _found(self, place: int, instruction: Instruction) -> Any:
        if instruction.kind == Opcode.LOAD:
            return self._operands(place, instruction)[0] if instruction.address is None else None
        operands, rest = self._operands(place, instruction)
        return instruction.function, Counter(operands) if instruction.kind in COMMUTATIVE else operands, rest

    def _operands(self, place: int, instruction: Instruction) -> tuple[tuple[Any, ...], Any]:
        """Return (known operands with their sources, sources that are no operands)."""
        sources: dict[int | None, set[Any]] = {}
        for edge in self.graph.definitions[place]:
            found = self.same[edge.source], edge.iterations, edge.condition
            sources.setdefault(edge.operand, set()).add(found)
        before = {slot: frozenset(found) for slot, found in sources.items()}
        operands = enumerate(instruction.operands)
        known = tuple([(_canonical(each.known), each.is_negated, before.get(slot)) for slot, each in operands])
        return known, before.get(None)


def _canonical(expression: Any) -> Any:
    """Return *expression* in a form that does not depend on the order of its terms."""
    known = Affine.of(expression) if isinstance(expression, prim.ExpressionNode) else None
    return str(expression) if known is None else known


# {{{ loop-invariant code motion


def without_invariants(graph: Idg) -> Idg:
    """Return *graph* with loop-invariant instructions moved before their loops.

    A load moves if no instruction of the kernel stores to its array. A load from local memory moves if no instruction
    in the loop does and the loop has no barrier. Volatile loads do not move.
    """
    while (moved := _LoopInvariantMotion(graph).moved()) is not None:
        graph = moved
    return graph


class _LoopInvariantMotion:
    """Moves each invariant instruction out of the innermost loop around it, one loop at a time."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.invariant: set[int] = set()

    def moved(self) -> Idg | None:
        """Return the graph with instructions moved; None if none can move."""
        for loop in reversed([*loops_in(self.graph.body)]):  # inner loops first
            if not isinstance(loop.trips, int) or loop.trips > 0:
                self._look_at(loop)
        if not self.invariant:
            return None
        body = tuple(self._items(self.graph.body))
        instructions = tuple(
            self._once(instruction, place) if place in self.invariant else instruction
            for place, instruction in enumerate(self.graph.instructions)
        )
        return Idg(instructions, tuple(map(self._outside, self.graph.edges)), body)

    def _look_at(self, loop: Loop) -> None:
        here = {item for item in loop.body if isinstance(item, int)}
        inside = [self.graph.instructions[place] for place, _ in placed(loop.body)]
        meets = any(each.kind == Opcode.BARRIER for each in inside)
        changed = {each.reference.array for each in inside if each.kind == Opcode.STORE and each.reference is not None}
        for place in loop.body:
            if (
                isinstance(place, int)
                and self._may_move(place, meets, changed)
                and self._is_the_same(place, loop, here)
            ):
                self.invariant.add(place)

    def _may_move(self, place: int, meets: bool, changed: set[str]) -> bool:
        """Return whether an instruction may leave a loop; *meets* tells whether the loop has a barrier."""
        each = self.graph.instructions[place]
        if each.reference is None:
            return each.kind not in STAYING and not each.is_assumed
        read = each.reference
        lasts = (
            read.array not in changed and not meets
            if read.space == MemorySpace.LOCAL
            else read.array not in self.graph.stored
        )
        return each.kind not in STAYING and each.address is not None and lasts and not each.is_volatile

    def _is_the_same(self, place: int, loop: Loop, here: set[int]) -> bool:
        each, edges = self.graph.instructions[place], self.graph.definitions[place]
        if any(edge.source in here and edge.source not in self.invariant for edge in edges):
            return False
        known = [each.condition, each.address, *(operand.known for operand in each.operands)]
        known += [] if each.reference is None else _evaluated(each)
        return loop.name not in names_of(known) and all(self._comes_from_outside(edge, loop, here) for edge in edges)

    def _comes_from_outside(self, edge: Edge, loop: Loop, here: set[int]) -> bool:
        if edge.source in here:
            return loop.name not in names_of([edge.condition])
        inside = any(around.number == loop.number for around in self.graph.loops_around[edge.source])
        return not inside and loop.name not in names_of([*edge.iterations, edge.condition])

    def _once(self, instruction: Instruction, place: int) -> Instruction:
        """Return *instruction* outside its innermost loop; arithmetic leaves without the conditions tested inside.

        It executes only if the loop has iterations.
        """
        *outside, loop = loops = self.graph.loops_around[place]
        condition = conjunction(instruction.condition, _enters(loop, outside))
        once = number_of_runs(condition, outside)
        if loop.name in names_of(_evaluated(instruction)):
            return replace(instruction, executions=once, condition=condition, on_data=())
        if isinstance(loop.trips, int):
            number = Fraction(instruction.executions) / loop.trips
        else:
            number = Fraction(instruction.executions) * once / max(number_of_runs(instruction.condition, loops), 1)
        return replace(instruction, executions=integer_if_whole(number), condition=condition)

    def _outside(self, edge: Edge) -> Edge:
        """Return *edge* without the loop from which one of its ends is moved."""
        if edge.source not in self.invariant and edge.target not in self.invariant:
            return edge
        depth = len(self.graph.loops_around[edge.source]) - (edge.source in self.invariant)
        target = len(self.graph.loops_around[edge.target]) - (edge.target in self.invariant)
        return replace(edge, iterations=edge.iterations[:depth], distance=edge.distance[: min(depth, target)])

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if not isinstance(item, Loop):
                yield item
                continue
            own = [place for place in item.body if isinstance(place, int) and place in self.invariant]
            inside = tuple(each for each in item.body if not isinstance(each, int) or each not in self.invariant)
            yield from own
            if inside:
                yield replace(item, body=tuple(self._items(inside)))


def _enters(loop: Loop, outside: Sequence[Loop]) -> Any:
    """Return the condition that *loop*, inside the loops *outside*, has iterations; None if it always has."""
    if isinstance(loop.trips, int):
        return None
    condition = prim.Comparison(loop.trips, ">", 0)
    return None if number_of_runs(condition, outside) == number_of_runs(None, outside) else condition


def _evaluated(instruction: Instruction) -> list[Iteration]:
    """Return the iterations in which the conditions on data of *instruction* are evaluated."""
    return [iteration for condition in instruction.on_data for iteration in condition.iterations]


# }}}
