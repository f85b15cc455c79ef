"""Loads and stores of private arrays that are not in registers.

The source graph has no instructions for private arrays: a use of an element waits for its definition. If an array is in
memory, each definition is stored and each use loads it first. An element that is the same in all iterations of a loop
is kept in a register: it is loaded before the loop and stored after it.

OpenCL calls this memory private and CUDA calls it local: a part of device memory in which each work-item has a stack.
Its address space and its subsystem are ``"private"``.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.compiler.private_arrays import IndexedLoops, elements_of, of_loop, private_arrays
from loopyperf.counts.item import Direction, MemorySpace
from loopyperf.counts.memory_accesses import Reference
from loopyperf.idg.copies import copied
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import (
    Dependence,
    Edge,
    Element,
    Instruction,
    Item,
    Iteration,
    Loop,
    Opcode,
    Operand,
    integer_if_whole,
    loops_in,
)
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.expressions import in_terms_of

KEPT = 128
"""registers of a work-item, at most, for elements kept during a loop: half of all"""


def with_stack_memory(graph: Idg, capability: Capability = HOPPER, *, arrays: Collection[str] | None = None) -> Idg:
    """Return the source *graph* with loads and stores of the private *arrays* that are in memory.

    By default these are the arrays that surely or likely are in memory according to :func:`private_arrays`.
    """
    names = arrays
    if names is None:
        names = {each.name for each in private_arrays(graph, capability) if each.is_in_memory}
    if not names:
        return graph
    written = _with_constant_indices(graph, names)
    return _Spilled(written, frozenset(names), _guarded(graph)).written()


def _with_constant_indices(graph: Idg, arrays: Collection[str]) -> Idg:
    """Return *graph* with loops unrolled that index *arrays* and that nvcc unrolls in any case."""
    loops = IndexedLoops(graph)

    indexing = [loop for loop in loops_in(graph.body) if isinstance(loop.trips, int) and loops.indexes(loop, arrays)]
    return copied(graph, {each.number: each.trips for each in indexing if of_loop(each, loops).home == "registers"})


def _guarded(graph: Idg) -> frozenset[tuple[str, str]]:
    """Return (loop, array) for loops with a conditional access to the array, even if only the work-item decides.

    In loops that Loopy unrolls, conditions replace bounds.
    """
    return frozenset(
        (loop.name, element.array)
        for instruction, around in zip(graph.instructions, graph.loops_around, strict=True)
        if instruction.condition is not None
        or any(loop.is_unrolled and (loop.bound.values is None or len(loop.bound.values) > 1) for loop in around)
        for element in elements_of(instruction)
        for loop in around
    )


@dataclass(frozen=True, slots=True)
class _Region:
    """A part of the program during which an element is kept in a register."""

    array: str
    item: int
    """number of an instruction or of a loop"""
    is_loop: bool
    address: str
    loops: tuple[Loop, ...]
    """loops around it"""

    def is_at(self, place: int) -> bool:
        """Return whether it is the single instruction at *place*."""
        return not self.is_loop and self.item == place


class _Spilled:
    def __init__(self, graph: Idg, arrays: frozenset[str], guarded: frozenset[tuple[str, str]]) -> None:
        self.graph, self.arrays, self.guarded = graph, arrays, guarded
        self.instructions = list(graph.instructions)
        self.edges: list[Edge] = []
        self.addresses: dict[tuple[int, str], set[Any]] = {}
        """(loop, array) -> variable terms of the addresses inside; None if unknown, or if the loop itself changes
        them"""
        for place, around in enumerate(graph.loops_around):
            for element in self._elements(place):
                for depth, loop in enumerate(around):
                    found = self.addresses.setdefault((loop.number, element.array), set())
                    found.add(_moved_by(element, around[depth:]))
        self.accesses: dict[Direction, dict[_Region, int]] = {"load": {}, "store": {}}
        self.members: dict[int, set[tuple[Any, int]]] = {}
        """load or store -> members of the vector that it accesses, each with its bits"""
        self.first = list(_first_parts(graph.instructions))
        """instruction -> the instruction that computes the first part of the same value"""
        self.last = {first: place for place, first in enumerate(self.first)}
        self.kept: Counter[int] = Counter()
        """loop -> registers of the elements that do not change inside it"""
        for loop, _, bits in self._unmoved():
            self.kept[loop] += bits // 32

    def _unmoved(self) -> set[tuple[int, str, int]]:
        """Return (loop, element, bits) for elements that stay the same in all iterations of a loop."""
        return {
            (loop.number, f"{element.array}[{element.affine}]", element.bits)
            for place, around in enumerate(self.graph.loops_around)
            for element in self._elements(place)
            for depth, loop in enumerate(around)
            if _moved_by(element, around[depth:]) is not None
        }

    def _elements(self, place: int) -> list[Element]:
        return [element for element in elements_of(self.graph.instructions[place]) if element.array in self.arrays]

    def written(self) -> Idg:
        for place, instruction in enumerate(self.graph.instructions):
            self.instructions[place] = _without_elements(instruction, self.arrays)
        for edge in self.graph.edges:
            self._edge(edge)
        self._store_what_is_defined()
        self._load_what_nothing_defines()
        self._narrow()
        return Idg(tuple(self.instructions), tuple(dict.fromkeys(self.edges)), tuple(self._items(self.graph.body)))

    # {{{ regions

    def _region(self, place: int, element: Element) -> _Region:
        """Return the largest region around *place* without accesses to the array that may alias *element*."""
        around, address = self.graph.loops_around[place], str(element.affine)
        for depth, loop in enumerate(around):
            moved_by = self.addresses[loop.number, element.array]
            is_loop = not loop.is_unrolled and loop.trips != 1
            is_kept = is_loop or (loop.name, element.array) not in self.guarded
            if len(moved_by) == 1 and None not in moved_by and is_kept and self.kept[loop.number] <= KEPT:
                return _Region(element.array, loop.number, True, address, around[:depth])
        first = self.first[place] if element.member_bits else place
        return _Region(element.array, first, False, address, around)

    def _read(self, edge: Edge) -> Element | None:
        """Return the element in memory that *edge* leads to as an operand."""
        operand = None if edge.operand is None else self.graph.instructions[edge.target].operands[edge.operand]
        element = None if operand is None else operand.element
        return element if element is not None and element.array in self.arrays else None

    # }}}

    # {{{ edges

    def _edge(self, edge: Edge) -> None:
        """Add the replacement of *edge*."""
        read = self._read(edge)
        defines = self.graph.instructions[edge.source].defines
        defined = None if read is None else next((element for element in defines if element.array == read.array), None)
        if read is None or defined is None:
            self.edges.append(edge)
            return
        before, after = self._region(edge.source, defined), self._region(edge.target, read)
        outer = len(before.loops)
        is_same_run = outer <= len(edge.distance) and not any(edge.distance[:outer])
        if before == after and not before.is_at(edge.source) and is_same_run:
            self.edges.append(edge)
            return
        load = self._access("load", after, edge.target, read)
        store = self._access("store", before, edge.source, defined)
        first = self._first_iterations(edge.target, after)
        self.edges.append(
            replace(
                edge,
                source=store,
                target=load,
                iterations=tuple(iteration.replaced(first) for iteration in edge.iterations[:outer]),
                distance=edge.distance[: min(outer, len(after.loops))],
                condition=_when_entered(edge.condition, first),
                through=Dependence.MEMORY,
                operand=None,
            )
        )
        self._use(load, edge, after)

    def _first_iterations(self, place: int, region: _Region) -> dict[str, Iteration]:
        """Return the loops in *region* around *place* at their first iterations, where the region is entered."""
        return {loop.name: Affine() for loop in self.graph.loops_around[place][len(region.loops) :]}

    def _use(self, load: int, edge: Edge, region: _Region) -> None:
        """Make the operand at the end of *edge* wait for *load*."""
        loops = [loop.name for loop in region.loops]
        self.edges.append(Edge.within(load, edge.target, loops, operand=edge.operand, condition=edge.condition))

    def _access(self, direction: Direction, region: _Region, place: int, element: Element) -> int:
        """Return the load or store of *element* for *region*, added for *place* if it is the first."""
        found = self.accesses[direction]
        if region not in found:
            found[region] = self._add(direction, region, place, element)
        self.members.setdefault(found[region], set()).add((element.member, element.member_bits))
        return found[region]

    def _narrow(self) -> None:
        """Restrict accesses that need a single member of a vector to that member."""
        for place, members in self.members.items():
            (member, bits), *others = sorted(members, key=str)
            if not others and isinstance(member, int):
                like = self.instructions[place]
                self.instructions[place] = replace(like, dtype=f"b{bits}", reference=replace(like.reference, bits=bits))

    def _store_what_is_defined(self) -> None:
        """Store each definition, used or not, after the last iterations of its region."""
        for place in range(len(self.graph.instructions)):
            for element in self._elements(place):
                if element in self.graph.instructions[place].defines:
                    region = self._region(place, element)
                    store, inner = self._access("store", region, place, element), self.graph.loops_around[place]
                    same: tuple[Iteration, ...] = tuple(Affine(((loop.name, 1),)) for loop in region.loops)
                    last = last_iterations(inner[len(region.loops) :])
                    self.edges.append(Edge(place, store, (0,) * len(same), (*same, *last), operand=0))

    def _load_what_nothing_defines(self) -> None:
        """Load elements that are read before they are defined, because isl lost their conditions."""
        defined = {(edge.target, edge.operand) for edge in self.graph.edges}
        for place, instruction in enumerate(self.graph.instructions):
            for slot, operand in enumerate(instruction.operands):
                element = operand.element
                if element is not None and element.array in self.arrays and (place, slot) not in defined:
                    region = self._region(place, element)
                    load = self._access("load", region, place, element)
                    self._use(load, Edge(place, place, operand=slot), region)

    # }}}

    # {{{ instructions

    def _add(self, direction: Direction, region: _Region, place: int, element: Element) -> int:
        like = self.graph.instructions[place]
        condition = _when_entered(like.condition, self._first_iterations(place, region))
        access = stack_access(direction, element.array, element.address, element.bits, like.source)
        self.instructions.append(
            replace(
                access,
                executions=like.executions if region.is_at(place) else self._executions(place, condition, region),
                condition=condition,
                on_data=like.on_data if region.is_at(place) else (),
            )
        )
        return len(self.instructions) - 1

    def _executions(self, place: int, condition: Any, region: _Region) -> int | Fraction:
        """Return how often the region around *place* is entered."""
        like, around = self.graph.instructions[place], self.graph.loops_around[place]
        inside = number_of_runs(like.condition, around)
        share = Fraction(number_of_runs(condition, region.loops), inside) if inside else Fraction(0)
        found = like.executions * share
        return integer_if_whole(found)

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        before, after = _by_item(self.accesses["load"], {}), _by_item(self.accesses["store"], self.last)
        for item in body:
            key = (True, item.number) if isinstance(item, Loop) else (False, item)
            yield from before.get(key, ())
            yield replace(item, body=tuple(self._items(item.body))) if isinstance(item, Loop) else item
            yield from after.get(key, ())

    # }}}


def _moved_by(element: Element, loops: Sequence[Loop]) -> Any:
    """Return the variable terms in the address of *element*; None if one of *loops* is among them."""
    address = element.affine
    names = {loop.name for loop in loops}
    if address is None or any(name in names for name, _ in address.terms):
        return None
    return address.terms


def _by_item(accesses: Mapping[_Region, int], last: Mapping[int, int]) -> dict[tuple[bool, int], list[int]]:
    found: dict[tuple[bool, int], list[int]] = {}
    for region, place in accesses.items():
        item = region.item if region.is_loop else last.get(region.item, region.item)
        found.setdefault((region.is_loop, item), []).append(place)
    return found


def _first_parts(instructions: Sequence[Instruction]) -> Iterator[int]:
    """Yield, for each instruction, the first of the adjacent ones that compute parts of the same value."""
    first = 0
    for place, instruction in enumerate(instructions):
        before = instructions[place - 1] if place else instruction
        is_next = (instruction.kind, instruction.text, instruction.source) == (before.kind, before.text, before.source)
        first = first if is_next and instruction.part == before.part + 1 else place
        yield first


def stack_access(
    direction: Direction, array: str, address: Affine[Symbol] | None, bits: int, source: str
) -> Instruction:
    """Return the load or store of *bits* of a private *array* in memory, at *address*; None if it depends on data."""
    index = None if address is None else address.expression
    return Instruction(
        kind=Opcode(direction),
        dtype=f"b{bits}",
        subsystem=MemorySpace.PRIVATE,
        source=source,
        text=f"{array}[{address}]",
        reference=Reference(direction, MemorySpace.PRIVATE, array, (index,), bits, is_linear=True),
        operands=(Operand(),) if direction == "store" else (),
        address=address,
    )


def last_iterations(loops: Sequence[Loop]) -> tuple[Iteration, ...]:
    """Return the last iteration of each of *loops*, outermost first."""
    last: dict[str, Iteration] = {}
    for loop in loops:
        last[loop.name] = Affine.around(in_terms_of(loop.trips, last)) + Affine((), -1)
    return tuple(last.values())


def _when_entered(condition: Any, first: Mapping[str, Iteration]) -> Any:
    """Return *condition* at the *first* iterations of inner loops; None if nothing else decides it."""
    found = in_terms_of(condition, first)
    return None if isinstance(found, bool) else found


def _without_elements(instruction: Instruction, arrays: Collection[str]) -> Instruction:
    """Return *instruction* without the elements of *arrays*, which are separate accesses now."""
    operands = tuple(
        replace(operand, element=None) if operand.element is not None and operand.element.array in arrays else operand
        for operand in instruction.operands
    )
    return replace(
        instruction, operands=operands, defines=tuple(each for each in instruction.defines if each.array not in arrays)
    )
