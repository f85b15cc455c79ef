"""Placement of private arrays in registers or in local (stack) memory, and the loops that nvcc unrolls for it.

Registers have no addresses: an array is in registers if every index is a constant after nvcc has unrolled loops.
Otherwise it is on the stack of the work-item, which OpenCL calls private memory, CUDA calls local memory, and which is
part of device memory. The rules are measured on nvcc's PTX (docs/compiler.md, section 10).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd
from typing import Any, Literal

from loopyperf.compiler.entry import HOPPER, TURING, Capability
from loopyperf.compiler.loop_control import FULL, PARTIAL, RUNTIME, power_of_two_up_to
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import WORK_GROUP, Element, Instruction, Item, Loop, Opcode
from loopyperf.polyhedral.expressions import holds, names_of, valued

# {{{ full unrolling of loops whose variable indexes a private array
#
# Full unrolling makes the index a constant.
#
# cicc unrolls such loops much further than others (docs/compiler.md, section 10) to place the array in registers.


SURELY = 2550
"""LLVM instructions, approximately: a loop that indexes a private array is unrolled if it has no more in all"""
NEVER = 5000
"""LLVM instructions, approximately: such a loop is not unrolled if it has more"""
SEVERAL_TRIPS = 8
"""iterations, at most, of an unrolled loop whose trip count is one of several constants"""
OF_LLVM: Mapping[str, int] = {Opcode.MOVE: 0, Opcode.DIV: 4, Opcode.MOD: 4}
"""LLVM instructions of an opcode, if not one"""
LOOP_CONTROL = 15
"""LLVM instructions of a loop that is not unrolled: counters, comparisons, remainder of the trip count"""


def elements_of(instruction: Instruction) -> Iterator[Element]:
    """Yield the elements of private arrays that *instruction* reads or defines."""
    yield from instruction.defines
    yield from (operand.element for operand in instruction.operands if operand.element is not None)


class IndexedLoops:
    """The loops of a source graph with their sizes after unrolling."""

    def __init__(self, graph: Idg) -> None:
        """Collect the loops of *graph*."""
        self._graph = graph
        self._sizes: dict[int, int] = {}
        """loop number -> LLVM instructions of its body"""
        pairs = zip(graph.loops_around, graph.instructions, strict=True)
        found = ((frozenset(loop.number for loop in loops), tuple(elements_of(each))) for loops, each in pairs)
        self._elements = [(around, elements) for around, elements in found if elements]
        """(numbers of the loops around an instruction, elements that it uses)"""

    def size(self, loop: Loop) -> int:
        """Return about how many LLVM instructions all iterations of *loop* have, for its largest known trip count."""
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
        """Return the LLVM instructions of an inner loop after nvcc's unrolling."""
        body, numbers = self._body(loop), loop.bound.values
        if loop.is_unrolled or numbers == (1,):
            return body * (loop.trips if isinstance(loop.trips, int) else max(numbers or (1,)))
        if numbers is not None and body * max(numbers) <= (SURELY if self.indexes(loop) else FULL):
            return body * max(numbers)
        divisor = 0 if numbers is None else reduce(gcd, numbers)
        most = RUNTIME if numbers is None else divisor & -divisor  # the largest power of two that divides it
        copies = max(1, min(most, power_of_two_up_to(PARTIAL // body)))
        return body * copies + LOOP_CONTROL + (body if numbers is None else 0)

    def indexes(self, loop: Loop, arrays: Collection[str] | None = None) -> bool:
        """Return whether *loop* determines an index into one of *arrays*, or into any private array if None."""
        return any(
            depends_on(element, loop.name) and (arrays is None or element.array in arrays)
            for around, elements in self._elements
            if loop.number in around
            for element in elements
        )


def with_indexed_loops_written_out(graph: Idg) -> Idg:
    """Return *graph* with loops that index private arrays in registers marked for full unrolling.

    Arrays in memory have already been replaced by loads and stores.
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
    """Return about how many LLVM instructions *instruction* is directly inside *loop*, including address computation.

    At this stage private arrays are in memory, but elements that do not change between iterations are kept in
    registers.
    """
    private = 2 * sum(depends_on(element, loop) for element in elements_of(instruction))
    if instruction.is_index or instruction.kind == Opcode.BARRIER:
        return 0
    if instruction.reference is not None:
        return 3 + (instruction.reference.space == MemorySpace.GLOBAL) + private
    return OF_LLVM.get(instruction.kind, 1) + private


# }}}


# {{{ private arrays


Home = Literal["registers", "unsure", "stack memory"]
HOMES: tuple[Home, ...] = ("registers", "unsure", "stack memory")
"""in ascending priority: a single nonconstant index places the whole array in memory"""
Placement = Literal["likelier", "registers", "stack memory"]
"""assumed place of arrays whose place is uncertain: the likelier one for each, or the same one for all"""
MOST_REGISTERS = 255
"""32-bit registers per work-item, at most, on NVIDIA GPUs from compute capability 3.5 on (CUDA C++ Programming
Guide)"""


@dataclass(frozen=True, slots=True)
class PrivateArray:
    """A private array and its place."""

    name: str
    """name in the kernel"""
    elements: int
    """elements per work-item"""
    bits: int
    """bits per element"""
    home: Home
    """place of its elements"""
    reason: str
    """explanation of the place"""
    is_likely_in_memory: bool = False
    """the likelier place, if *home* is unsure"""

    @property
    def is_in_memory(self) -> bool:
        """Return whether it surely or likely is in memory."""
        return self.home == "stack memory" or self.is_likely_in_memory

    @property
    def is_unsure(self) -> bool:
        """Return whether its place is uncertain."""
        return self.home == "unsure"

    def is_in_memory_by(self, placement: Placement) -> bool:
        """Return whether it is in memory; *placement* decides if its place is uncertain."""
        if not self.is_unsure or placement == "likelier":
            return self.is_in_memory
        return placement == "stack memory"

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return self.elements * self.bits // 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """The place of an array that follows from one of its indices."""

    home: Home
    reason: str
    is_likely_in_memory: bool = True
    """the likelier place, if *home* is unsure"""


CONSTANT = Verdict("registers", "all indices are constants")
Use = tuple[Element, tuple[Loop, ...], Any]
"""elements that an instruction uses, the loops around it, and its condition on their iterations"""


def private_arrays(
    graph: Idg, capability: Capability = HOPPER, most_registers: int = MOST_REGISTERS
) -> tuple[PrivateArray, ...]:
    """Return the private arrays of the source *graph* of a warp, by name, with their places.

    *capability* is the compute capability of the device, e.g. ``(7, 0)``; it decides which release of the compiler
    supports the device. *most_registers* is the number of 32-bit registers available to a work-item.
    """
    loops = IndexedLoops(graph)
    uses: dict[str, dict[Use, None]] = {}
    verdicts: dict[str, list[Verdict]] = {}
    for instruction, around in zip(graph.instructions, graph.loops_around, strict=True):
        for element in elements_of(instruction):
            uses.setdefault(element.array, {})[element, around, instruction.condition] = None
            found = verdicts.setdefault(element.array, [CONSTANT])
            found += _of_index(element, around, loops, None if capability >= TURING else bool(instruction.tests))
    if capability < TURING:
        for name, use in uses.items():
            verdicts[name].append(_of_size(use, most_registers))
    return tuple(_array(next(iter(uses[name]))[0], verdicts[name]) for name in sorted(uses))


def private_arrays_of(
    graphs: Iterable[Idg], capability: Capability = HOPPER, most_registers: int = MOST_REGISTERS
) -> tuple[PrivateArray, ...]:
    """Return the private arrays of a launch, by name; *graphs* are the source graphs of its warp classes.

    All warps run the same code: an array that is in memory for one warp class is in memory for all.
    """
    found: dict[str, list[PrivateArray]] = {}
    for graph in graphs:
        for each in private_arrays(graph, capability, most_registers):
            found.setdefault(each.name, []).append(each)
    return tuple(_of_all_warps(found[name]) for name in sorted(found))


SUBSETS = 12
"""arrays, at most, for which all combinations of places are tried"""
ALIGNED = 16
"""bytes: upper limit for the alignment of an array on the stack"""


def placed_by_stack(arrays: Sequence[PrivateArray], stack_frame: int, spilled: int) -> tuple[PrivateArray, ...]:
    """Return *arrays* with the places that explain a compiler's *stack_frame*, in bytes.

    Up to *spilled* of the bytes, rounded up like arrays, are spilled registers. The arrays in memory are those whose
    sizes add up to the rest. Among several solutions, those count that move the fewest arrays of certain place. Arrays
    on which the solutions disagree keep their places, and all do if there is no solution.
    """
    if stack_frame and len(arrays) > SUBSETS:
        return tuple(arrays)
    choices = [each for each in product((False, True), repeat=len(arrays)) if _fits(arrays, each, stack_frame, spilled)]
    moved = [
        sum(a.is_in_memory != is_there for a, is_there in zip(arrays, choice, strict=True) if not a.is_unsure)
        for choice in choices
    ]
    nearest = [each for each, number in zip(choices, moved, strict=True) if number == min(moved)]
    places = [set(each) for each in zip(*nearest, strict=True)] if nearest else [set[bool]()] * len(arrays)
    reason = f"the compiler's stack frame has {stack_frame} bytes"
    homes: Mapping[bool, Home] = {False: "registers", True: "stack memory"}
    return tuple(
        replace(array, home=homes[is_there], reason=reason, is_likely_in_memory=False) if len(place) == 1 else array
        for array, place in zip(arrays, places, strict=True)
        for is_there in [True in place]
    )


def by_another(array: PrivateArray, placed: PrivateArray) -> PrivateArray:
    """Return *array*, if its place is uncertain, with the likelier place at which another compiler *placed* it."""
    if not array.is_unsure or placed.is_unsure:
        return placed
    reason = f"{array.reason}; NVRTC, which is not the compiler used, places it in {placed.home}"
    return replace(array, reason=reason, is_likely_in_memory=placed.is_in_memory)


def _fits(arrays: Sequence[PrivateArray], choice: Sequence[bool], stack_frame: int, spilled: int) -> bool:
    """Return whether the arrays of *choice* fill the stack frame, except for up to *spilled* bytes of registers."""
    sizes = [array.nbytes for array, is_there in zip(arrays, choice, strict=True) if is_there]
    return sum(sizes) <= stack_frame <= sum(size + -size % ALIGNED for size in (*sizes, spilled))


def _of_all_warps(arrays: list[PrivateArray]) -> PrivateArray:
    decisive = max(arrays, key=lambda each: HOMES.index(each.home))
    return replace(decisive, is_likely_in_memory=any(array.is_unsure and array.is_in_memory for array in arrays))


def _array(element: Element, verdicts: list[Verdict]) -> PrivateArray:
    decisive = max(verdicts, key=lambda each: (HOMES.index(each.home), each != CONSTANT))
    is_likely = decisive.home == "unsure" and any(
        verdict.home == "unsure" and verdict.is_likely_in_memory for verdict in verdicts
    )
    return PrivateArray(element.array, element.length, element.bits, decisive.home, decisive.reason, is_likely)


def _of_size(uses: Collection[Use], most_registers: int) -> Verdict:
    """Return the place that follows from the elements in *uses*, for compilers of devices before Turing.

    They place an array by its size only if a loop that they have to unroll indexes it.
    """
    any_element = next(iter(uses))[0]
    is_written_out = all(
        loop.is_unrolled or not depends_on(element, loop.name) for element, around, _ in uses for loop in around
    )
    if is_written_out or any_element.length * any_element.bits // 32 <= most_registers:
        return CONSTANT
    registers = len(set[int]().union(*(_addresses(*use) for use in uses))) * any_element.bits // 32
    if registers > most_registers:
        return Verdict("unsure", f"it needs {registers} registers of {most_registers}")
    return CONSTANT


def _addresses(element: Element, around: Sequence[Loop], condition: Any) -> set[int]:
    """Return the offsets of the elements that *element* stands for inside the loops *around* it."""
    names = set(element.address.names) if element.address else {""}
    if not names <= {loop.name for loop in around}:
        return set(range(element.length))
    for loop in reversed(around):
        if loop.name in names:
            names |= names_of([loop.trips])
    iterations: list[dict[str, int]] = [{}]
    for loop in (loop for loop in around if loop.name in names):
        iterations = [{**each, loop.name: number} for each in iterations for number in range(valued(loop.trips, each))]
    if not names_of([condition]) <= names:
        condition = None  # it also depends on loops that do not index the array
    index = None if element.address is None else element.address.expression
    return {valued(index, iteration) for iteration in iterations if holds(condition, iteration)}


def _of_index(
    element: Element, around: tuple[Loop, ...], loops: IndexedLoops, is_tested: bool | None
) -> Iterator[Verdict]:
    """Yield the place that follows from each variable in the index of *element*.

    *is_tested* tells whether a condition on the work-item applies, for compilers for which this matters; None for
    others.
    """
    if element.address is None:
        yield Verdict("stack memory", "an index is read from data")
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
            yield Verdict("stack memory", f"an index depends on {name}, which differs between work-items or groups")


def _is_kept(loop: Loop, is_likely: bool, is_tested: bool | None) -> bool:
    """Return whether a *loop* that may or may not be unrolled likely is not; *is_likely* is the default.

    Before Turing, a condition on the work-item prevents unrolling, and without one even long loops are unrolled.
    """
    if is_tested is None:
        return is_likely
    if loop.bound.values is not None and len(loop.bound.values) == 1:
        return is_tested
    return is_likely or (is_tested and WORK_GROUP in loop.bound.depends_on)


def of_loop(loop: Loop, loops: IndexedLoops) -> Verdict:
    """Return the place that follows from an index that depends on *loop*."""
    if loop.is_unrolled:
        return Verdict("registers", f"Loopy unrolls the loop over {loop.name}")
    numbers = loop.bound.values
    if numbers is None:
        return _of_varying(loop)
    trips = f"the loop over {loop.name} has {' or '.join(map(str, numbers))} iteration{'s' if numbers != (1,) else ''}"
    if len(numbers) > 1 and numbers[-1] > SEVERAL_TRIPS:
        # Among the trip counts tried, {8, 12} is the only exception (docs/compiler.md, section 10, rule 5).
        is_kept = loop.bound.has_or or reduce(gcd, numbers) % 2 != 0
        return Verdict("unsure", f"{trips}; nvcc unrolls some such loops", is_kept)
    size = loops.size(loop)
    if numbers == (1,) or size <= SURELY:
        return Verdict("registers", f"{trips}, which nvcc unrolls")
    if size <= NEVER:
        return Verdict("unsure", f"{trips}, about {size} instructions if unrolled")
    return Verdict("stack memory", f"{trips}, too many to unroll: about {size} instructions")


def _of_varying(loop: Loop) -> Verdict:
    """Return the place that follows from an index over a loop without a few constant trip counts."""
    causes = sorted(loop.bound.depends_on | loop.bound.loops)
    reason = f"the trip count of the loop over {loop.name} depends on {', '.join(causes)}"
    if loop.is_constant:
        return Verdict("unsure", f"{reason}; it is a constant if that loop is unrolled")
    return Verdict("stack memory", reason)


# }}}
