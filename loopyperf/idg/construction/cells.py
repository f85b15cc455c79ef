"""The cells that a warp's instructions read and write: private variables, arrays in memory, what barriers hand on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic import evaluate
from pymbolic.mapper.substitutor import SubstitutionMapper

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.construction.cell_access import CellAccess
from loopyperf.idg.construction.dataflow import is_affine
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.values import Read
from loopyperf.idg.program import Opcode
from loopyperf.idg.warps.nest import Nest
from loopyperf.polyhedral.affine import Affine

HANDED_ON = "what the barriers hand on"
STORED = "what is stored between barriers"
Index = tuple[Any, ...]


class Cells:
    """The accesses of cells by the instructions that a warp executes."""

    def __init__(self, executed: Executed) -> None:
        """Look at what is *executed*."""
        self.executed, self.program = executed, executed.program
        self._indices: dict[tuple[Index, tuple[Nest, ...]], tuple[Index | None, tuple[Affine[str], ...] | None]] = {}

    def accesses(self) -> Iterator[CellAccess]:
        """Yield all accesses of what is both written and read, in the order of the program."""
        yield from self._of_registers()
        found = list(self._in_memory())
        written = {array for _, array, _, is_write in found if is_write}
        for place, array, index, is_write in found:
            if array in written:
                yield self._access(place, array, index, is_write, (None,))

    # {{{ registers

    def _of_registers(self) -> Iterator[CellAccess]:
        for definition in self.program.translator.definitions:
            if definition.node in self.executed.numbers:
                written = self._access(definition.node, definition.variable, definition.index, is_write=True)
                yield replace(written, is_part=definition.is_part)
        for place in self.executed.numbers:
            draft = self.executed.draft(place)
            reads: dict[Read, list[int | None]] = {}
            for slot, value in enumerate((*draft.operands, *draft.controls)):
                for read in value.reads:
                    reads.setdefault(read, []).append(slot if slot < len(draft.operands) else None)
            for read, operands in reads.items():
                yield self._access(place, read.variable, read.index, is_write=False, operands=operands)

    # }}}

    # {{{ memory

    def _in_memory(self) -> Iterator[tuple[int, str, Index, bool]]:
        """Yield the accesses of arrays in memory, and those of what barriers hand on."""
        for place in self.executed.numbers:
            draft = self.executed.draft(place)
            if draft.kind == Opcode.BARRIER:
                yield place, HANDED_ON, (), False
                yield place, HANDED_ON, (), True
            elif (ref := draft.reference) is not None and ref.array not in self._exchanged:
                yield place, ref.array, ref.index, ref.direction == "store"
            elif ref is not None and ref.direction == "load":
                yield place, HANDED_ON, (), False

    @cached_property
    def _exchanged(self) -> frozenset[str]:
        """Return the local arrays that work-items exchange values through, with barriers between."""
        drafts = [self.executed.draft(place) for place in self.executed.numbers]
        if not any(draft.kind == Opcode.BARRIER for draft in drafts):
            return frozenset()
        refs = [draft.reference for draft in drafts if draft.reference is not None]
        return frozenset(ref.array for ref in refs if (ref.direction, ref.space) == ("store", MemorySpace.LOCAL))

    def before_barriers(self) -> Iterator[list[CellAccess]]:
        """Yield for each store what barriers wait for: a cell that it writes, and that each barrier reads and clears.

        A barrier waits for the last execution of the store since the barrier before it.
        """
        places = self.executed.numbers
        barriers = [place for place in places if self.executed.draft(place).kind == Opcode.BARRIER]
        read = [self._access(place, STORED, (), is_write=False, operands=(None,)) for place in barriers]
        cleared = [self._access(place, STORED, (), is_write=True) for place in barriers]
        for place in places:
            ref = self.executed.draft(place).reference
            if ref is not None and ref.direction == "store" and ref.array in self._exchanged:
                # Whether data lets it happen or not: it has to be waited for.
                yield [replace(self._access(place, STORED, (), is_write=True), is_certain=True), *read, *cleared]

    # }}}

    def _access(
        self, place: int, array: str, index: Index, is_write: bool, operands: Sequence[int | None] = ()
    ) -> CellAccess:
        statement, run = self.executed.draft(place).statement, self.executed.runs[place]
        affine, cells = self._indexed(index, statement.loops)
        return CellAccess(
            node=place,
            operands=tuple(operands),
            array=array,
            is_write=is_write,
            place=self.program.places[statement.number],
            variables=tuple(nest.iname for nest in statement.loops),
            values=run.values,
            index=affine,
            passes=run.passes.boxes,
            cells=cells,
            is_certain=run.weight == 1,
        )

    def _indexed(self, index: Index, loops: tuple[Nest, ...]) -> tuple[Index | None, tuple[Affine[str], ...] | None]:
        """Return *index* as affine expressions of the variables of *loops*, and of their passes, as far as it is."""
        if (index, loops) not in self._indices:
            self._indices[index, loops] = self._found_index(index, loops)
        return self._indices[index, loops]

    def _found_index(
        self, index: Index, loops: tuple[Nest, ...]
    ) -> tuple[Index | None, tuple[Affine[str], ...] | None]:
        names = [nest.iname for nest in loops]
        values = {name: value for name, value in self.executed.uniform.items() if name not in names}
        index = tuple(_with_values(expression, values) for expression in index)
        simple = tuple(found for each in index if (found := Affine.of(each)) and found.variables <= set(names))
        if len(simple) < len(index):
            return (index, None) if is_affine(names, index) else (None, None)
        starts = {name: self.executed.warp.first(loops[: depth + 1]) for depth, name in enumerate(names)}
        if not all(isinstance(start, int) for start in starts.values()):
            return index, None
        return index, tuple(replace(each, constant=each.at(starts)) for each in simple)


class _WithValues(SubstitutionMapper):
    """Puts in values; of two alternatives, the one that these decide for is left."""

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)

    def map_if(self, expr: prim.If) -> Any:
        """Loopy writes the first value of a copied loop so, as a function of sizes."""
        condition = self.rec(expr.condition)
        if get_dependencies(condition):
            return prim.If(condition, self.rec(expr.then), self.rec(expr.else_))
        return self.rec(expr.then if evaluate(condition) else expr.else_)


def _with_values(expression: Any, values: Mapping[str, int]) -> Any:
    return _WithValues(values)(expression) if isinstance(expression, prim.ExpressionNode) else expression
