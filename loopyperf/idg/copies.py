"""Loop unrolling in graphs.

Unrolling a loop of T iterations by a factor f gives a loop of T // f iterations over f copies of the body, followed by
T mod f single copies. The dependences of each execution stay the same: if the source iteration of an edge is known
modulo f, the new edge leads from one copy; otherwise there is one conditional edge from each copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, cast

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg, addressed, expressions_in
from loopyperf.idg.program import (
    Edge,
    Instruction,
    Item,
    Iteration,
    Loop,
    common_depth,
    integer_if_whole,
    lag,
    loops_in,
)
from loopyperf.polyhedral.affine import Affine, Opaque, Symbol
from loopyperf.polyhedral.expressions import conjunction, in_terms_of, names_of, times_held


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy of a loop's body."""

    number: int
    """offset of the old iteration"""
    factor: int
    """old iterations per iteration of the new loop; 0 for a single copy, which is the old iteration *number*"""
    trips: int = 1
    """trip count of the new loop"""

    def old_iteration(self, name: str) -> Iteration:
        """Return the iteration of the old loop *name* in terms of that of the new loop."""
        return Affine(((name, self.factor),) if self.factor else (), self.number)


@dataclass(frozen=True, slots=True)
class _UnrolledLoop:
    """The copies that an unrolled loop consists of."""

    copies: tuple[_Copy, ...]

    @classmethod
    def of(cls, loop: Loop, factor: int) -> "_UnrolledLoop":
        """Return the copies of *loop* unrolled by *factor*."""
        if not isinstance(loop.trips, int) or (factor == 1 and (loop.trips > 1 or loop.is_counted)):
            return cls((_Copy(0, 1),))
        whole, rest = divmod(loop.trips, factor)
        is_loop = whole > 1 or loop.is_counted
        repeated = [_Copy(number, factor if is_loop else 0, whole) for number in range(factor)] if whole else []
        return cls((*repeated, *(_Copy(whole * factor + number, 0) for number in range(rest))))


