"""Graphs with loops written out, several copies of the body for as many passes.

A loop of T passes that is written out f-fold makes T // f passes of f copies each, and T mod f single copies follow.
What each copy waits for is the same as before: where the pass that an edge leads from is known modulo f, it leads from
one copy; where it is not, the edge has a condition for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

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
from loopyperf.polyhedral.affine import Affine, Opaque
from loopyperf.polyhedral.expressions import in_terms_of, names_of, times_held


@dataclass(frozen=True, slots=True)
class _Copy:
    """One of the copies of a loop's body."""

    number: int
    factor: int
    """passes that one pass of the new loop stands for; 0 where there is no loop: then it is pass *number*"""
    trips: int = 1
    """of the new loop; single copies follow it"""

    def old_iteration(self, name: str) -> Iteration:
        """Return the pass of the old loop *name* in terms of that of the new one."""
        return Affine(((name, self.factor),) if self.factor else (), self.number)


@dataclass(frozen=True, slots=True)
class _Written:
    """A copied loop: which copies there are."""

    copies: tuple[_Copy, ...]

    @classmethod
    def of(cls, loop: Loop, factor: int) -> "_Written":
        """Return the copies of *loop* written out *factor*-fold."""
        if not isinstance(loop.trips, int) or (factor == 1 and (loop.trips > 1 or loop.is_counted)):
            return cls((_Copy(0, 1),))
        whole, rest = divmod(loop.trips, factor)
        is_loop = whole > 1 or loop.is_counted
        repeated = [_Copy(number, factor if is_loop else 0, whole) for number in range(factor)] if whole else []
        return cls((*repeated, *(_Copy(whole * factor + number, 0) for number in range(rest))))


SAME = _Written((_Copy(0, 1),))
"""a loop that stays as it is"""
Chosen = tuple[int, ...]
"""which of the copies of loops, from the outermost on, by their place"""
Trips = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """Where copies of instructions stand that are in the same loops."""

    chosen: Chosen
    """of the loops around"""
    iterations: Mapping[str, Iteration]
    """old loop -> its pass, in terms of the new ones, where it is another one"""
    trips: Trips
    """the new loops around, the outermost first, each with its number of passes"""
    runs: dict[Any, int]
    """of a condition: in how many of these passes it holds"""


class _Choice(NamedTuple):
    """A copy that may be in some pass of the old loop."""

    place: int
    new: Iteration | None
    """the pass of the new loop, if there is one"""
    test: Any
    """on what condition it is this copy; None for always"""


class _Origin(NamedTuple):
    """Which copies an edge to a copy leads from."""

    chosen: Chosen
    iterations: tuple[Iteration, ...]
    condition: Any
    distance: tuple[int, ...]
    is_open: bool
    """by how many passes of the next loop it is earlier is not always the same"""


class _Pattern:
    """What edges have in common that lead from some loops to some loops in the same passes on the same condition."""

    def __init__(self, graph: Idg, written: Sequence[_Written], edge: Edge) -> None:
        around, within = graph.loops_around[edge.source], graph.loops_around[edge.target]
        self.origins: dict[Chosen, list[_Origin]] = {}
        self.condition = edge.condition, _depths(written, within, [edge.condition]), dict[Chosen, Any]()
        """what it is, what moves it, and what is known already"""
        common = around[: common_depth(around, within)]
        self.shared = [loop.name for loop in common if any(copy.factor for copy in written[loop.number].copies)]
        """the loops around both ends that are still loops"""
        depths = (_depths(written, within, [each]) for each in edge.iterations)
        self.parts = [
            (written[loop.number], each, moving, dict[Chosen, list[_Choice]]())
            for loop, each, moving in zip(around, edge.iterations, depths, strict=True)
        ]
        """of each loop around the source: its copies, the pass of it, what moves that, and what is known already"""

    def origins_of(self, context: _Context) -> list[_Origin]:
        """Return which copies of the source may be in the passes that the target waits for in *context*."""
        if context.chosen not in self.origins:
            self.origins[context.chosen] = list(self._found(context))
        return self.origins[context.chosen]

    def _found(self, context: _Context) -> Iterator[_Origin]:
        condition = self._condition_in(context)
        if condition is False:
            return
        given = [] if condition is None or condition is True else [condition]
        options: list[list[_Choice]] = []
        for written, old, moving, known in self.parts:
            here = tuple([context.chosen[depth] for depth in moving])
            if here not in known:
                known[here] = list(_choices(written, old.replaced(context.iterations), dict(context.trips)))
            options.append(known[here])
        for choices in product(*options):
            new = tuple([each.new for each in choices if each.new is not None])
            tests = _all([*given, *[each.test for each in choices if each.test is not None]])
            yield _Origin(tuple([each.place for each in choices]), new, tests, *self._distance(new))

    def _condition_in(self, context: _Context) -> Any:
        condition, moving, known = self.condition
        here = tuple([context.chosen[depth] for depth in moving])
        if here not in known:
            known[here] = in_terms_of(condition, context.iterations)
        return known[here]

    def _distance(self, new: Sequence[Iteration]) -> tuple[tuple[int, ...], bool]:
        """Return by how many passes of each new loop around both the source is earlier; whether one is not known."""
        found: list[int] = []
        for name, each in zip(self.shared, new, strict=False):
            earlier = lag(each, name)
            if earlier is None:
                return tuple(found), True
            found.append(earlier)
        return tuple(found), False


