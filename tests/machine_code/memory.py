"""Semantics of memory instructions: loaded values are unknown, except constants, given data and a lane's own stack."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from .instruction import ZERO_REGISTER, Instruction, Operand, operand
from .integer import Operation
from .lanes import ALL, UNKNOWN, UNSURE, ZERO, members, merged, uniform
from .registers import Access, Registers


def words(instruction: Instruction) -> int:
    """Return how many 32-bit words a lane loads or stores."""
    widths = {"64": 2, "128": 4}
    return next((widths[word] for word in instruction.modifiers if word in widths), 1)


def load(instruction: Instruction, registers: Registers) -> None:
    """LDG, LDS, LD, ATOM and similar: unknown values, except given data."""
    note(instruction, registers)
    place = next(operand for operand in instruction.operands if operand.kind == "memory")
    addresses, known = address_of(place, registers, is_wide="E" in instruction.modifiers)
    found = {int(each) for each in addresses} if known & registers.active else set[int]()
    for target in instruction.operands[:2]:
        if target.kind == "register":
            for beyond in range(words(instruction)):
                given = registers.data.get(found.copy().pop() + 4 * beyond) if len(found) == 1 else None
                registers.write(target, UNKNOWN if given is None else uniform(given), beyond)
            return
        if target.kind == "predicate":
            registers.decide(target, UNSURE)


def store(instruction: Instruction, registers: Registers) -> None:
    """STG, STS, ST, RED: record the access; control flow does not depend on it."""
    note(instruction, registers)


def nothing(instruction: Instruction, registers: Registers) -> None:
    """BAR, MEMBAR and similar: no effect, because warps are executed one after another."""


def note(instruction: Instruction, registers: Registers) -> None:
    """Record the addresses of an access, if accesses are recorded."""
    if registers.accesses is not None:
        place = next(operand for operand in instruction.operands if operand.kind == "memory")
        values, known = address_of(place, registers)
        addresses = np.broadcast_to(values, 32)
        used = members(registers.active & known)
        registers.accesses.append(Access(instruction, {lane: int(addresses[lane]) for lane in used}))


def load_constant(instruction: Instruction, registers: Registers) -> None:
    """LDC: words of a constant bank."""
    target, source = instruction.operands
    for beyond in range(words(instruction)):
        registers.write(target, registers.constant(source, 4 * beyond), beyond)


def load_stack(instruction: Instruction, registers: Registers) -> None:
    """LDL: words of the lane's own stack."""
    target, place = instruction.operands
    accesses = stack_accesses(place, registers)
    for beyond in range(words(instruction)):
        value = UNKNOWN
        for address, lanes in accesses or ():
            loaded = registers.stack.get(address + 4 * beyond, UNKNOWN)
            value = loaded if len(accesses or ()) == 1 else merged(value, loaded, lanes, lanes)
        registers.write(target, value, beyond)


def store_stack(instruction: Instruction, registers: Registers) -> None:
    """STL: words of the lane's own stack; a store to an unknown address makes the whole stack unknown."""
    place, source = instruction.operands
    accesses = stack_accesses(place, registers)
    if accesses is None:
        registers.stack.clear()
    for beyond in range(words(instruction)):
        value = registers.register(source.file, source.number + beyond) if source.number != ZERO_REGISTER else ZERO
        for address, lanes in accesses or ():
            before = registers.stack.get(address + 4 * beyond, UNKNOWN)
            registers.stack[address + 4 * beyond] = merged(before, value, lanes, lanes & registers.certain)


def stack_accesses(place: Operand, registers: Registers) -> list[tuple[int, int]] | None:
    """Return the addresses at *place*, each with the active lanes that use it; None if one is unknown."""
    addresses, known = address_of(place, registers)
    if registers.active & ~known:
        return None
    if addresses.size == 1:
        return [(int(addresses[0]), registers.active)]
    by_address: dict[int, int] = {}
    for lane in members(registers.active):
        address = int(addresses[lane])
        by_address[address] = by_address.get(address, 0) | 1 << lane
    return list(by_address.items())


def address_of(place: Operand, registers: Registers, *, is_wide: bool = False) -> tuple[np.ndarray, int]:
    """Return the address at *place*, a sum such as ``R2.X4+UR4+0x10``, and the lanes where it is known.

    If *is_wide*, a register denotes a pair of registers, as on Volta and Turing.
    """
    total, known = np.zeros(1, dtype=np.int64), ALL
    for part in re.split(r"\s*\+\s*", place.place):
        term = operand(part)
        is_pair = ".64" in term.suffix or (is_wide and term.file == "R" and not term.suffix)
        values, known_here = registers.pair(term) if is_pair else registers.signed(term)
        scale = re.search(r"\.X(\d+)", term.suffix)
        total, known = total + values * (int(scale[1]) if scale else 1), known & known_here
    return total, known


SPECIAL = MappingProxyType({"SRZ": 0, "SR_CgaCtaId": 0, "SR_VIRTCFG": 0, "SR_SWINHI": 0})


def special_register(instruction: Instruction, registers: Registers) -> None:
    """S2R, S2UR, CS2R: the position of a lane in its group, and of the group in the grid."""
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
        **dict.fromkeys(("BAR", "MEMBAR", "FENCE", "ERRBAR", "CCTL", "DEPBAR", "NOP", "NANOSLEEP", "YIELD"), nothing),
        "LDL": load_stack,
        "STL": store_stack,
        "LDC": load_constant,
        "LDCU": load_constant,
        "S2R": special_register,
        "S2UR": special_register,
        "CS2R": special_register,
    }
)
"""by opcode; opcodes of the uniform datapath have the prefix U and the same semantics"""
