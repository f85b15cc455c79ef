"""Parse the disassembler's listing into functions of instructions with addresses."""

import re
from dataclasses import dataclass

from .instruction import Instruction, operand

SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
LABEL = re.compile(r"([^\s/][^\s]*):$")
LINE = re.compile(
    r"\s*/\*(?P<address>[0-9a-f]+)\*/\s+(@(?P<guard>!?U?P\w)\s+)?(?P<opcode>[\w.]+)\s*(?P<operands>[^;]*);"
)
REMARK = re.compile(r'\(\*"?(.*?)"?\*\)')
BETWEEN_OPERANDS = re.compile(r"(?:,\s*|\s+(?=`))(?![^\[]*\])")
"""a comma outside brackets, or the space before a label"""
BYTES = 16
"""size of one instruction, on every device since Volta"""


@dataclass(frozen=True)
class Function:
    """A device function: its instructions by address, and the addresses that its labels stand for."""

    name: str
    instructions: dict[int, Instruction]
    labels: dict[str, int]

    def address(self, label: str) -> int:
        """Return the address of *label*; the function's own name has address 0."""
        return 0 if label == self.name else self.labels[label]


def functions(listing: str) -> dict[str, Function]:
    """Return the functions of nvdisasm's *listing* by name."""
    parts = re.split(r"^(?=\s*\.section\s)", listing, flags=re.MULTILINE)
    found = (_function(match[1], part) for part in parts if (match := SECTION.match(part)))
    return {function.name: function for function in found}


def _function(name: str, text: str) -> Function:
    instructions: dict[int, Instruction] = {}
    labels: dict[str, int] = {}
    pending: list[str] = []
    for line in text.splitlines():
        if match := LINE.match(line):
            address = int(match["address"], 16)
            labels |= dict.fromkeys(pending, address)
            pending.clear()
            instructions[address] = _instruction(address, match)
        elif match := LABEL.match(line.strip()):
            pending.append(match[1])
    return Function(name, instructions, labels)


def _instruction(address: int, match: re.Match[str]) -> Instruction:
    guard = operand(match["guard"]) if match["guard"] else None
    remark = REMARK.search(match["operands"])
    text = REMARK.sub("", match["operands"]).strip()
    operands = tuple(operand(part) for part in BETWEEN_OPERANDS.split(text) if part)
    return Instruction(address, guard, match["opcode"], operands, remark[1] if remark else "")
