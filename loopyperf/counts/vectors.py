"""Loops that run all at once, as vectors: inames tagged ``vec``."""

from typing import Any

import islpy as isl
from loopy.codegen import UnvectorizableError
from loopy.expression import VectorizabilityChecker
from loopy.kernel.data import VectorizeTag
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.symbolic import DependencyMapper
from pymbolic.mapper import UnsupportedExpressionError

from loopyperf.kernel import Kernel

NOT_IN_VECTORS = (AssertionError, NotImplementedError, UnsupportedExpressionError, UnvectorizableError, ValueError)
"""what Loopy's checker raises, on purpose or not, where it sees no vector operation"""


class VectorLoop:
    """A loop that an instruction runs as one vector operation."""

    def __init__(self, kernel: Kernel, iname: str) -> None:
        """Take the loop over *iname*."""
        self.iname = iname
        length: Any = kernel.loopy_kernel.get_constant_iname_length(iname)
        self.length = int(length)
        """members of the vectors"""
        self._is_vector = VectorizabilityChecker(kernel.loopy_kernel, iname, self.length)

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

    Loopy's code generator unrolls the loop where it cannot compute in vectors, and where some passes are left out.
    """
    tagged = (name for name in instruction.within_inames if kernel.loopy_kernel.iname_tags_of_type(name, VectorizeTag))
    iname = next(tagged, None)
    if iname is None or not isinstance(instruction, Assignment) or instruction.atomicity:
        return None
    try:
        loop = VectorLoop(kernel, iname)
        at_once = loop.stores(instruction) and _is_whole(kernel, instruction.within_inames, iname)
    except NOT_IN_VECTORS:
        return None
    return loop if at_once else None


def _is_whole(kernel: Kernel, inames: frozenset[str], iname: str) -> bool:
    """Return whether each run of the loop over *iname* makes all of its passes.

    In slabs, all but the last do; what the last one does member by member is taken as done in vectors.
    """
    if any(any(slabs) for slabs in kernel.loopy_kernel.iname_slab_increments.values()):
        return True
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    points = kernel.domain(inames).intersect_params(assumed)
    kind, place = points.get_var_dict()[iname]
    anywhere = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    first, last = points.dim_min_val(place), points.dim_max_val(place)
    return points.is_equal(anywhere.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last))
