"""Execute a function with one warp, and count how often the warp issues each instruction.

The lanes share one program counter until they diverge at a branch. Each fragment then executes separately until the
lanes reconverge at a convergence barrier (BSSY, BSYNC). An instruction is issued once for each fragment that reaches
it, even if its guard holds in none of the lanes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from . import comparison, data, floating_point, integer, memory
from .branch_decisions import Decision, UnknownBranchError, refuse
from .constant_bank import ConstantBank
from .divergence import Convergence, Fragment
from .instruction import Instruction
from .integer import Operation
from .lanes import TRUE, Lanes, Truth, members, of_integers
from .listing import BYTES, Function
from .registers import Registers

LIMIT = 20_000_000
"""maximum number of executed instructions, which take minutes"""
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {**integer.OPERATIONS, **comparison.OPERATIONS, **data.OPERATIONS, **floating_point.OPERATIONS, **memory.OPERATIONS}
)


class UnsupportedInstructionError(NotImplementedError):
    """An instruction that the simulated machine does not implement."""


@dataclass(frozen=True)
class Trail:
    """The instructions that a warp issued, by address."""

    issued: Counter[int] = field(default_factory=Counter)
    """how often each was issued"""
    lanes: Counter[int] = field(default_factory=Counter)
    """the total number of lanes that executed it, without those whose guard failed"""
    idle: Counter[int] = field(default_factory=Counter)
    """how often the guard failed in all lanes: this takes an issue slot, but accesses no memory"""


class Warp:
    """One warp that executes a function."""

    def __init__(
        self,
        function: Function,
        constants: ConstantBank,
        special: Mapping[str, Lanes],
        lanes: int,
        decide: Decision = refuse,
    ) -> None:
        self.function = function
        self.registers = Registers(constants, special)
        self.convergence = Convergence(lanes, [Fragment(lanes, 0)])
        self.decide = decide
        self.trail = Trail()

    def walk(self) -> Trail:
        """Execute the function until all lanes have exited, and return the trail.

        Raises :class:`UnknownBranchError` at a data-dependent branch that *decide* refuses, and
        :class:`UnsupportedInstructionError` at an instruction that is not implemented.
        """
        steps = 0
        while self.convergence.ready:
            fragment = self.convergence.ready.pop()
            while fragment is not None:
                fragment = self._step(fragment)
                steps += 1
                if steps > LIMIT:
                    raise RuntimeError(f"{self.function.name}: no end after {LIMIT} instructions")
        if self.convergence.lanes:
            raise RuntimeError(f"{self.function.name}: lanes {self.convergence.lanes:#x} wait for others for ever")
        return self.trail

    def _step(self, fragment: Fragment) -> Fragment | None:
        """Execute one instruction; return the same lanes at the next one, or None if they exit, wait or diverge."""
        instruction = self.function.instructions[fragment.address]
        guard = TRUE if instruction.guard is None else self.registers.truth(instruction.guard)
        possible = fragment.lanes & guard.possible
        self.trail.issued[fragment.address] += 1
        self.trail.lanes[fragment.address] += possible.bit_count()
        self.trail.idle[fragment.address] += not possible
        control = CONTROL.get(instruction.base)
        if control is not None:
            return control(self, instruction, fragment, guard)
        if possible:
            self.registers.active = possible
            self.registers.certain = fragment.lanes & guard.certain
            _operation(self.function, instruction)(instruction, self.registers)
        return Fragment(fragment.lanes, fragment.address + BYTES)

    # {{{ control

    def taken(self, instruction: Instruction, lanes: int, guard: Truth) -> int:
        """Return those of *lanes* in which *guard* and the predicates among the operands hold."""
        for operand in instruction.operands:
            if operand.kind == "predicate":
                truth = self.registers.truth(operand)
                failing = (~guard).certain | (~truth).certain
                guard = Truth(guard.true & truth.true & ~failing, guard.known & truth.known | failing)
        if lanes & ~guard.known:
            return lanes if self.decide(self.function, instruction) else 0
        return lanes & guard.true

    def branched(self, fragment: Fragment, taken: int, address: int) -> Fragment | None:
        """Move the lanes *taken* to *address* and the others to the next instruction."""
        if taken == fragment.lanes:
            return Fragment(taken, address)
        onward = Fragment(fragment.lanes & ~taken, fragment.address + BYTES)
        if not taken:
            return onward
        self.convergence.ready += [Fragment(taken, address), onward]
        return None

    # }}}


def _operation(function: Function, instruction: Instruction) -> Operation:
    base = instruction.base
    operation = OPERATIONS.get(base) or OPERATIONS.get(base.removeprefix("U"))
    if operation is None:
        raise UnsupportedInstructionError(f"{function.name}: {instruction}; add it to tests/machine_code")
    return operation


# {{{ control


def _branch(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    if "DIV" in instruction.modifiers or "CONV" in instruction.modifiers:
        together = fragment.lanes == warp.convergence.lanes
        taken = 0 if together else fragment.lanes
    else:
        taken = warp.taken(instruction, fragment.lanes, guard)
    return warp.branched(fragment, taken, warp.function.address(instruction.operands[-1].place))


def _call(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    target = instruction.operands[-1]
    if target.kind != "label":
        raise UnsupportedInstructionError(f"{warp.function.name}: {instruction}: only calls of a label are known")
    return warp.branched(fragment, warp.taken(instruction, fragment.lanes, guard), warp.function.address(target.place))


def _return(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    if warp.taken(instruction, fragment.lanes, guard) != fragment.lanes:
        raise UnsupportedInstructionError(f"{warp.function.name}: {instruction} under a condition")
    register = next(operand for operand in instruction.operands if operand.kind == "register")
    back = warp.registers.read(register)
    if fragment.lanes & ~back.known:
        raise UnknownBranchError(f"{warp.function.name}: {instruction} goes to an unknown address")
    values = np.broadcast_to(back.values, 32)
    places: dict[int, int] = {}
    for lane in members(fragment.lanes):
        places[int(values[lane])] = places.get(int(values[lane]), 0) | 1 << lane
    fragments = [Fragment(lanes, address) for address, lanes in places.items()]
    warp.convergence.ready += fragments[1:]
    return fragments[0]


def _exit(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    ended = warp.taken(instruction, fragment.lanes, guard)
    warp.convergence.end(ended)
    staying = fragment.lanes & ~ended
    return Fragment(staying, fragment.address + BYTES) if staying else None


def _agree(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment:
    warp.convergence.agree(instruction.operands[0].text, fragment.lanes)
    return Fragment(fragment.lanes, fragment.address + BYTES)


def _meet(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    arriving = warp.taken(instruction, fragment.lanes, guard)
    warp.convergence.wait(instruction.operands[0].text, arriving, fragment.address + BYTES)
    passing = fragment.lanes & ~arriving
    return Fragment(passing, fragment.address + BYTES) if passing else None


def _leave(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment:
    barrier = instruction.operands[-1].text
    warp.convergence.leave(barrier, warp.taken(instruction, fragment.lanes, guard))
    return Fragment(fragment.lanes, fragment.address + BYTES)


def _whole(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment | None:
    convergence = warp.convergence
    if fragment.lanes == convergence.lanes:
        return Fragment(fragment.lanes, fragment.address + BYTES)
    waiting = {convergence.agreed.get(("warp", lane)) for lane in members(fragment.lanes)}
    if not all(number in convergence.meetings for number in waiting):
        convergence.agree("warp", convergence.lanes)
    convergence.wait("warp", fragment.lanes, fragment.address + BYTES)
    return None


def _keep(warp: Warp, instruction: Instruction, fragment: Fragment, guard: Truth) -> Fragment:
    target, source = instruction.operands
    registers, convergence = warp.registers, warp.convergence
    registers.active = registers.certain = fragment.lanes & guard.certain
    if target.kind == "register":
        numbers = [convergence.agreed.get((source.text, lane), 0) for lane in range(32)]
        registers.write(target, of_integers(np.array(numbers, dtype=np.int64), registers.active))
    else:
        values = np.broadcast_to(registers.read(source).values, 32)
        for lane in members(registers.active):
            convergence.assign(target.text, 1 << lane, int(values[lane]))
    return Fragment(fragment.lanes, fragment.address + BYTES)


Control = Callable[[Warp, Instruction, Fragment, Truth], Fragment | None]
CONTROL: Mapping[str, Control] = MappingProxyType(
    {
        "BRA": _branch,
        "CALL": _call,
        "RET": _return,
        "EXIT": _exit,
        "BSSY": _agree,
        "BSYNC": _meet,
        "BREAK": _leave,
        "WARPSYNC": _whole,
        "BMOV": _keep,
    }
)
"""by opcode"""

# }}}
