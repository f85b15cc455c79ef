"""Where each private array lives: in registers, or in memory that is private to a work-item.

Registers have no addresses, so an array is in registers where each index into it is a constant once the loops are
written out that nvcc writes out. Otherwise it lies on the stack of the work-item, in what OpenCL calls private and CUDA
calls local memory, which is a part of device memory. The rules are measured on nvcc's PTX (docs/compiler.md, section
10).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd
from typing import Literal

from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.compiler.indexed_loops import FEW, NEVER, SURELY, IndexedLoops, elements_of
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import WORK_GROUP, Element, Loop

Home = Literal["registers", "unsure", "private memory"]
HOMES: tuple[Home, ...] = ("registers", "unsure", "private memory")
"""the later one decides: one index that is no constant puts the whole array in memory"""
Placement = Literal["likelier", "registers", "private memory"]
"""where the arrays are taken to live of which it is unsure: each where it likelier is, or all of them in one place"""
MOST_REGISTERS = 255
"""of 32 bits, that a work-item can have on NVIDIA's from compute capability 3.5 on (CUDA C++ Programming Guide)"""
TURING: Capability = (7, 5)
"""the first devices that nvcc 13 builds for"""


@dataclass(frozen=True, slots=True)
class PrivateArray:
    """A private array, and where it lives."""

    name: str
    """in the kernel"""
    elements: int
    """of a work-item"""
    bits: int
    """of an element"""
    home: Home
    """where its elements are"""
    reason: str
    """in words"""
    is_likely_in_memory: bool = False
    """what is more likely, where that is unsure"""

    @property
    def is_in_memory(self) -> bool:
        """Return whether it lives in memory, likely or surely."""
        return self.home == "private memory" or self.is_likely_in_memory

    @property
    def is_unsure(self) -> bool:
        """Return whether it may live in either place."""
        return self.home == "unsure"

    def is_in_memory_by(self, placement: Placement) -> bool:
        """Return whether it lives in memory, if by *placement* where that is unsure."""
        if not self.is_unsure or placement == "likelier":
            return self.is_in_memory
        return placement == "private memory"

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return self.elements * self.bits // 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one index says of its array."""

    home: Home
    reason: str
    is_likely_in_memory: bool = True
    """where that is unsure"""


CONSTANT = Verdict("registers", "every index is a constant")


def private_arrays(
    graph: Idg, capability: Capability = HOPPER, most_registers: int = MOST_REGISTERS
) -> tuple[PrivateArray, ...]:
    """Return the private arrays that the warp of the source *graph* uses, by name, each with where it lives.

    *capability* is that of the device, e.g. ``(7, 0)``: compilers of several years build for the devices. A work-item
    has *most_registers* of 32 bits, and no more.
    """
    loops = IndexedLoops(graph)
    elements: dict[str, Element] = {}
    verdicts: dict[str, list[Verdict]] = {}
    for instruction, around in zip(graph.instructions, graph.loops_around, strict=True):
        for element in elements_of(instruction):
            elements[element.array] = element
            found = verdicts.setdefault(element.array, [_of_size(element, most_registers, capability)])
            found += _of_index(element, around, loops, None if capability >= TURING else bool(instruction.tests))
    return tuple(_array(elements[name], verdicts[name]) for name in sorted(elements))


def private_arrays_of(
    graphs: Iterable[Idg], capability: Capability = HOPPER, most_registers: int = MOST_REGISTERS
) -> tuple[PrivateArray, ...]:
    """Return the private arrays of a launch, by name, whose warps of all kinds have the source *graphs*.

    The code is one: an array that one kind of warps has in memory is there for all of them.
    """
    found: dict[str, list[PrivateArray]] = {}
    for graph in graphs:
        for each in private_arrays(graph, capability, most_registers):
            found.setdefault(each.name, []).append(each)
    return tuple(_of_all_warps(found[name]) for name in sorted(found))


