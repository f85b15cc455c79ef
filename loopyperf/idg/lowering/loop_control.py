"""What a machine loop costs beside its body: counting, comparing, branching, and moving pointers on.

The rules are measured on executed machine code (docs/compiler.md, section 2): a branch and a comparison; a counter, two
where the number of passes is not known before; a step for each base in local memory; two for a pointer to a global
array, five for each where several move on; and one for each access that the passes move by a distance that the compiler
does not know.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import pymbolic.primitives as prim

from loopyperf.idg.affine import Affine
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering.nvcc_unrolling import copies
from loopyperf.idg.program import Edge, Instruction, Item, Loop
from loopyperf.idg.unrolling import number_of_runs

GUARDS = {1: 10, 2: 18, 4: 18, 16: 28}
"""copies of a body -> instructions around a loop whose passes are counted at run time: whether there are any, how many
are left for the loops of fewer copies and of single passes that follow, and the tests of these"""
BOUNDS = 8
"""to know how many passes a lane makes through a loop that lanes leave one after the other, and whether any"""
PARTING = {"branch": 7, "integer": 13}
"""around such a loop: two agreements to meet and the two meetings, tests of how many passes are left, and addresses that
are computed anew"""
OUTER_PARTING = {"branch": 3, "integer": 2}
"""around one with such a loop inside"""
AGAIN = 3
"""invariants that are computed once more in a pass with barriers, rather than kept in registers"""
ONE_POINTER = 2
SEVERAL_POINTERS = 5
POINTERS_ANEW = 2
"""in a pass with barriers: computed from an index that moves on"""


def with_loop_control(graph: Idg) -> Idg:
    """Return *graph* with what its loops make a warp execute beside their bodies."""
    return _Control(graph).added()


class _Control:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges = list(graph.edges)

    def added(self) -> Idg:
        bounds = [place for loop in _loops(self.graph.body) if loop.lanes_part for place in self._bounds(loop)]
        body = (*bounds, *self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), tuple(self.edges), body)

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield from self._before(item, around)
                inside = (*self._items(item.body, (*around, item)), *self._control(item, (*around, item)))
                yield replace(item, body=inside)
            else:
                yield item

    def _before(self, loop: Loop, around: tuple[Loop, ...]) -> list[int]:
        """Add what decides whether a loop is entered, whose passes are counted at run time, and what follows it."""
        entries = number_of_runs(None, around)
        more = _guards(self._written((*around, loop))) if loop.is_counted else 0
        if not loop.lanes_part:
            kinds = {"branch": 0, "integer": more}
        elif is_innermost(loop):
            kinds = {"branch": PARTING["branch"], "integer": PARTING["integer"] + (more if loop.copies > 1 else 0)}
        else:
            kinds = OUTER_PARTING
        text = f"are there passes of {loop.name}?"
        return [self._add(kind, text, entries) for kind, number in kinds.items() for _ in range(number)]

    def _bounds(self, loop: Loop) -> list[int]:
        return [self._add("integer", f"passes of {loop.name}", 1) for _ in range(BOUNDS)]

    def _control(self, loop: Loop, loops: tuple[Loop, ...]) -> list[int]:
        """Add what a pass of the innermost of *loops* ends with; return the places of it."""
        passes = self._controlled(loops)
        counters = 2 if loop.is_counted and not loop.lanes_part else 1
        steps = [self._step(f"count {loop.name}", loops, passes) for _ in range(counters)]
        moved = [place for place in _directly(loop) if self._moves(self.graph.instructions[place], loop)]
        meets = any(self.graph.instructions[place].kind == "barrier" for place in loop.body if isinstance(place, int))
        steps += [self._step(f"invariant of {loop.name}", loops, passes) for _ in range(AGAIN if meets else 0)]
        pointers = self._parting_pointers(moved, loop) if loop.lanes_part else self._pointers(moved, loop, meets)
        for place in pointers:
            step = self._step(f"move on to the next {loop.name}", loops, passes)
            self.edges.append(self._edge(step, place, loops, 1))
            steps.append(step)
        compare = self._add("compare", f"another {loop.name}?", passes)
        branch = self._add("branch", f"next {loop.name}", passes)
        self.edges += [self._edge(steps[0], compare, loops, 0), self._edge(compare, branch, loops, 0)]
        return [*steps, compare, branch]

    def _controlled(self, loops: tuple[Loop, ...]) -> int | Fraction:
        """Return how often the innermost of *loops* counts its passes.

        One whose number of passes varies is kept as it is; nvcc writes it out, in copies that are controlled together.
        """
        passes = number_of_runs(None, loops)
        return Fraction(passes, self._written(loops)) if _varies(loops[-1]) else passes

    def _written(self, loops: tuple[Loop, ...]) -> int:
        """Return how many copies of its body the innermost of *loops* has, or would have if its passes did not vary."""
        *around, loop = loops
        if not _varies(loop):
            return loop.copies
        usual = Fraction(number_of_runs(None, loops), max(number_of_runs(None, around), 1))
        return copies(self.graph, replace(loop, trips=int(usual)))

    def _moves(self, instruction: Instruction, loop: Loop) -> bool:
        return instruction.symbolic is not None and loop.name in instruction.symbolic.variables

    def _pointers(self, moved: Sequence[int], loop: Loop, meets: bool) -> Iterator[int]:
        """Yield for each instruction that moves addresses on in *loop* an access that uses it.

        Accesses that are a known distance apart share an address, with immediates.
        """
        apart: dict[Hashable, int] = {}
        for place in moved:
            each = self.graph.instructions[place]
            apart.setdefault((each.subsystem, each.reference.array, each.symbolic.without_constant), place)
        known: list[int] = []
        for place in apart.values():
            each = self.graph.instructions[place]
            if each.subsystem == "local" or each.symbolic.factor_of(loop.name).variables:
                yield place
            else:
                known.append(place)
        several = POINTERS_ANEW if meets else SEVERAL_POINTERS
        for place in known:
            yield from [place] * (ONE_POINTER if len(known) == 1 else several)

    def _parting_pointers(self, moved: Sequence[int], loop: Loop) -> Iterator[int]:
        """Yield one access for each array: indices advance, and one with such a loop inside computes addresses there."""
        arrays = {self.graph.instructions[place].reference.array: place for place in moved}
        yield from arrays.values() if is_innermost(loop) else ()

    # {{{ instructions

    def _add(self, kind: str, text: str, executions: int | Fraction) -> int:
        subsystem = "control" if kind == "branch" else "alu"
        self.instructions.append(Instruction(kind, "i32", subsystem, "", text, executions=executions))
        return len(self.instructions) - 1

    def _step(self, text: str, loops: tuple[Loop, ...], passes: int | Fraction) -> int:
        place = self._add("integer", text, passes)
        self.edges.append(self._edge(place, place, loops, 1))
        return place

    def _edge(self, source: int, target: int, loops: tuple[Loop, ...], distance: int) -> Edge:
        *outer, inner = (prim.Variable(loop.name) for loop in loops)
        passes = (*outer, inner - distance if distance else inner)
        return Edge(source, target, (*[0] * len(outer), distance), passes)

    # }}}


def is_innermost(loop: Loop) -> bool:
    """Return whether there is no loop in *loop*."""
    return not any(isinstance(item, Loop) for item in loop.body)


def _varies(loop: Loop) -> bool:
    return not isinstance(loop.trips, int) and is_innermost(loop)


def _guards(written: int) -> int:
    return GUARDS[max(number for number in GUARDS if number <= written)]


def _loops(body: Sequence[Item]) -> Iterator[Loop]:
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from _loops(item.body)


def _directly(loop: Loop) -> list[int]:
    """Return the instructions in *loop*, those of loops inside included: their pointers move on with it too."""
    return [place for item in loop.body for place in (_directly(item) if isinstance(item, Loop) else [item])]
