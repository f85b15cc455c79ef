"""Parallelism within one warp: basic blocks, recurrences, ILP, MLP, work flow graph.

ILP and MLP follow Sim, section 5.3. Within a block, independent instructions issue together: they form the levels of
the block's dependence graph, and the ILP is the number of instructions divided by the number of levels. A loop-carried
dependence is complete before the block starts and imposes no order within it. The MLP counts the memory requests from
a load to the first use of its value. Loop-carried dependences matter there: all requests of an iteration follow a value
that is loaded one iteration ahead.

Sim divides the sum over blocks by the number of blocks, so the result grows with trip counts. Here the divisor is the
number of all block executions (docs/errata.md, GPUPerf).

The work flow graph of Baghsorkhi consists of blocks of computation, memory operations and barriers (Lemeire, section
2.4). Each loop appears once: its nodes have execution counts, and a transition leads from its last node back to its
first. The latencies of the arcs belong to the model.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any, Literal

from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg
from loopyperf.idg.live_values import FirstUses
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, placed

Count = int | Fraction
"""executions per warp; a fraction if ``typical`` gives the probability of a condition on data"""

MEMORY = (MemorySpace.GLOBAL,)
"""default subsystems whose instructions are memory instructions: the latencies of the two-pipeline models are those of
device memory (Lemeire, Table 2), and MWP-CWP and the WFG model treat accesses to on-chip memory as computation"""


# {{{ basic blocks of a rolled graph
#
# A warp executes either all instructions of a block, in order, or none.


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block."""

    instructions: tuple[int, ...]
    """instruction indices in program order; a barrier is a block of its own"""
    loops: tuple[Loop, ...]
    """enclosing loops, outermost first"""
    executions: Count
    """executions per warp"""
    is_barrier: bool = False
    """whether the block is a barrier"""


