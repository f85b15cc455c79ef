"""A SASS instruction and its operands, as NVIDIA's disassembler prints them."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["register", "predicate", "number", "constant", "memory", "label", "name"]

REGISTER = re.compile(r"(?P<file>UR|R)(?P<number>\d+|Z)(?P<suffix>(\.\w+)*)")
PREDICATE = re.compile(r"(?P<file>UP|P)(?P<number>\d|T)")
CONSTANT = re.compile(r"cx?\[(?P<bank>\w+)\]\[(?P<place>[^\]]+)\](?P<suffix>(\.\w+)*)")
ADDRESS = re.compile(r"(desc\[\w+\])?\[(?P<place>[^\]]*)\](?P<suffix>(\.\w+)*)")
LABEL = re.compile(r"`\((?P<label>[^)]+)\)")
ZERO_REGISTER = 255
"""the number given here to RZ and URZ, which read as zero"""
TRUE_PREDICATE = 7
"""the number given here to PT and UPT, which read as true"""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand, with the signs in front of it."""

    kind: Kind
    text: str
    place: str = ""
    """text in the brackets of a memory or constant operand; name of a label"""
    file: str = ""
    """``R``, ``UR``, ``P`` or ``UP``, for registers and predicates"""
    number: int = 0
    """of a register, predicate or constant bank; the value of an integer"""
    suffix: str = ""
    """modifiers of a register: ``.reuse``, ``.64``, ``.H1``"""
    negative: bool = False
    """``-R``, or ``!P``"""
    inverted: bool = False
    """``~R``"""
    absolute: bool = False
    """``|R|``"""


@dataclass(frozen=True)
class Instruction:
    """One instruction at its address in the function, in bytes."""

    address: int
    guard: Operand | None
    """predicate of the lanes that execute the instruction"""
    opcode: str
    """with its modifiers: ``IMAD.WIDE.U32``"""
    operands: tuple[Operand, ...]
    remark: str = ""
    """the disassembler's comment: ``SpillRefill``"""

    @cached_property
    def base(self) -> str:
        """Return the opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @cached_property
    def modifiers(self) -> tuple[str, ...]:
        """Return the modifiers of the opcode, without dots."""
        return tuple(self.opcode.split(".")[1:])

    def __str__(self) -> str:
        """Return the instruction as the disassembler prints it."""
        guard = "" if self.guard is None else f"@{self.guard.text} "
        return f"{self.address:#06x} {guard}{self.opcode} {', '.join(operand.text for operand in self.operands)}"


def operand(text: str) -> Operand:
    """Return the operand that is printed as *text*."""
    bare = text.strip()
    signs = {"negative": bare[:1] in ("-", "!"), "inverted": bare[:1] == "~"}
    if any(signs.values()):
        bare = bare[1:]
    if bare.startswith("|"):
        signs["absolute"] = True
        bare = bare[1:].replace("|", "", 1)
    if match := REGISTER.fullmatch(bare):
        number = ZERO_REGISTER if match["number"] == "Z" else int(match["number"])
        suffix = match["suffix"].replace(".reuse", "")
        return Operand("register", text, "", match["file"], number, suffix, **signs)
    if match := PREDICATE.fullmatch(bare):
        number = TRUE_PREDICATE if match["number"] == "T" else int(match["number"])
        return Operand("predicate", text, "", match["file"], number, **signs)
    if match := CONSTANT.fullmatch(bare):
        bank = int(match["bank"], 16) if match["bank"].startswith("0x") else -1
        return Operand("constant", text, match["place"], number=bank, suffix=match["suffix"], **signs)
    if match := ADDRESS.fullmatch(bare):
        return Operand("memory", text, match["place"])
    if match := LABEL.fullmatch(bare):
        return Operand("label", text, match["label"])
    if re.fullmatch(r"0x[0-9a-f]+|\d+", bare):
        value = int(bare, 0)
        return Operand("number", text, number=-value if signs["negative"] else value)
    return Operand("name", text)
