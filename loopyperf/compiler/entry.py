"""What a warp executes once, outside its loops: hardware indices, kernel arguments and start addresses.

The rules are measured on executed machine code (docs/compiler.md, section 3): one read of each hardware index; one load
of each pointer, size and scalar from the constant bank, unless instructions take them as operands; one addition for
each further term of an index, one multiply-add for each product with a size, and one instruction to turn an index into
an address.
"""

from collections.abc import Iterable, Iterator
from struct import pack

import pymbolic.primitives as prim

from loopyperf.compiler.predication import TEST, on_loop
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Opcode, Predicates
from loopyperf.polyhedral.affine import Opaque, Symbol, names_in_expression
from loopyperf.polyhedral.polynomial import Monomial, Polynomial, Term

Capability = tuple[int, int]
"""compute capability of a device: major and minor version"""
HOPPER: Capability = (9, 0)
TURING: Capability = (7, 5)
"""the oldest devices that nvcc 13 supports, and the first with uniform registers"""
ENDING_TEST = 5
"""instructions of the test whether a work-item of the grid has work: both sides, a comparison, and the exit of the
others"""
PREDICATE = 1
"""a comparison in the source; one comparison serves a condition and its negation"""
FIXED = 3
"""stack pointer, memory descriptor, exit"""
END = 1
"""exit of all work-items, or of those without work"""
LOCAL_MEMORY = 3
"""instructions that find the start of local memory, on Hopper"""
FURTHER_ARRAY = 2
"""instructions for each further array in local memory, on Hopper"""
DOUBLE_CONSTANT = 2
"""moves of a double-precision constant, one per half, on Hopper; earlier devices read it from the constant bank"""
STACK = 1
"""instruction that addresses a private array in local (stack) memory"""
ELEMENT_SIZE = 1
"""move of the element size into a register, to multiply indices by, where pointers are operands"""


def with_entry(graph: Idg, capability: Capability = HOPPER) -> Idg:
    """Return *graph* with the instructions that a device of *capability* executes before and after all loops."""
    first = len(graph.instructions)
    added = [
        Instruction(kind, "i32", Pipeline.ALU, "", "before the loops", is_assumed=kind == Opcode.MOVE)
        for kind, number in _Entry(graph, capability >= HOPPER).kinds()
        for _ in range(number)
    ]
    body = (*range(first, first + len(added)), *graph.body)
    return Idg((*graph.instructions, *added), graph.edges, body)


def is_axis(variable: Symbol) -> bool:
    """Return whether *variable* of a symbolic address is a hardware index, such as ``l.0`` or ``g.1``."""
    return isinstance(variable, str) and variable.startswith(("l.", "g."))


class _Entry:
    def __init__(self, graph: Idg, loads_constants: bool) -> None:
        self.accesses = [each for each in graph.instructions if each.reference is not None]
        self.loops = frozenset(loop.name for loops in graph.loops_around for loop in loops)
        arithmetic = [each for each in graph.instructions if each.reference is None and not each.is_index]
        self.operands = [operand.known for instruction in arithmetic for operand in instruction.operands]
        tests = [access.tests for access in self.accesses]
        self.ending = tests[0].intersection(*tests) if tests else Predicates()
        """tests that apply to all accesses"""
        self.of_doubles = [o.known for each in arithmetic if each.dtype == "f64" for o in each.operands]
        self.tests = Predicates().union(*tests) - self.ending
        self.predicates = {
            predicate.text
            for each, loops in zip(graph.instructions, graph.loops_around, strict=True)
            for predicate in each.predicates
            if each.reference is not None and not (loops and on_loop(each, loops[-1].name))
        }
        self.loads_constants = loads_constants
        """whether pointers, sizes and similar values are loaded into registers before use"""

    def kinds(self) -> Iterator[tuple[Opcode, int]]:
        """Yield (opcode, number of instructions)."""
        starts = {(access.reference.array, access.subsystem): set[Polynomial[Symbol]]() for access in self.accesses}
        for access in self.accesses:
            if access.symbolic is not None:
                starts[access.reference.array, access.subsystem].add(_start(access.symbolic, self.loops))
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
        """Yield the instructions that each of *indices* adds to the earlier ones: shared parts are computed once."""
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
        """Return the double-precision constants with more digits than fit into an instruction."""
        known = {each for each in self.of_doubles if isinstance(each, (int, float))}
        return {float(each) for each in known if pack("<d", each)[:4] != bytes(4)}

    def _scalars(self) -> set[str]:
        """Return the scalar kernel arguments that instructions use directly."""
        expressions = [operand for operand in self.operands if isinstance(operand, prim.ExpressionNode)]
        names = {name for expression in expressions for name in names_in_expression(expression)}
        return {name for name in names - self.loops if not is_axis(name)}


def _start(address: Polynomial[Symbol], loops: frozenset[str]) -> Polynomial[Symbol]:
    """Return the start value of *address* without its constant; unrolled copies advance from there step by step."""
    known = Polynomial(tuple(term for term in address.terms if term[0]))
    moves = any(name in loops or isinstance(name, Opaque) for product, _ in known.terms for name in product)
    if not moves or not known.names & loops:
        return known
    return Polynomial(tuple(term for term in known.without(loops).terms if _axes(term[0])))


def _by_size(index: Polynomial[Symbol]) -> dict[Monomial[Symbol], list[Term[Symbol]]]:
    """Return the products of sizes in *index*, each with the sum of hardware indices that it multiplies."""
    found: dict[Monomial[Symbol], list[Term[Symbol]]] = {}
    for product, factor in index.terms:
        if axes := _axes(product):  # without a hardware index, it is a step from another address
            sizes = tuple(name for name in product if not is_axis(name))
            found.setdefault(sizes, []).append((axes, factor))
    return found


def _axes(product: Monomial[Symbol]) -> Monomial[Symbol]:
    return tuple(name for name in product if is_axis(name))
