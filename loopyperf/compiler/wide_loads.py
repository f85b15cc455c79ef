"""How wide loads and stores are: neighbouring elements of local memory are loaded together, 128 bits are the most.

The copies of an unrolled loop load them one after the other. The machine wants the first one aligned in every lane: all
that moves the address, beside the copy, moves it by a multiple of the width (docs/compiler.md, section 5.1). Vectors
that are wider than an instruction moves are loaded and stored by several.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode
from loopyperf.idg.rewriting import rewritten

WIDEST = 128
"""bits"""


def with_wide_loads(graph: Idg) -> Idg:
    """Return *graph* with loads from local memory merged to 128 or 64 bits where they are neighbours and aligned."""
    leader: dict[int, int] = {}
    widened: dict[int, Instruction] = {}
    for block in _blocks(graph.body):
        for together in _neighbours(graph, block):
            first = graph.instructions[together[0]]
            bits = first.reference.bits * len(together)
            earliest = min(together, key=block.index)  # what uses one of them may come before the others
            widened[earliest] = replace(first, dtype=f"b{bits}")
            leader.update(dict.fromkeys(together, earliest))
    kept = [place for place in range(len(graph.instructions)) if leader.get(place, place) == place]
    edges = [
        replace(edge, source=leader.get(edge.source, edge.source), target=leader.get(edge.target, edge.target))
        for edge in graph.edges
    ]
    return rewritten(graph, kept, edges, widened)


def _blocks(body: Sequence[Item]) -> list[list[int]]:
    """Return the straight pieces of code: between loops, and inside each."""
    found: list[list[int]] = [[]]
    for item in body:
        if isinstance(item, Loop):
            found += [*_blocks(item.body), []]
        else:
            found[-1].append(item)
    return found


def _neighbours(graph: Idg, block: Sequence[int]) -> list[list[int]]:
    """Return the loads of *block* that are one: those of neighbouring elements between the same barriers."""
    groups: dict[Any, dict[int, int]] = {}
    epoch = 0
    for place in block:
        each = graph.instructions[place]
        epoch += each.kind in (Opcode.BARRIER, Opcode.STORE)
        if (
            each.kind == Opcode.LOAD
            and each.subsystem == MemorySpace.LOCAL
            and each.reference is not None
            and not each.is_volatile
        ):
            address = each.address
            if address is not None and all(isinstance(variable, str) for variable, _ in address.terms):
                where = (epoch, str(each.condition), each.is_idle)
                key = (each.reference.array, each.reference.bits, address.terms, where)
                groups.setdefault(key, {})[address.constant] = place
    return [
        part
        for (_, bits, terms, _), places in groups.items()
        for part in _parts(places, bits, [factor for _, factor in terms])
    ]


def _parts(places: dict[int, int], bits: int, factors: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    starts = sorted(places)
    while starts:
        start = starts[0]
        number = WIDEST // bits
        while number > 1:
            together = [start + step for step in range(number)]
            aligned = start % number == 0 and all(factor % number == 0 for factor in factors)
            if aligned and all(each in places for each in together):
                found.append([places[each] for each in together])
                break
            number //= 2
        taken = set(range(start, start + max(number, 1)))
        starts = [each for each in starts if each not in taken]
    return found


# {{{ no wider than the machine's


def with_split_vectors(graph: Idg) -> Idg:
    """Return *graph* with loads and stores of more than 128 bits done by several instructions.

    What works on one member of a vector waits for the load of that member, and the store of it for what computes it.
    """
    wide = [place for place, each in enumerate(graph.instructions) if _pieces(each) > 1]
    if not wide:
        return graph
    instructions, pieces = list(graph.instructions), dict[int, list[int]]()
    for place in wide:
        like, number = graph.instructions[place], _pieces(graph.instructions[place])
        instructions[place] = replace(like, dtype=f"b{WIDEST}")
        pieces[place] = [place, *range(len(instructions), len(instructions) + number - 1)]
        instructions += [instructions[place]] * (number - 1)
    edges = tuple(new for edge in graph.edges for new in _split_edge(graph, pieces, edge))
    return Idg(tuple(instructions), edges, tuple(_with_pieces(graph.body, pieces)))


def _pieces(instruction: Instruction) -> int:
    """Return how many instructions a load or store is: one for each 128 bits."""
    is_narrow = instruction.reference is None or len(instruction.dtype) <= len("b64")
    return 1 if is_narrow else instruction.bits // WIDEST


def _split_edge(graph: Idg, pieces: Mapping[int, Sequence[int]], edge: Edge) -> Iterator[Edge]:
    """Yield what becomes of *edge* where its ends are in *pieces*: the same piece of both, or that of a member."""
    before, after = pieces.get(edge.source, [edge.source]), pieces.get(edge.target, [edge.target])
    if edge.through == Dependence.DATA and len(before) == len(after):
        yield from (edge.between(*ends) for ends in zip(before, after, strict=True))
        return
    if edge.through == Dependence.DATA and len(before) > 1:
        before = [before[_piece(graph, edge.source, edge.target, edge.operand)]]
    elif edge.operand == 0 and len(after) > 1:
        after = [after[_piece(graph, edge.target, edge.source, None)]]
    yield from (edge.between(source, target) for source in before for target in after)


def _piece(graph: Idg, access: int, other: int, operand: int | None) -> int:
    """Return which piece of *access* has the member that the *other* instruction, or its *operand*, works on."""
    wide, instruction = graph.instructions[access], graph.instructions[other]
    element = None if operand is None else instruction.operands[operand].element
    member = instruction.part if element is None or not isinstance(element.member, int) else element.member
    members = wide.bits // int(wide.scalar[1:] or 32)
    return member % members * _pieces(wide) // members


def _with_pieces(body: Sequence[Item], pieces: Mapping[int, Sequence[int]]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            yield replace(item, body=tuple(_with_pieces(item.body, pieces)))
        else:
            yield from pieces.get(item, [item])


# }}}
