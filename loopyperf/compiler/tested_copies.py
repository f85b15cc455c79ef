"""Copies that are not for all lanes: of a loop that the source writes out, each copy begins with a test of its own.

A short copy is not branched around but predicated (docs/compiler.md, section 6): what makes the predicate is executed
in all copies, whether a lane of the warp has anything to do there or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopyperf.compiler.tested_passes import TEST
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Item, Loop, Opcode
from loopyperf.idg.unrolling import number_of_runs


def with_tested_copies(graph: Idg) -> Idg:
    """Return *graph* with the tests of copies that lanes take part in or do not."""
    instructions = list(graph.instructions)

    def items(body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if not isinstance(item, Loop):
                yield item
                continue
            loops = (*around, item)
            inside = list(items(item.body, loops))
            if item.is_unrolled and item.lanes_part:
                first = len(instructions)
                passes = number_of_runs(None, loops)
                test = Instruction(Opcode.INTEGER, "i32", Pipeline.ALU, text=f"in {item.name}?", executions=passes)
                instructions.extend([test] * TEST)
                inside = [*range(first, first + TEST), *inside]
            yield replace(item, body=tuple(inside))

    body = tuple(items(graph.body, ()))
    return Idg(tuple(instructions), graph.edges, body)
