"""Basic blocks of a rolled graph: instructions that a warp executes one after the other, all of them or none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.mix import Count
from loopyperf.idg.program import Item, Loop, Opcode


@dataclass(frozen=True, slots=True)
class Block:
    """A straight line of instructions."""

    instructions: tuple[int, ...]
    """in the order of the program; one alone if it is a barrier"""
    loops: tuple[Loop, ...]
    """around it, the outermost first"""
    executions: Count
    """of one warp"""
    is_barrier: bool = False
    """it is a barrier and nothing else"""


def basic_blocks(graph: Idg) -> tuple[Block, ...]:
    """Return the maximal straight lines of *graph* in the order of the program, with how often a warp executes each.

    A block ends where a loop begins or ends, before and after a barrier, and where instructions are executed under
    another condition or another number of times: there is a branch. Source: Sim, section 5.3.
    """
    return tuple(_blocks(graph, graph.body, ()))


def _blocks(graph: Idg, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Block]:
    def line(item: Item) -> Any:
        if isinstance(item, Loop):
            return None
        instruction = graph.instructions[item]
        barrier = item if instruction.kind == Opcode.BARRIER else None
        return barrier, instruction.executions, instruction.condition

    for what, items in groupby(body, line):
        if what is None:
            for loop in items:
                assert isinstance(loop, Loop)
                yield from _blocks(graph, loop.body, (*around, loop))
        else:
            places = tuple(item for item in items if isinstance(item, int))
            yield Block(places, around, what[1], is_barrier=what[0] is not None)