SAME = _UnrolledLoop((_Copy(0, 1),))
"""a loop that is not unrolled"""
Chosen = tuple[int, ...]
"""index of the copy in each enclosing loop, outermost first"""
Trips = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The copies of the enclosing loops in which copied instructions stand."""

    chosen: Chosen
    """the copies of the enclosing loops"""
    iterations: Mapping[str, Iteration]
    """old loop -> its iteration in terms of the new loops, for changed loops"""
    trips: Trips
    """(name, trip count) of the new enclosing loops, outermost first"""
    runs: dict[Any, int]
    """condition -> the number of iterations in which it holds"""


class _Choice(NamedTuple):
    """A copy that may contain a given iteration of the old loop."""

    place: int
    """index of the copy"""
    new: Iteration | None
    """iteration of the new loop, if there is one"""
    test: Any
    """condition under which it is this copy; None for always"""


class _Origin(NamedTuple):
    """The source of a new edge."""

    chosen: Chosen
    iterations: tuple[Iteration, ...]
    condition: Any
    distance: tuple[int, ...]
    is_open: bool
    """whether the distance in the next inner loop is not constant"""


class _Pattern:
    """Common data of the edges that have the same loops around their ends, the same iterations and condition."""

    def __init__(self, graph: Idg, unrolled: Sequence[_UnrolledLoop], edge: Edge) -> None:
        around, within = graph.loops_around[edge.source], graph.loops_around[edge.target]
        self.origins: dict[Chosen, list[_Origin]] = {}
        self.condition = edge.condition, _depths(unrolled, within, [edge.condition]), dict[Chosen, Any]()
        """the condition, the depths of the unrolled loops that it depends on, and cached results"""
        common = around[: common_depth(around, within)]
        self.shared = [loop.name for loop in common if any(copy.factor for copy in unrolled[loop.number].copies)]
        """names of the loops around both ends that remain loops"""
        depths = (_depths(unrolled, within, [iteration]) for iteration in edge.iterations)
        self.parts = [
            (unrolled[loop.number], each, moving, dict[Chosen, list[_Choice]]())
            for loop, each, moving in zip(around, edge.iterations, depths, strict=True)
        ]
        """for each loop around the source: its copies, its iteration, the depths of the unrolled loops that the
        iteration depends on, and cached results"""

    def origins_of(self, context: _Context) -> list[_Origin]:
        """Return the copies of the source on which the target may depend in *context*."""
        if context.chosen not in self.origins:
            self.origins[context.chosen] = list(self._found(context))
        return self.origins[context.chosen]

    def _found(self, context: _Context) -> Iterator[_Origin]:
        condition = self._condition_in(context)
        if condition is False:
            return
        given = None if condition is True else condition
        options: list[list[_Choice]] = []
        for unrolled, old, moving, known in self.parts:
            here = tuple([context.chosen[depth] for depth in moving])
            if here not in known:
                known[here] = list(_choices(unrolled, old.replaced(context.iterations), dict(context.trips)))
            options.append(known[here])
        for choices in product(*options):
            new = tuple([each.new for each in choices if each.new is not None])
            tests = conjunction(given, *[choice.test for choice in choices])
            yield _Origin(tuple([each.place for each in choices]), new, tests, *self._distance(new))

    def _condition_in(self, context: _Context) -> Any:
        condition, moving, known = self.condition
        here = tuple([context.chosen[depth] for depth in moving])
        if here not in known:
            known[here] = in_terms_of(condition, context.iterations)
        return known[here]

    def _distance(self, new: Sequence[Iteration]) -> tuple[tuple[int, ...], bool]:
        """Return the constant distances in the new common loops, and whether a varying one follows."""
        found: list[int] = []
        for name, each in zip(self.shared, new, strict=False):
            earlier = lag(each, name)
            if earlier is None:
                return tuple(found), True
            found.append(earlier)
        return tuple(found), False


def _depths(unrolled: Sequence[_UnrolledLoop], around: Sequence[Loop], parts: Sequence[Any]) -> Chosen:
    """Return the depths of the unrolled loops *around* on which *parts*, or trip counts that matter to them, depend."""
    names = names_of(parts)
    if not names:
        return ()
    for loop in reversed(around):
        if loop.name in names and not isinstance(loop.trips, int):
            names |= names_of([loop.trips])
    moving = (depth for depth, loop in enumerate(around) if loop.name in names and unrolled[loop.number] != SAME)
    return tuple(moving)


def copied(graph: Idg, factors: Mapping[int, int]) -> Idg:
    """Return *graph* with loops unrolled; the dependences of each execution stay the same.

    *factors* maps loop numbers to unroll factors: 1 (the default) leaves a loop rolled, its trip count unrolls it
    fully. A loop that is left with one iteration is removed, unless its trip count is unknown at compile time. A loop
    with a varying trip count is not unrolled.
    """
    copier = _Copier(graph, factors)
    return copier.copied() if any(each != SAME for each in copier.unrolled) else graph


class _Copier:
    """Copies a graph; caches the results that several copies share."""

    def __init__(self, graph: Idg, factors: Mapping[int, int]) -> None:
        self.graph = graph
        self.unrolled = [_UnrolledLoop.of(loop, factors.get(loop.number, 1)) for loop in loops_in(graph.body)]
        self.places: dict[tuple[int, Chosen], int] = {}
        """(old index, copies of the enclosing loops) -> new index"""
        self.copies: list[tuple[int, Instruction, _Context]] = []
        """for each new instruction: the old index, the instruction, and its context"""
        changed = {number for number, each in enumerate(self.unrolled) if each != SAME}
        around = enumerate(graph.loops_around)
        self.only = {place: 0 for place, loops in around if changed.isdisjoint([loop.number for loop in loops])}
        """old index -> new index of the instructions outside all unrolled loops"""
        self._known: dict[tuple[int, Chosen, int], Instruction] = {}
        self._affine: dict[tuple[int, frozenset[str]], bool] = {}
        self._known_patterns: dict[Any, _Pattern] = {}
        self._runs: dict[Any, dict[Any, int]] = {}

    def copied(self) -> Idg:
        around, instructions = self.graph.loops_around, self.graph.instructions
        self.moving = [
            () if place in self.only else _depths(self.unrolled, around[place], expressions_in(instruction))
            for place, instruction in enumerate(instructions)
        ]
        body = tuple(self._items(self.graph.body, self._context((), {}, ())))
        return Idg(tuple([new for _, new, _ in self.copies]), tuple(self._edges()), body)

    def _context(self, chosen: Chosen, iterations: Mapping[str, Iteration], trips: Trips) -> _Context:
        return _Context(chosen, iterations, trips, self._runs.setdefault(trips, {}))

    # {{{ the program

    def _items(self, body: Sequence[Item], context: _Context) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield from self._loop(item, context)
            elif (number := self._copy(item, context)) is not None:
                yield number

    def _loop(self, loop: Loop, context: _Context) -> Iterator[Item]:
        copies, iterations = self.unrolled[loop.number].copies, context.iterations
        inside: list[Item] = []
        for place, copy in enumerate(copies):
            here = iterations if copy.factor == 1 else {**iterations, loop.name: copy.old_iteration(loop.name)}
            chosen = (*context.chosen, place)
            if not copy.factor:
                yield from self._items(loop.body, self._context(chosen, here, context.trips))
                continue
            trips = loop.trips // copy.factor if copy.factor > 1 else in_terms_of(loop.trips, iterations)
            inside += self._items(loop.body, self._context(chosen, here, (*context.trips, (loop.name, trips))))
            if place + 1 == len(copies) or not copies[place + 1].factor:
                yield replace(loop, trips=trips, body=tuple(inside), copies=loop.copies * copy.factor)

    def _copy(self, place: int, context: _Context) -> int | None:
        """Copy an instruction and return the index of the copy; None if it never executes."""
        chosen, condition = context.chosen, self.graph.instructions[place].condition
        if condition is not None and (condition := in_terms_of(condition, context.iterations)) is False:
            return None
        moved = tuple([chosen[depth] for depth in self.moving[place]])
        key = place, moved, self._runs_of(condition, context.trips, context.runs)
        if key not in self._known:
            self._known[key] = self._moved(place, context, key[-1])
        self.places[place, chosen] = number = len(self.copies)
        if place in self.only:
            self.only[place] = number
        self.copies.append((place, self._known[key], context))
        return number

    @staticmethod
    def _runs_of(condition: Any, trips: Trips, known: dict[Any, int]) -> int:
        """Return the number of iterations of loops with these *trips* in which *condition* holds; *known* caches."""
        if condition not in known:
            known[condition] = times_held(condition, trips)
        return known[condition]

    def _moved(self, place: int, context: _Context, runs: int) -> Instruction:
        """Return the copy of an instruction with its share of the old executions."""
        old, loops = self.graph.instructions[place], self.graph.loops_around[place]
        if place in self.only:
            return old
        trips = tuple([(loop.name, loop.trips) for loop in loops])
        total = self._runs_of(old.condition, trips, self._runs.setdefault(trips, {}))
        share = old.executions if runs == total else integer_if_whole(Fraction(old.executions * runs, total or 1))
        if not self.moving[place]:
            return old if runs == total else replace(old, executions=share)
        new = addressed(old, context.iterations, share)
        if not old.is_index and self._is_affine(place, context.iterations):
            return new
        compiled = addressed(old, self._as_compiled(place, context))
        return replace(new, symbolic=compiled.symbolic, operands=compiled.operands if old.is_index else new.operands)

    def _is_affine(self, place: int, iterations: Mapping[str, Iteration]) -> bool:
        """Return whether the symbolic address of an instruction, if any, is affine in *iterations*."""
        key = place, frozenset(iterations)
        if key not in self._affine:
            symbolic = self.graph.instructions[place].symbolic
            self._affine[key] = symbolic is None or symbolic.is_affine_in(iterations)
        return self._affine[key]

    def _as_compiled(self, place: int, context: _Context) -> Mapping[str, Iteration]:
        """Return the iterations as the compiler sees them: the remainder of a counted loop is itself a loop."""
        around = zip(self.graph.loops_around[place], context.chosen, strict=True)
        copies = {loop.name: self.unrolled[loop.number].copies[which] for loop, which in around if loop.is_counted}
        left: dict[str, Iteration] = {
            name: Affine(((name, 1),), copy.number) for name, copy in copies.items() if not copy.factor
        }
        return {**context.iterations, **left}

    # }}}

    def _edges(self) -> Iterator[Edge]:
        patterns = [self._patterns(edges) for edges in self.graph.definitions]
        for number, (place, _, context) in enumerate(self.copies):
            for edge, pattern in patterns[place]:
                if pattern is None:
                    yield edge.between(self.only[edge.source], number)
                    continue
                for chosen, iterations, condition, distance, is_open in pattern.origins_of(context):
                    source = self.places.get((edge.source, chosen))
                    if source is not None:
                        apart = (*distance, int(source >= number)) if is_open else distance
                        if source >= number and not any(apart):
                            continue  # these conditions never hold together
                        yield Edge(source, number, apart, iterations, condition, edge.through, edge.operand)

    def _patterns(self, edges: Sequence[Edge]) -> list[tuple[Edge, _Pattern | None]]:
        """Return each of *edges* with its pattern; None if no loop around either end is unrolled."""
        found: list[tuple[Edge, _Pattern | None]] = []
        for edge in edges:
            if edge.source in self.only and edge.target in self.only:
                found.append((edge, None))
                continue
            around = (self.graph.loops_around[place] for place in (edge.source, edge.target))
            key = *(tuple([loop.number for loop in loops]) for loops in around), edge.iterations, edge.condition
            if key not in self._known_patterns:
                self._known_patterns[key] = _Pattern(self.graph, self.unrolled, edge)
            found.append((edge, self._known_patterns[key]))
        return found


def _choices(unrolled: _UnrolledLoop, old: Iteration, trips: Mapping[str, Any]) -> Iterator[_Choice]:
    """Yield the copies that may contain the *old* iteration, given the *trips* of the loops in it."""
    if not old.terms and unrolled.copies and not unrolled.copies[0].factor:  # fully unrolled
        if 0 <= old.constant < len(unrolled.copies):
            yield _Choice(old.constant, None, None)
        return
    for place, copy in enumerate(unrolled.copies):
        apart, by = old.constant - copy.number, copy.factor
        if by == 1:
            yield _Choice(place, old, None)
        elif not by:
            if old.terms and _may_be(old, copy.number, trips):
                yield _Choice(place, None, prim.Comparison(old.expression, "==", copy.number))
            elif not old.terms and not apart:
                yield _Choice(place, None, None)
        elif all(factor % by == 0 for _, factor in old.terms):
            if apart % by == 0 and (old.terms or apart < by * copy.trips):
                new: Iteration = Affine(tuple((each, factor // by) for each, factor in old.terms), apart // by)
                yield _Choice(place, new, None)
        else:
            numerator = Affine(old.terms, apart).expression
            test = prim.Comparison(prim.Remainder(numerator, by), "==", 0)
            yield _Choice(place, Affine(((Opaque(prim.FloorDiv(numerator, by)), 1),)), test)


def _may_be(known: Iteration, value: int, trips: Mapping[str, Any]) -> bool:
    """Return whether *known* may equal *value*, where each variable runs from 0 to its trip count in *trips*."""
    ends = {name: (0, max(number - 1, 0)) for name, number in trips.items() if isinstance(number, int)}
    if not known.variables <= ends.keys():
        return True
    least, greatest = known.between(cast("Mapping[Symbol, tuple[int, int]]", ends))
    return least <= value <= greatest
