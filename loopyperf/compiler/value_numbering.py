"""Common subexpressions: instructions of one straight piece of code that compute the same are one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import STAYING, Edge, Instruction, Item, Loop, Opcode
from loopyperf.idg.rewriting import rewritten
from loopyperf.polyhedral.affine import Affine

COMMUTATIVE = (Opcode.ADD, Opcode.MUL, Opcode.MIN_MAX)


def without_common_subexpressions(graph: Idg) -> Idg:
    """Return *graph* with what is computed or loaded once more in the same pass computed once.

    A value loaded from memory is loaded again after a store to its array, and from local memory after a barrier.
    """
    return _Merger(graph).merged()


@dataclass(frozen=True, slots=True)
class _Known:
    """What was computed before."""

    place: int
    tests: frozenset[str]
    condition: str
    """on the passes of the loops around it; ``"None"`` where it is in all of them"""
    barrier: int | None
    """the latest one before it"""

    def reaches(self, later: "_Known") -> bool:
        """Return whether it was computed wherever *later* is.

        Where the test of both is one, since no barrier is between, both are behind it; no value goes from what is
        behind one test to what is behind the next.
        """
        if self.condition not in ("None", later.condition):
            return False
        return not self.tests or (self.tests <= later.tests and self.barrier == later.barrier)


class _Merger:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.same = list(range(len(graph.instructions)))
        """of each instruction: the first one that computes the same"""
        self.stored = {
            each.reference.array
            for each in graph.instructions
            if each.kind == Opcode.STORE and each.reference is not None
        }

    def merged(self) -> Idg:
        self._merge(self.graph.body)
        kept = [place for place, first in enumerate(self.same) if place == first]
        edges = [edge.between(self.same[edge.source], edge.target) for edge in self.graph.edges]
        return rewritten(self.graph, kept, [edge for edge in edges if self.same[edge.target] == edge.target])

    def _merge(self, body: Sequence[Item]) -> None:
        found: dict[Any, list[_Known]] = {}
        versions: dict[str, int] = {}
        for item in body:
            if isinstance(item, Loop):
                self._merge(item.body)
                found = {}  # what is in registers before a loop may not be there after it
                continue
            instruction = self.graph.instructions[item]
            if instruction.kind == Opcode.BARRIER:
                versions[""] = item
            elif instruction.kind == Opcode.STORE and instruction.reference is not None:
                versions[instruction.reference.array] = item
            elif (key := self._key(item, instruction, versions)) is not None:
                own = _Known(item, instruction.tests, str(instruction.condition), versions.get(""))
                known = found.setdefault(key, [])
                self.same[item] = next((each.place for each in known if each.reaches(own)), item)
                # What no lane computes is there for nobody else.
                if self.same[item] == item and not instruction.is_idle:
                    known.append(own)

    def _key(self, place: int, instruction: Instruction, versions: dict[str, int]) -> Any:
        """Return what tells apart what is computed; None for what is never merged."""
        if instruction.kind in STAYING or instruction.is_stated:
            return None
        what = (instruction.kind, instruction.dtype, instruction.part)
        if instruction.kind == Opcode.LOAD:
            if instruction.reference is None or instruction.is_volatile:
                return None
            ref = instruction.reference
            barrier = versions.get("") if ref.space == MemorySpace.LOCAL or ref.array in self.stored else None
            where = self._where(place, instruction)
            return (*what, ref.array, ref.bits, where, versions.get(ref.array), barrier)
        operands = tuple(self._operand(place, slot) for slot in range(len(instruction.operands)))
        rest = frozenset(map(self._definition, (e for e in self.graph.definitions[place] if e.operand is None)))
        function = instruction.text.partition("(")[0] if instruction.kind == Opcode.SPECIAL else ""
        in_any_order = frozenset(Counter(operands).items()) if instruction.kind in COMMUTATIVE else operands
        return (*what, function, in_any_order, rest)

    def _where(self, place: int, instruction: Instruction) -> Any:
        """Return which element a load is of: its address in terms of the hardware, or the data that tell it."""
        if instruction.address is None:
            return tuple(self._operand(place, slot) for slot in range(len(instruction.operands)))
        known = instruction.symbolic
        return instruction.address if known is None else known

    def _operand(self, place: int, slot: int) -> Any:
        """Return what tells apart an operand: what is known of it, and where it comes from."""
        each = self.graph.instructions[place].operands[slot]
        before = (edge for edge in self.graph.definitions[place] if edge.operand == slot)
        return _canonical(each.known), each.is_negated, frozenset(map(self._definition, before))

    def _definition(self, edge: Edge) -> Any:
        return self.same[edge.source], edge.passes, edge.condition


def _canonical(expression: Any) -> Any:
    """Return *expression* written in one way, whatever the order of its terms."""
    known = Affine.of(expression) if isinstance(expression, prim.ExpressionNode) else None
    return str(expression) if known is None else known
