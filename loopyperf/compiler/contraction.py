"""Fused multiply-adds: a product that only sums use becomes part of each of them."""

from collections.abc import Iterator
from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Opcode
from loopyperf.idg.rewriting import rewritten


def with_fused_multiply_adds(graph: Idg) -> Idg:
    """Return *graph* with additions contracted with products, where a product is used in no other way."""
    wanted = {place: edge for place in range(len(graph.instructions)) if (edge := _product(graph, place)) is not None}
    uses: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        uses.setdefault(edge.source, []).append(edge)
    products = {edge.source for edge in wanted.values()}
    gone = {place for place in products if all(wanted.get(use.target) is use for use in uses[place])}
    fused = {place: edge for place, edge in wanted.items() if edge.source in gone}
    instructions = {
        place: _fused(graph.instructions[edge.source], graph.instructions[place], edge) for place, edge in fused.items()
    }
    edges = [new for edge in graph.edges for new in _moved(edge, fused)]
    edges += [
        replace(edge, target=place) for place, product in fused.items() for edge in graph.definitions[product.source]
    ]
    kept = [place for place in range(len(graph.instructions)) if place not in gone]
    return rewritten(graph, kept, edges, instructions)


def _product(graph: Idg, place: int) -> Edge | None:
    """Return the edge to an addition from a product of the same pass, the last one if there are two."""
    instruction = graph.instructions[place]
    if instruction.kind != Opcode.ADD or not instruction.dtype:
        return None
    for edge in reversed(graph.definitions[place]):
        source = graph.instructions[edge.source]
        is_whole = len(source.operands) > 1  # the products inside of functions are not for others
        alike = is_whole and (source.kind, source.dtype, source.condition) == (
            Opcode.MUL,
            instruction.dtype,
            instruction.condition,
        )
        beside = graph.loops_around[edge.source] == graph.loops_around[place]
        if alike and beside and not any(edge.distance) and edge.condition is None and edge.operand is not None:
            return edge
    return None


def _fused(product: Instruction, addition: Instruction, edge: Edge) -> Instruction:
    addend = tuple(each for slot, each in enumerate(addition.operands) if slot != edge.operand)
    first, *others = product.operands
    if edge.operand is not None and addition.operands[edge.operand].is_negated:
        first = replace(first, is_negated=not first.is_negated)
    return replace(addition, kind=Opcode.FMA, operands=(first, *others, *addend))


def _moved(edge: Edge, fused: dict[int, Edge]) -> Iterator[Edge]:
    """Yield what becomes of *edge*: of a fused addition, the addend is the third operand."""
    product = fused.get(edge.target)
    if product is None:
        yield edge
    elif edge is not product:
        yield edge if edge.operand is None else replace(edge, operand=2)
