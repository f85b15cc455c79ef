"""The disassembler's listing, read into functions of instructions with their addresses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .instruction import Instruction, operand

SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
LABEL = re.compile(r"([^\s/][^\s]*):$")
LINE = re.compile(
    r"\s*/\*(?P<address>[0-9a-f]+)\*/\s+(@(?P<guard>!?U?P\w)\s+)?(?P<opcode>[\w.]+)\s*(?P<operands>[^;]*);"
)
OUTSIDE_BRACKETS = re.compile(r",\s*(?![^\[]*\])")
BYTES = 16
"""of one instruction, on every device since Volta"""


@dataclass(frozen=True)
class Function:
    """A device function: its instructions by address, and the addresses that its labels stand for."""

    name: str
    instructions: dict[int, Instruction]
    labels: dict[str, int]

    def address(self, label: str) -> int:
        """Return the address of *label*; the function's own name is its beginning."""
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
    return Instruction(address, guard, match["opcode"], tuple(_operands(match["operands"])))


def _operands(text: str) -> Iterator[object]:
    for part in OUTSIDE_BRACKETS.split(text.strip()):
        # B0 of `B0, `(.L_x)` and the like stay names; a missing operand list is one empty part.
        if part.strip():
            yield operand(part.strip())
