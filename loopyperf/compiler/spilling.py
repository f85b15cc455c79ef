"""Spills: values that do not fit into registers are stored to local (stack) memory and loaded again before their use.

If more values are live than there are registers, the one with the farthest next use is spilled (Belady, A study of
replacement algorithms for a virtual-storage computer, 1966; for loops, Braun and Hack, Register spilling and live-range
splitting for SSA-form programs, CC 2009). Values that a loop does not use are spilled before the loop, and values that
an iteration spills are in memory when it starts. Values that can be recomputed without memory of their own are not
stored: a load from global memory that no instruction stores to is repeated, and so is the move of a constant. Loop
pointers and counters are excluded because ptxas recomputes them. If a loop makes no iterations, no instruction waits
for the stores before it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pymbolic.primitives as prim

from loopyperf.compiler.stack_memory import last_iterations, stack_access
from loopyperf.counts.item import Direction, MemorySpace
from loopyperf.idg.graph import Idg, number_of_runs, rewritten
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import (
    Dependence,
    Edge,
    Instruction,
    Item,
    Iteration,
    Loop,
    Opcode,
    common_depth,
    integer_if_whole,
)
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import conjunction

STACK = "spilled registers"
"""name of the array that contains the spills"""
READ_AGAIN = (MemorySpace.GLOBAL, MemorySpace.CONSTANT)
"""memories whose read-only data is loaded again instead of stored"""
WIDEST = 4
"""registers that one instruction stores, at most"""
FAR = 1_000_000
"""distance in instructions: a use after a loop is farther away than any use inside it"""


def with_spills(lives: Lives, registers: int) -> tuple[Idg, int]:
    """Return the graph with values that need at most *registers* at once, and the bytes spilled per work-item.

    Registers are 32-bit registers of one work-item, for values with these *lives*.
    """
    if max(lives.pressure(lives.taken[0]), default=0) <= registers - WIDEST:
        return lives.graph, 0
    spilling = _Spilling(lives, registers)
    return (spilling.graph(), spilling.nbytes) if spilling.is_needed else (lives.graph, 0)


@dataclass
class _State:
    """The location of each value at a point of the program; a value is a web of instructions that define it."""

    kept: dict[int, None] = field(default_factory=dict[int, None])
    """values in registers, in insertion order"""
    saved: set[int] = field(default_factory=set[int])
    """values whose copy in memory is current"""
    again: dict[int, int] = field(default_factory=dict[int, int])
    """value in a register -> instruction that reloaded it"""
    unused: set[int] = field(default_factory=set[int])
    """values not used since their definition"""
    taken: int = 0
    """registers in use"""

    def copied(self) -> "_State":
        """Return an independent copy."""
        return _State(dict(self.kept), set(self.saved), dict(self.again), set(self.unused), self.taken)


class _Spilling:
    def __init__(self, lives: Lives, registers: int) -> None:
        self.source = graph = lives.graph
        self.lives, (without_pointers, _) = lives, lives.taken
        alone = lives.widths
        self.width = {
            value: taken
            if taken <= max(alone[self.lives.text.order[each]] for each in self.lives.defined[value])
            else 0
            for value, taken in without_pointers.items()
        }
        """value -> its registers; 0 if it is never spilled, such as array elements in a loop that is not unrolled"""
        # A load needs its registers before the instruction that uses it frees others.
        self.room = registers - max((min(width, WIDEST) for width in self.width.values()), default=0)
        self.pressure = lives.pressure(without_pointers)
        self.defining: dict[int, int] = {}
        """value -> its latest definition so far in program order"""
        self.uses: dict[int, list[int]] = {}
        self.carried: defaultdict[int, set[int]] = defaultdict(set)
        """loop number -> values that one iteration passes to the next"""
        for edge in graph.edges:
            if edge.through == Dependence.DATA:
                value = self.lives.web[edge.source]
                self.uses.setdefault(value, []).append(self.lives.text.position[edge.target])
                level = next((level for level, passes in enumerate(edge.distance) if passes), None)
                if level is not None:
                    self.carried[graph.loops_around[edge.source][level].number].add(value)
        for positions in self.uses.values():
            positions.sort()
        self.instructions, self.around = list(graph.instructions), list(graph.loops_around)
        self.edges: dict[int, list[Edge]] = {}
        """instruction -> edges to it, if they have changed"""
        self.stores: dict[int, int] = {}
        """value -> its latest store"""
        self.slots: dict[int, int] = {}
        """value in memory -> its slot number"""
        self.removed: set[int] = set()
        self._redone: dict[int, int | None] = {}
        self.state = _State()

    @property
    def is_needed(self) -> bool:
        return max(self.pressure, default=0) > self.room

    @property
    def nbytes(self) -> int:
        return sum(4 * self.width[value] for value in self.slots)

    def graph(self) -> Idg:
        body = tuple(self._items(self.source.body, ()))
        edges = [edge for place in range(len(self.instructions)) for edge in self._edges_to(place)]
        whole = Idg(tuple(self.instructions), tuple(edges), body)
        kept = [place for place in range(len(self.instructions)) if place not in self.removed]
        return rewritten(whole, kept, whole.edges)

    def _edges_to(self, place: int) -> Sequence[Edge]:
        if place in self.edges:
            return self.edges[place]
        return self.source.definitions[place] if place < len(self.source.instructions) else ()

    # {{{ the program, from start to end

    def _items(self, body: Sequence[Item], loops: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield from self._loop(item, loops)
            else:
                yield from self._instruction(item, loops)

    def _loop(self, loop: Loop, loops: tuple[Loop, ...]) -> Iterator[Item]:
        span = self.lives.text.span(loop)
        first = self.lives.text.order[span.start]
        if max(self.pressure[span.start : span.stop]) <= self.room:
            for value in [each for each in self.width if self._is_in(each, span) and each not in self.state.kept]:
                if value in self.defining and self.width[value] and self.lives.is_alive(value, span.start - 1):
                    if value in self.state.saved or self._again(value) is not None:
                        yield self._load(value, first, len(loops))
                    self._keep(value)
            yield replace(loop, body=tuple(self._items(loop.body, (*loops, loop))))
            return
        for value in self.width:
            if self.lives.is_alive(value, span.start - 1) and value not in self.state.saved:
                self._keep(value)  # including constants, which move into registers here
        # Spill values that the loop does not use to make room for those that it uses.
        excess = max(self.pressure[span.start : span.stop]) - self.room
        idle = [value for value in self.state.kept if not self._is_in(value, span)]
        for value in sorted(idle, key=lambda value: -self._distance(value, span.stop - 1, loops)):
            if excess > 0:
                excess -= self.width[value]
                yield from self._give_up(value, first, len(loops))
        yield from self._make_room(span.start - 1, (), (*loops, loop), first)
        # Values that are no longer in registers at the end of an iteration are not there at the start of the next.
        before, known = self.state.copied(), (dict(self.stores), dict(self.slots), dict(self.defining))
        removed = set(self.removed)
        number = len(self.instructions)
        list(self._items(loop.body, (*loops, loop)))
        lost = [value for value in before.kept if value not in self.state.kept and self.lives.is_alive(value, span[-1])]
        self.state, self.removed, (self.stores, self.slots, self.defining) = before, removed, known
        del self.instructions[number:], self.around[number:]
        for value in lost:
            yield from self._give_up(value, first, len(loops))
        entered, entering = set(self.state.kept), len(self.instructions)
        body = list(self._items(loop.body, (*loops, loop)))
        last = self.lives.text.order[span[-1]]
        for value in self.state.kept:
            if value in self.carried[loop.number] - entered - self.state.saved:
                body += self._store(value, last, len(loops) + 1)
        self._carry(loop, len(loops), entering)
        yield replace(loop, body=tuple(body))

    def _carry(self, loop: Loop, depth: int, entering: int) -> None:
        """Make loads of *loop*, from instruction *entering* on, wait for stores of the previous iteration."""
        stores = {f"{STACK}[{self.slots[value]}]": store for value, store in self.stores.items() if store >= entering}
        for place in range(entering, len(self.instructions)):
            each = self.instructions[place]
            if each.kind != Opcode.LOAD or each.subsystem != MemorySpace.PRIVATE or each.text not in stores:
                continue
            outer = [edge for edge in self.edges[place] if edge.source < entering and edge.through == Dependence.MEMORY]
            for edge in outer:
                store, name = stores[each.text], prim.Variable(loop.name)
                iterations: list[Iteration] = [Affine(((around.name, 1),)) for around in self.around[place][:depth]]
                before: Iteration = Affine(((loop.name, 1),), -1)
                inner = [
                    last.replaced({loop.name: before}) for last in last_iterations(self.around[store][depth + 1 :])
                ]
                carried = Edge(store, place, (*(0,) * depth, 1), (*iterations, before, *inner), None, Dependence.MEMORY)
                self.edges[place].remove(edge)
                self.edges[place] += [
                    replace(edge, condition=conjunction(edge.condition, prim.Comparison(name, "==", 0))),
                    replace(carried, condition=conjunction(edge.condition, prim.Comparison(name, ">", 0))),
                ]

    def _instruction(self, place: int, loops: tuple[Loop, ...]) -> Iterator[int]:
        lives, state, position = self.lives, self.state, self.lives.text.position[place]
        needed = dict.fromkeys(
            lives.web[e.source] for e in self.source.definitions[place] if e.through == Dependence.DATA
        )
        for value in needed:
            if value not in state.kept and value in self.defining:
                if self.width[value] and (value in state.saved or self._again(value) is not None):
                    yield self._load(value, place)
                self._keep(value)
            state.unused.discard(value)
        yield from self._make_room(position, needed, loops, place)
        self._lead_to(place)
        yield place
        for value in needed:
            if value in state.kept and not lives.is_alive(value, position):
                self._drop(value)
        own = lives.web[place]
        self.defining[own] = place
        if self.width.get(own) and lives.is_alive(own, position):
            state.again.pop(own, None)
            state.saved.discard(own)
            state.unused.add(own)
            self._keep(own)
            yield from self._make_room(position, (own,), loops, place, is_after=True)

    def _lead_to(self, place: int) -> None:
        """Make *place* wait for the instructions that reloaded its operands."""
        found: dict[Edge, None] = {}
        for edge in self.source.definitions[place]:
            loaded = self.state.again.get(self.lives.web[edge.source]) if edge.through == Dependence.DATA else None
            found[edge if loaded is None else self._edge(loaded, place, Dependence.DATA, edge.operand)] = None
        self.edges[place] = list(found)

    # }}}

    # {{{ registers

    def _keep(self, value: int) -> None:
        if value not in self.state.kept and self.width[value]:
            self.state.kept[value] = None
            self.state.taken += self.width[value]

    def _drop(self, value: int) -> None:
        del self.state.kept[value]
        self.state.taken -= self.width[value]

    def _make_room(
        self, position: int, needed: Collection[int], loops: tuple[Loop, ...], place: int, *, is_after: bool = False
    ) -> Iterator[int]:
        """Yield spill stores, before *place* or its loop, of the values used farthest after *position*."""
        depth = len(loops) - 1 if position < self.lives.text.position[place] else None
        if self.state.taken > self.room:
            for value in [each for each in self.state.kept if not self.lives.is_alive(each, position)]:
                if value not in needed:
                    self._drop(value)
        while self.state.taken > self.room:
            others = [value for value in self.state.kept if value not in needed]
            if not others:
                return
            value = max(others, key=lambda value: self._distance(value, position, loops))
            yield from self._give_up(value, place, depth, is_after=is_after)

    def _give_up(self, value: int, place: int, depth: int | None = None, *, is_after: bool = False) -> Iterator[int]:
        """Yield the store of *value*, if it needs one, before *place* or the loop around it at *depth*."""
        if value in self.state.kept:
            if self._again(value) is None and value not in self.state.saved:
                yield from self._store(value, place, depth, is_after=is_after)
            self._drop(value)

    # }}}

    # {{{ distance to the next use

    def _distance(self, value: int, position: int, loops: tuple[Loop, ...]) -> int:
        """Return the number of instructions from *position*, inside *loops*, to the next use of *value*."""
        uses = self.uses.get(value, [])
        later = bisect_right(uses, position)
        following = uses[later] if later < len(uses) else None
        for depth, loop in enumerate(reversed(loops)):
            span = self.lives.text.span(loop)
            if following is not None and following < span.stop:
                return following - position + depth * FAR
            first = bisect_left(uses, span.start)
            is_there = value in self.carried[loop.number] or self.lives.is_alive(value, span.start - 1)
            if is_there and first < len(uses) and uses[first] <= position:
                return span.stop - position + uses[first] - span.start + depth * FAR
        return (2 * FAR if following is None else following - position) + len(loops) * FAR

    def _is_in(self, value: int, span: range) -> bool:
        """Return whether *value* is used or defined within *span*."""
        uses = self.uses.get(value, [])
        first = bisect_left(uses, span.start)
        is_used = first < len(uses) and uses[first] < span.stop
        return is_used or any(position in span for position in self.lives.defined[value])

    # }}}

    # {{{ instructions

    def _again(self, value: int) -> int | None:
        """Return the instruction to repeat instead of storing *value*; None if it has to be stored."""
        if value not in self._redone:
            self._redone[value] = self._found_again(value)
        return self._redone[value]

    def _found_again(self, value: int) -> int | None:
        places = [self.lives.text.order[position] for position in self.lives.defined[value]]
        each = self.source.instructions[places[0]]
        if len(places) > 1:
            return None
        if each.kind == Opcode.MOVE:
            return None if self.source.definitions[places[0]] else places[0]
        is_read = each.kind == Opcode.LOAD and each.subsystem in READ_AGAIN and not each.is_volatile
        return places[0] if is_read and each.reference.array not in self.source.stored else None

    def _load(self, value: int, place: int, depth: int | None = None) -> int:
        """Return the instruction that reloads *value*, before *place* or the loop around it at *depth*."""
        state, again = self.state, self._again(value)
        if again is not None:
            if value in state.unused and self.source.instructions[again].kind == Opcode.LOAD:
                self.removed.add(state.again.get(value, again))
            new = self._add(self.source.instructions[again], place, depth)
            is_same = len(self.around[again]) == len(self.around[new]) == self._shared(again, new)
            edges = self.source.definitions[again] if is_same else ()
            self.edges[new] = [edge.between(edge.source, new) for edge in edges if edge.source != again]
        else:
            new = self._add(self._access("load", value), place, depth)
            self.edges[new] = []
            if value in self.stores:
                self.edges[new].append(self._edge(self.stores[value], new, Dependence.MEMORY, None))
        state.again[value] = new
        return new

    def _store(self, value: int, place: int, depth: int | None = None, *, is_after: bool = False) -> Iterator[int]:
        """Yield the store of *value*, before or after *place*, or before the loop around it at *depth*."""
        new = self._add(self._access("store", value), place, depth)
        self.edges[new] = list(
            self._stored(value, new, self.lives.text.position[place] + is_after if depth is None else None)
        )
        self.state.saved.add(value)
        self.stores[value] = new
        yield new

    def _stored(self, value: int, store: int, position: int | None) -> Iterator[Edge]:
        """Yield the edges to the *store* of *value*, those to its next use after *position* if not before a loop."""
        uses = self.uses.get(value, [])
        later = len(uses) if position is None else bisect_left(uses, position)
        place = self.lives.text.order[uses[later]] if later < len(uses) else None
        if value in self.state.again:
            yield self._edge(self.state.again[value], store, Dependence.DATA, 0)
        elif place is not None and len(self.around[place]) == len(self.around[store]) == self._shared(place, store):
            before = [edge for edge in self.source.definitions[place] if edge.through == Dependence.DATA]
            found = {each: None for each in before if self.lives.web[each.source] == value}
            yield from dict.fromkeys(replace(each, target=store, operand=0) for each in found)
        else:
            yield self._edge(self.defining.get(value, value), store, Dependence.DATA, 0)

    def _access(self, direction: Direction, value: int) -> Instruction:
        slot = self.slots.setdefault(value, len(self.slots))
        bits, source = 32 * min(self.width[value], WIDEST), self.source.instructions[value].source
        return stack_access(direction, STACK, Affine((), slot), bits, source)

    def _add(self, instruction: Instruction, place: int, depth: int | None = None) -> int:
        """Return the number of *instruction*, executed in all iterations of the first *depth* loops around *place*."""
        like, around = self.source.instructions[place], self.around[place][:depth]
        executions = like.executions
        if depth is not None or like.condition is not None:
            inside = number_of_runs(like.condition, self.around[place])
            share = Fraction(number_of_runs(None, around), inside) if inside else Fraction(0)
            executions = executions * share
            executions = integer_if_whole(executions)
        self.instructions.append(replace(instruction, executions=executions, condition=None))
        self.around.append(around)
        return len(self.instructions) - 1

    def _edge(self, source: int, target: int, through: Dependence, operand: int | None) -> Edge:
        """Return the edge from the last execution of *source* in the same iteration of the common loops."""
        before, shared = self.around[source], self._shared(source, target)
        same: tuple[Iteration, ...] = tuple(Affine(((loop.name, 1),)) for loop in before[:shared])
        return Edge(source, target, (0,) * shared, (*same, *last_iterations(before[shared:])), None, through, operand)

    def _shared(self, one: int, other: int) -> int:
        """Return the number of loops around both."""
        return common_depth(self.around[one], self.around[other])

    # }}}
