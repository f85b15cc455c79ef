"""Semantics of integer instructions: sums with carries, products, shifts, bitwise logic, selection."""

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np

from .instruction import Instruction, Operand
from .lanes import ALL, Lanes, Truth, lane_set, of_integers
from .registers import Registers

Operation = Callable[[Instruction, Registers], None]


def split(instruction: Instruction) -> tuple[Operand, list[Operand], list[Operand], list[Operand]]:
    """Return destination, written predicates, sources and read predicates of an integer operation.

    The disassembler prints them in this order: ``IADD3.X R15, P2, RZ, R15, RZ, P1, !PT``.
    """
    destination, *rest = instruction.operands
    kinds = [operand.kind == "predicate" for operand in rest]
    first = kinds.index(False)
    last = len(kinds) - kinds[::-1].index(False)
    return destination, rest[:first], rest[first:last], rest[last:]


# {{{ sums


def add(instruction: Instruction, registers: Registers) -> None:
    """IADD3, VIADD: the sum of up to three values; carries are written to predicates; .X adds carries."""
    destination, carried, sources, carries = split(instruction)
    extended = "X" in instruction.modifiers
    total, known = np.zeros(1, dtype=np.int64), ALL
    for source in sources:
        values, known_here = registers.integer(source)
        # In an extended sum, negation is the bitwise complement; the carry supplies the missing 1.
        total, known = total + (values - 1 if extended and source.negative else values), known & known_here
    total, known = _with_carries(registers, carries if extended else [], total, known)
    registers.write(destination, of_integers(total, known))
    for position, predicate in enumerate(carried):
        registers.decide(predicate, Truth(lane_set(total >> 32 > position), known))


def _with_carries(
    registers: Registers, carries: list[Operand], total: np.ndarray, known: int
) -> tuple[np.ndarray, int]:
    for carry in carries:
        truth = registers.truth(carry)
        total, known = total + bits(truth), known & truth.known
    return total, known


def bits(truth: Truth) -> np.ndarray:
    """Return 1 in the lanes where *truth* holds and 0 elsewhere."""
    return np.array([truth.true >> lane & 1 for lane in range(32)], dtype=np.int64)


def scaled_add(instruction: Instruction, registers: Registers) -> None:
    """LEA: (a << s) + b; .HI takes the upper half of the shifted 64-bit c:a, with .SX32 of the sign-extended a."""
    destination, carried, sources, carries = split(instruction)
    modifiers = instruction.modifiers
    known = ALL
    (first, known_first), (second, known_second) = (registers.integer(source) for source in sources[:2])
    shift = sources[-1].number
    first = first & 0xFFFFFFFF
    if "HI" in modifiers and "SX32" in modifiers:
        first = _as_signed(first)
    elif "HI" in modifiers:
        upper, known_upper = registers.integer(sources[2])
        first, known = first | _as_signed(upper) << 32, known_upper
    shifted = first << shift
    part = shifted >> 32 & 0xFFFFFFFF if "HI" in modifiers else shifted & 0xFFFFFFFF
    known &= known_first & known_second
    total, known = _with_carries(registers, carries if "X" in modifiers else [], part + second, known)
    registers.write(destination, of_integers(total, known))
    for predicate in carried:
        registers.decide(predicate, Truth(lane_set(total >> 32 > 0), known))