def _depths(written: Sequence[_Written], around: Sequence[Loop], parts: Sequence[Any]) -> Chosen:
    """Return which of the loops *around* are written out and move *parts*, or the trips of loops that do."""
    names = names_of(parts)
    if not names:
        return ()
    for loop in reversed(around):
        if loop.name in names and not isinstance(loop.trips, int):
            names |= names_of([loop.trips])
    moving = (depth for depth, loop in enumerate(around) if loop.name in names and written[loop.number] != SAME)
    return tuple(moving)


def copied(graph: Idg, factors: Mapping[int, int]) -> Idg:
    """Return *graph* with loops written out; what each execution waits for stays the same.

    *factors* tells into how many copies a loop of that number is written out: 1, or nothing, for none, its number of
    passes for all. One pass is no loop, unless passes are counted at run time. A loop whose number of passes varies
    stays as it is.
    """
    copier = _Copier(graph, factors)
    return copier.copied() if any(each != SAME for each in copier.written) else graph


class _Copier:
    """Works once for what copies have in common: instructions in the same passes, edges of one pattern."""

    def __init__(self, graph: Idg, factors: Mapping[int, int]) -> None:
        self.graph = graph
        self.written = [_Written.of(loop, factors.get(loop.number, 1)) for loop in loops_in(graph.body)]
        self.places: dict[tuple[int, Chosen], int] = {}
        """of an instruction and which of the copies of the loops around it: the number of its copy there"""
        self.copies: list[tuple[int, Instruction, _Context]] = []
        """of each copy: the number of the old instruction, the new one, and where it stands"""
        changed = {number for number, each in enumerate(self.written) if each != SAME}
        around = enumerate(graph.loops_around)
        self.only = {place: 0 for place, loops in around if changed.isdisjoint([loop.number for loop in loops])}
        """of an instruction in no loop that is written out: the number of its copy"""
        self._known: dict[tuple[int, Chosen, int], Instruction] = {}
        self._affine: dict[tuple[int, frozenset[str]], bool] = {}
        self._known_patterns: dict[Any, _Pattern] = {}
        self._runs: dict[Any, dict[Any, int]] = {}

    def copied(self) -> Idg:
        around, instructions = self.graph.loops_around, self.graph.instructions
        self.moving = [
            () if place in self.only else _depths(self.written, around[place], expressions_in(each))
            for place, each in enumerate(instructions)
        ]
        body = tuple(self._items(self.graph.body, self._context((), {}, ())))
        return Idg(tuple([new for _, new, _ in self.copies]), tuple(self._edges()), body)

    def _context(self, chosen: Chosen, passes: Mapping[str, Iteration], trips: Trips) -> _Context:
        return _Context(chosen, passes, trips, self._runs.setdefault(trips, {}))

    # {{{ the program

    def _items(self, body: Sequence[Item], context: _Context) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield from self._loop(item, context)
            elif (number := self._copy(item, context)) is not None:
                yield number

    def _loop(self, loop: Loop, context: _Context) -> Iterator[Item]:
        copies, passes = self.written[loop.number].copies, context.iterations
        inside: list[Item] = []
        for place, copy in enumerate(copies):
            here = passes if copy.factor == 1 else {**passes, loop.name: copy.old_iteration(loop.name)}
            chosen = (*context.chosen, place)
            if not copy.factor:
                yield from self._items(loop.body, self._context(chosen, here, context.trips))
                continue
            trips = loop.trips // copy.factor if copy.factor > 1 else in_terms_of(loop.trips, passes)
            inside += self._items(loop.body, self._context(chosen, here, (*context.trips, (loop.name, trips))))
            if place + 1 == len(copies) or not copies[place + 1].factor:
                yield replace(loop, trips=trips, body=tuple(inside), copies=loop.copies * copy.factor)

    def _copy(self, place: int, context: _Context) -> int | None:
        """Copy an instruction and return the number of the copy; None where it never runs."""
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
        """Return in how many passes of loops with these *trips* a condition holds, which may be *known*."""
        if condition not in known:
            known[condition] = times_held(condition, trips)
        return known[condition]

    def _moved(self, place: int, context: _Context, runs: int) -> Instruction:
        """Return the copy of an instruction with its share of what the old one executes."""
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

    def _is_affine(self, place: int, passes: Mapping[str, Iteration]) -> bool:
        """Return whether the address of an instruction, if it has one, moves by as much in each of *passes*."""
        key = place, frozenset(passes)
        if key not in self._affine:
            symbolic = self.graph.instructions[place].symbolic
            self._affine[key] = symbolic is None or symbolic.is_affine_in(passes)
        return self._affine[key]

    def _as_compiled(self, place: int, context: _Context) -> Mapping[str, Iteration]:
        """Return the passes as the compiler knows them: single ones left of a counted loop are a loop, too."""
        around = zip(self.graph.loops_around[place], context.chosen, strict=True)
        copies = {loop.name: self.written[loop.number].copies[which] for loop, which in around if loop.is_counted}
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
                for chosen, passes, condition, distance, is_open in pattern.origins_of(context):
                    source = self.places.get((edge.source, chosen))
                    if source is not None:
                        apart = (*distance, int(source >= number)) if is_open else distance
                        if source >= number and not any(apart):
                            continue  # no pass is on all of these conditions
                        yield Edge(source, number, apart, passes, condition, edge.through, edge.operand)

    def _patterns(self, edges: Sequence[Edge]) -> list[tuple[Edge, _Pattern | None]]:
        """Return each of *edges* with its pattern; None for one between loops that stay as they are."""
        found: list[tuple[Edge, _Pattern | None]] = []
        for edge in edges:
            if edge.source in self.only and edge.target in self.only:
                found.append((edge, None))
                continue
            around = (self.graph.loops_around[place] for place in (edge.source, edge.target))
            key = *(tuple([loop.number for loop in loops]) for loops in around), edge.iterations, edge.condition
            if key not in self._known_patterns:
                self._known_patterns[key] = _Pattern(self.graph, self.written, edge)
            found.append((edge, self._known_patterns[key]))
        return found


def _choices(written: _Written, old: Iteration, trips: Mapping[str, Any]) -> Iterator[_Choice]:
    """Yield the copies that may be in the *old* pass.

    *trips* are the numbers of passes of the loops that *old* is in terms of.
    """
    if not old.terms and written.copies and not written.copies[0].factor:  # all passes, one after the other
        if 0 <= old.constant < len(written.copies):
            yield _Choice(old.constant, None, None)
        return
    for place, copy in enumerate(written.copies):
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
    """Return whether *known* may be *value*, each variable being a pass of the loop that makes so many *trips*."""
    least = greatest = known.constant
    for variable, factor in known.terms:
        number = trips.get(variable) if isinstance(variable, str) else None
        if not isinstance(number, int):
            return True
        last = factor * max(number - 1, 0)
        least, greatest = least + min(last, 0), greatest + max(last, 0)
    return least <= value <= greatest


def _all(tests: Sequence[Any]) -> Any:
    if len(tests) < 2:
        return tests[0] if tests else None
    return prim.LogicalAnd(tuple(tests))
