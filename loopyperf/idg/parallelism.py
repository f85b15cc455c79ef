"""How much of one warp may run side by side (Sim, section 5.3): instructions by kind, blocks, recurrences, ILP, MLP.

Within a block, instructions that wait for none of each other are issued together: they are the levels of the graph of
its dependences, and the ILP is the number of instructions over that of levels. A dependence on an earlier pass of a
loop is complete before the block begins and orders nothing within it. The MLP counts what is requested from memory
after a load and before the first use of its value; there such a dependence matters, as a value that is loaded one pass
ahead has all the requests of that pass behind it.

Sim divides the sum over blocks by their number, which makes it grow with the passes of a loop: here it is divided by
that of all executions (docs/errata.md, GPUPerf).

The work flow graph of Baghsorkhi: blocks of computation, memory operations and barriers (Lemeire, section 2.4).

Each loop stands once: its nodes say how often a warp executes them, and a transition leads from its last node back to
its first. The latencies of the arcs are the model's affair.
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

# {{{ how many instructions of what sort one warp executes: what the models without a graph ask for
#
# Which subsystems are "memory" is a choice. The models of two pipelines mean the one whose requests leave the core: its
# Λ and λ are those of device memory (Lemeire, Table 2), and MWP-CWP and the WFG model count accesses of on-chip memory
# as computation. So it is ``"global"`` unless other subsystems are named, and all but barriers is then computation.


Count = int | Fraction
"""executions of one warp; a fraction where ``typical`` says how often a condition on data holds"""

MEMORY = (MemorySpace.GLOBAL,)
"""the subsystems whose instructions are memory instructions, unless others are named"""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """How many instructions one warp executes, of three sorts (Lemeire, section 3.1.1)."""

    computation: Count
    """αcomp"""
    memory: Count
    """αmem"""
    synchronization: Count
    """αsync: barriers"""

    @property
    def total(self) -> Count:
        """Return how many instructions the warp executes."""
        return self.computation + self.memory + self.synchronization


def instruction_mix(graph: Idg, memory: Collection[str] = MEMORY) -> InstructionMix:
    """Return how many instructions of each sort one warp executes; *memory* names the subsystems that are memory.

    See :meth:`Idg.mix` for them by kind and type. Source: Lemeire, Table 2.
    """
    of_subsystem = executions_by_subsystem(graph)
    synchronization: Count = sum((each.executions for each in graph.instructions if each.kind == Opcode.BARRIER), 0)
    in_memory: Count = sum((of_subsystem.get(name, 0) for name in dict.fromkeys(memory)), 0)
    return InstructionMix(graph.executed - in_memory - synchronization, in_memory, synchronization)


def executions_by_subsystem(graph: Idg) -> dict[str, Count]:
    """Return subsystem -> how many instructions one warp executes on it."""
    found: dict[str, Count] = {}
    for each in graph.instructions:
        found[each.subsystem] = found.get(each.subsystem, 0) + each.executions
    return found


# }}}


# {{{ basic blocks of a rolled graph
#
# Instructions that a warp executes one after the other, all of them or none.


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


# }}}


# {{{ the issue and completion latencies of the instructions of a graph, and how they are looked up


Timing = Mapping[str, Lambdas] | Callable[[Instruction], Lambdas] | Sequence[Lambdas]
"""the latencies by subsystem (mapper f of Lemeire 3.1.3), a function of the instruction (its mapper g), or those of a
graph's instructions in their order"""


def latencies(instructions: Sequence[Instruction], timing: Timing) -> list[Lambdas]:
    """Return the latencies of each instruction, in cycles; a store completes λ after its issue (docs/errata.md).

    Raises :class:`GraphError` for a subsystem that *timing* does not tell of.
    """
    if callable(timing) or isinstance(timing, Mapping):
        return [waited_for(each, _looked_up(each, timing)) for each in instructions]
    return [waited_for(each, lambdas) for each, lambdas in zip(instructions, timing, strict=True)]


def waited_for(instruction: Instruction, lambdas: Lambdas) -> Lambdas:
    """Return when an instruction that takes *lambdas* is complete for its warp: a store, λ after its issue."""
    return Lambdas(lambdas.issue, lambdas.issue) if instruction.kind == Opcode.STORE else lambdas


