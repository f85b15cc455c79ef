"""Programs with fewer passes of their loops, for simulations of what would take too long."""

from collections.abc import Sequence
from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop

FEW = 4
"""passes: a loop that has no more keeps them, and those in it lose some"""


def shortened(graph: Idg, share: float, fewest: int) -> Idg:
    """Return *graph* with a *share* of the passes of its outermost loops, but not less than the *fewest*.

    Loops lose passes on one level alone, so that times grow linearly with the share. How often instructions say that
    they are executed stays what it was.
    """
    return replace(graph, body=_body(graph.body, share, fewest))


def _body(body: Sequence[Item], share: float, fewest: int) -> tuple[Item, ...]:
    return tuple(_loop(item, share, fewest) if isinstance(item, Loop) else item for item in body)


def _loop(loop: Loop, share: float, fewest: int) -> Loop:
    if isinstance(loop.trips, int) and loop.trips > FEW:
        return replace(loop, trips=min(loop.trips, max(fewest, round(share * loop.trips))))
    return replace(loop, body=_body(loop.body, share, fewest))
