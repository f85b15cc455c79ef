"""Into how many copies nvcc writes a loop out.

Two compilers decide one after the other, cicc on LLVM's instructions and ptxas on PTX; the rules and their constants
are measured on executed machine code (docs/compiler.md, sections 1a and 1b). Only innermost loops are written out; one
whose inner loops are gone is innermost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopyperf.compiler.functions import length
from loopyperf.compiler.tested_passes import on_loop
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Loop, Opcode, is_innermost
from loopyperf.idg.unrolling import number_of_runs
from loopyperf.polyhedral.affine import Symbol
from loopyperf.polyhedral.polynomial import Polynomial

FULL = 402
"""LLVM instructions: cicc writes a loop out in full where all of its passes have no more"""
PARTIAL = 200
"""LLVM instructions: that many the copies of a body may have together"""
RUNTIME = 4
"""copies at most, of a loop whose passes are counted at run time"""
PTX_FULL = 500
PTX_PARTIAL = 80
"""weighted PTX instructions of a body that ptxas writes out once more"""
PTX_RUNTIME = {"global": 170, "local": 117, "": 67}
"""of the sixteen copies of a body that ptxas makes of cicc's four: where it loads from global memory, from local memory
alone, and where it loads nothing"""
OF_LLVM: Mapping[str, int] = {Opcode.DIV: 4, Opcode.MOD: 4, Opcode.FMA: 2, Opcode.BARRIER: 0, Opcode.MOVE: 0}
"""instructions of LLVM, where that is not the length of the sequence"""
LOAD_WEIGHT = 2.5
FAR = 3
"""elements"""
FEW = 9
"""passes left of a loop that cicc then writes out in full after all"""


def copies(graph: Idg, loop: Loop) -> int:
    """Return into how many copies nvcc writes the innermost *loop* of *graph* out: 1 for none."""
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
    """Return how many copies of its body the innermost of *loops* has, or would have if its passes did not vary."""
    *around, loop = loops
    if isinstance(loop.trips, int) or not is_innermost(loop):
        return loop.copies
    usual = number_of_runs(None, loops) // max(number_of_runs(None, around), 1)
    return copies(graph, replace(loop, trips=usual))


def _by_cicc(body: Sequence[Instruction], size: int, trips: int) -> int:
    if size * trips <= FULL:
        return trips
    most = _power_of_two_up_to(PARTIAL // size)
    factor = most
    while trips % factor:
        factor //= 2
    if factor == 1 and trips % 2:
        return min(RUNTIME, most)
    with_immediates = sum(2 if each.reference is not None else 1 for each in body)
    if 1 < factor < trips and trips // factor <= FEW and with_immediates * trips <= FULL:
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
    factor = min(RUNTIME, _power_of_two_up_to(PARTIAL // size))
    spaces = {each.reference.space for each in body if each.kind == Opcode.LOAD and each.reference is not None}
    most = PTX_RUNTIME[min(spaces & PTX_RUNTIME.keys(), default="")]  # "global" is before "local"
    is_tested = any(on_loop(each, loop.name) for each in body)
    if factor == RUNTIME and 16 * _ptx_weight(body) <= most and not steps_are_far(body, loop) and not is_tested:
        factor = 16
    while factor > loop.trips:
        factor //= 4
    return max(factor, 1)


def steps_are_far(instructions: Sequence[Instruction], loop: Loop) -> bool:
    """Return whether *loop* moves on in global memory by steps that no pointer makes: ptxas leaves it as it is.

    They are steps of a constant number of elements, of :data:`FAR` or more, or of a product of sizes; a single access
    with a shorter step is enough for a pointer that counts the passes, too (docs/compiler.md, section 1b).
    """
    moved = (
        each.symbolic for each in instructions if each.subsystem == MemorySpace.GLOBAL and each.symbolic is not None
    )
    steps = [step for each in moved if (step := each.factor_of(loop.name)).terms]
    is_near = any(abs(step.constant) < FAR * loop.copies and not step.variables for step in steps)
    return not is_near and any(map(_is_far, steps))


def _is_far(step: Polynomial[Symbol]) -> bool:
    return not step.variables or any(len(names) > 1 for names, _ in step.terms)


def _ptx_weight(body: Sequence[Instruction]) -> float:
    """Return the PTX instructions of a pass, loads weighing more; a product and its sum are one."""
    sums = sum(each.kind == Opcode.ADD for each in body)
    products = sum(each.kind == Opcode.MUL for each in body)
    loads = sum(each.kind == Opcode.LOAD for each in body)
    others = sum(length(each) for each in body if each.kind not in (Opcode.ADD, Opcode.MUL, Opcode.LOAD))
    return max(sums, products) + LOAD_WEIGHT * loads + others


def _llvm_instructions(instruction: Instruction, loop: str) -> int:
    """Return the instructions of LLVM in a pass of *loop*; what does not depend on the pass is hoisted before."""
    if instruction.reference is None:
        return OF_LLVM.get(instruction.kind, length(instruction))
    factors = {} if instruction.address is None else dict(instruction.address.terms)
    if loop not in factors or not all(isinstance(variable, str) for variable in factors):
        return 2
    multiplied = factors[loop] != 1
    added = len(factors) > 1
    return 2 + multiplied + added + (instruction.reference.space == MemorySpace.GLOBAL)


def _power_of_two_up_to(number: int) -> int:
    return 1 << max(number.bit_length() - 1, 0)