def basic_blocks(graph: Idg) -> tuple[Block, ...]:
    """Return the basic blocks of *graph* in program order, with their executions per warp.

    A block ends where a loop starts or ends, before and after a barrier, and at a branch, which is where the condition
    or the number of executions changes. Source: Sim, section 5.3.
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


# }}}


# {{{ issue and completion latencies of the instructions of a graph


Timing = Mapping[str, Lambdas] | Callable[[Instruction], Lambdas] | Sequence[Lambdas]
"""latencies by subsystem (mapper f of Lemeire 3.1.3), as a function of the instruction (its mapper g), or one pair per
instruction in order"""


def latencies(instructions: Sequence[Instruction], timing: Timing) -> list[Lambdas]:
    """Return the latencies of each instruction, in cycles; a store completes λ after its issue (docs/errata.md).

    Raises :class:`GraphError` for a subsystem that *timing* lacks.
    """
    if callable(timing) or isinstance(timing, Mapping):
        return [waited_for(instruction, _looked_up(instruction, timing)) for instruction in instructions]
    return [waited_for(each, lambdas) for each, lambdas in zip(instructions, timing, strict=True)]


def waited_for(instruction: Instruction, lambdas: Lambdas) -> Lambdas:
    """Return *lambdas* as its warp experiences them: a store completes λ after its issue."""
    return Lambdas(lambdas.issue, lambdas.issue) if instruction.kind == Opcode.STORE else lambdas


def _looked_up(instruction: Instruction, timing: Mapping[str, Lambdas] | Callable[[Instruction], Lambdas]) -> Lambdas:
    if callable(timing):
        return timing(instruction)
    if instruction.subsystem in timing:
        return timing[instruction.subsystem]
    known = ", ".join(map(repr, timing)) or "none"
    what = f"{instruction.kind} {instruction.dtype}".strip()
    raise GraphError(
        f"no latencies for {instruction.subsystem!r}, which executes {what!r} (known: {known}); add its latencies"
    )


# }}}


# {{{ recurrence bound: the minimum time of a loop with unlimited resources
#
#     RecMII = max over the cycles of dependences of Σ Λ / Σ distance
#
# An out-of-order processor starts an iteration before the previous one has ended, so only dependence cycles through the
# loop limit it. Source: Rau, "Iterative modulo scheduling" (1994), section 2.


def slowest_recurrence(graph: Idg, completion: Sequence[float], places: Mapping[int, float]) -> Mapping[int, float]:
    """Return the slowest recurrence of any loop, as instruction -> cycles over all iterations.

    *completion* is Λ of each instruction, in cycles. *places* maps the instructions to consider to the share of their
    executions that counts. Only dependence cycles with a single loop-carried edge are found.
    """
    found = (each for loop, level in _loops(graph.body) for each in _of_loop(graph, loop, level, completion, places))
    return max(found, key=lambda waited: sum(waited.values()), default=dict[int, float]())


def _of_loop(
    graph: Idg, loop: Loop, level: int, completion: Sequence[float], places: Mapping[int, float]
) -> Iterator[Mapping[int, float]]:
    inside = {place for place, _ in placed(loop.body) if place in places}
    order = [place for place in graph.order if place in inside]
    after: dict[int, list[int]] = {}
    carried: list[Edge] = []
    for edge in graph.edges:
        if edge.through != Dependence.DATA or not {edge.source, edge.target} <= inside:
            continue
        if not edge.is_carried:
            after.setdefault(edge.source, []).append(edge.target)
        elif not any(edge.distance[:level]) and any(edge.distance[level : level + 1]):
            carried.append(edge)
    for edge in carried:
        iterations = min(float(graph.instructions[end].executions) * places[end] for end in (edge.source, edge.target))
        times = iterations / edge.distance[level]
        yield {place: completion[place] * times for place in _round(edge, order, after, completion)}


def _round(
    edge: Edge, order: Sequence[int], after: Mapping[int, Collection[int]], completion: Sequence[float]
) -> Iterator[int]:
    """Yield the instructions on the longest path, backward, from the target of a carried *edge* to its source."""
    longest, before = {edge.target: completion[edge.target]}, dict[int, int]()
    for place in order:
        for target in after.get(place, ()) if place in longest else ():
            later = longest[place] + completion[target]
            if later > longest.get(target, 0.0):
                longest[target], before[target] = later, place
    place = edge.source
    while place in longest:
        yield place
        if place not in before:
            return
        place = before[place]


def _loops(body: Sequence[Item], level: int = 0) -> Iterator[tuple[Loop, int]]:
    """Yield the loops of *body*, each with its nesting depth from 0."""
    for item in body:
        if isinstance(item, Loop):
            yield item, level
            yield from _loops(item.body, level + 1)


# }}}


# {{{ parallelism


def ilp(graph: Idg) -> Fraction:
    """Return the ILP of one warp: instructions issued together, averaged over block executions.

    Barriers do not count. The ILP of a graph without other instructions is 1.
    """
    blocks = [block for block in basic_blocks(graph) if not block.is_barrier]
    return _average((block_ilp(graph, block.instructions), block.executions) for block in blocks)


def block_ilp(graph: Idg, instructions: Collection[int]) -> Fraction:
    """Return the ILP of a basic block: its number of instructions divided by its number of dependence levels."""
    levels: dict[int, int] = {}
    for place in instructions:
        sources = [edge.source for edge in graph.definitions[place] if not edge.is_carried]
        levels[place] = 1 + max((levels.get(source, 0) for source in sources), default=0)
    return Fraction(len(levels), max(levels.values()))


def mlp(graph: Idg, memory: Collection[str] = MEMORY) -> Fraction:
    """Return the MLP of one warp: requests in flight together, averaged over executions of blocks with loads.

    The requests in flight with a load are those from it, inclusive, to the first use of its result, or to the end of
    the loop if there is none; stores count, too. *memory* names the subsystems whose instructions are requests. The MLP
    of a graph without loads is 1.
    """

    def is_request(instruction: Instruction) -> bool:
        return instruction.subsystem in memory and instruction.kind != Opcode.BARRIER

    loads = [place for place, each in enumerate(graph.instructions) if is_request(each) and each.kind != Opcode.STORE]
    requests = FirstUses(graph).between(loads, is_request)
    found = [
        ([requests[each] for each in block.instructions if each in requests], block) for block in basic_blocks(graph)
    ]
    return _average((Fraction(sum(numbers), len(numbers)), block.executions) for numbers, block in found if numbers)


def _average(values: Iterable[tuple[Fraction, Count]]) -> Fraction:
    """Return the mean of (value, executions) pairs weighted by executions; 1 if there are none."""
    weighed = list(values)
    executions = sum((number for _, number in weighed), 0)
    return Fraction(sum(value * number for value, number in weighed)) / executions if executions else Fraction(1)


# }}}


Sort = Literal["computation", "memory", "barrier"]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a work flow graph: a block of computation, a memory operation, or a barrier."""

    sort: Sort
    """type of the node"""
    instructions: tuple[int, ...]
    """instruction indices in program order; αcomp,i of them in a block of computation, one in other nodes"""
    ilp: Fraction
    """ILPi of a block of computation; 1 for other nodes"""
    executions: Count
    """executions per warp"""


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc between nodes, given by their indices in :attr:`WorkFlowGraph.nodes`."""

    source: int
    """index of a node"""
    target: int
    """index of a node"""
    is_carried: bool = False
    """whether it leads to a later iteration of a loop"""


@dataclass(frozen=True, slots=True)
class WorkFlowGraph:
    """Work flow graph of one warp."""

    nodes: tuple[Node, ...]
    """nodes in program order"""
    transitions: tuple[Arc, ...]
    """arcs from each node to its possible successors; no loop is skipped"""
    dependences: tuple[Arc, ...]
    """arcs from a memory operation to the node with the first use of its result"""


def work_flow_graph(graph: Idg, memory: Collection[str] = MEMORY) -> WorkFlowGraph:
    """Return the work flow graph of one warp; *memory* names the subsystems of memory operations."""
    nodes = tuple(_nodes(graph, memory))
    node_of = {place: number for number, node in enumerate(nodes) for place in node.instructions}
    following = [Arc(number, number + 1) for number in range(len(nodes) - 1)]
    back = [Arc(last, first, is_carried=True) for first, last in _back_edges(graph.body, node_of)]
    arcs = sorted((*following, *back), key=lambda arc: (arc.source, arc.target))
    return WorkFlowGraph(nodes, tuple(arcs), tuple(_dependences(graph, nodes, node_of)))


def _nodes(graph: Idg, memory: Collection[str]) -> Iterator[Node]:
    """Yield the nodes: basic blocks, split before and after each memory operation."""

    def operation(place: int) -> int | None:
        return place if graph.instructions[place].subsystem in memory else None

    for block in basic_blocks(graph):
        for found, run in groupby(block.instructions, operation):
            places = tuple(run)
            sort: Sort = "barrier" if block.is_barrier else "computation" if found is None else "memory"
            yield Node(sort, places, block_ilp(graph, places), block.executions)


def _back_edges(body: Sequence[Item], node_of: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last node of each loop in *body*."""
    for loop in body:
        if isinstance(loop, Loop):
            nodes = [node_of[place] for place, _ in placed(loop.body)]
            if nodes:
                yield nodes[0], nodes[-1]
            yield from _back_edges(loop.body, node_of)


