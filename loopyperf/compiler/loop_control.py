"""Loops of the machine graph: unroll factors, loop control, and guards around loops.

The rules are measured on executed machine code (docs/compiler.md, section 2). Each iteration has a branch and a
comparison; a counter, or two if the trip count is not a constant; one step for each base address in local memory; two
for a pointer to a global array, five if several arrays share an index; and one for each access that moves by a distance
unknown to the compiler.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from loopyperf.compiler.entry import is_axis
from loopyperf.compiler.functions import length
from loopyperf.compiler.predication import on_loop
from loopyperf.compiler.rewriting import Rewriting
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import Edge, Instruction, Iteration, Loop, Opcode, integer_if_whole, is_innermost, loops_in
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.polynomial import Polynomial, Term

# {{{ unroll factors
#
# Two compilers unroll in turn, cicc on LLVM instructions and ptxas on PTX. The rules and their constants are measured
# on executed machine code (docs/compiler.md, sections 1a and 1b). Only innermost loops are unrolled; a loop becomes
# innermost when its inner loops are fully unrolled.


FULL = 402
"""LLVM instructions: cicc fully unrolls a loop whose iterations have no more in all"""
PARTIAL = 200
"""LLVM instructions of all copies of a partially unrolled body, at most"""
RUNTIME = 4
"""copies, at most, of a loop whose trip count is known only at run time"""
PTX_FULL = 500
PTX_PARTIAL = 80
"""weighted PTX instructions of a body, at most, that ptxas unrolls further"""
PTX_RUNTIME = {"global": 170, "local": 117, "": 67}
"""weighted PTX instructions, at most, of the sixteen copies that ptxas makes of cicc's four: for loops that load from
global memory, only from local memory, or not at all"""
OF_LLVM: Mapping[str, int] = {Opcode.DIV: 4, Opcode.MOD: 4, Opcode.FMA: 2, Opcode.BARRIER: 0, Opcode.MOVE: 0}
"""LLVM instructions of an opcode, if not the length of its sequence"""
LOAD_WEIGHT = 2.5
FAR = 3
"""elements"""
REMAINING_ITERATIONS = 9
"""remaining iterations of a partially unrolled loop, at most, for which cicc fully unrolls it instead"""


def copies(graph: Idg, loop: Loop) -> int:
    """Return the unroll factor of the innermost *loop* of *graph*; 1 if nvcc does not unroll it."""
    if not isinstance(loop.trips, int) or loop.trips < 2:
        return 1
    body = [graph.instructions[item] for item in loop.body if isinstance(item, int)]
    size = sum(_llvm_instructions(each, loop.name) for each in body) + 1
    if loop.is_unrolled:
        return loop.trips
    if not loop.is_constant:
        return _at_run_time(body, size, loop)
    factor = _by_cicc(body, size, loop.trips)
    return factor * _by_ptxas(body, factor, loop.trips // factor) if factor < loop.trips else loop.trips


def written_out(graph: Idg, loops: tuple[Loop, ...]) -> int:
    """Return the unroll factor of the innermost of *loops*; for varying trip counts, that of the average one."""
    *around, loop = loops
    if isinstance(loop.trips, int) or not is_innermost(loop):
        return loop.copies
    usual = number_of_runs(None, loops) // max(number_of_runs(None, around), 1)
    return copies(graph, replace(loop, trips=usual))


def _by_cicc(body: Sequence[Instruction], size: int, trips: int) -> int:
    if size * trips <= FULL:
        return trips
    most = power_of_two_up_to(PARTIAL // size)
    factor = most
    while trips % factor:
        factor //= 2
    if factor == 1 and trips % 2:
        return min(RUNTIME, most)
    with_immediates = sum(2 if each.reference is not None else 1 for each in body)
    if 1 < factor < trips and trips // factor <= REMAINING_ITERATIONS and with_immediates * trips <= FULL:
        return trips
    return factor


def _by_ptxas(body: Sequence[Instruction], factor: int, left: int) -> int:
    weight = _ptx_weight(body) * factor + 4
    if left * weight <= PTX_FULL:
        return left
    if weight > PTX_PARTIAL:
        return 1
    return next((more for more in (6, 5, 4) if left % more == 0 and more * weight <= 370), 1)


def _at_run_time(body: Sequence[Instruction], size: int, loop: Loop) -> int:
    factor = min(RUNTIME, power_of_two_up_to(PARTIAL // size))
    spaces = {each.reference.space for each in body if each.kind == Opcode.LOAD and each.reference is not None}
    most = PTX_RUNTIME[min(spaces & PTX_RUNTIME.keys(), default="")]  # "global" sorts before "local"
    is_tested = any(on_loop(each, loop.name) for each in body)
    if factor == RUNTIME and 16 * _ptx_weight(body) <= most and not steps_are_far(body, loop) and not is_tested:
        factor = 16
    while factor > loop.trips:
        factor //= 4
    return max(factor, 1)


def steps_are_far(instructions: Sequence[Instruction], loop: Loop) -> bool:
    """Return whether *loop* has only global-memory steps that no pointer follows: ptxas then unrolls no further.

    Such a step is a constant number of elements, :data:`FAR` or more, or a product of sizes. A single access with a
    shorter step provides a pointer that can also count the iterations (docs/compiler.md, section 1b).
    """
    moved = (
        each.symbolic for each in instructions if each.subsystem == MemorySpace.GLOBAL and each.symbolic is not None
    )
    steps = [step for each in moved if (step := each.factor_of(loop.name)).terms]
    is_near = any(abs(step.constant) < FAR * loop.copies and not step.variables for step in steps)
    return not is_near and any(not each.variables or any(len(names) > 1 for names, _ in each.terms) for each in steps)


def _ptx_weight(body: Sequence[Instruction]) -> float:
    """Return the weighted PTX instructions of one iteration; a product and its sum count as one."""
    sums = sum(each.kind == Opcode.ADD for each in body)
    products = sum(each.kind == Opcode.MUL for each in body)
    loads = sum(each.kind == Opcode.LOAD for each in body)
    others = sum(length(each) for each in body if each.kind not in (Opcode.ADD, Opcode.MUL, Opcode.LOAD))
    return max(sums, products) + LOAD_WEIGHT * loads + others


def _llvm_instructions(instruction: Instruction, loop: str) -> int:
    """Return the LLVM instructions of one iteration of *loop*; loop-invariant ones are moved out of it."""
    if instruction.reference is None:
        return OF_LLVM.get(instruction.kind, length(instruction))
    factors = {} if instruction.address is None else dict(instruction.address.terms)
    if loop not in factors or not all(isinstance(variable, str) for variable in factors):
        return 2
    multiplied = factors[loop] != 1
    added = len(factors) > 1
    return 2 + multiplied + added + (instruction.reference.space == MemorySpace.GLOBAL)


def power_of_two_up_to(number: int) -> int:
    """Return the largest power of two up to *number*; 1 if there is none."""
    return 1 << max(number.bit_length() - 1, 0)


# }}}


# {{{ loop control


AGAIN = 3
"""loop invariants that are recomputed in each iteration with a barrier instead of kept in registers"""
ONE_POINTER = 2
SHARED_POINTER = 5
"""instructions for each of several arrays that share an index which differs between lanes"""
FAR_AGAIN = 2
"""in a loop with only far steps: a pointer from the constant bank, and the limit of the trip counter"""
POINTERS_ANEW = 2
"""instructions for each pointer that is recomputed from an index, in an iteration with a barrier"""


NOWHERE = Polynomial.of(0)
"""for instructions that access no memory, or whose address depends on data"""


def with_loop_control(graph: Idg) -> Idg:
    """Return *graph* with the instructions that control its loops."""
    control = _Control(graph)
    return control.rebuilt(control.body_with(last=control.of_loop))


class _Control(Rewriting):
    def of_loop(self, loops: tuple[Loop, ...]) -> list[int]:
        """Add the loop control at the end of an iteration of the innermost of *loops*; return its instructions.

        Loops with varying trip counts are unrolled too, and one control sequence serves several copies.
        """
        loop = loops[-1]
        share = Fraction(number_of_runs(None, loops), written_out(self.graph, loops)) * loop.copies
        iterations = integer_if_whole(share)
        counters = 2 if loop.is_counted and not loop.lanes_diverge else 1
        steps = [self._step(f"count {loop.name}", loops, iterations) for _ in range(counters)]
        moved = [place for place in _directly(loop) if any(loop.name in each for each, _ in self._address(place).terms)]
        meets = any(
            self.graph.instructions[place].kind == Opcode.BARRIER for place in loop.body if isinstance(place, int)
        )
        again = (AGAIN if meets else 0) + self._steps_by_products(moved, loop)
        steps += self.add(Opcode.INTEGER, f"invariant of {loop.name}", again, iterations)
        pointers = self._pointers(moved, loop, meets)
        if loop.lanes_diverge:  # each array has its own index; a loop with inner loops computes indices there
            arrays = {self.graph.instructions[place].reference.array: place for place in moved}
            pointers = arrays.values() if is_innermost(loop) else ()
        for place in pointers:
            step = self._step(f"advance to the next {loop.name}", loops, iterations)
            self.edges.append(self._edge(step, place, loops, 1))
            steps.append(step)
        (compare,) = self.add(Opcode.COMPARE, f"another {loop.name}?", executions=iterations)
        (branch,) = self.add(Opcode.BRANCH, f"next {loop.name}", executions=iterations)
        self.edges += [self._edge(steps[0], compare, loops, 0), self._edge(compare, branch, loops, 0)]
        return [*steps, compare, branch]

    def _address(self, place: int) -> Polynomial[Symbol]:
        return self.graph.instructions[place].symbolic or NOWHERE

    def _pointers(self, moved: Sequence[int], loop: Loop, meets: bool) -> Iterator[int]:
        """Yield one access for each instruction that advances an address in *loop*.

        Accesses a known distance apart share an address and use immediates.
        """
        apart: dict[Hashable, tuple[int, Polynomial[Symbol]]] = {}
        for place in moved:
            each, address = self.graph.instructions[place], self._address(place)
            apart.setdefault((each.subsystem, each.reference.array, address.without_constant), (place, address))
        known: dict[int, Polynomial[Symbol]] = {}
        for place, address in apart.values():
            is_near = self.graph.instructions[place].subsystem != MemorySpace.GLOBAL
            if is_near or address.factor_of(loop.name).variables:
                yield place
            else:
                known[place] = address.without_constant
        if not meets and loop.is_counted and steps_are_far([self.graph.instructions[place] for place in moved], loop):
            yield from _far_pointers(known)
            return
        shared = Counter(known.values())
        for place, index in known.items():
            if meets:
                number = POINTERS_ANEW if len(known) > 1 else ONE_POINTER
            else:
                is_of_lanes = any(name.startswith("l.") for name in index.names)
                number = SHARED_POINTER if shared[index] > 1 and is_of_lanes else ONE_POINTER
            yield from [place] * number

    def _steps_by_products(self, moved: Sequence[int], loop: Loop) -> int:
        """Return how many copies advance addresses by a product of sizes, each with its own copy of the product."""
        addresses = [self._address(place) for place in moved]
        far = [address for address in addresses if any(map(_is_product, address.factor_of(loop.name).terms))]
        names = frozenset((loop.name,))
        return len({frozenset(filter(_is_product, each.without(names).terms)) for each in far})

    # {{{ instructions

    def _step(self, text: str, loops: tuple[Loop, ...], iterations: int | Fraction) -> int:
        (place,) = self.add(Opcode.INTEGER, text, executions=iterations)
        self.edges.append(self._edge(place, place, loops, 1))
        return place

    def _edge(self, source: int, target: int, loops: tuple[Loop, ...], distance: int) -> Edge:
        *outer, inner = (loop.name for loop in loops)
        around: list[Iteration] = [Affine(((name, 1),)) for name in outer]
        return Edge(source, target, (*[0] * len(outer), distance), (*around, Affine(((inner, 1),), -distance)))

    # }}}


def _far_pointers(known: Mapping[int, Polynomial[Symbol]]) -> Iterator[int]:
    """Yield an access for each index that advances, each address computed from it, and each recomputed value."""
    indices = {index: place for place, index in known.items()}
    yield from indices.values()
    yield from known
    yield from list(known)[:1] * FAR_AGAIN


def _is_product(term: Term[Symbol]) -> bool:
    """Return whether *term* is a multiple of a product of sizes."""
    names, _ = term
    return len(names) > 1 and not any(map(is_axis, names))


def _directly(loop: Loop) -> list[int]:
    """Return the instructions in *loop*, including those of inner loops, whose pointers advance with it too."""
    return [place for item in loop.body for place in (_directly(item) if isinstance(item, Loop) else [item])]


# }}}


# {{{ guards around loops
#
# Guards test whether a loop is entered and how many iterations remain for the loops that follow; lanes reconverge after
# it.
#
# The rules are measured on executed machine code (docs/compiler.md, sections 2a and 6). A loop with a constant trip
# count has no guards.


GUARDS = {1: 10, 2: 18, 4: 18, 16: 28}
"""unroll factor -> instructions around a loop whose trip count is known only at run time: whether it has iterations,
how many remain for the following loops with fewer copies and with single iterations, and the tests of these"""
BOUNDS = 8
"""instructions that compute the trip count of a lane in a loop with divergent exits, and test whether it is zero"""
DIVERGENCE = {Opcode.BRANCH: 7, Opcode.MOVE: 5, Opcode.INTEGER: 8}
"""instructions around such a loop: two convergence barriers set up and waited for, tests of the remaining iterations,
recomputed addresses"""
OUTER_DIVERGENCE = {Opcode.BRANCH: 3, Opcode.MOVE: 1, Opcode.INTEGER: 1}
"""instructions around a loop that contains such a loop"""


def with_loop_guards(graph: Idg) -> Idg:
    """Return *graph* with the instructions that a warp executes each time it reaches a loop."""
    guarding = Rewriting(graph)

    def guards(loops: tuple[Loop, ...]) -> Iterator[int]:
        *around, loop = loops
        for kind, number in _guards(graph, loops).items():
            yield from guarding.add(kind, f"any iterations of {loop.name}?", number, number_of_runs(None, around))

    diverging = [loop for loop in loops_in(graph.body) if loop.lanes_diverge]
    bounds = [guarding.add(Opcode.INTEGER, f"iterations of {loop.name}", BOUNDS) for loop in diverging]
    return guarding.rebuilt([*chain(*bounds), *guarding.body_with(before=guards)])


def _guards(graph: Idg, loops: tuple[Loop, ...]) -> Mapping[Opcode, int]:
    """Return opcode -> number of instructions around the innermost of *loops*."""
    loop = loops[-1]
    if not loop.is_counted:
        return {}
    if loop.lanes_diverge and not is_innermost(loop):
        return OUTER_DIVERGENCE
    written = written_out(graph, loops)
    guards = GUARDS[max(number for number in GUARDS if number <= written)]
    if not loop.lanes_diverge:
        return {Opcode.INTEGER: guards}
    return {**DIVERGENCE, Opcode.INTEGER: DIVERGENCE[Opcode.INTEGER] + (guards if written > 1 else 0)}


# }}}
