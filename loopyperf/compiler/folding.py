"""What a compiler computes itself, or need not compute: index arithmetic, copies of registers, results nobody uses."""

from dataclasses import replace

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Opcode, Operand
from loopyperf.idg.rewriting import composed, rewritten
from loopyperf.polyhedral.expressions import names_of
from loopyperf.polyhedral.polynomial import Polynomial

LASTING = (Opcode.STORE, Opcode.BARRIER, Opcode.INTEGER, Opcode.BRANCH)
"""instructions that are kept, whether another one uses a result of theirs or not: integers are of the machine alone"""


def without_index_arithmetic(graph: Idg) -> Idg:
    """Return *graph* with addresses folded into loads and stores: affine ones are immediates of the machine.

    What is kept in a register as data, as in ``t = i``, is still computed; so is what a pass of a loop moves on by no
    constant step, such as ``1 << k`` (docs/compiler.md, section 5).
    """
    loops = {loop.name for around in graph.loops_around for loop in around}
    irregular = {place for place, each in enumerate(graph.instructions) if _is_irregular(each, loops)}
    kept = irregular | {place for place, each in enumerate(graph.instructions) if not each.is_index}
    pending = list(kept - irregular)
    while pending:
        target = pending.pop()
        wanted = (edge.source for edge in graph.definitions[target] if _is_data(graph.instructions[target], edge))
        found = set(wanted) - kept
        kept |= found
        pending += found
    return rewritten(graph, sorted(kept), _past(graph, irregular, kept))


def _is_irregular(instruction: Instruction, loops: set[str]) -> bool:
    """Return whether index arithmetic gives what no pointer gives that each pass of *loops* moves on by the same step.

    Sums do, but they are part of a multiply-add.
    """
    known = [operand.known for operand in instruction.operands]
    if not instruction.is_index or instruction.kind in (Opcode.ADD, Opcode.COMPARE) or not loops & names_of(known):
        return False
    if instruction.kind != Opcode.MUL or any(each is None for each in known):
        return True
    return not Polynomial.of(prim.Product(tuple(known))).is_affine_in(loops)


def _past(graph: Idg, irregular: set[int], kept: set[int]) -> list[Edge]:
    """Return the edges of *graph*; what waited for what is not *kept* waits for the *irregular* indices in it.

    Indices themselves wait for no condition: they are computed for all lanes.
    """
    edges = [edge for edge in graph.edges if edge.through != Dependence.CONTROL or edge.target not in irregular]
    reached = set(irregular)
    for place in (place for place in range(len(graph.instructions)) if irregular and place not in kept):
        if before := [edge for edge in edges if edge.target == place and edge.source in reached]:
            reached.add(place)
            after = [edge for edge in edges if edge.source == place and edge.target != place]
            edges += [composed(graph, first, second) for second in after for first in before]
    return edges


def _is_data(instruction: Instruction, edge: Edge) -> bool:
    """Return whether nothing but *edge* tells what an operand of *instruction* is, and it is no part of an address."""
    if instruction.address is not None and not (instruction.kind == Opcode.STORE and edge.operand == 0):
        return False
    return edge.operand is not None and instruction.operands[edge.operand].known is None


def without_moves(graph: Idg) -> Idg:
    """Return *graph* with each use of a copied register leading from what the register was copied from.

    A constant that is all that an operand can be becomes part of the instruction; others are moved into registers.
    """
    edges: list[Edge | None] = list(graph.edges)
    at: list[list[int]] = [[] for _ in graph.instructions]
    """of each instruction: the numbers of the edges that touch it"""
    for number, edge in enumerate(graph.edges):
        at[edge.source].append(number)
        if edge.target != edge.source:
            at[edge.target].append(number)
    gone: set[int] = set()
    for place in (place for place, each in enumerate(graph.instructions) if each.kind == Opcode.MOVE):
        touching = [edge for number in at[place] if (edge := edges[number]) is not None]
        before = [edge for edge in touching if edge.target == place and edge.operand == 0]
        (operand, *_) = graph.instructions[place].operands or (Operand(),)
        if before and not operand.is_negated and len(graph.instructions[place].operands) == 1:
            after = [edge for edge in touching if edge.source == place and edge.target != place]
            for number in at[place]:
                edges[number] = None
            for edge in (composed(graph, first, second) for second in after for first in before):
                at[edge.source].append(len(edges))
                at[edge.target].append(len(edges))
                edges.append(edge)
            gone.add(place)
    kept = [place for place in range(len(graph.instructions)) if place not in gone]
    return _with_constants(rewritten(graph, kept, [edge for edge in edges if edge is not None]))


