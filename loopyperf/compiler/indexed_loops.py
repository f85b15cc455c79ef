"""Whether nvcc writes a loop out in full whose variable indexes a private array: then the index is a constant.

cicc goes much further for such a loop than for others (docs/compiler.md, section 10): it wants the array in registers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import gcd

from loopyperf.compiler.nvcc_unrolling import FULL, PARTIAL, RUNTIME
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Element, Instruction, Item, Loop, Opcode

SURELY = 2550
"""LLVM instructions, about: a loop that indexes a private array is written out with no more than so many in all"""
NEVER = 5000
"""LLVM instructions, about: and not with more than so many"""
FEW = 8
"""passes at most: then a loop is written out whose number of passes is one of several constants"""
OF_LLVM: Mapping[str, int] = {Opcode.MOVE: 0, Opcode.DIV: 4, Opcode.MOD: 4}
"""instructions of LLVM, where that is not one"""
LOOP_CONTROL = 15
"""LLVM instructions of a loop that stays: counters, comparisons, and what is left of a number of passes"""


def elements_of(instruction: Instruction) -> Iterator[Element]:
    """Yield the elements of private arrays that *instruction* reads or defines."""
    yield from instruction.defines
    yield from (operand.element for operand in instruction.operands if operand.element is not None)


class IndexedLoops:
    """The loops of a source graph, with what they come to when they are written out."""

    def __init__(self, graph: Idg) -> None:
        """Take the loops of *graph*."""
        self._graph = graph
        self._sizes: dict[int, int] = {}
        """of a loop, by its number"""

    def size(self, loop: Loop) -> int:
        """Return about how many LLVM instructions *loop* has in all its passes, at most as many as its code tells."""
        return self._body(loop) * max(loop.bound.values or (1,))

    def _body(self, loop: Loop) -> int:
        if loop.number not in self._sizes:
            self._sizes[loop.number] = 1 + sum(self._item(item, loop) for item in loop.body)
        return self._sizes[loop.number]

    def _item(self, item: Item, loop: Loop) -> int:
        if isinstance(item, Loop):
            return self._written(item)
        return _llvm_instructions(self._graph.instructions[item], loop.name)

    def _written(self, loop: Loop) -> int:
        """Return the instructions of an inner loop when nvcc has decided on it."""
        body, numbers = self._body(loop), loop.bound.values
        if loop.is_unrolled or numbers == (1,):
            return body * (loop.trips if isinstance(loop.trips, int) else max(numbers or (1,)))
        if numbers is not None and body * max(numbers) <= (SURELY if self.indexes(loop) else FULL):
            return body * max(numbers)
        most = RUNTIME if numbers is None else _power_of_two_in(reduce(gcd, numbers))
        copies = max(1, min(most, 1 << max((PARTIAL // body).bit_length() - 1, 0)))
        return body * copies + LOOP_CONTROL + (body if numbers is None else 0)

    def indexes(self, loop: Loop, arrays: Collection[str] | None = None) -> bool:
        """Return whether an index of one of the private *arrays*, all if None, depends on *loop*."""
        return any(
            depends_on(element, loop.name) and (arrays is None or element.array in arrays)
            for instruction, around in zip(self._graph.instructions, self._graph.loops_around, strict=True)
            if any(each.number == loop.number for each in around)
            for element in elements_of(instruction)
        )


def with_indexed_loops_written_out(graph: Idg) -> Idg:
    """Return *graph* with those loops to be written out in full that index private arrays in registers.

    Registers have no addresses. What lives in memory is loaded and stored already, and no array any more.
    """
    loops = IndexedLoops(graph)

    def marked(body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                is_written = isinstance(item.trips, int) and item.trips > 1 and loops.indexes(item)
                yield replace(item, body=tuple(marked(item.body)), is_unrolled=item.is_unrolled or is_written)
            else:
                yield item

    return replace(graph, body=tuple(marked(graph.body)))


def depends_on(element: Element, name: str) -> bool:
    """Return whether the index of *element* depends on the loop *name*."""
    address = element.affine
    return address is not None and name in address.variables


def _llvm_instructions(instruction: Instruction, loop: str) -> int:
    """Return about how many instructions of LLVM *instruction* is, with those for addresses, directly in *loop*.

    Private arrays are in memory yet, but elements that are the same in each pass are kept in registers.
    """
    private = 2 * sum(depends_on(element, loop) for element in elements_of(instruction))
    if instruction.is_index or instruction.kind == Opcode.BARRIER:
        return 0
    if instruction.reference is not None:
        return 3 + (instruction.reference.space == MemorySpace.GLOBAL) + private
    return OF_LLVM.get(instruction.kind, 1) + private


def _power_of_two_in(number: int) -> int:
    """Return the largest power of two that divides *number*."""
    return number & -number
