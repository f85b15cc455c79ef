"""What instructions on memory do: loads give unknown values, but for constants and what a lane wrote to its own stack."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from .instruction import ZERO_REGISTER, Instruction, Operand, operand
from .integer import Operation
from .lanes import ALL, UNKNOWN, UNSURE, ZERO, of_integers, uniform
from .registers import Registers


def words(instruction: Instruction) -> int:
    """Return how many 32-bit words a lane loads or stores."""
    widths = {"64": 2, "128": 4}
    return next((widths[word] for word in instruction.modifiers if word in widths), 1)


def load(instruction: Instruction, registers: Registers) -> None:
    """LDG, LDS, LD, ATOM and the like: unknown values."""
    for target in instruction.operands[:2]:
        if target.kind == "register":
            for beyond in range(words(instruction)):
                registers.write(target, UNKNOWN, beyond)
            return
        if target.kind == "predicate":
            registers.decide(target, UNSURE)


def store(instruction: Instruction, registers: Registers) -> None:
    """STG, STS, ST, RED, BAR and the like: nothing that control flow could depend on."""


def load_constant(instruction: Instruction, registers: Registers) -> None:
    """LDC: words of a constant bank."""
    target, source = instruction.operands
    for beyond in range(words(instruction)):
        registers.write(target, registers.constants.word(source, registers, 4 * beyond), beyond)


def load_stack(instruction: Instruction, registers: Registers) -> None:
    """LDL: words of the lane's own stack."""
    target, place = instruction.operands
    address = _stack_address(place, registers)
    for beyond in range(words(instruction)):
        value = UNKNOWN if address is None else registers.stack.get(address + 4 * beyond, UNKNOWN)
        registers.write(target, value, beyond)


def store_stack(instruction: Instruction, registers: Registers) -> None:
    """STL: words of the lane's own stack; where the address is unknown, or not the same for all lanes, all is forgotten."""
    place, source = instruction.operands
    address = _stack_address(place, registers)
    if address is None:
        registers.stack.clear()
        return
    for beyond in range(words(instruction)):
        value = registers.register(source.file, source.number + beyond) if source.number != ZERO_REGISTER else ZERO
        before = registers.stack.get(address + 4 * beyond, UNKNOWN)
        registers.stack[address + 4 * beyond] = registers.merged(before, value)


def _stack_address(place: Operand, registers: Registers) -> int | None:
    """Return the address that all active lanes use, None where there is no such address or it is unknown."""
    total = np.zeros(1, dtype=np.int64)
    for part in re.split(r"\s*\+\s*", place.text):
        term = operand(part)
        values, known = registers.integer(term)
        if registers.active & ~known:
            return None
        total = total + values
    lanes = of_integers(total, ALL).values
    if lanes.size > 1:
        lanes = np.unique(lanes[[lane for lane in range(32) if registers.active >> lane & 1]])
    return int(lanes[0]) if lanes.size == 1 else None


SPECIAL = MappingProxyType({"SRZ": 0, "SR_CgaCtaId": 0, "SR_VIRTCFG": 0, "SR_SWINHI": 0})


def special_register(instruction: Instruction, registers: Registers) -> None:
    """S2R, S2UR, CS2R: where a lane is in its group, and the group in the grid."""
    target, source = instruction.operands
    value = registers.special.get(source.text)
    if value is None:
        value = uniform(SPECIAL[source.text]) if source.text in SPECIAL else UNKNOWN
    registers.write(target, value)
    if instruction.base == "CS2R" and "32" not in instruction.modifiers:
        registers.write(target, ZERO if source.text == "SRZ" else UNKNOWN, beyond=1)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **dict.fromkeys(("LDG", "LDS", "LD", "ATOM", "ATOMS", "ATOMG", "LDGSTS"), load),
        **dict.fromkeys(("STG", "STS", "ST", "RED", "REDG"), store),
        **dict.fromkeys(("BAR", "MEMBAR", "FENCE", "ERRBAR", "CCTL", "CCTLL", "DEPBAR", "LDGDEPBAR", "NOP"), store),
        **dict.fromkeys(("NANOSLEEP", "YIELD", "PREFETCH"), store),
        "LDL": load_stack,
        "STL": store_stack,
        "LDC": load_constant,
        "S2R": special_register,
        "S2UR": special_register,
        "CS2R": special_register,
    }
)
"""by opcode; those of the uniform datapath have a U in front and are the same"""
