"""What the integer temporaries of a kernel stand for.

Where ``t = i + 3`` is all that a temporary ever is, ``a[t]`` is ``a[i + 3]``, and a loop up to ``t`` one up to
``i + 3``: which lanes access which elements, and how often something runs, shows only in the latter. What computes the
temporary is counted where it stands.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel import LoopKernel
from loopy.kernel.data import AddressSpace
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.symbolic import SubstitutionMapper, TypeCast, WalkMapper, get_dependencies
from loopy.types import LoopyType


def values_of_temporaries(kernel: LoopKernel, instructions: Sequence[InstructionBase]) -> dict[str, Any]:
    """Return temporary -> its value, without other temporaries in it; *instructions* are in the order of the code.

    A temporary has one value if there is one definition, on no condition, and all that uses it comes later in the same
    loops.
    """
    written = Counter(name for instruction in instructions for name in instruction.assignee_var_names())
    values: dict[str, Any] = {}
    for place, instruction in enumerate(instructions):
        name = _defined(kernel, instruction)
        if name is not None and written[name] == 1 and _is_used_later(kernel, name, instructions, place):
            values[name] = substituted(instruction.expression, values)
    return values


def substituted(expression: Any, values: Mapping[str, Any]) -> Any:
    """Return *expression* with *values* in place of their names."""
    if values.keys().isdisjoint(get_dependencies(expression)):
        return expression
    return SubstitutionMapper(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)(
        expression
    )


def _defined(kernel: LoopKernel, instruction: InstructionBase) -> str | None:
    """Return the integer temporary that *instruction* defines, if it does so by integers and on no condition."""
    if not isinstance(instruction, Assignment) or instruction.predicates:
        return None
    name = instruction.assignee.name if isinstance(instruction.assignee, prim.Variable) else ""
    variable = kernel.temporary_variables.get(name)
    if variable is None or variable.address_space != AddressSpace.PRIVATE:
        return None
    is_integer = isinstance(variable.dtype, LoopyType) and variable.dtype.is_integral()
    return name if is_integer and _of_integers(instruction.expression) else None


def _of_integers(expression: Any) -> bool:
    """Return whether nothing in *expression* is rounded when it becomes an integer, as far as its operations tell."""
    finder = _Rounded()
    finder(expression)
    return not finder.found


class _Rounded(WalkMapper[[]]):
    """Finds numbers and operations whose results are not integers."""

    found = False

    def map_constant(self, expr: Any) -> None:
        self.found |= not isinstance(expr, (int, np.integer))

    def visit(self, expr: Any) -> bool:
        self.found |= isinstance(expr, (prim.Quotient, prim.Power, TypeCast))
        return not self.found


def _is_used_later(kernel: LoopKernel, name: str, instructions: Sequence[InstructionBase], place: int) -> bool:
    inames = frozenset[str](instructions[place].within_inames)
    users = list(_users(kernel, name, instructions))
    return min(users, default=place + 1) > place and all(inames <= instructions[user].within_inames for user in users)


def _users(kernel: LoopKernel, name: str, instructions: Sequence[InstructionBase]) -> Iterator[int]:
    """Yield the places of instructions that read *name*, or are in loops that it bounds."""
    homes = [domain for domain in kernel.domains if name in domain.get_var_dict(isl.dim_type.param)]
    bounded = frozenset[str]().union(*(home.get_var_names_not_none(isl.dim_type.set) for home in homes))
    for place, instruction in enumerate(instructions):
        if name in instruction.read_dependency_names() or bounded & instruction.within_inames:
            yield place
