"""Decisions for branches that depend on data, which the simulated machine does not know."""

from collections.abc import Callable, Mapping

from .instruction import Instruction
from .listing import BYTES, Function

Decision = Callable[[Function, Instruction], bool]
"""whether all lanes that reach a branch take it"""
LOOK_AHEAD = 4
"""instructions searched for a call after a branch; those before the call move operands and the return address"""


class UnknownBranchError(RuntimeError):
    """A branch depends on data, or on a value that the simulated machine does not track."""


def refuse(function: Function, branch: Instruction) -> bool:
    """Raise :class:`UnknownBranchError`."""
    raise UnknownBranchError(
        f"{function.name}: {branch} depends on data; pass decide=..., for instance data_branches.around_calls"
    )


def by_address(ways: Mapping[int, bool]) -> Decision:
    """Return a decision that takes branches as *ways* specifies by address, and refuses all others."""

    def decide(function: Function, branch: Instruction) -> bool:
        return ways[branch.address] if branch.address in ways else refuse(function, branch)

    return decide


def around_calls(function: Function, branch: Instruction) -> bool:
    """Choose the path without a call.

    The compiler's divisions and square roots call a subroutine for operands that are denormal, infinite or not a
    number,
    and branch around that call for all others.
    """
    ahead = _calls(function, branch.address + BYTES)
    there = _calls(function, function.address(branch.operands[-1].place))
    if ahead == there:
        return refuse(function, branch)
    return ahead


def usual(function: Function, branch: Instruction) -> bool:
    """Choose the path without a call; if neither path has one, take a forward branch; no lane exits early.

    The code that such a branch skips is that of libdevice's functions for large arguments only.
    """
    if branch.base == "EXIT":
        return False
    try:
        return around_calls(function, branch)
    except UnknownBranchError:
        if function.address(branch.operands[-1].place) <= branch.address:
            raise
        return True


def _calls(function: Function, address: int) -> bool:
    following = (function.instructions.get(address + BYTES * step) for step in range(LOOK_AHEAD))
    for instruction in following:
        if instruction is None or instruction.base in ("BRA", "BSYNC", "EXIT", "RET"):
            return False
        if instruction.base == "CALL":
            return True
    return False
