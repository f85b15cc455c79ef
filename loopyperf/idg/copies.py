"""Graphs made of others: loops written out, several copies of the body for as many passes; instructions taken out.

A loop of T passes that is written out f-fold makes T // f passes of f copies each, and T mod f single copies follow.
What each copy waits for is the same as before: where the pass that an edge leads from is known modulo f, it leads from
one copy; where it is not, the edge has a condition for each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, product
from operator import itemgetter
from typing import Any

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg, addressed, runs_of_all
from loopyperf.idg.program import Edge, Instruction, Item, Iteration, Loop, common_depth, lag, loops_in, placed
from loopyperf.polyhedral.affine import Affine, Opaque
from loopyperf.polyhedral.expressions import in_terms_of, in_terms_of_each


@dataclass(frozen=True, slots=True)
class _Copy:
    """One of the copies of a loop's body."""

    number: int
    factor: int
    """passes that one pass of the new loop stands for; 0 where there is no loop: then it is pass *number*"""
    trips: int = 1
    """of the new loop; single copies follow it"""

    def old_pass(self, name: str) -> Iteration:
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


Place = tuple[int, tuple[int, ...]]
"""an instruction, and which of the copies of each loop around it, from the outermost on, by their place"""


def copied(graph: Idg, factors: Mapping[int, int]) -> Idg:
    """Return *graph* with loops written out; what each execution waits for stays the same.

    *factors* tells into how many copies a loop of that number is written out: 1, or nothing, for none, its number of
    passes for all. One pass is no loop, unless passes are counted at run time. A loop whose number of passes varies
    stays as it is.
    """
    return _Copier(graph, factors).copied()


