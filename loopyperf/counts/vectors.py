"""Loops that run all at once, as vectors: inames tagged ``vec``."""

from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.data import VectorizeTag
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import WalkMapper, get_dependencies

from loopyperf.counts.memory import vector_axis
from loopyperf.kernel import Kernel

NOT_IN_VECTORS = (AssertionError, NotImplementedError, UnsupportedExpressionError, UnvectorizableError, ValueError)
"""what Loopy's checker raises, on purpose or not, where it sees no vector operation"""


class VectorLoop:
    """A loop that an instruction runs as one vector operation."""

    def __init__(self, kernel: Kernel, iname: str) -> None:
        """Take the loop over *iname*."""
        self.iname = iname
        length: Any = kernel.loopy_kernel.get_constant_iname_length(iname)
        self._is_vector = VectorizabilityChecker(kernel.loopy_kernel, iname, int(length))

    def is_vector(self, expression: Any) -> bool:
        """Return whether *expression* has a member for each pass of the loop, or is the same number for all."""
        try:
            return self._is_vector(expression)
        except NOT_IN_VECTORS:  # a call of a function, say, in a place where Loopy does not look
            return True

    def stores(self, assignment: Assignment) -> bool:
        """Return whether Loopy writes *assignment* as one operation; raises any of :data:`NOT_IN_VECTORS`.

        Loopy does not look at all operands, and may then write code that is none; here all are looked at.
        """
        stores, computes = self._is_vector(assignment.assignee), self._is_vector(assignment.expression)
        for leaf in DependencyMapper(include_subscripts=True)(assignment.expression):
            self._is_vector(leaf)
        return stores or not computes


def vector_loop(kernel: Kernel, instruction: InstructionBase) -> VectorLoop | None:
    """Return the loop that *instruction* runs as one vector operation; None if there is none.

    Loopy's code generator unrolls the loop where some array is not laid out in vectors along it, where its variable is
    used as a number or in a call, and where it does not always run to its end.
    """
    tagged = (name for name in instruction.within_inames if kernel.loopy_kernel.iname_tags_of_type(name, VectorizeTag))
    iname = next(tagged, None)
    if iname is None or not isinstance(instruction, MultiAssignmentBase) or instruction.predicates:
        return None
    try:
        loop = VectorLoop(kernel, iname)
        at_once = loop.stores(instruction) and _is_whole(kernel, instruction.within_inames, iname)
    except NOT_IN_VECTORS:
        return None
    return loop if at_once else None


def _is_whole(kernel: Kernel, inames: frozenset[str], iname: str) -> bool:
    """Return whether all of *iname* runs wherever the loops around it do."""
    points = kernel.domain(inames)
    kind, place = points.get_var_dict()[iname]
    box = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    alone = kernel.domain([iname])
    first, last = alone.dim_min_val(0), alone.dim_max_val(0)
    if not (first.is_int() and last.is_int()):
        return False
    box = box.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last)
    return box.is_subset(points)


class _VectorChecker(WalkMapper[[]]):
    """Looks for what keeps Loopy from running *iname* as a vector."""

    def __init__(self, kernel: Kernel, iname: str) -> None:
        super().__init__()
        self.kernel = kernel
        self.iname = iname
        self.possible = True

    def map_variable(self, expr: prim.Variable) -> None:
        self.possible &= expr.name != self.iname

    def map_subscript(self, expr: prim.Subscript) -> None:
        self.possible &= _is_member(self.kernel, expr, self.iname)

    def map_call(self, expr: prim.Call) -> None:
        self.possible = False

    def map_if(self, expr: prim.If) -> None:
        self.possible = False


def _is_member(kernel: Kernel, access: prim.Subscript, iname: str) -> bool:
    """Return whether *access* is of the member *iname* of a vector, or does not depend on *iname*."""
    using = [axis for axis, index in enumerate(access.index_tuple) if iname in get_dependencies(index)]
    if not using:
        return True
    variable: Any = kernel.loopy_kernel.get_var_descriptor(cast("prim.Variable", access.aggregate).name)
    return using == [vector_axis(variable)] and access.index_tuple[using[0]] == prim.Variable(iname)
