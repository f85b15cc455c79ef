"""What instructions on data do: nothing is known of their results, but for the conversions in integer division."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from .instruction import ZERO_REGISTER, Instruction, Operand
from .integer import Operation
from .lanes import UNKNOWN, Lanes, of_integers, uniform
from .registers import Registers


def unknown(instruction: Instruction, registers: Registers) -> None:
    """Write an unknown value, of two registers where the result is of double precision."""
    for beyond in range(_length(instruction)):
        registers.write(instruction.operands[0], UNKNOWN, beyond)


def _length(instruction: Instruction) -> int:
    converted_to = instruction.modifiers[0] if instruction.modifiers else ""
    double = instruction.base in ("DADD", "DMUL", "DFMA", "DMNMX")
    if instruction.base in ("F2F", "I2F", "FRND"):
        double = converted_to == "F64"
    if instruction.base == "F2I":
        double = converted_to in ("U64", "S64")
    return 2 if double else 1


def shuffle(instruction: Instruction, registers: Registers) -> None:
    """SHFL: a value from another lane, and whether there is such a lane; unknown."""
    for operand in instruction.operands[:2]:
        if operand.kind == "register":
            registers.write(operand, UNKNOWN)


def special_function(instruction: Instruction, registers: Registers) -> None:
    """MUFU: a reciprocal that is known where its operand is; other functions are of data."""
    destination, source = instruction.operands
    lanes = registers.read(source)
    if instruction.modifiers != ("RCP",) or not lanes.known:
        return registers.write(destination, UNKNOWN)
    with np.errstate(divide="ignore"):
        reciprocals = (1 / lanes.values.view(np.float32)).astype(np.float32)
    return registers.write(destination, Lanes(reciprocals.view(np.uint32), lanes.known))


def from_integer(instruction: Instruction, registers: Registers) -> None:
    """I2F, I2FP: an integer as a number in single precision, rounded to nearest, or up with .RP."""
    destination, source = instruction.operands
    lanes = registers.read(source)
    modifiers = instruction.modifiers
    if not lanes.known or any(word in modifiers for word in ("F64", "U64", "S64", "F16", "S16", "U16", "U8", "S8")):
        return unknown(instruction, registers)
    exact = lanes.unsigned if "U32" in modifiers else lanes.signed
    floats = exact.astype(np.float32)
    if "RP" in modifiers:
        floats = np.where(floats.astype(np.float64) < exact, np.nextafter(floats, np.float32(np.inf)), floats)
    return registers.write(destination, Lanes(floats.astype(np.float32).view(np.uint32), lanes.known))


def to_integer(instruction: Instruction, registers: Registers) -> None:
    """F2I: a number in single precision as an integer, rounded towards zero with .TRUNC, down with .FLOOR."""
    destination, source = instruction.operands
    lanes = registers.read(source)
    modifiers = instruction.modifiers
    if not lanes.known or any(word in modifiers for word in ("F64", "U64", "S64", "F16")):
        return unknown(instruction, registers)
    rounding = next((word for word in modifiers if word in ROUNDINGS), "RN")
    rounded = ROUNDINGS[rounding](lanes.floats)
    low, high = (0, 2**32 - 1) if "U32" in modifiers else (-(2**31), 2**31 - 1)
    clipped = np.clip(np.nan_to_num(rounded, nan=0, posinf=high, neginf=low), low, high)
    return registers.write(destination, of_integers(clipped.astype(np.int64), lanes.known))


ROUNDINGS = MappingProxyType({"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "RN": np.rint})


def half_precision(instruction: Instruction, registers: Registers) -> None:
    """HFMA2: -0·0 + a pair of half-precision numbers is how the compiler writes a constant; else unknown."""
    destination, *sources = instruction.operands
    numbers = [_half(source) for source in sources[2:]]
    if all(_is_zero(source) for source in sources[:2]) and len(numbers) == 2 and None not in numbers:
        high, low = numbers
        return registers.write(destination, uniform((high or 0) << 16 | (low or 0)))
    return registers.write(destination, UNKNOWN)


def is_constant(instruction: Instruction) -> bool:
    """Return whether HFMA2 is a move of a constant."""
    return instruction.base == "HFMA2" and all(_is_zero(source) for source in instruction.operands[1:3])


def _is_zero(source: Operand) -> bool:
    return source.kind == "register" and source.number == ZERO_REGISTER


def _half(source: Operand) -> int | None:
    text = source.text.replace("QNAN", "NAN").strip()
    if not re.fullmatch(r"[+-]?(\d[\d.e+-]*|INF|NAN)", text):
        return None
    return int(np.array([float(text)], dtype=np.float16).view(np.uint16)[0])


SINGLE = ("FADD", "FMUL", "FFMA", "FMNMX", "FSET", "FRND", "FSWZADD", "F2F", "F2FP")
DOUBLE = ("DADD", "DMUL", "DFMA", "DMNMX")
HALF = ("HADD2", "HMUL2", "HMNMX2", "HSET2")
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **dict.fromkeys((*SINGLE, *DOUBLE, *HALF), unknown),
        "HFMA2": half_precision,
        "MUFU": special_function,
        "I2F": from_integer,
        "I2FP": from_integer,
        "F2I": to_integer,
        "SHFL": shuffle,
    }
)
"""by opcode"""
