"""What a processor does of a kernel with vector instructions, and what one work-item after the other.

For a processor, a compiler such as PoCL makes a loop over the work-items of a group around all that stands between two
barriers; a loop of the kernel with a barrier in it stays outside. LLVM makes vector instructions of innermost loops
only: so work-items go together where no loop of the kernel is left between the barriers, and one by one elsewhere.

PoCL's documentation, "Kernel compiler" (work-group functions); LLVM's, "Auto-Vectorization", the loop vectorizer.
"""

from collections.abc import Iterator, Mapping, Sequence

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop, Opcode


def executed_one_by_one(graph: Idg) -> Mapping[int, float]:
    """Return the places of the instructions that each work-item executes by itself, in the order of the program.

    Each has the share of the passes of its loops that a work-item makes on average: less than 1 where lanes leave a
    loop one after the other.
    """
    return {place: share for region in _regions(graph, graph.body) for place, share in _alone(region)}


def _regions(graph: Idg, body: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield what stands between barriers."""
    region: list[Item] = []
    for item in body:
        if not _has_barrier(graph, item):
            region.append(item)
            continue
        yield region
        region = []
        if isinstance(item, Loop):
            yield from _regions(graph, item.body)
    yield region


def _has_barrier(graph: Idg, item: Item) -> bool:
    if isinstance(item, Loop):
        return any(_has_barrier(graph, each) for each in item.body)
    return graph.instructions[item].kind == Opcode.BARRIER


def _alone(region: Sequence[Item]) -> Iterator[tuple[int, float]]:
    if any(isinstance(item, Loop) for item in region):
        yield from _placed(region, 1.0)


def _placed(body: Sequence[Item], share: float) -> Iterator[tuple[int, float]]:
    for item in body:
        if isinstance(item, Loop):
            yield from _placed(item.body, share * _made(item.lanes))
        else:
            yield item, share


def _made(lanes: Sequence[int]) -> float:
    """Return the passes that lanes make on average, over those of the lane that makes most."""
    most = max(lanes, default=0)
    return sum(lanes) / (len(lanes) * most) if most else 1.0
