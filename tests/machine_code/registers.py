"""Registers of one warp: general and uniform registers, predicates, and its stack in CUDA's local memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .constant_bank import BANK, ConstantBank
from .instruction import TRUE_PREDICATE, ZERO_REGISTER, Instruction, Operand, operand
from .lanes import ALL, FALSE, TRUE, UNKNOWN, UNSURE, ZERO, Lanes, Truth, merged, of_integers, uniform

Pair = tuple[Lanes, Lanes]
"""a 64-bit value: its lower and its upper half"""


@dataclass(frozen=True, slots=True)
class Access:
    """One access to memory by a warp: the addresses by lane, in bytes."""

    instruction: Instruction
    addresses: Mapping[int, int]


class Registers:
    """The values that the lanes of one warp hold, and the lanes that execute the current instruction."""

    def __init__(self, constants: ConstantBank, special: Mapping[str, Lanes]) -> None:
        self.constants = constants
        self.special = special
        """special registers with the position of a lane, by name"""
        self.stack: dict[int, Lanes] = {}
        """words of the stack, by address"""
        self.data: dict[int, int] = {}
        """given words of global memory, by address"""
        self.accesses: list[Access] | None = None
        """loads and stores in global and local memory, if they are recorded"""
        self.active = ALL
        """the lanes that execute or may execute the current instruction: its guard can be unknown"""
        self.certain = ALL
        """those of them that are known to execute it"""
        self._values: dict[tuple[str, int], Lanes] = {}
        self._truths: dict[tuple[str, int], Truth] = {}

    # {{{ values

    def register(self, file: str, number: int) -> Lanes:
        """Return the value of a register; it is unknown if the register was never written."""
        return ZERO if number == ZERO_REGISTER else self._values.get((file, number), UNKNOWN)

    def read(self, operand: Operand) -> Lanes:
        """Return the value of *operand* without its signs."""
        match operand.kind:
            case "register":
                return self.register(operand.file, operand.number)
            case "number":
                return uniform(operand.number)
            case "constant":
                return self.constant(operand)
            case _:
                return UNKNOWN

    def constant(self, place: Operand, beyond: int = 0) -> Lanes:
        """Return the word at *place* in a constant bank, or *beyond* bytes after it."""
        offset = beyond + BANK * place.number
        for part in place.place.split("+"):
            lanes = self.read(operand(part.strip()))
            if lanes.values.size > 1 or not lanes.known:
                return UNKNOWN
            offset += int(lanes.signed[0])
        return uniform(self.constants[offset]) if offset in self.constants else UNKNOWN

    def read_pair(self, operand: Operand) -> Pair:
        """Return the 64-bit value of *operand* without its signs; a number is sign-extended."""
        match operand.kind:
            case "register" if operand.number != ZERO_REGISTER:
                return self.read(operand), self.register(operand.file, operand.number + 1)
            case "number":
                return uniform(operand.number), uniform(operand.number >> 32)
            case "constant":
                return self.constant(operand), self.constant(operand, beyond=4)
            case _:
                return self.read(operand), self.read(operand)

    def integer(self, operand: Operand) -> tuple[np.ndarray, int]:
        """Return the value of *operand* as unsigned integers with its sign, and the lanes where it is known.

        The negation of 0 is 2³², so that a subtraction produces a carry.
        """
        lanes = self.read(operand)
        values = lanes.unsigned
        if operand.negative and operand.kind != "number":
            values = 0x100000000 - values
        elif operand.inverted:
            values = 0xFFFFFFFF - values
        return values, lanes.known

    def signed(self, operand: Operand) -> tuple[np.ndarray, int]:
        """Return the value of *operand* as signed integers with its sign, and the lanes where it is known."""
        lanes = self.read(operand)
        return -lanes.signed if operand.negative and operand.kind != "number" else lanes.signed, lanes.known

    def pair(self, operand: Operand) -> tuple[np.ndarray, int]:
        """Return the 64-bit value of *operand* with its sign, and the lanes where it is known."""
        low, high = self.read_pair(operand)
        values = low.unsigned | high.signed << 32
        return -values if operand.negative and operand.kind != "number" else values, low.known & high.known

    def write(self, operand: Operand, value: Lanes, beyond: int = 0) -> None:
        """Write *value* to the register *operand*, or the one *beyond* registers after it, in the active lanes."""
        if operand.number == ZERO_REGISTER:
            return
        key = operand.file, operand.number + beyond
        if operand.file == "UR":
            self._values[key] = Lanes(value.values, value.known if self.certain else 0)
        else:
            before = self._values.get(key, UNKNOWN)
            self._values[key] = merged(before, value, self.active, self.certain)

    def write_pair(self, operand: Operand, values: np.ndarray, known: int) -> None:
        """Write 64-bit *values* to the register *operand* and the next one."""
        self.write(operand, of_integers(values, known))
        self.write(operand, of_integers(values >> 32, known), beyond=1)

    # }}}

    # {{{ predicates

    def truth(self, operand: Operand) -> Truth:
        """Return whether the predicate *operand* holds, with its negation."""
        truth = self._truth(operand)
        return ~truth if operand.negative else truth

    def _truth(self, operand: Operand) -> Truth:
        if operand.number == TRUE_PREDICATE:
            return TRUE
        return self._truths.get((operand.file, operand.number), UNSURE)

    def decide(self, operand: Operand, truth: Truth) -> None:
        """Write *truth* to the predicate *operand* in the active lanes."""
        if operand.number == TRUE_PREDICATE:
            return
        if operand.file == "UP":
            value = (TRUE if truth.true & self.active else FALSE) if self._same(truth) else UNSURE
        else:
            before = self._truth(operand)
            true = (before.true & ~self.active) | (truth.true & self.active)
            known = (before.known & ~self.active) | (truth.known & self.certain)
            value = Truth(true, known)
        self._truths[operand.file, operand.number] = value

    def _same(self, truth: Truth) -> bool:
        return bool(self.certain) and truth.known & self.active == self.active

    # }}}
