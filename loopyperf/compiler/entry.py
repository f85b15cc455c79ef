"""What a warp executes once, outside of its loops: where it is, what it is passed, and the addresses it begins with.

The rules are measured on executed machine code (docs/compiler.md, section 3): a read of each hardware index; a load of
each pointer, size and scalar from the constant bank, where instructions do not take them as operands; an addition for
each further term of an index, a multiply-add for each product with a size; and one to make an address of an index.
"""

from collections.abc import Iterable, Iterator
from struct import pack

import pymbolic.primitives as prim
from pymbolic.mapper.dependency import DependencyMapper

from loopyperf.compiler.predication import TEST, on_loop
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import NOT, Instruction, Opcode
from loopyperf.polyhedral.affine import Opaque, Symbol
from loopyperf.polyhedral.polynomial import Monomial, Polynomial, Term

Capability = tuple[int, int]
"""of a device: major and minor version"""
HOPPER: Capability = (9, 0)
ENDING_TEST = 5
"""of which work-items of the grid have something to do: its sides, a comparison, and the end of the others"""
PREDICATE = 1
"""a comparison that the source has: one of both sides of a condition serves the other, too"""
FIXED = 3
"""the stack pointer, what describes memory, the end"""
END = 1
"""of all work-items, or of those with nothing to do"""
LOCAL_MEMORY = 3
"""to know where local memory begins, on Hopper"""
FURTHER_ARRAY = 2
"""in local memory, on Hopper"""
DOUBLE_CONSTANT = 2
"""for both halves, on Hopper: before, instructions take it from the constant bank"""
STACK = 1
"""to address a private array that is not in registers"""
ELEMENT_SIZE = 1
"""that indices are multiplied with, in a register where pointers are operands"""


def with_entry(graph: Idg, capability: Capability = HOPPER) -> Idg:
    """Return *graph* with what a device of *capability* executes before and after all loops."""
    first = len(graph.instructions)
    added = [
        Instruction(kind, "i32", Pipeline.ALU, "", "before the loops", is_assumed=kind == Opcode.MOVE)
        for kind, number in _Entry(graph, capability >= HOPPER).kinds()
        for _ in range(number)
    ]
    body = (*range(first, first + len(added)), *graph.body)
    return Idg((*graph.instructions, *added), graph.edges, body)


def is_axis(variable: Symbol) -> bool:
    """Return whether *variable*, of a symbolic address, is a hardware index, as ``l.0`` and ``g.1`` are."""
    return isinstance(variable, str) and variable.startswith(("l.", "g."))


class _Entry:
    def __init__(self, graph: Idg, loads_constants: bool) -> None:
        self.accesses = [each for each in graph.instructions if each.reference is not None]
        self.loops = frozenset(loop.name for loops in graph.loops_around for loop in loops)
        arithmetic = [each for each in graph.instructions if each.reference is None and not each.is_index]
        self.operands = [each.known for instruction in arithmetic for each in instruction.operands]
        tests = [each.tests for each in self.accesses]
        self.ending = tests[0].intersection(*tests) if tests else frozenset[str]()
        """the tests that all instructions are under"""
        self.of_doubles = [o.known for each in arithmetic if each.dtype == "f64" for o in each.operands]
        self.tests = frozenset[str]().union(*tests) - self.ending
        self.predicates = {
            predicate.removeprefix(NOT)
            for each, loops in zip(graph.instructions, graph.loops_around, strict=True)
            for predicate in each.predicates
            if each.reference is not None and not (loops and on_loop(each, loops[-1].name))
        }
        self.loads_constants = loads_constants
        """pointers, sizes and the like are loaded into registers before they are used"""

    def kinds(self) -> Iterator[tuple[Opcode, int]]:
        """Yield kinds of instructions with how many there are: indices and the like are read into registers."""
        starts = {(each.reference.array, each.subsystem): set[Polynomial[Symbol]]() for each in self.accesses}
        for each in self.accesses:
            if each.symbolic is not None:
                starts[each.reference.array, each.subsystem].add(_start(each.symbolic, self.loops))
        indices = {index for found in starts.values() for index in found}
        names = {name for index in indices for product, _ in index.terms for name in product}
        axes = {name for name in names if is_axis(name)}
        outside = [array for array, space in starts if space == MemorySpace.GLOBAL]
        inside = [array for array, space in starts if space == MemorySpace.LOCAL]
        on_stack = [array for array, space in starts if space == MemorySpace.PRIVATE]
        addresses = sum(len({index for index in found if index.terms}) for found in starts.values())
        read = len(axes) + FIXED - END
        if self.loads_constants:
            local = LOCAL_MEMORY + FURTHER_ARRAY * (len(inside) - 1) if inside else 0
            constants = DOUBLE_CONSTANT * len(self._constants())
            read += len(outside) + len(names - axes) + len(self._scalars()) + local + constants
        else:
            read += ELEMENT_SIZE
        yield Opcode.MOVE, read
        yield Opcode.BRANCH, END * (1 + len(self.ending))
        computed = (ENDING_TEST - END) * len(self.ending) + TEST * len(self.tests) + PREDICATE * len(self.predicates)
        yield Opcode.INTEGER, computed + sum(self._index_arithmetic(indices)) + addresses + STACK * len(on_stack)

    def _index_arithmetic(self, indices: Iterable[Polynomial[Symbol]]) -> Iterator[int]:
        """Yield what computing each of *indices* takes beyond those before: parts that they share are computed once."""
        sums = set[frozenset[Term[Symbol]]]()
        for index in indices:
            parts = _by_size(index)
            yield sum(1 for size in parts if size)
            for part in map(frozenset, parts.values()):
                if part not in sums:
                    sums.add(part)
                    is_scaled = any(factor != 1 for _, factor in part)
                    yield max(len(part) - 1, int(is_scaled and len(part) == 1))

    def _constants(self) -> set[float]:
        """Return the numbers of double precision of which no instruction has room for all digits."""
        known = {each for each in self.of_doubles if isinstance(each, (int, float))}
        return {float(each) for each in known if pack("<d", each)[:4] != bytes(4)}

    def _scalars(self) -> set[str]:
        """Return the arguments of the kernel that its instructions use as they are."""
        expressions = [each for each in self.operands if isinstance(each, prim.ExpressionNode)]
        names = {str(name) for each in expressions for name in DependencyMapper()(each)}
        return {name for name in names - self.loops if not is_axis(name)}


def _start(address: Polynomial[Symbol], loops: frozenset[str]) -> Polynomial[Symbol]:
    """Return what *address* begins with, but for its constant: copies of a pass go on from there, step after step."""
    known = Polynomial(tuple(term for term in address.terms if term[0]))
    moves = any(name in loops or isinstance(name, Opaque) for product, _ in known.terms for name in product)
    if not moves or not known.names & loops:
        return known
    return Polynomial(tuple(term for term in known.without(loops).terms if _axes(term[0])))


def _by_size(index: Polynomial[Symbol]) -> dict[Monomial[Symbol], list[Term[Symbol]]]:
    """Return the products of sizes in *index*, each with the sum of hardware indices that it is multiplied with."""
    found: dict[Monomial[Symbol], list[Term[Symbol]]] = {}
    for product, factor in index.terms:
        if axes := _axes(product):  # without one, it is a step from another address
            sizes = tuple(name for name in product if not is_axis(name))
            found.setdefault(sizes, []).append((axes, factor))
    return found


def _axes(product: Monomial[Symbol]) -> Monomial[Symbol]:
    return tuple(name for name in product if is_axis(name))
