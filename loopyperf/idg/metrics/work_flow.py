"""The work flow graph of Baghsorkhi: blocks of computation, memory operations and barriers (Lemeire, section 2.4).

Each loop stands once: its nodes say how often a warp executes them, and a transition leads from its last node back to
its first. The latencies of the arcs are the model's affair.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Literal

from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.live_values import FirstUses
from loopyperf.idg.metrics.parallelism import MEMORY, Count, basic_blocks, block_ilp
from loopyperf.idg.program import Item, Loop, Opcode, placed

Sort = Literal["computation", "memory", "barrier"]


@dataclass(frozen=True, slots=True)
class Node:
    """A block of computational instructions, a memory operation, or a barrier."""

    sort: Sort
    """which of these it is"""
    instructions: tuple[int, ...]
    """in the order of the program; their number is αcomp,i of a block of computation; one alone in other nodes"""
    ilp: Fraction
    """ILPi of a block of computation, 1 of other nodes"""
    executions: Count
    """of one warp"""


@dataclass(frozen=True, slots=True)
class Arc:
    """A way from one node to another, each its place in :attr:`WorkFlowGraph.nodes`."""

    source: int
    """the place of a node"""
    target: int
    """the place of a node"""
    is_carried: bool = False
    """to a later pass of a loop"""


@dataclass(frozen=True, slots=True)
class WorkFlowGraph:
    """What a warp executes, in blocks."""

    nodes: tuple[Node, ...]
    """in the order of the program"""
    transitions: tuple[Arc, ...]
    """from each node to those that may be executed next; a loop is entered and left, and none is skipped"""
    dependences: tuple[Arc, ...]
    """from a memory operation to the node that uses its result first"""


def work_flow_graph(graph: Idg, memory: Collection[str] = MEMORY) -> WorkFlowGraph:
    """Return the work flow graph of one warp; *memory* names the subsystems of memory operations."""
    nodes = tuple(_nodes(graph, memory))
    node_of = {place: number for number, node in enumerate(nodes) for place in node.instructions}
    following = [Arc(number, number + 1) for number in range(len(nodes) - 1)]
    back = [Arc(last, first, is_carried=True) for first, last in _loops(graph.body, node_of)]
    arcs = sorted((*following, *back), key=lambda arc: (arc.source, arc.target))
    return WorkFlowGraph(nodes, tuple(arcs), tuple(_dependences(graph, nodes, node_of)))


def _nodes(graph: Idg, memory: Collection[str]) -> Iterator[Node]:
    """Yield the nodes: blocks, each cut before and after its memory operations."""

    def operation(place: int) -> int | None:
        return place if graph.instructions[place].subsystem in memory else None

    for block in basic_blocks(graph):
        for found, run in groupby(block.instructions, operation):
            places = tuple(run)
            sort: Sort = "barrier" if block.is_barrier else "computation" if found is None else "memory"
            yield Node(sort, places, block_ilp(graph, places), block.executions)


def _loops(body: Sequence[Item], node_of: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last node of each loop in *body*."""
    for loop in body:
        if isinstance(loop, Loop):
            nodes = [node_of[place] for place, _ in placed(loop.body)]
            if nodes:
                yield nodes[0], nodes[-1]
            yield from _loops(loop.body, node_of)


def _dependences(graph: Idg, nodes: Sequence[Node], node_of: dict[int, int]) -> Iterator[Arc]:
    uses = FirstUses(graph)
    for number, node in enumerate(nodes):
        use = uses.of(node.instructions[0]) if node.sort == "memory" else None
        if use is not None:
            yield Arc(number, node_of[use.target], use.is_carried)


# {{{ what a processor does of a kernel with vector instructions
#
# And what one work-item after the other.
#
# For a processor, a compiler such as PoCL makes a loop over the work-items of a group around all that stands between
# two barriers; a loop of the kernel with a barrier in it stays outside. LLVM makes vector instructions of innermost
# loops only: so work-items go together where no loop of the kernel is left between the barriers, and one by one
# elsewhere.
#
# PoCL's documentation, "Kernel compiler" (work-group functions); LLVM's, "Auto-Vectorization", the loop vectorizer.


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


# }}}
