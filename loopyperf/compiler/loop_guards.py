"""What stands around a machine loop: whether it is entered, what is left for those after it, where lanes meet again.

The rules are measured on executed machine code (docs/compiler.md, sections 2a and 6). A loop of a constant number of
passes has none of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from loopyperf.compiler.nvcc_unrolling import written_out
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Item, Loop, Opcode, is_innermost, loops_in
from loopyperf.idg.unrolling import number_of_runs

GUARDS = {1: 10, 2: 18, 4: 18, 16: 28}
"""copies of a body -> instructions around a loop whose passes are counted at run time: whether there are any, how many
are left for the loops of fewer copies and of single passes that follow, and the tests of these"""
BOUNDS = 8
"""to know how many passes a lane makes through a loop that lanes leave one after the other, and whether any"""
PARTING = {Opcode.BRANCH: 7, Opcode.INTEGER: 13}
"""around such a loop: two agreements to meet and the two meetings, tests of how many passes are left, addresses anew"""
OUTER_PARTING = {Opcode.BRANCH: 3, Opcode.INTEGER: 2}
"""around one with such a loop inside"""


def with_loop_guards(graph: Idg) -> Idg:
    """Return *graph* with what a warp executes each time that it comes to a loop."""
    return _Guarding(graph).guarded()


class _Guarding:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)

    def guarded(self) -> Idg:
        bounds = [place for loop in loops_in(self.graph.body) if loop.lanes_part for place in self._bounds(loop)]
        body = (*bounds, *self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), self.graph.edges, body)

    def _bounds(self, loop: Loop) -> list[int]:
        return self._added({Opcode.INTEGER: BOUNDS}, f"passes of {loop.name}", 1)

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                entries = number_of_runs(None, around)
                yield from self._added(self._guards((*around, item)), f"are there passes of {item.name}?", entries)
                yield replace(item, body=tuple(self._items(item.body, (*around, item))))
            else:
                yield item

    def _guards(self, loops: tuple[Loop, ...]) -> Mapping[Opcode, int]:
        """Return the kinds of instructions around the innermost of *loops*, and how many there are."""
        loop = loops[-1]
        if not loop.is_counted:
            return {}
        if loop.lanes_part and not is_innermost(loop):
            return OUTER_PARTING
        written = written_out(self.graph, loops)
        guards = GUARDS[max(number for number in GUARDS if number <= written)]
        if not loop.lanes_part:
            return {Opcode.INTEGER: guards}
        return {**PARTING, Opcode.INTEGER: PARTING[Opcode.INTEGER] + (guards if written > 1 else 0)}

    def _added(self, kinds: Mapping[Opcode, int], text: str, executions: int) -> list[int]:
        first = len(self.instructions)
        for kind, number in kinds.items():
            subsystem = Pipeline.CONTROL if kind == Opcode.BRANCH else Pipeline.ALU
            each = Instruction(kind, "i32", subsystem, "", text, executions=executions)
            self.instructions.extend([each] * number)
        return list(range(first, len(self.instructions)))
