"""Semantics of floating-point instructions: a result is known where all operands are, for instance from given data."""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from .comparison import TABLES
from .instruction import Instruction, Operand
from .integer import Operation, bits
from .lanes import ALL, FALSE, UNKNOWN, UNSURE, Lanes, Truth, lane_set, looked_up, of_integers
from .registers import Registers

Numbers = tuple[Any, int]
"""numbers in double precision, and the lanes where they are known"""
NUMBER = re.compile(r"[+-]?(\d[\d.e+-]*|INF|QNAN|NAN)")
MAGIC = {"RCP64H": lambda x: 1 / x, "RSQ64H": lambda x: 1 / np.sqrt(x)}
"""functions of the upper half of a double-precision number that return the upper half of the result"""
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "RCP": lambda x: 1 / x,
        "RSQ": lambda x: 1 / np.sqrt(x),
        "SQRT": np.sqrt,
        "EX2": np.exp2,
        "LG2": np.log2,
        "SIN": np.sin,
        "COS": np.cos,
        "TANH": np.tanh,
    }
)
RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
        "MAX": np.greater_equal,
        "MIN": np.less_equal,
        "NUM": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
        "NAN": lambda a, b: np.isnan(a) | np.isnan(b),
    }
)
EXTREMA = ("MAX", "MIN")
ROUNDED = MappingProxyType({"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "RN": np.rint})


# {{{ reading and writing


def _read(operand: Operand, registers: Registers, *, double: bool) -> Numbers:
    """Return the value of *operand* with its signs applied."""
    if operand.kind in ("name", "number"):
        text = operand.text.replace("QNAN", "NAN").strip()
        return (np.array([float(text)]), ALL) if NUMBER.fullmatch(operand.text.strip()) else (np.zeros(1), 0)
    if double:
        low, high = registers.read_pair(operand)
        low, high = (high if operand.suffix == ".H1" else low), high
        values = (low.unsigned | high.unsigned << 32).astype(np.uint64).view(np.float64)
        known = low.known & high.known
    else:
        lanes = registers.read(operand)
        values, known = lanes.floats, lanes.known
    values = np.abs(values) if operand.absolute else values
    return (-values if operand.negative else values), known


def _write(target: Operand, registers: Registers, numbers: Numbers, *, double: bool) -> None:
    values, known = numbers
    if double:
        whole = values.astype(np.float64).view(np.uint64)
        registers.write(target, Lanes((whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), known))
        registers.write(target, Lanes((whole >> np.uint64(32)).astype(np.uint32), known), beyond=1)
    else:
        registers.write(target, Lanes(values.astype(np.float32).view(np.uint32), known))


def _single(values: Any, modifiers: tuple[str, ...]) -> Any:
    """Round *values* to single precision as *modifiers* specify."""
    near = values.astype(np.float32)
    if "RM" in modifiers:
        near = np.where(near.astype(np.float64) > values, np.nextafter(near, np.float32(-np.inf)), near)
    if "RP" in modifiers:
        near = np.where(near.astype(np.float64) < values, np.nextafter(near, np.float32(np.inf)), near)
    return np.clip(near, 0, 1) if "SAT" in modifiers else near


# }}}


def arithmetic(combine: Callable[..., Any], *, double: bool) -> Operation:
    """Return an operation that writes the result of *combine* for its operands."""

    def do(instruction: Instruction, registers: Registers) -> None:
        target, *sources = (each for each in instruction.operands if each.kind != "predicate")
        read = [_read(each, registers, double=double) for each in sources]
        with np.errstate(all="ignore"):
            values = combine(*(numbers for numbers, _ in read))
            values = values if double else _single(values, instruction.modifiers)
        _write(target, registers, (values, reduce(int.__and__, (known for _, known in read))), double=double)

    return do


def extremum(*, double: bool) -> Operation:
    """Return FMNMX, DMNMX: the smaller of two where the predicate holds, else the larger."""

    def do(instruction: Instruction, registers: Registers) -> None:
        target, *sources = (each for each in instruction.operands if each.kind != "predicate")
        (left, known), (right, known_too) = (_read(each, registers, double=double) for each in sources)
        smaller = registers.truth(instruction.operands[-1])
        values = np.where(bits(smaller) == 1, np.fmin(left, right), np.fmax(left, right))
        _write(target, registers, (values, known & known_too & smaller.known), double=double)

    return do


def comparison(*, double: bool) -> Operation:
    """Return FSETP, DSETP: compare a with b and combine with a predicate; with U, true if a or b is NaN."""

    def do(instruction: Instruction, registers: Registers) -> None:
        first, second, left, right, combined_with = instruction.operands
        (a, known), (b, known_too) = (_read(each, registers, double=double) for each in (left, right))
        relation, *modifiers = instruction.modifiers
        unordered = relation.endswith("U") and relation not in RELATIONS
        holds = RELATIONS[relation.removesuffix("U") if unordered else relation](a, b)
        holds = holds | np.isnan(a) | np.isnan(b) if unordered else holds
        truth = Truth(lane_set(np.atleast_1d(holds)), known & known_too)
        table = TABLES[next(word for word in modifiers if word in TABLES)]
        # With MAX or MIN, the second result is whether b is NaN.
        is_extremum, no_number = relation in EXTREMA, Truth(lane_set(np.atleast_1d(np.isnan(b))), known_too)
        others = (truth, no_number if is_extremum else ~truth)
        results = [looked_up(table, each, registers.truth(combined_with), FALSE) for each in others]
        for predicate, result in zip((first, second), results, strict=True):
            registers.decide(predicate, result)

    return do


def check_division(instruction: Instruction, registers: Registers) -> None:
    """FCHK: whether a quotient needs the slow path; quotients of normal numbers do not."""
    target, left, right = instruction.operands[0], *instruction.operands[-2:]
    numbers = [_read(each, registers, double=False) for each in (left, right)]
    known = numbers[0][1] & numbers[1][1]
    normal = [(np.abs(each) > 1e-30) & (np.abs(each) < 1e30) for each, _ in numbers]
    registers.decide(target, Truth(ALL & ~lane_set(normal[0] & normal[1]), known) if known else UNSURE)


def special_function(instruction: Instruction, registers: Registers) -> None:
    """MUFU: a function in single precision, or the upper half of one in double precision."""
    target, source = instruction.operands
    name = instruction.modifiers[0]
    with np.errstate(all="ignore"):
        if name in MAGIC:
            numbers, known = _upper(source, registers)
            registers.write(target, of_integers(MAGIC[name](numbers).view(np.int64) >> 32, known))
        elif name in FUNCTIONS:
            values, known = _read(source, registers, double=False)
            _write(target, registers, (FUNCTIONS[name](values), known), double=False)
        else:
            registers.write(target, UNKNOWN)


def _upper(source: Operand, registers: Registers) -> Numbers:
    """Return the double-precision numbers whose upper halves are in *source*."""
    if source.kind in ("name", "number"):
        return _read(source, registers, double=True)
    upper = registers.read(source)
    values = (upper.unsigned << 32).astype(np.uint64).view(np.float64)
    return (-values if source.negative else values), upper.known


def convert(instruction: Instruction, registers: Registers) -> None:
    """F2F, FRND: convert to another precision, or round to an integer; unknown for half precision."""
    target, source = instruction.operands[0], instruction.operands[-1]
    words = instruction.modifiers
    double = [word == "F64" for word in words if word in ("F64", "F32", "F16")]
    if instruction.base == "FRND":
        double = [*double, *double] or [False, False]
    to, of = [*double, False, False][:2]
    values, known = _read(source, registers, double=of)
    known = 0 if "F16" in words else known
    rounding = next((word for word in words if word in ROUNDED), None)
    if instruction.base == "FRND":
        values = ROUNDED[rounding or "RN"](values)
    _write(target, registers, (values, known), double=to)


def from_integer(instruction: Instruction, registers: Registers) -> None:
    """I2F, I2FP: convert an integer of 32 or 64 bits to floating point."""
    target, source = instruction.operands
    words = instruction.modifiers
    if any(word in words for word in ("F16", "S16", "U16", "U8", "S8")):
        return registers.write(target, UNKNOWN)
    if any(word in words for word in ("U64", "S64")):
        exact, known = registers.pair(source)
    else:
        lanes = registers.read(source)
        exact, known = (lanes.unsigned if "U32" in words else lanes.signed), lanes.known
        exact = -exact if source.negative else exact
    if "F64" in words:
        return _write(target, registers, (exact.astype(np.float64), known), double=True)
    return _write(target, registers, (_single(exact.astype(np.float64), words), known), double=False)


def to_integer(instruction: Instruction, registers: Registers) -> None:
    """F2I: round to an integer: to nearest, toward zero, down or up; clip to the range of the type."""
    target, source = instruction.operands
    words = instruction.modifiers
    values, known = _read(source, registers, double="F64" in words)
    rounded = ROUNDED[next((word for word in words if word in ROUNDED), "RN")](np.nan_to_num(values))
    if any(word in words for word in ("U64", "S64")):
        low, high = (0, 2**63 - 1) if "U64" in words else (-(2**63), 2**63 - 1)
        clipped = np.array([int(min(max(int(value), low), high)) for value in rounded], dtype=np.int64)
        return registers.write_pair(target, clipped, known)
    low, high = (0, 2**32 - 1) if "U32" in words else (-(2**31), 2**31 - 1)
    return registers.write(target, of_integers(np.clip(rounded, low, high).astype(np.int64), known))


def select(instruction: Instruction, registers: Registers) -> None:
    """FSEL: the first number where the predicate holds, else the second."""
    target, *sources, predicate = instruction.operands
    (left, known), (right, known_too) = (_read(each, registers, double=False) for each in sources)
    truth = registers.truth(predicate)
    sure = (truth.certain & known) | (ALL & ~truth.true & truth.known & known_too)
    _write(target, registers, (np.where(bits(truth) == 1, left, right), sure), double=False)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **{
            f"{letter}{name}": arithmetic(combine, double=letter == "D")
            for letter in "FD"
            for name, combine in (
                ("ADD", lambda a, b: a + b),
                ("MUL", lambda a, b: a * b),
                ("FMA", lambda a, b, c: a * b + c),
            )
        },
        "FMNMX": extremum(double=False),
        "DMNMX": extremum(double=True),
        "FSETP": comparison(double=False),
        "DSETP": comparison(double=True),
        "FCHK": check_division,
        "MUFU": special_function,
        "F2F": convert,
        "FRND": convert,
        "I2F": from_integer,
        "I2FP": from_integer,
        "F2I": to_integer,
        "FSEL": select,
    }
)
"""by opcode"""
