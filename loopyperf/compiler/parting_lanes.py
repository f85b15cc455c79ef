"""Loops that lanes leave one after the other: each loop that nvcc makes of one runs for the lane that stays longest.

A loop counted at run time becomes one of sixteen copies of its body, one of four and one of single passes, and a lane
goes through each. So a warp makes up to fifteen passes more than the lane with the most (docs/compiler.md, section 2b).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from loopyperf.compiler.hoisting import without_invariants
from loopyperf.compiler.nvcc_unrolling import copies
from loopyperf.compiler.value_numbering import without_common_subexpressions
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Iteration, Loop, Opcode, is_innermost, loops_in, placed
from loopyperf.idg.unrolling import number_of_runs
from loopyperf.polyhedral.affine import Affine

STAGES = {1: (1,), 2: (2, 1), 4: (4, 1), 16: (16, 4, 1)}
"""copies of a body -> those of the loops that follow one another"""

PASS = {Opcode.INTEGER: 4, Opcode.BRANCH: 1}
"""of each pass of such a loop: counter, comparison, branch, and an index for each of two arrays"""


def with_parting_lanes(graph: Idg) -> Idg:
    """Return *graph* with as many passes of innermost loops as a warp makes whose lanes make different numbers."""
    parting = {loop.name for loop in loops_in(graph.body) if _may_part(graph, loop)}
    if not parting:
        return graph
    once = without_common_subexpressions(without_invariants(graph))
    factors = {loop.name: copies(once, loop) for loop in loops_in(once.body) if loop.name in parting}
    return _Parting(graph, factors).parted()


def _may_part(graph: Idg, loop: Loop) -> bool:
    inside = [graph.instructions[place] for place, _ in placed(loop.body)]
    is_plain = is_innermost(loop) and isinstance(loop.trips, int) and not loop.is_unrolled
    return is_plain and len(set(loop.lanes)) > 1 and all(each.condition is None for each in inside)


class _Parting:
    def __init__(self, graph: Idg, factors: dict[str, int]) -> None:
        self.graph, self.factors = graph, factors
        self.instructions: list[Instruction] = list(graph.instructions)

    def parted(self) -> Idg:
        body = tuple(self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), tuple(map(self._from_last, self.graph.edges)), body)

    def _from_last(self, edge: Edge) -> Edge:
        """Return *edge* from the last pass of a loop, where it led from what was its last one."""
        depth = len(self.graph.loops_around[edge.source]) - 1
        loop = self.graph.loops_around[edge.source][-1] if depth >= 0 else None
        if loop is None or loop.name not in self.factors or edge.passes[depth] != Affine((), loop.trips - 1):
            return edge
        last: Iteration = Affine((), passes_of_warp(loop.lanes, self.factors[loop.name]) - 1)
        return replace(edge, passes=(*edge.passes[:depth], last))

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if not isinstance(item, Loop):
                yield item
            elif item.name in self.factors:
                yield self._with_all_passes(item)
                yield from self._control(item, around)
            else:
                yield replace(item, body=tuple(self._items(item.body, (*around, item))))

    def _control(self, loop: Loop, around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield what the passes of the loops after the first one end with; that of the first one is as for any loop."""
        later = sum(_stages(loop.lanes, self.factors[loop.name])[1:])
        passes = later * number_of_runs(None, around)
        for kind, number in PASS.items() if later else ():
            subsystem = Pipeline.CONTROL if kind == Opcode.BRANCH else Pipeline.ALU
            for _ in range(number):
                text = f"passes of {loop.name} left"
                self.instructions.append(Instruction(kind, "i32", subsystem, "", text, executions=passes))
                yield len(self.instructions) - 1

    def _with_all_passes(self, loop: Loop) -> Loop:
        trips = passes_of_warp(loop.lanes, self.factors[loop.name])
        for place, _ in placed(loop.body):
            each = self.instructions[place]
            number = Fraction(each.executions) * trips / loop.trips
            self.instructions[place] = replace(each, executions=int(number) if number.denominator == 1 else number)
        return replace(loop, trips=trips)


def passes_of_warp(lanes: Sequence[int], factor: int) -> int:
    """Return how many passes a warp makes whose lanes make so many, of a loop that nvcc writes out *factor*-fold."""
    return sum(number * each for number, each in zip(_stages(lanes, factor), STAGES[factor], strict=True))


def _stages(lanes: Sequence[int], factor: int) -> list[int]:
    """Return how many passes of each of the loops that follow one another a warp makes."""
    left, found = list(lanes), list[int]()
    for number in STAGES[factor]:
        found.append(max(passes // number for passes in left))
        left = [passes % number for passes in left]
    return found
