"""What integer temporaries stand for in an index.

Where ``t = i + 3`` is the only definition of a register, ``a[t]`` is ``a[i + 3]``: which lanes access which elements
shows only in the latter. What is computed, and how often, is counted where it stands.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.symbolic import SubstitutionMapper, get_dependencies
from loopy.types import LoopyType

from loopyperf.counts.lanes import looks_up
from loopyperf.counts.memory import Reference
from loopyperf.kernel import Kernel


@dataclass(frozen=True, slots=True)
class _Definition:
    """The one value that a register is given."""

    value: Any
    place: int
    """among all instructions, in the order of the code"""
    inames: frozenset[str]


class Definitions:
    """The definitions of one kernel's integer registers."""

    def __init__(self, kernel: Kernel) -> None:
        """Read *kernel*."""
        self.kernel = kernel
        self._written_out: dict[tuple[Any, str], Any] = {}

    def written_out(self, ref: Reference, instruction: InstructionBase) -> Reference:
        """Return *ref*, a reference of *instruction*, with what registers stand for in its index."""
        if not self._of_registers:
            return ref
        return replace(ref, index=tuple(self._expression(index, instruction) for index in ref.index))

    def _expression(self, expression: Any, instruction: InstructionBase) -> Any:
        if not get_dependencies(expression) & self._of_registers.keys():
            return expression
        key = expression, instruction.id
        if key not in self._written_out:
            place, inames = self._places[instruction.id], frozenset[str](instruction.within_inames)
            self._written_out[key] = SubstitutionMapper(lambda leaf: self._value(leaf, place, inames))(expression)
        return self._written_out[key]

    def _value(self, leaf: Any, place: int, inames: frozenset[str]) -> Any:
        """Return what *leaf* stands for where it is used, None where that is not known."""
        definition = self._of_registers.get(leaf.name) if isinstance(leaf, prim.Variable) else None
        if definition is None or definition.place >= place or not definition.inames <= inames:
            return None
        value = SubstitutionMapper(lambda inner: self._value(inner, definition.place, definition.inames))(
            definition.value
        )
        return None if self._is_data_of_lanes(value) else value

    def _is_data_of_lanes(self, value: Any) -> bool:
        """Return whether lanes have data of their own in *value*: then its name says as much."""
        inames = self.kernel.loopy_kernel.all_inames()
        names = get_dependencies(value)
        return bool(names & self.kernel.lane_variables) or looks_up(value, self.kernel.lane_inames(names & inames))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        instructions = (insn for launch in self.kernel.launches for insn in launch.instructions)
        return {instruction.id: place for place, instruction in enumerate(instructions)}

    @cached_property
    def _of_registers(self) -> Mapping[str, _Definition]:
        """Return the definitions of integer registers that have one, which always applies."""
        instructions = [insn for launch in self.kernel.launches for insn in launch.instructions]
        written = Counter(name for instruction in instructions for name in instruction.assignee_var_names())
        return {
            instruction.assignee.name: _Definition(
                instruction.expression, place, frozenset[str](instruction.within_inames)
            )
            for place, instruction in enumerate(instructions)
            if isinstance(instruction, Assignment)
            and isinstance(instruction.assignee, prim.Variable)
            and not instruction.predicates
            and written[instruction.assignee.name] == 1
            and self._is_integer_register(instruction.assignee.name)
        }

    def _is_integer_register(self, name: str) -> bool:
        variable = self.kernel.loopy_kernel.temporary_variables.get(name)
        if variable is None or variable.address_space != AddressSpace.PRIVATE:
            return False
        return isinstance(variable.dtype, LoopyType) and variable.dtype.is_integral()
