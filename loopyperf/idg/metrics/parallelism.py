"""How much of one warp may run side by side: instruction-level and memory-level parallelism (Sim, section 5.3).

Within a block, instructions that wait for none of each other are issued together: they are the levels of the graph of
its dependences, and the ILP is the number of instructions over that of levels. A dependence on an earlier pass of a
loop is complete before the block begins and orders nothing within it. The MLP counts what is requested from memory
after a load and before the first use of its value; there such a dependence matters, as a value that is loaded one pass
ahead has all the requests of that pass behind it.

Sim divides the sum over blocks by their number, which makes it grow with the passes of a loop: here it is divided by
that of all executions (docs/errata.md, GPUPerf).
"""

from collections.abc import Collection, Iterable
from fractions import Fraction

from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.blocks import Block, basic_blocks
from loopyperf.idg.metrics.mix import MEMORY, Count
from loopyperf.idg.metrics.uses import FirstUses
from loopyperf.idg.program import Instruction, Opcode


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
