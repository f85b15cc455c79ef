"""Where each private array lives, in registers or in private memory, and the loops that are written out for it.

Registers have no addresses, so an array is in registers where each index into it is a constant once the loops are
written out that nvcc writes out. Otherwise it lies on the stack of the work-item, in what OpenCL calls private and CUDA
calls local memory, which is a part of device memory. The rules are measured on nvcc's PTX (docs/compiler.md, section
10).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd
from typing import Literal

from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.compiler.loop_control import FULL, PARTIAL, RUNTIME
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import WORK_GROUP, Element, Instruction, Item, Loop, Opcode

# {{{ whether nvcc writes a loop out in full whose variable indexes a private array
#
# Then the index is a constant.
#
# cicc goes much further for such a loop than for others (docs/compiler.md, section 10): it wants the array in
# registers.


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
        pairs = zip(graph.loops_around, graph.instructions, strict=True)
        found = ((frozenset(loop.number for loop in loops), tuple(elements_of(each))) for loops, each in pairs)
        self._elements = [(around, elements) for around, elements in found if elements]
        """that instructions use, with the loops around each"""

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
            for around, elements in self._elements
            if loop.number in around
            for element in elements
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


# }}}


# {{{ private arrays


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


SUBSETS = 12
"""arrays, at most, for which all choices of those in memory are tried"""
ALIGNED = 16
"""bytes: each array on the stack begins at a multiple of some number up to this"""


def placed_by_stack(arrays: Sequence[PrivateArray], stack_frame: int, spilled: int) -> tuple[PrivateArray, ...]:
    """Return *arrays* where a compiler's *stack_frame* has them, in bytes, of which up to *spilled* are for registers.

    Those are in memory whose sizes add up to it. Where several choices do, those that leave most of the arrays in place
    of which it is sure count; what these choices do not agree on, and all where none adds up, stays as it was.
    """
    if stack_frame and len(arrays) > SUBSETS:
        return tuple(arrays)
    choices = [each for each in product((False, True), repeat=len(arrays)) if _fits(arrays, each, stack_frame, spilled)]
    moved = [
        sum(a.is_in_memory != is_there for a, is_there in zip(arrays, each, strict=True) if not a.is_unsure)
        for each in choices
    ]
    nearest = [each for each, number in zip(choices, moved, strict=True) if number == min(moved)]
    places = [set(each) for each in zip(*nearest, strict=True)] if nearest else [set[bool]()] * len(arrays)
    reason = f"the compiler's stack frame has {stack_frame} bytes"
    homes: Mapping[bool, Home] = {False: "registers", True: "private memory"}
    return tuple(
        replace(array, home=homes[is_there], reason=reason, is_likely_in_memory=False) if len(place) == 1 else array
        for array, place in zip(arrays, places, strict=True)
        for is_there in [True in place]
    )


def by_another(array: PrivateArray, placed: PrivateArray) -> PrivateArray:
    """Return *array* where another compiler *placed* it: of which it is unsure, it is likelier there, and no more."""
    if not array.is_unsure:
        return placed
    reason = f"{array.reason}; by NVRTC, which is not what builds it, it is in {placed.home}"
    return replace(array, reason=reason, is_likely_in_memory=placed.is_in_memory)


def _fits(arrays: Sequence[PrivateArray], choice: Sequence[bool], stack_frame: int, spilled: int) -> bool:
    """Return whether the arrays of a *choice* take the bytes of a stack frame, some of which may be for registers."""
    sizes = [array.nbytes for array, is_there in zip(arrays, choice, strict=True) if is_there]
    return sum(sizes) <= stack_frame <= sum(size + -size % ALIGNED for size in sizes) + spilled


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


# }}}
