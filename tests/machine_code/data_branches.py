"""Branches that depend on data, which nobody knows here: whoever runs the code says which way they go."""

from collections.abc import Callable, Mapping

from .instruction import Instruction
from .listing import BYTES, Function

Decision = Callable[[Function, Instruction], bool]
"""whether a branch is taken by all lanes that reach it"""
LOOK_AHEAD = 4
"""instructions between a branch around a call and that call: moves of the operands and of the return address"""


class UnknownBranchError(RuntimeError):
    """A branch depends on data, or on a value that the machine does not follow."""


def refuse(function: Function, branch: Instruction) -> bool:
    """Raise :class:`UnknownBranchError`."""
    raise UnknownBranchError(
        f"{function.name}: {branch} depends on data; pass decide=..., for instance data_branches.around_calls"
    )


def by_address(ways: Mapping[int, bool]) -> Decision:
    """Return what decides as *ways* say for the branch at an address, and refuses any other."""

    def decide(function: Function, branch: Instruction) -> bool:
        return ways[branch.address] if branch.address in ways else refuse(function, branch)

    return decide


def around_calls(function: Function, branch: Instruction) -> bool:
    """Decide for the way without a call.

    The compiler's divisions and square roots call a subroutine for the operands that are denormal, infinite or not a
    number, and branch around that call for all others.
    """
    ahead = _calls(function, branch.address + BYTES)
    there = _calls(function, function.address(branch.operands[-1].place))
    if ahead == there:
        return refuse(function, branch)
    return ahead


def usual(function: Function, branch: Instruction) -> bool:
    """Decide for the way without a call, or else without what a branch forward leaves out; no lane ends early.

    What libdevice's functions do for large arguments alone stands between such a branch and its target.
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
