"""Cells that a warp's instructions read and write, and the dependences through them.

Cells are elements of private variables and of arrays in memory, and values exchanged across barriers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.symbolic import get_dependencies, guarded_pwaff_from_expr
from pymbolic import evaluate
from pymbolic.mapper.substitutor import SubstitutionMapper
from pytools import memoize_method

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.steps import Read
from loopyperf.idg.last_writes import LastWrite, Writes, last_of_each
from loopyperf.idg.launch_program import CellAccess, ExecutedLaunch
from loopyperf.idg.program import Opcode
from loopyperf.idg.warp_classes import Nest
from loopyperf.polyhedral.affine import Affine

# {{{ dataflow: the last write before each read
#
# Cells are elements of private variables, and elements of the arrays in memory that one work-item both stores and
# loads. Everything that work-items exchange through local arrays is one cell, which barriers write. If intervals do not
# determine the last write (:mod:`loopyperf.idg.last_writes`), isl's dataflow analysis does.


SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Flow:
    """Last writes found by isl: executions of *target* read what executions of *source* last wrote."""

    source: CellAccess
    target: CellAccess
    relation: isl.Map
    """map from loop values of the target to loop values of the source"""


def dependences(accesses: Sequence[CellAccess]) -> Iterator[LastWrite | Flow]:
    """Yield the flow dependences among *accesses*: the last write before each read."""
    by_array: dict[str, list[CellAccess]] = {}
    for access in accesses:
        if not access.values.is_empty:
            by_array.setdefault(access.array, []).append(access)
    for of_array in by_array.values():
        if any(access.index is None for access in of_array):
            of_array = [replace(access, index=None, cells=()) for access in of_array]
        writes = [access for access in of_array if access.is_write]
        reads = [access for access in of_array if not access.is_write]
        yield from _of_array(reads, writes)


def _of_array(reads: Sequence[CellAccess], writes: Sequence[CellAccess]) -> Iterator[LastWrite | Flow]:
    hard: list[CellAccess] = []
    arranged = Writes(writes)
    for read in reads if writes else ():
        found = arranged.last(read)
        if found is None:
            hard.append(read)
        else:
            yield from found
    if hard:
        found = _flows(hard, writes)
        yield from (each for read in hard for each in last_of_each(read, writes)) if found is None else found


# {{{ isl's dataflow analysis


MOST_OPERATIONS = 300_000
"""limit on isl operations for the reads of one array: a third of a second. The measured kernels need 1 % of it."""


def _flows(reads: Sequence[CellAccess], writes: Sequence[CellAccess]) -> list[Flow] | None:
    """Return the last of *writes* before each of *reads*; None if isl exceeds :data:`MOST_OPERATIONS`."""
    limited = isl.Context()  # a separate context: in a shared one, the limit would hit other threads
    limited.set_max_operations(MOST_OPERATIONS)
    try:
        return list(_analyzed(reads, writes, limited))
    except isl.Error as error:
        if "maximal number of operations" not in str(error):
            raise
        return None


def _analyzed(reads: Sequence[CellAccess], writes: Sequence[CellAccess], context: isl.Context) -> Iterator[Flow]:
    named = {f"A{number}": access for number, access in enumerate((*reads, *writes))}
    depth = max(len(access.variables) for access in named.values())
    certain, uncertain, sinks, schedule = (isl.UnionMap("{}") for _ in range(4))
    for name, access in named.items():
        cells = isl.UnionMap.from_map(_cells(access).set_tuple_name(isl.dim_type.in_, name))
        if not access.is_write:
            sinks = sinks.union(cells)
        elif access.is_certain:
            certain = certain.union(cells)
        else:
            uncertain = uncertain.union(cells)
        schedule = schedule.union(isl.UnionMap.from_map(_times(name, access, depth)))
    sinks, certain, uncertain, schedule = (
        isl.UnionMap.read_from_str(context, str(each)) for each in (sinks, certain, uncertain, schedule)
    )
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(certain).set_may_source(uncertain)
    found: list[isl.Map] = []
    info.set_schedule_map(schedule).compute_flow().get_may_dependence().foreach_map(found.append)
    for each in found:
        source, target = each.get_tuple_name(isl.dim_type.in_), each.get_tuple_name(isl.dim_type.out)
        relation = each.reverse().reset_tuple_id(isl.dim_type.in_).reset_tuple_id(isl.dim_type.out)
        # A conditional write may have happened in any earlier iteration; depend on the last of them.
        last = relation if relation.is_single_valued() else relation.lexmax()
        yield Flow(named[source], named[target], isl.Map.read_from_str(isl.DEFAULT_CONTEXT, str(last)))


def _times(name: str, access: CellAccess, depth: int) -> isl.Map:
    schedule = _schedule(access.place, len(access.variables), depth, access.is_write)
    schedule = schedule.set_tuple_name(isl.dim_type.in_, name)
    return schedule.intersect_domain(access.values.set.set_tuple_name(name))


@lru_cache(maxsize=1 << 9)
def _schedule(place: tuple[int, ...], loops: int, depth: int, is_write: bool) -> isl.Map:
    """Return the map from loop values to a time; within a statement, reads precede writes."""
    names = [f"x{loop}" for loop in range(loops)]
    time = [part for beside, name in zip(place, names, strict=False) for part in (str(beside), name)]
    time += [str(place[-1]), *["0"] * (2 * (depth - loops)), "1" if is_write else "0"]
    return isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(time)}] }}")


def _cells(access: CellAccess) -> isl.Map:
    """Return the map from loop values to the cells that *access* accesses."""
    cells = isl.Map.from_domain_and_range(access.values.set, isl.Set("{ [] }"))
    if access.index:
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(access.variables))
        for expression in access.index:
            value = guarded_pwaff_from_expr(space, expression, frozenset())
            cells = cells.flat_range_product(isl.Map.from_pw_aff(value))
    return cells.set_tuple_name(isl.dim_type.out, "cell")


# }}}


def is_affine(variables: Sequence[str], index: Sequence[Any]) -> bool:
    """Return whether isl can represent *index* as quasi-affine expressions of *variables*."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(variables))
    try:
        for expression in index:
            guarded_pwaff_from_expr(space, expression, frozenset())
    except (ExpressionToAffineConversionError, NotImplementedError):
        return False
    return True


