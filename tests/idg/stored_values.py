"""Fingerprints of the values that a flat graph stores; compiler passes must not change them."""

from hashlib import sha1
from typing import Any

from loopyperf.idg import Idg, Instruction


def stored(flat: Idg) -> list[str]:
    """Return a fingerprint of the address and value of each store in program order.

    Stores to private memory and loads from it only pass a value on.
    """
    found: list[str] = []
    for place in range(len(flat.instructions)):
        found.append(_meaning(flat, place, found))
    stores = (each.kind == "store" and each.subsystem != "private" for each in flat.instructions)
    return [each for each, is_store in zip(found, stores, strict=True) if is_store]


def _meaning(flat: Idg, place: int, found: list[str]) -> str:
    instruction = flat.instructions[place]
    operands = list(_operands(flat, place, found))
    match instruction.kind:
        case "load" if instruction.subsystem == "private":
            return next((found[edge.source] for edge in flat.definitions[place]), _fingerprint("known", None))
        case "store" if instruction.subsystem == "private":
            return operands[0]
        case "move":
            return operands[0] if operands else _fingerprint("move")
        case "load" | "store" if instruction.reference is not None:
            value = operands[:1] if instruction.kind == "store" else []
            return _fingerprint(instruction.kind, instruction.reference.array, instruction.address, *value)
        case "fma":
            return _fingerprint("add", instruction.dtype, *sorted([_product(instruction, operands[:2]), operands[2]]))
        case "mul":
            return _product(instruction, operands)
        case "add":
            return _fingerprint("add", instruction.dtype, *sorted(operands))
        case _:
            return _fingerprint(instruction.kind, instruction.dtype, _function(instruction), *operands)


def _operands(flat: Idg, place: int, found: list[str]) -> Any:
    """Yield the fingerprint of each operand: of its known value, or of the instruction that computes it."""
    by_slot = {edge.operand: edge.source for edge in flat.definitions[place] if edge.operand is not None}
    for slot, each in enumerate(flat.instructions[place].operands):
        is_known = each.known is not None or slot not in by_slot
        value = _fingerprint("known", each.known) if is_known else found[by_slot[slot]]
        yield _negative(value) if each.is_negated else value


def _product(instruction: Instruction, factors: list[str]) -> str:
    """Return the fingerprint of a product, whose sign is the product of the signs of its factors."""
    product = _fingerprint("mul", instruction.dtype, *sorted(each.removeprefix("-") for each in factors))
    return _negative(product) if sum(each.startswith("-") for each in factors) % 2 else product


def _negative(value: str) -> str:
    return value.removeprefix("-") if value.startswith("-") else f"-{value}"


def _function(instruction: Instruction) -> str:
    return instruction.text.partition("(")[0] if instruction.kind == "special" else ""


def _fingerprint(*parts: Any) -> str:
    return sha1(repr([str(part) for part in parts]).encode()).hexdigest()