class _Copier:
    def __init__(self, graph: Idg, factors: Mapping[int, int]) -> None:
        self.graph = graph
        self.written = [_Written.of(loop, factors.get(loop.number, 1)) for loop in loops_in(graph.body)]
        self.places: dict[Place, int] = {}
        self._affine: dict[tuple[int, frozenset[str]], bool] = {}
        self.instructions: list[Instruction] = []
        self.around: list[Mapping[str, Iteration]] = []
        """of each new instruction: old loop -> its pass, in terms of the new ones, where it is another one"""

    def copied(self) -> Idg:
        body = tuple(self._items(self.graph.body, (), {}))
        self.trips = [{loop.name: loop.trips for loop in loops} for _, loops in sorted(placed(body), key=itemgetter(0))]
        edges = tuple(self._edges())
        shared = self._with_shares(body)
        return Idg(tuple(shared), edges, body)

    def _with_shares(self, body: Sequence[Item]) -> Iterator[Instruction]:
        """Yield the new instructions, each with its share of what the old one executes."""
        loops = dict(placed(body))
        runs = runs_of_all(self.instructions, [loops[place] for place in range(len(self.instructions))])
        old = [place for place, _ in self.places]
        total: dict[int, int] = {}
        for place, number in zip(old, runs, strict=True):
            total[place] = total.get(place, 0) + number
        for each, place, number in zip(self.instructions, old, runs, strict=True):
            share = Fraction(each.executions) * Fraction(number, total[place]) if total[place] else Fraction(0)
            yield replace(each, executions=int(share) if share.denominator == 1 else share)

    def _items(self, body: Sequence[Item], chosen: tuple[int, ...], passes: Mapping[str, Iteration]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield from self._loop(item, chosen, passes)
            elif (instruction := self._instruction(item, chosen, passes)) is not None:
                self.places[item, chosen] = len(self.instructions)
                self.instructions.append(instruction)
                self.around.append(passes)
                yield self.places[item, chosen]

    def _loop(self, loop: Loop, chosen: tuple[int, ...], passes: Mapping[str, Iteration]) -> Iterator[Item]:
        copies = self.written[loop.number].copies
        inside: list[Item] = []
        for place, copy in enumerate(copies):
            here = passes if copy.factor == 1 else {**passes, loop.name: copy.old_pass(loop.name)}
            items = self._items(loop.body, (*chosen, place), here)
            if copy.factor:
                inside += items
                if place + 1 == len(copies) or not copies[place + 1].factor:
                    trips = loop.trips // copy.factor if copy.factor > 1 else in_terms_of(loop.trips, passes)
                    yield replace(loop, trips=trips, body=tuple(inside), copies=loop.copies * copy.factor)
            else:
                yield from items

    def _instruction(self, place: int, chosen: tuple[int, ...], passes: Mapping[str, Iteration]) -> Instruction | None:
        """Return the copy of an instruction in *passes*; None where it never runs."""
        old = self.graph.instructions[place]
        if not passes:
            return old
        new = addressed(old, passes)
        if new.condition is False:
            return None
        if not old.is_index and self._is_affine(place, passes):
            return new
        compiled = addressed(old, self._as_compiled(place, chosen, passes))
        return replace(new, symbolic=compiled.symbolic, operands=compiled.operands if old.is_index else new.operands)

    def _is_affine(self, place: int, passes: Mapping[str, Iteration]) -> bool:
        """Return whether the address of an instruction, if it has one, moves by as much in each of *passes*."""
        key = place, frozenset(passes)
        if key not in self._affine:
            symbolic = self.graph.instructions[place].symbolic
            self._affine[key] = symbolic is None or symbolic.is_affine_in(passes)
        return self._affine[key]

    def _as_compiled(
        self, place: int, chosen: tuple[int, ...], passes: Mapping[str, Iteration]
    ) -> Mapping[str, Iteration]:
        """Return *passes* as the compiler knows them: single ones that are left of a counted loop are a loop, too."""
        around = zip(self.graph.loops_around[place], chosen, strict=True)
        copies = {loop.name: self.written[loop.number].copies[which] for loop, which in around if loop.is_counted}
        left: dict[str, Iteration] = {
            name: Affine(((name, 1),), copy.number) for name, copy in copies.items() if not copy.factor
        }
        return {**passes, **left}

    # {{{ edges

    def _edges(self) -> Iterator[Edge]:
        old = [(edge, number) for (target, _), number in self.places.items() for edge in self.graph.definitions[target]]
        parts = [(part, self.around[number]) for edge, number in old for part in (edge.condition, *edge.passes)]
        known = iter(in_terms_of_each(parts))
        for edge, number in old:
            condition, *passes = islice(known, len(edge.passes) + 1)
            if condition is not False:
                yield from self._from_copies(edge, number, passes, None if condition is True else condition)

    def _from_copies(self, edge: Edge, target: int, old: Sequence[Iteration], condition: Any) -> Iterator[Edge]:
        """Yield the edges from each copy of the source that may be in the *old* passes."""
        loops = self.graph.loops_around[edge.source]
        within = self.trips[target]
        choices = [
            list(_choices(self.written[loop.number], each, within)) for loop, each in zip(loops, old, strict=True)
        ]
        for chosen in product(*choices):
            source = self.places.get((edge.source, tuple(place for place, _, _ in chosen)))
            if source is not None:
                tests = [test for _, _, test in chosen if test is not None]
                new = tuple(each for _, each, _ in chosen if each is not None)
                condition_here = _all([*([condition] if condition is not None else []), *tests])
                distance = self._distance(source, target, edge, new)
                yield Edge(source, target, distance, new, condition_here, edge.through, edge.operand)

    def _distance(self, source: int, target: int, edge: Edge, new: Sequence[Iteration]) -> tuple[int, ...]:
        """Return by how many passes of each new loop around both the source is earlier."""
        found: list[int] = []
        for name, each in zip(self._shared(edge), new, strict=False):
            earlier = lag(each, name)
            if earlier is None:
                return (*found, int(source >= target))
            found.append(earlier)
        return tuple(found)

    def _shared(self, edge: Edge) -> list[str]:
        """Return the loops around both ends of *edge* that are still loops."""
        around, other = self.graph.loops_around[edge.source], self.graph.loops_around[edge.target]
        same = around[: common_depth(around, other)]
        return [loop.name for loop in same if any(copy.factor for copy in self.written[loop.number].copies)]

    # }}}


def _choices(
    written: _Written, old: Iteration, trips: Mapping[str, Any]
) -> Iterator[tuple[int, Iteration | None, Any]]:
    """Yield the copies that may be in the *old* pass: their place, the new pass if it has one, on what condition.

    *trips* are the numbers of passes of the loops that *old* is in terms of.
    """
    for place, copy in enumerate(written.copies):
        apart, by = old.constant - copy.number, copy.factor
        if by == 1:
            yield place, old, None
        elif not by:
            if old.terms and _may_be(old, copy.number, trips):
                yield place, None, prim.Comparison(old.expression, "==", copy.number)
            elif not old.terms and not apart:
                yield place, None, None
        elif all(factor % by == 0 for _, factor in old.terms):
            if apart % by == 0 and (old.terms or apart < by * copy.trips):
                yield place, Affine(tuple((each, factor // by) for each, factor in old.terms), apart // by), None
        else:
            numerator = Affine(old.terms, apart).expression
            test = prim.Comparison(prim.Remainder(numerator, by), "==", 0)
            yield place, Affine(((Opaque(prim.FloorDiv(numerator, by)), 1),)), test


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


# {{{ graphs with some instructions taken out
#
# Merged or replaced; what the others wait for stays what it was.


def rewritten(
    graph: Idg, kept: Sequence[int], edges: Sequence[Edge], replaced: Mapping[int, Instruction] | None = None
) -> Idg:
    """Return *graph* with those instructions alone that are *kept*, some *replaced*, and with *edges* between them.

    All are named by their places in *graph*. Loops in which nothing is left go too.
    """
    numbers = {place: number for number, place in enumerate(kept)}
    new = replaced or {}
    instructions = tuple(new.get(place, graph.instructions[place]) for place in kept)
    renamed = dict.fromkeys(between_kept(edges, numbers))
    return Idg(instructions, tuple(renamed), tuple(_items(graph.body, numbers)))


def between_kept(edges: Iterable[Edge], numbers: Mapping[int, int]) -> tuple[Edge, ...]:
    """Return those of *edges* of which both ends have new *numbers*, between these."""
    left = (edge for edge in edges if edge.source in numbers and edge.target in numbers)
    return tuple(edge.between(numbers[edge.source], numbers[edge.target]) for edge in left)


def _items(body: Sequence[Item], numbers: Mapping[int, int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            inside = tuple(_items(item.body, numbers))
            if inside:
                yield replace(item, body=inside)
        elif item in numbers:
            yield numbers[item]


def composed(graph: Idg, first: Edge, second: Edge) -> Edge:
    """Return the edge from what *first* leads from to what *second* leads to, through the instruction between."""
    between = [loop.name for loop in graph.loops_around[first.target]]
    passes = dict(zip(between, second.passes, strict=True))
    through = tuple(each.replaced(passes) for each in first.passes)
    before = None if first.condition is None else in_terms_of(first.condition, passes)
    tests = [test for test in (second.condition, before) if test is not None]
    return replace(
        second,
        source=first.source,
        passes=through,
        condition=prim.LogicalAnd(tuple(tests)) if len(tests) > 1 else next(iter(tests), None),
        distance=distance(graph, first.source, second.target, through),
    )


def distance(graph: Idg, source: int, target: int, passes: Sequence[Iteration]) -> tuple[int, ...]:
    """Return by how many passes of each loop around both *source* is earlier, as far as that is always the same."""
    found: list[int] = []
    pairs = zip(graph.loops_around[source], graph.loops_around[target], passes, strict=False)
    for one, other, each in pairs:
        if one.number != other.number:
            break
        earlier = lag(each, one.name)
        if earlier is None:
            return (*found, int(source >= target))
        found.append(earlier)
    return tuple(found)


# }}}