def without_known_choices(graph: Idg) -> Idg:
    """Return *graph* without choices between two values where a condition is known, as in copies of a loop's body."""
    chosen = {place: slot for place, each in enumerate(graph.instructions) if (slot := _chosen(each)) is not None}
    if not chosen:
        return graph
    moves = {
        place: replace(
            graph.instructions[place], kind=Opcode.MOVE, operands=(graph.instructions[place].operands[slot],)
        )
        for place, slot in chosen.items()
    }
    edges = [
        replace(edge, operand=0) if edge.target in chosen else edge
        for edge in graph.edges
        if edge.target not in chosen or edge.operand == chosen[edge.target]
    ]
    return without_moves(rewritten(graph, range(len(graph.instructions)), edges, moves))


def _chosen(instruction: Instruction) -> int | None:
    """Return which operand a choice is; None where that is not known, and for what is no choice between two."""
    operands = instruction.operands
    if instruction.kind != Opcode.SELECT or len(operands) != 3 or not isinstance(operands[0].known, bool):
        return None
    return 1 if operands[0].known else 2


def _with_constants(graph: Idg) -> Idg:
    """Return *graph* with constants as operands of what can have no other value there."""
    feeding: dict[tuple[int, int | None], list[Edge]] = {}
    for edge in graph.edges:
        feeding.setdefault((edge.target, edge.operand), []).append(edge)
    replaced: dict[int, Instruction] = {}
    absorbed: set[Edge] = set()
    for (target, slot), (edge, *others) in feeding.items():
        constant = None if slot is None or others or edge.condition is not None else _constant(graph, edge.source)
        if slot is not None and constant is not None:
            instruction = replaced.get(target, graph.instructions[target])
            sign = instruction.operands[slot].is_negated != constant.is_negated
            operands = (*instruction.operands[:slot], Operand(constant.known, sign), *instruction.operands[slot + 1 :])
            replaced[target] = replace(instruction, operands=operands)
            absorbed.add(edge)
    left = [edge for edge in graph.edges if edge not in absorbed]
    used = {edge.source for edge in left}
    kept = [place for place, each in enumerate(graph.instructions) if each.kind != Opcode.MOVE or place in used]
    return rewritten(graph, kept, left, replaced)


def _constant(graph: Idg, place: int) -> Operand | None:
    """Return the constant that an instruction moves into a register; None for any other instruction."""
    move = graph.instructions[place]
    if move.kind != Opcode.MOVE or len(move.operands) != 1 or graph.definitions[place]:
        return None
    return move.operands[0] if move.operands[0].known is not None else None


def _lasts(instruction: Instruction) -> bool:
    """Return whether *instruction* is kept, used or not: data decide what others are executed, and how often."""
    is_decision = instruction.is_bound or (instruction.kind == Opcode.COMPARE and len(instruction.operands) == 2)
    stays = instruction.is_idle or instruction.is_volatile or instruction.is_stated
    return instruction.kind in LASTING or stays or is_decision


def without_unused(graph: Idg) -> Idg:
    """Return *graph* without the instructions on whose results nothing that lasts depends."""
    sources: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.target, []).append(edge)
    needed: set[int] = set()
    pending = [place for place, each in enumerate(graph.instructions) if _lasts(each)]
    while pending:
        place = pending.pop()
        if place not in needed:
            needed.add(place)
            pending += [edge.source for edge in sources.get(place, [])]
    return rewritten(graph, sorted(needed), graph.edges)