# }}}


# {{{ cells


HANDED_ON = "values exchanged across barriers"
STORED = "stores between barriers"
Index = tuple[Any, ...]


class Cells:
    """The cell accesses of the instructions that a warp executes."""

    def __init__(self, executed: ExecutedLaunch) -> None:
        self.executed, self.program = executed, executed.program

    def accesses(self) -> Iterator[CellAccess]:
        """Yield all accesses to variables and arrays that are both written and read."""
        yield from self._of_registers()
        found = list(self._in_memory())
        written = {array for _, array, _, is_write in found if is_write}
        for place, array, index, is_write in found:
            if array in written:
                yield self._access(place, array, index, is_write, (None,))

    # {{{ registers

    def _of_registers(self) -> Iterator[CellAccess]:
        for definition in self.program.translator.walk.definitions:
            if definition.node in self.executed.numbers:
                written = self._access(definition.node, definition.variable, definition.index, is_write=True)
                yield replace(written, is_part=definition.is_part)
        for place in self.executed.numbers:
            draft = self.executed.draft(place)
            reads: dict[Read, list[int | None]] = {}
            for slot, value in enumerate((*draft.step.operands, *draft.controls)):
                for read in value.reads:
                    reads.setdefault(read, []).append(slot if slot < len(draft.step.operands) else None)
            for read, operands in reads.items():
                yield self._access(place, read.variable, read.index, is_write=False, operands=operands)

    # }}}

    # {{{ memory

    def _in_memory(self) -> Iterator[tuple[int, str, Index, bool]]:
        """Yield the accesses to arrays in memory, and to the cell exchanged across barriers."""
        for place in self.executed.numbers:
            draft = self.executed.draft(place)
            if draft.step.kind == Opcode.BARRIER:
                yield place, HANDED_ON, (), False
                yield place, HANDED_ON, (), True
            elif (ref := draft.reference) is not None and ref.array not in self._exchanged:
                yield place, ref.array, ref.index, ref.direction == "store"
            elif ref is not None and ref.direction == "load":
                yield place, HANDED_ON, (), False

    @cached_property
    def _exchanged(self) -> frozenset[str]:
        """Return the local arrays through which work-items exchange values across barriers."""
        drafts = [self.executed.draft(place) for place in self.executed.numbers]
        if not any(draft.step.kind == Opcode.BARRIER for draft in drafts):
            return frozenset()
        refs = [draft.reference for draft in drafts if draft.reference is not None]
        return frozenset(ref.array for ref in refs if (ref.direction, ref.space) == ("store", MemorySpace.LOCAL))

    def before_barriers(self) -> Iterator[list[CellAccess]]:
        """Yield for each store the accesses of a cell that it writes and that each barrier reads and clears.

        So a barrier depends on the last execution of the store since the previous barrier.
        """
        places = self.executed.numbers
        barriers = [place for place in places if self.executed.draft(place).step.kind == Opcode.BARRIER]
        read = [self._access(place, STORED, (), is_write=False, operands=(None,)) for place in barriers]
        cleared = [self._access(place, STORED, (), is_write=True) for place in barriers]
        for place in places:
            ref = self.executed.draft(place).reference
            if ref is not None and ref.direction == "store" and ref.array in self._exchanged:
                # The barrier waits for the store even if a condition on data guards it.
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
            numbers=run.iterations,
            cells=cells,
            is_certain=run.weight == 1 and not run.on_data,
        )

    @memoize_method
    def _indexed(self, index: Index, loops: tuple[Nest, ...]) -> tuple[Index | None, tuple[Affine[str], ...] | None]:
        """Return *index* in terms of loop variables, and in terms of iterations; None where it is not affine."""
        names = [nest.iname for nest in loops]
        values = {name: value for name, value in self.executed.uniform.items() if name not in names}
        with_values = _WithValues(values)
        index = tuple(with_values(each) if isinstance(each, prim.ExpressionNode) else each for each in index)
        simple = tuple(found for each in index if (found := Affine.of(each)) and found.variables <= set(names))
        if len(simple) < len(index):
            return (index, None) if is_affine(names, index) else (None, None)
        starts = {name: self.executed.warp.nest(loops).first(loops[: depth + 1]) for depth, name in enumerate(names)}
        if not all(isinstance(start, int) for start in starts.values()):
            return index, None
        return index, tuple(replace(each, constant=each.at(starts)) for each in simple)


class _WithValues(SubstitutionMapper):
    """Substitutes values, and resolves the conditional expressions that they decide."""

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)

    def map_if(self, expr: prim.If) -> Any:
        """Resolve a conditional; Loopy writes the first value of an unrolled loop like this, as a function of sizes."""
        condition = self.rec(expr.condition)
        if get_dependencies(condition):
            return prim.If(condition, self.rec(expr.then), self.rec(expr.else_))
        return self.rec(expr.then if evaluate(condition) else expr.else_)


# }}}
