"""Fused multiply-adds: a product that one sum alone uses becomes part of it."""

from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction
from loopyperf.idg.rewriting import rewritten


def with_fused_multiply_adds(graph: Idg) -> Idg:
    """Return *graph* with each addition contracted with a product that nothing else uses."""
    uses: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        uses.setdefault(edge.source, []).append(edge)
    fused: dict[int, Instruction] = {}
    gone: set[int] = set()
    edges = list(graph.edges)
    for place, instruction in enumerate(graph.instructions):
        product = _product(graph, place, instruction, uses, gone)
        if product is not None:
            gone.add(product.source)
            fused[place] = _fused(graph.instructions[product.source], instruction, product)
            edges = [_moved(edge, place, product) for edge in edges if edge is not product]
    kept = [place for place in range(len(graph.instructions)) if place not in gone]
    return rewritten(graph, kept, edges, fused)


def _product(
    graph: Idg, place: int, instruction: Instruction, uses: dict[int, list[Edge]], gone: set[int]
) -> Edge | None:
    """Return the edge to an addition from a product of the same pass that is used nowhere else."""
    if instruction.kind != "add" or not instruction.dtype.startswith("f"):
        return None
    for edge in reversed(graph.definitions[place]):
        source = graph.instructions[edge.source]
        alike = (source.kind, source.dtype, source.condition) == ("mul", instruction.dtype, instruction.condition)
        beside = graph.loops_around[edge.source] == graph.loops_around[place]
        if alike and beside and not edge.is_carried and len(uses[edge.source]) == 1 and edge.source not in gone:
            return edge
    return None


def _fused(product: Instruction, addition: Instruction, edge: Edge) -> Instruction:
    addend = tuple(each for slot, each in enumerate(addition.operands) if slot != edge.operand)
    first, *others = product.operands
    if edge.operand is not None and addition.operands[edge.operand].is_negated:
        first = replace(first, is_negated=not first.is_negated)
    return replace(addition, kind="fma", operands=(first, *others, *addend))


def _moved(edge: Edge, place: int, product: Edge) -> Edge:
    """Return *edge* to the fused instruction at *place*: factors first, then the addend."""
    if edge.target == product.source:
        return replace(edge, target=place)
    if edge.target == place and edge.operand is not None:
        return replace(edge, operand=2)
    return edge
