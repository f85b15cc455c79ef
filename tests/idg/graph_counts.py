"""Executed instructions by name: from graphs of warps, and from counts of sub-groups."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from loopyperf.counts.item import Access, Item, Operation
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.idg.program import Instruction
from loopyperf.kernel import Kernel
from loopyperf.memory.kernel_profile import KernelIdg

Numbers = dict[str, int | Fraction]
WITHOUT_PROPERTY = ("move", "select")
"""instructions that counts do not contain"""


def counted(kernel: Kernel, sizes: Mapping[str, int], warp_size: int) -> Numbers:
    """Return how often sub-groups of *warp_size* lanes execute each kind of instruction, by counting sets of points."""
    tallies = count_kernel(kernel, "executed", sub_group_size=warp_size).tallies
    found: Counter[str] = Counter()
    for tally in tallies:
        found[_name(tally.item)] += tally.number * tally.executions(**sizes)
    return {name: number for name, number in found.items() if number and name not in ("launches", "work-groups")}


def executed(graphs: KernelIdg) -> Numbers:
    """Return how often all warps execute each kind of instruction, by adding up their graphs."""
    found: Counter[str] = Counter()
    for launch in graphs.launches:
        for kind in launch.classes:
            for instruction in kind.graph.instructions:
                if instruction.kind not in WITHOUT_PROPERTY:
                    found[_name_of(instruction)] += kind.warps * instruction.executions
    return {name: number for name, number in found.items() if number}


def _name(item: Item) -> str:
    match item:
        case Operation(kind, dtype):
            return f"{dtype} {kind}"
        case Access(direction, space, bits):
            return f"{space} {direction} b{bits}"
        case _:
            return item.kind


def _name_of(instruction: Instruction) -> str:
    if instruction.kind == "barrier":
        return "barriers"
    if instruction.reference is not None:
        return f"{instruction.subsystem} {instruction.kind} {instruction.dtype}"
    kind = {"square": "pow", "powi": "pow", "mod": "div"}.get(instruction.kind, instruction.kind)
    return f"{instruction.dtype} {kind}"
