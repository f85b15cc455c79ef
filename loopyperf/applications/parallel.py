"""A default transformation of programs with sequential loops only, such as those of PyOP2 and meshmode's lazy path."""

from collections.abc import Iterator
from typing import Any, cast

import loopy as lp
from loopy.kernel.function_interface import CallableKernel
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.symbolic import DependencyMapper
from pymbolic.primitives import Subscript, Variable

from loopyperf.errors import LoopyperfError

LANES, ROWS = 32, 8
"""work-items of a group along the last and the last but one parallel loop of an assignment"""


class NotParallelError(LoopyperfError):
    """An instruction is in no loop that can run in parallel."""


def parallelized(program: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *program* with the parallel loops of each assignment over work-items, the last axis in adjacent lanes.

    A loop is parallel if each of its instructions stores into different elements in each iteration, and reads no other
    element of an array that the loop stores. Where a nest of loops needs results of another, a barrier across all
    groups separates two launches. Scalars are computed by one work-item.

    Parameters
    ----------
    program : loopy.TranslationUnit
        A program in which no loop has a tag.

    Returns
    -------
    loopy.TranslationUnit
        The program with tags ``g.0``, ``l.0`` and, for assignments with several parallel loops, ``g.1``, ``l.1``.

    Raises
    ------
    NotParallelError
        An instruction is in loops of which none is parallel, or sums into a scalar.

    Examples
    --------
    >>> import loopy as lp
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = 2*a[i, j]", name="doubled", lang_version=(2018, 2))
    >>> sorted(lpp.parallelized(knl)["doubled"].inames)
    ['i_inner', 'i_outer', 'j_inner', 'j_outer']
    """
    for name in program.entrypoints:
        function = program.callables_table[name]
        if isinstance(function, CallableKernel):
            program = program.with_kernel(_parallelized(function.subkernel))
    return program


def _parallelized(kernel: lp.LoopKernel) -> lp.LoopKernel:
    axes: dict[str, int] = {}  # loop -> 0 for adjacent lanes, 1 for rows
    for instruction in kernel.instructions:
        loops = [each for each in _loops_of_store(instruction) if _is_parallel(kernel, each)]
        if not loops and (instruction.within_inames or instruction.reduction_inames()):
            raise NotParallelError(
                f"instruction {instruction.id} of {kernel.name!r} is in no loop that can run in parallel"
            )
        for axis, iname in enumerate(loops[:-3:-1]):
            axes.setdefault(iname, axis)
    sizes = (LANES * ROWS,) if 1 not in axes.values() else (LANES, ROWS)
    for iname, axis in axes.items():
        kernel = lp.split_iname(kernel, iname, sizes[axis], outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return lp.set_options(kernel, insert_gbarriers=True)


def _loops_of_store(instruction: lp.InstructionBase) -> Iterator[str]:
    """Yield the loops of *instruction* that are an index of what it stores by themselves, in the order of the axes."""
    if isinstance(instruction, MultiAssignmentBase):
        for assignee in instruction.assignees:
            for index in assignee.index_tuple if isinstance(assignee, Subscript) else ():
                if isinstance(index, Variable) and index.name in instruction.within_inames:
                    yield index.name


def _is_parallel(kernel: lp.LoopKernel, iname: str) -> bool:
    """Return whether iterations of the loop *iname* neither store the same element nor read what others store."""
    inside = [each for each in kernel.instructions if iname in each.within_inames]
    if any(iname not in _loops_of_store(each) for each in inside):
        return False
    stored = {name for each in inside for name in each.assignee_var_names()}
    for instruction in inside:
        own = {str(each) for each in cast("Any", instruction).assignees}
        for access in _reads(instruction):
            if (
                str(access.aggregate) in stored
                and iname not in {str(each) for each in access.index_tuple}
                and str(access) not in own
            ):
                return False
    return True


def _reads(instruction: lp.InstructionBase) -> Iterator[Subscript]:
    find: Any = DependencyMapper(include_subscripts=True)
    read: Any = find(cast("Any", instruction).expression)
    yield from (each for each in read if isinstance(each, Subscript))