def _of_all_warps(arrays: list[PrivateArray]) -> PrivateArray:
    decisive = max(arrays, key=lambda each: HOMES.index(each.home))
    return replace(decisive, is_likely_in_memory=any(each.is_unsure and each.is_in_memory for each in arrays))


def _array(element: Element, verdicts: list[Verdict]) -> PrivateArray:
    decisive = max(verdicts, key=lambda each: (HOMES.index(each.home), each != CONSTANT))
    is_likely = decisive.home == "unsure" and any(
        each.home == "unsure" and each.is_likely_in_memory for each in verdicts
    )
    return PrivateArray(element.array, element.length, element.bits, decisive.home, decisive.reason, is_likely)


def _of_size(element: Element, most_registers: int, capability: Capability) -> Verdict:
    """Return what the size of the array of *element* says: from Turing on nothing, as what has no room is spilled."""
    registers = element.length * element.bits // 32
    if registers > most_registers and capability < TURING:
        return Verdict("unsure", f"it would take {registers} registers, of which there are {most_registers}")
    return CONSTANT


def _of_index(
    element: Element, around: tuple[Loop, ...], loops: IndexedLoops, is_tested: bool | None
) -> Iterator[Verdict]:
    """Yield what each variable in the index of *element* says of its array.

    *is_tested* says whether it is under a condition on the work-item, to a compiler for which that decides; None to
    others.
    """
    if element.address is None:
        yield Verdict("private memory", "an index is data")
        return
    address = element.affine
    if address is None:
        yield Verdict("unsure", f"the index {element.address} is not a sum of multiples of loop variables")
        return
    by_name = {loop.name: loop for loop in around}
    for name, _ in address.terms:
        if name in by_name:
            found = of_loop(by_name[name], loops)
            is_likely = _is_kept(by_name[name], found.is_likely_in_memory, is_tested)
            yield replace(found, is_likely_in_memory=is_likely)
        else:
            yield Verdict("private memory", f"an index depends on {name}, which differs between work-items or groups")


def _is_kept(loop: Loop, is_likely: bool, is_tested: bool | None) -> bool:
    """Return whether a *loop* of which it is unsure is likelier kept than written out; otherwise *is_likely* says.

    Before Turing a condition on the work-item has it kept, and without one loops that are long are written out.
    """
    if is_tested is None:
        return is_likely
    if loop.bound.values is not None and len(loop.bound.values) == 1:
        return is_tested
    return is_likely or (is_tested and WORK_GROUP in loop.bound.depends_on)


def of_loop(loop: Loop, loops: IndexedLoops) -> Verdict:
    """Return what an index that depends on *loop* says."""
    if loop.is_unrolled:
        return Verdict("registers", f"Loopy writes the loop over {loop.name} out")
    numbers = loop.bound.values
    if numbers is None:
        return _of_varying(loop)
    passes = f"the loop over {loop.name} makes {' or '.join(map(str, numbers))} pass{'es' if numbers != (1,) else ''}"
    if len(numbers) > 1 and numbers[-1] > FEW:
        # Of those that were tried, 8 or 12 passes are the one exception (docs/compiler.md, section 10, rule 5).
        is_kept = loop.bound.has_or or reduce(gcd, numbers) % 2 != 0
        return Verdict("unsure", f"{passes}; some of such loops are written out", is_kept)
    size = loops.size(loop)
    if numbers == (1,) or size <= SURELY:
        return Verdict("registers", f"{passes}, which nvcc writes out")
    if size <= NEVER:
        return Verdict("unsure", f"{passes}, about {size} instructions if it is written out")
    return Verdict("private memory", f"{passes}, too long to be written out: about {size} instructions")


def _of_varying(loop: Loop) -> Verdict:
    """Return what an index says that depends on a loop whose number of passes is none of a few constants."""
    causes = sorted(loop.bound.depends_on | loop.bound.loops)
    reason = f"the number of passes of the loop over {loop.name} depends on {', '.join(causes)}"
    if loop.is_constant:
        return Verdict("unsure", f"{reason}: a constant if that is written out")
    return Verdict("private memory", reason)
