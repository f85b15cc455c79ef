"""Semantics of instructions on predicates: integer comparisons, logic, votes."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from .instruction import TRUE_PREDICATE, Instruction, Operand, operand
from .integer import Operation, bits
from .lanes import ALL, FALSE, TRUE, UNKNOWN, UNSURE, Truth, lane_set, looked_up, of_integers
from .registers import Registers

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge}
)
TABLES = MappingProxyType({"AND": 0b11000000, "OR": 0b11111100, "XOR": 0b00111100})
"""lookup tables over the first two of three inputs"""


def compare(instruction: Instruction, registers: Registers) -> None:
    """ISETP: compare a with b and combine the result with a predicate; .EX extends a comparison of the lower halves."""
    modifiers = instruction.modifiers
    if modifiers[0] in ("T", "F"):
        holds, rest = (TRUE if modifiers[0] == "T" else FALSE), instruction.operands[4:]
    else:
        holds, rest = _compared(instruction, registers), instruction.operands[4:]
    combined_with = registers.truth(rest[0])
    table = TABLES[next(word for word in modifiers if word in TABLES)]
    first, second = instruction.operands[:2]
    results = [looked_up(table, truth, combined_with, FALSE) for truth in (holds, ~holds)]
    for predicate, result in zip((first, second), results, strict=True):
        registers.decide(predicate, result)


def _compared(instruction: Instruction, registers: Registers) -> Truth:
    relation, *modifiers = instruction.modifiers
    lanes = [registers.read(source) for source in instruction.operands[2:4]]
    left, right = (each.unsigned if "U32" in modifiers else each.signed for each in lanes)
    known = lanes[0].known & lanes[1].known
    if "EX" not in modifiers:
        return Truth(lane_set(COMPARISONS[relation](left, right)), known)
    lower = registers.truth(instruction.operands[5])
    equal, differs = lane_set(left == right), lane_set(COMPARISONS[relation](left, right) & (left != right))
    holds = differs | (equal & lower.true)
    return Truth(holds, known & (lower.known | (ALL & ~equal)))


def compare_data(instruction: Instruction, registers: Registers) -> None:
    """HSETP2: the result is unknown, because values of half precision are not tracked."""
    for predicate in instruction.operands[:2]:
        if predicate.kind == "predicate":
            registers.decide(predicate, UNSURE)


def logic(instruction: Instruction, registers: Registers) -> None:
    """PLOP3: look up a function of three predicates in a table, for each of two destination predicates."""
    first, second, *inputs, table, other_table = instruction.operands
    truths = [registers.truth(predicate) for predicate in inputs]
    for predicate, numbers in (first, table), (second, other_table):
        registers.decide(predicate, looked_up(numbers.number, *truths))


def vote(instruction: Instruction, registers: Registers) -> None:
    """VOTE: whether a predicate holds in all or any of the active lanes, and in which."""
    ballots = [each for each in instruction.operands if each.kind == "register"]
    *decided, condition = (each for each in instruction.operands if each.kind == "predicate")
    truth = registers.truth(condition)
    voters = registers.active
    sure = truth.known & voters == voters and registers.certain == voters
    holds = truth.true & voters == voters if "ALL" in instruction.modifiers else bool(truth.true & voters)
    for predicate in decided:
        registers.decide(predicate, (TRUE if holds else FALSE) if sure else UNSURE)
    for register in ballots:
        value = of_integers(np.array([truth.true & voters], dtype=np.int64), ALL) if sure else UNKNOWN
        registers.write(register, value)


def pack(instruction: Instruction, registers: Registers) -> None:
    """P2R: write the predicates of a mask to bits of a register; the other bits come from another value."""
    destination, _, source, mask = instruction.operands
    values, known = registers.integer(source)
    values = values & ~mask.number
    for number in _numbers(instruction, mask):
        truth = registers.truth(_predicate(number))
        values = values | bits(truth) << number
        known &= truth.known
    registers.write(destination, of_integers(values, known))


def unpack(instruction: Instruction, registers: Registers) -> None:
    """R2P: write the masked bits of a register to predicates."""
    _, source, mask = instruction.operands
    values, known = registers.integer(source)
    for number in _numbers(instruction, mask):
        registers.decide(_predicate(number), Truth(lane_set(values >> number & 1 == 1), known))


def _numbers(instruction: Instruction, mask: Operand) -> list[int]:
    if instruction.modifiers:
        raise NotImplementedError(f"{instruction}: only the lowest byte is known; add it to tests/machine_code")
    return [number for number in range(TRUE_PREDICATE) if mask.number >> number & 1]


def _predicate(number: int) -> Operand:
    return operand(f"P{number}")


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {"ISETP": compare, "HSETP2": compare_data, "PLOP3": logic, "VOTE": vote, "P2R": pack, "R2P": unpack}
)
"""by opcode; opcodes of the uniform datapath have the prefix U and the same semantics"""