def _dependences(graph: Idg, nodes: Sequence[Node], node_of: dict[int, int]) -> Iterator[Arc]:
    uses = FirstUses(graph)
    for number, node in enumerate(nodes):
        use = uses.of(node.instructions[0]) if node.sort == "memory" else None
        if use is not None:
            yield Arc(number, node_of[use.target], use.is_carried)


# {{{ vectorization on CPUs: which instructions run per work-item instead of as vector instructions
#
# For a CPU, a compiler such as PoCL wraps each region between two barriers in a loop over the work-items of a group; a
# kernel loop that contains a barrier stays outside. LLVM vectorizes only innermost loops. So work-items are vectorized
# in regions without a kernel loop, and run one by one elsewhere.
#
# Sources: PoCL's documentation, "Kernel compiler" (work-group functions); LLVM's documentation, "Auto-Vectorization",
# the loop vectorizer.


def executed_one_by_one(graph: Idg) -> Mapping[int, float]:
    """Return the instructions that a CPU executes work-item by work-item, in program order.

    The value of each is the mean share of its loop iterations that a work-item executes; it is less than 1 where lanes
    exit a loop at different iterations.
    """
    regions = (each for each in _regions(graph, graph.body) if any(isinstance(item, Loop) for item in each))
    return {place: share for region in regions for place, share in _placed(region, 1.0)}


def _regions(graph: Idg, body: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the regions between barriers."""
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


def _placed(body: Sequence[Item], share: float) -> Iterator[tuple[int, float]]:
    for item in body:
        if isinstance(item, Loop):
            yield from _placed(item.body, share * _made(item.lanes))
        else:
            yield item, share


def _made(lanes: Sequence[int]) -> float:
    """Return the mean trip count of lanes divided by the maximum; 1 if *lanes* is empty."""
    most = max(lanes, default=0)
    return sum(lanes) / (len(lanes) * most) if most else 1.0


# }}}
