"""Semantics of data instructions that are not simulated: their results are unknown, except constants."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from .instruction import ZERO_REGISTER, Instruction, Operand
from .integer import Operation
from .lanes import UNKNOWN, uniform
from .registers import Registers


def unknown(instruction: Instruction, registers: Registers) -> None:
    """Write an unknown value, and read the operands so that dependences can be recorded."""
    for operand in instruction.operands[1:]:
        registers.read(operand)
    registers.write(instruction.operands[0], UNKNOWN)


def shuffle(instruction: Instruction, registers: Registers) -> None:
    """SHFL: the value of another lane, and whether that lane exists; both are unknown."""
    for operand in instruction.operands[:2]:
        if operand.kind == "register":
            registers.write(operand, UNKNOWN)


def half_precision(instruction: Instruction, registers: Registers) -> None:
    """HFMA2: -0·0 + a pair of half-precision numbers is the compiler's encoding of a constant; else unknown."""
    destination, *sources = instruction.operands
    numbers = [_half(source) for source in sources[2:]]
    if all(_is_zero(source) for source in sources[:2]) and len(numbers) == 2 and None not in numbers:
        high, low = numbers
        return registers.write(destination, uniform((high or 0) << 16 | (low or 0)))
    return registers.write(destination, UNKNOWN)


def is_constant(instruction: Instruction) -> bool:
    """Return whether HFMA2 moves a constant."""
    return instruction.base == "HFMA2" and all(_is_zero(source) for source in instruction.operands[1:3])


def _is_zero(source: Operand) -> bool:
    return source.kind == "register" and source.number == ZERO_REGISTER


def _half(source: Operand) -> int | None:
    text = source.text.replace("QNAN", "NAN").strip()
    if not re.fullmatch(r"[+-]?(\d[\d.e+-]*|INF|NAN)", text):
        return None
    return int(np.array([float(text)], dtype=np.float16).view(np.uint16)[0])


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **dict.fromkeys(("FSET", "FSWZADD", "F2FP", "HADD2", "HMUL2", "HMNMX2", "HSET2"), unknown),
        "HFMA2": half_precision,
        "SHFL": shuffle,
    }
)
"""by opcode"""