def _as_signed(values: np.ndarray) -> np.ndarray:
    return (values & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def absolute(instruction: Instruction, registers: Registers) -> None:
    """IABS: the absolute value."""
    destination, source = instruction.operands
    lanes = registers.read(source)
    registers.write(destination, of_integers(np.abs(lanes.signed), lanes.known))


def extremum_of_sum(instruction: Instruction, registers: Registers) -> None:
    """VIADDMNMX: the smaller of a + b and c where the predicate holds, else the larger."""
    destination, _, sources, (smaller,) = split(instruction)
    signed = "U32" not in instruction.modifiers
    (one, known), (two, known_too) = (registers.signed(source) for source in sources[:2])
    total = of_integers(one + two, known & known_too)
    limit, sure = _number(registers, sources[2], signed=signed)
    left = total.signed if signed else total.unsigned
    truth = registers.truth(smaller)
    chosen = np.where(bits(truth) == 1, np.minimum(left, limit), np.maximum(left, limit))
    registers.write(destination, of_integers(chosen, total.known & sure & truth.known))


def extremum(instruction: Instruction, registers: Registers) -> None:
    """IMNMX, VIMNMX: the smaller of two values where the predicate holds, else the larger."""
    destination, _, sources, (smaller,) = split(instruction)
    signed = not instruction.modifiers
    left, right = (_number(registers, source, signed=signed) for source in sources)
    truth = registers.truth(smaller)
    chosen = np.where(bits(truth) == 1, np.minimum(left[0], right[0]), np.maximum(left[0], right[0]))
    registers.write(destination, of_integers(chosen, left[1] & right[1] & truth.known))


# }}}

# {{{ products


def multiply_add(instruction: Instruction, registers: Registers) -> None:
    """IMAD: the lower half of a·b + c, with .HI the upper half, with .WIDE both; .MOV, .SHL, .IADD are only hints."""
    destination, carried, sources, carries = split(instruction)
    modifiers = instruction.modifiers
    signed = "U32" not in modifiers
    factors = [_number(registers, source, signed=signed) for source in sources[:2]]
    wide = "WIDE" in modifiers or "HI" in modifiers
    addend, known = registers.pair(sources[2]) if wide else registers.integer(sources[2])
    # Python's integers do not overflow; NumPy's wrap at 64 bits, as a pair of registers does.
    with np.errstate(over="ignore"):
        total = factors[0][0] * factors[1][0] + addend
    beyond = [
        int(a) * int(b) + (int(c) & 2**64 - 1) >> 64 for a, b, c in np.broadcast(factors[0][0], factors[1][0], addend)
    ]
    known = reduce(int.__and__, (factor[1] for factor in factors), known)
    total, known = _with_carries(registers, carries if "X" in modifiers else [], total, known)
    if "WIDE" in modifiers:
        registers.write_pair(destination, total, known)
    elif "HI" in modifiers:
        registers.write(destination, of_integers(total >> 32, known))
    else:
        registers.write(destination, of_integers(total, known))
    for predicate in carried:
        is_carried = np.array(beyond) > 0
        registers.decide(predicate, Truth(lane_set(is_carried), known if wide and not signed else 0))


def _number(registers: Registers, source: Operand, *, signed: bool) -> tuple[np.ndarray, int]:
    if signed:
        return registers.signed(source)
    values, known = registers.integer(source)
    return values & 0xFFFFFFFF, known


# }}}

# {{{ bits


def shift(instruction: Instruction, registers: Registers) -> None:
    """SHF: the lower half of the shifted 64-bit value c:a, with .HI the upper half; one operand may be absent (RZ)."""
    destination, _, (low, amount, high), _ = split(instruction)
    lows, known_low = registers.integer(low)
    highs, known_high = registers.integer(high)
    amounts, known = registers.integer(amount)
    modifiers = instruction.modifiers
    wide = any(kind in modifiers for kind in ("U64", "S64"))
    limit = 63 if wide or "R" in modifiers else 32
    amounts = amounts & (63 if wide else 31) if "W" in modifiers else np.minimum(amounts, limit)
    signed = any(kind in modifiers for kind in ("S32", "S64"))
    if "L" in modifiers:
        value = (lows | highs << 32) << amounts
        needed = known_low & (known_high if "HI" in modifiers else ALL)
    else:
        value = lows | (_as_signed(highs) << 32 if signed else highs << 32)
        value = value >> amounts if signed else (value.view(np.uint64) >> amounts.view(np.uint64)).view(np.int64)
        needed = known_high & (ALL if "HI" in modifiers else known_low)
    value = value >> 32 if "HI" in modifiers else value
    registers.write(destination, of_integers(value, known & needed))


def logic(instruction: Instruction, registers: Registers) -> None:
    """LOP3: any bitwise function of three values, given as a table; a predicate tells whether the result is nonzero."""
    operands = list(instruction.operands)
    nonzero = operands.pop(0) if operands[0].kind == "predicate" else None
    destination, *sources, table, _ = operands
    read = [registers.integer(source) for source in sources]
    result = np.zeros(1, dtype=np.int64)
    for entry in range(8):
        if table.number >> entry & 1:
            term = np.full(1, 0xFFFFFFFF, dtype=np.int64)
            for (values, _), bit in zip(read, (entry & 4, entry & 2, entry & 1), strict=True):
                term = term & (values if bit else ~values)
            result = result | term
    known = reduce(int.__and__, (known for _, known in read))
    registers.write(destination, of_integers(result, known))
    if nonzero is not None:
        registers.decide(nonzero, Truth(lane_set(result & 0xFFFFFFFF != 0), known))


def permute(instruction: Instruction, registers: Registers) -> None:
    """PRMT: four bytes selected from two values; a selector with its highest bit set replicates the byte's sign."""
    destination, _, (low, selector, high), _ = split(instruction)
    (lows, known_low), (picks, known), (highs, known_high) = map(registers.integer, (low, selector, high))
    octets = lows | highs << 32
    result = np.zeros(1, dtype=np.int64)
    for place in range(4):
        pick = picks >> 4 * place & 0xF
        octet = octets >> 8 * (pick & 7) & 0xFF
        octet = np.where(pick & 8, np.where(octet & 0x80, 0xFF, 0), octet)
        result = result | octet << 8 * place
    registers.write(destination, of_integers(result, known & known_low & known_high))


def count_bits(instruction: Instruction, registers: Registers) -> None:
    """POPC: the number of set bits."""
    destination, _, (source,), _ = split(instruction)
    values, known = registers.integer(source)
    registers.write(destination, of_integers(np.bitwise_count(values & 0xFFFFFFFF).astype(np.int64), known))


def highest_bit(instruction: Instruction, registers: Registers) -> None:
    """FLO: the position of the highest set bit, -1 if there is none; .SH counts from the other end."""
    destination, _, (source,), _ = split(instruction)
    values, known = registers.integer(source)
    places = np.array([int(value & 0xFFFFFFFF).bit_length() - 1 for value in np.atleast_1d(values)], dtype=np.int64)
    places = np.where(places >= 0, 31 - places, places) if "SH" in instruction.modifiers else places
    registers.write(destination, of_integers(places, known))


def reverse(instruction: Instruction, registers: Registers) -> None:
    """BREV: the bits in the opposite order."""
    destination, source = instruction.operands
    values, known = registers.integer(source)
    turned = [int(f"{int(value) & 0xFFFFFFFF:032b}"[::-1], 2) for value in np.atleast_1d(values)]
    registers.write(destination, of_integers(np.array(turned, dtype=np.int64), known))


# }}}

# {{{ selection and moves


def select(instruction: Instruction, registers: Registers) -> None:
    """SEL: the first value where the predicate holds, else the second."""
    destination, first, second, predicate = instruction.operands
    truth = registers.truth(predicate)
    left, right = registers.integer(first), registers.integer(second)
    known = (truth.certain & left[1]) | (ALL & ~truth.true & truth.known & right[1])
    registers.write(destination, of_integers(np.where(bits(truth) == 1, left[0], right[0]), known))


def move(instruction: Instruction, registers: Registers) -> None:
    """MOV: the same value."""
    destination, source = instruction.operands[:2]
    values, known = registers.integer(source)
    registers.write(destination, of_integers(values, known))


def to_uniform(instruction: Instruction, registers: Registers) -> None:
    """R2UR: the value of the first active lane, for all lanes."""
    destination, _, (source, *_), _ = split(instruction)
    lanes = registers.read(source)
    if not registers.active:
        return
    first = (registers.active & -registers.active).bit_length() - 1
    value = lanes.values[first if lanes.values.size > 1 else 0]
    known = ALL if lanes.known >> first & 1 else 0
    registers.write(destination, Lanes(np.array([value], dtype=np.uint32), known))


# }}}


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "IADD3": add,
        "VIADD": add,
        "IADD": add,
        "LEA": scaled_add,
        "IABS": absolute,
        "IMNMX": extremum,
        "VIMNMX": extremum,
        "VIADDMNMX": extremum_of_sum,
        "IMAD": multiply_add,
        "SHF": shift,
        "LOP3": logic,
        "PRMT": permute,
        "POPC": count_bits,
        "FLO": highest_bit,
        "BREV": reverse,
        "SEL": select,
        "MOV": move,
        "R2UR": to_uniform,
    }
)
"""by opcode; opcodes of the uniform datapath have the prefix U and the same semantics"""
