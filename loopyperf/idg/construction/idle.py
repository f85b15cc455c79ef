"""What a warp comes by without any of its lanes taking part: other warps of the launch execute it.

The machine issues some of it all the same (:mod:`loopyperf.compiler.predication`).
"""

from bisect import bisect
from collections.abc import Iterator

from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.program import Edge, Idle, Instruction


def idle_part(executed: Executed, instructions: dict[int, Instruction]) -> Idle | None:
    """Return the *instructions* that the warp comes by, by their places in the program; None where there are none.

    They are issued as often as the warp passes through the loops around them.
    """
    numbers = {place: number for number, place in enumerate(instructions)}
    if not numbers:
        return None
    alive = sorted(executed.numbers)
    after = [bisect(alive, place) for place in instructions]
    loops = [tuple(nest.iname for nest in executed.draft(place).statement.loops) for place in instructions]
    edges = tuple(edge for place in instructions for edge in _operands(executed, place, numbers))
    return Idle(tuple(instructions.values()), edges, tuple(zip(after, loops, strict=True)))


def come_by(executed: Executed) -> Iterator[tuple[int, int]]:
    """Yield the places of drafts that the warp comes by without executing them, with how often."""
    if not executed.numbers:
        return
    for place, draft in enumerate(executed.program.drafts):
        if place in executed.numbers or executed.of_launch_is_empty(place):
            continue
        loops = draft.statement.loops
        number = executed.warp.passes(loops).number if loops and executed.is_entered(loops) else int(not loops)
        if number:
            yield place, number


def _operands(executed: Executed, place: int, numbers: dict[int, int]) -> Iterator[Edge]:
    draft = executed.draft(place)
    loops = draft.statement.loops
    names = [nest.iname for nest in loops]
    for slot, value in enumerate(draft.operands):
        for node in executed.nodes_of(value):
            if node in numbers and executed.draft(node).statement.loops == loops:
                yield Edge.within(numbers[node], numbers[place], names, operand=slot)
