"""Loops of machine code: the instructions that a warp issues in one iteration, without those of inner loops."""

from collections import Counter
from dataclasses import dataclass

from .instruction_counts import class_of
from .listing import Function
from .warp import Trail


@dataclass(frozen=True, slots=True)
class Loop:
    """The instructions from the target of a backward branch to that branch."""

    first: int
    """address of the target"""
    last: int
    """address of the branch"""
    passes: int
    """how often the warp, or a fragment of it, executed the first instruction"""
    own: Counter[str]
    """instructions issued in all iterations, by class, without those of inner loops"""

    def per_pass(self) -> dict[str, float]:
        """Return the instructions of one iteration by class."""
        return {name: count / self.passes for name, count in self.own.items()} if self.passes else {}


def loops(function: Function, trail: Trail) -> tuple[Loop, ...]:
    """Return the loops of *function* in address order, with the instructions that the warp of this *trail* issued.

    The compiler lays out a loop without gaps, so a loop is the code from the target of a backward branch to the branch.
    """
    ends: dict[int, int] = {}
    for address, instruction in function.instructions.items():
        if instruction.base == "BRA" and (target := function.address(instruction.operands[-1].place)) < address:
            ends[target] = max(address, ends.get(target, address))
    return tuple(
        Loop(first, last, trail.issued[first], _own(function, trail, first, last, ends))
        for first, last in sorted(ends.items())
    )


def _own(function: Function, trail: Trail, first: int, last: int, ends: dict[int, int]) -> Counter[str]:
    inner = [
        (begin, end) for begin, end in ends.items() if first <= begin and end <= last and (begin, end) != (first, last)
    ]
    own: Counter[str] = Counter()
    for address, times in trail.issued.items():
        if first <= address <= last and not any(begin <= address <= end for begin, end in inner):
            own[class_of(function.instructions[address])] += times
    return own