def _looked_up(instruction: Instruction, timing: Mapping[str, Lambdas] | Callable[[Instruction], Lambdas]) -> Lambdas:
    if callable(timing):
        return timing(instruction)
    if instruction.subsystem in timing:
        return timing[instruction.subsystem]
    known = ", ".join(map(repr, timing)) or "none"
    what = f"{instruction.kind} {instruction.dtype}".strip()
    raise GraphError(
        f"no latencies of {instruction.subsystem!r}, which {what!r} runs on: there are those of {known}; add them"
    )


# }}}


# {{{ how fast a loop can go at best, however much is done at the same time
#
# Each pass waits for what the last one made.
#
#     RecMII = max over the cycles of dependences of Σ Λ / Σ distance
#
# A processor that executes out of order begins a pass before the last one has ended, so that of a chain of results only
# what goes round the loop is waited for. Rau, "Iterative modulo scheduling" (1994), section 2: the recurrence bound.


def slowest_recurrence(graph: Idg, completion: Sequence[float], places: Mapping[int, float]) -> Mapping[int, float]:
    """Return what the loop waits for whose passes wait longest for each other: instruction -> cycles in all passes.

    *completion* is Λ of each instruction, in cycles. Of *places* are the instructions that are looked at, each with
    how much of its executions counts. Cycles through one carried dependence are found, those through several are not.
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
        passes = min(float(graph.instructions[end].executions) * places[end] for end in (edge.source, edge.target))
        times = passes / edge.distance[level]
        yield {place: completion[place] * times for place in _round(edge, order, after, completion)}


def _round(
    edge: Edge, order: Sequence[int], after: Mapping[int, Collection[int]], completion: Sequence[float]
) -> Iterator[int]:
    """Yield the instructions on the longest way from the target of a carried *edge* to its source in the next pass."""
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
    """Yield the loops of *body*, each with how many are around it."""
    for item in body:
        if isinstance(item, Loop):
            yield item, level
            yield from _loops(item.body, level + 1)


# }}}


# {{{ parallelism


def ilp(graph: Idg) -> Fraction:
    """Return the ILP of one warp, instructions issued together, averaged over the executions of its blocks.

    Barriers are left out; it is 1 where there is nothing else.
    """
    blocks = [block for block in basic_blocks(graph) if not block.is_barrier]
    return _average((block_ilp(graph, block.instructions), block.executions) for block in blocks)


def block_ilp(graph: Idg, instructions: Collection[int]) -> Fraction:
    """Return the ILP of a straight line of *instructions*: their number over that of groups issued together."""
    levels: dict[int, int] = {}
    for place in instructions:
        sources = [edge.source for edge in graph.definitions[place] if not edge.is_carried]
        levels[place] = 1 + max((levels.get(source, 0) for source in sources), default=0)
    return Fraction(len(levels), max(levels.values()))


def mlp(graph: Idg, memory: Collection[str] = MEMORY) -> Fraction:
    """Return the MLP of one warp, requests under way together, averaged over the executions of its blocks with loads.

    *memory* names the subsystems whose instructions are requests. It is 1 where there are no loads.
    """
    values = [(block_mlp(graph, block, memory), block.executions) for block in basic_blocks(graph)]
    return _average((value, executions) for value, executions in values if value is not None)


def block_mlp(graph: Idg, block: Block, memory: Collection[str] = MEMORY) -> Fraction | None:
    """Return the MLP of *block*: requests from a load to the first use of its value, on average; None without loads.

    The load is one of them, and stores are requests too. A value that is not used waits for the end of the loop.
    """

    def is_request(instruction: Instruction) -> bool:
        return instruction.subsystem in memory and instruction.kind != Opcode.BARRIER

    uses = FirstUses(graph)
    loads = [
        place
        for place in block.instructions
        if is_request(graph.instructions[place]) and graph.instructions[place].kind != Opcode.STORE
    ]
    requests = sum(uses.between(place, is_request) for place in loads)
    return Fraction(requests, len(loads)) if loads else None


def _average(values: Iterable[tuple[Fraction, Count]]) -> Fraction:
    """Return the average of values by their executions, 1 if there are none."""
    weighed = list(values)
    executions = sum((number for _, number in weighed), 0)
    return Fraction(sum(value * number for value, number in weighed)) / executions if executions else Fraction(1)


# }}}


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
    back = [Arc(last, first, is_carried=True) for first, last in _back_edges(graph.body, node_of)]
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


def _back_edges(body: Sequence[Item], node_of: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last node of each loop in *body*."""
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
