"""Programs with fewer passes of their loops: for simulations of what would take too long, and for lighter warps."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop
from loopyperf.idg.unrolling import runs_of_all

FEW = 4
"""passes: a loop that has no more keeps them, and those in it lose some"""


def shortened(graph: Idg, share: float, fewest: int) -> Idg:
    """Return *graph* with a *share* of the passes of its outermost loops, but not less than the *fewest*.

    Where that is more than the share, loops within keep so much less, but :data:`FEW` passes: those that are innermost,
    in which nearly all instructions are, keep theirs longest. Of two shares with as many times the fewest passes, these
    loops have the same, so that times grow linearly with the share. How often instructions say that they are executed
    stays what it was.
    """
    return replace(graph, body=_body(graph.body, share, fewest))


def _body(body: Sequence[Item], share: float, fewest: int) -> tuple[Item, ...]:
    return tuple(_loop(item, share, fewest) if isinstance(item, Loop) else item for item in body)


def _loop(loop: Loop, share: float, fewest: int) -> Loop:
    if not isinstance(loop.trips, int) or loop.trips <= FEW:
        return replace(loop, body=_body(loop.body, share, fewest))
    wanted = share * loop.trips
    trips = min(loop.trips, max(fewest, round(wanted)))
    within = _body(loop.body, wanted / fewest, FEW) if wanted < fewest else loop.body
    return replace(loop, trips=trips, body=within)


@dataclass(frozen=True, slots=True)
class Light:
    """A program whose loops of unequal passes make one pass each."""

    program: int
    graph: Idg
    part: float
    """executions of what is in these loops, relative to those of the original program"""


def light(graph: Idg, program: int, loops: Collection[str]) -> Light | None:
    """Return *graph* with one pass of its outermost *loops*, as a *program* of that number; None if it has no more."""
    short = replace(graph, body=_in_one_pass(graph.body, loops))
    runs = (runs_of_all(graph.instructions, each.loops_around) for each in (graph, short))
    instructions = list(graph.instructions)
    every = left = Fraction(0)
    for place, (before, after) in enumerate(zip(*runs, strict=True)):
        if after < before:
            each = instructions[place]
            fewer = Fraction(each.executions) * after / before
            every, left = every + Fraction(each.executions), left + fewer
            instructions[place] = replace(each, executions=fewer)
    if not every:
        return None
    return Light(program, replace(short, instructions=tuple(instructions)), float(left / every))


def _in_one_pass(body: Sequence[Item], loops: Collection[str]) -> tuple[Item, ...]:
    def shorter(item: Item) -> Item:
        if not isinstance(item, Loop):
            return item
        return replace(item, trips=1) if item.name in loops else replace(item, body=_in_one_pass(item.body, loops))

    return tuple(map(shorter, body))
