"""Loads of neighbouring elements of local memory, done as one of 64 or 128 bits.

The copies of an unrolled loop load them one after the other. The machine wants the first one aligned in every lane: all
that moves the address, beside the copy, moves it by a multiple of the width (docs/compiler.md, section 5.1).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loopyperf.idg.affine import Affine
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering.rewriting import rewritten
from loopyperf.idg.program import Instruction, Item, Loop

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
        epoch += each.kind in ("barrier", "store")
        if each.kind == "load" and each.subsystem == "local" and each.reference is not None and not each.is_volatile:
            address = Affine.of(each.address)
            if address is not None:
                where = (epoch, str(each.condition), each.is_idle)
                key = (each.reference.array, each.reference.bits, tuple(sorted(address.factors.items())), where)
                groups.setdefault(key, {})[address.constant] = place
    return [part for (_, bits, factors, _), places in groups.items() for part in _parts(places, bits, dict(factors))]


def _parts(places: dict[int, int], bits: int, factors: dict[str, int]) -> list[list[int]]:
    found: list[list[int]] = []
    starts = sorted(places)
    while starts:
        start = starts[0]
        number = WIDEST // bits
        while number > 1:
            together = [start + step for step in range(number)]
            aligned = start % number == 0 and all(factor % number == 0 for factor in factors.values())
            if aligned and all(each in places for each in together):
                found.append([places[each] for each in together])
                break
            number //= 2
        taken = set(range(start, start + max(number, 1)))
        starts = [each for each in starts if each not in taken]
    return found
