"""Loops that run all at once, as vectors: inames tagged ``vec``."""

from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.data import VectorizeTag
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import WalkMapper, get_dependencies

from loopyperf.counts.memory import vector_axis
from loopyperf.kernel import Kernel


def vector_iname(kernel: Kernel, instruction: InstructionBase) -> str | None:
    """Return the loop that *instruction* runs as one vector operation; None if there is none.

    Like Loopy's code generator, which unrolls the loop where some array is not laid out in vectors along it.
    """
    tagged = (name for name in instruction.within_inames if kernel.loopy_kernel.iname_tags_of_type(name, VectorizeTag))
    iname = next(tagged, None)
    if iname is None or not isinstance(instruction, MultiAssignmentBase):
        return None
    return iname if all(_is_member(kernel, access, iname) for access in _accesses(instruction)) else None


def _accesses(instruction: MultiAssignmentBase) -> list[prim.Subscript]:
    finder = _SubscriptFinder()
    for expression in (instruction.expression, *instruction.assignees, *instruction.predicates):
        finder(expression)
    return finder.found


class _SubscriptFinder(WalkMapper[[]]):
    """Collects the subscripts in expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[prim.Subscript] = []

    def map_subscript(self, expr: prim.Subscript) -> None:
        self.found.append(expr)
        super().map_subscript(expr)


def _is_member(kernel: Kernel, access: prim.Subscript, iname: str) -> bool:
    """Return whether *access* is of the member *iname* of a vector, or does not depend on *iname*."""
    using = [axis for axis, index in enumerate(access.index_tuple) if iname in get_dependencies(index)]
    if not using:
        return True
    variable: Any = kernel.loopy_kernel.get_var_descriptor(cast("prim.Variable", access.aggregate).name)
    return using == [vector_axis(variable)] and access.index_tuple[using[0]] == prim.Variable(iname)
