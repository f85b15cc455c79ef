"""The cells that a warp's instructions read and write: private variables, arrays in memory, what barriers hand on."""

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

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.construction.drafts import CellAccess, Read
from loopyperf.idg.construction.executed import ExecutedLaunch
from loopyperf.idg.construction.last_writes import LastWrite, Writes, last_of_each
from loopyperf.idg.program import Opcode
from loopyperf.idg.warps.warp_classes import Nest
from loopyperf.polyhedral.affine import Affine

# {{{ which execution of a statement last wrote what another one reads
#
# Cells are elements of private variables, and of those arrays in memory that one work-item both stores and loads. What
# work-items exchange through local arrays is one cell, which barriers write. Where intervals do not tell
# (:mod:`loopyperf.idg.construction.last_writes`), isl's dataflow analysis does.


SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Flow:
    """What is read in some executions was last written in these."""

    source: CellAccess
    target: CellAccess
    relation: isl.Map
    """from the values of the variables around the target to those around the source"""


def dependences(accesses: Sequence[CellAccess]) -> Iterator[LastWrite | Flow]:
    """Yield what reads among *accesses* read that others of them wrote."""
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


# {{{ by isl's analysis


MOST_OPERATIONS = 300_000
"""of isl for the reads of one array: a third of a second. The measured kernels need a hundredth of it."""


def _flows(reads: Sequence[CellAccess], writes: Sequence[CellAccess]) -> list[Flow] | None:
    """Return what *reads* read that *writes* wrote last; None where that takes isl :data:`MOST_OPERATIONS`."""
    limited = isl.Context()  # of its own: other threads would meet the limit of a shared one
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
        # What data decide of may have been written in any earlier pass: one waits for the last of them.
        last = relation if relation.is_single_valued() else relation.lexmax()
        yield Flow(named[source], named[target], isl.Map.read_from_str(isl.DEFAULT_CONTEXT, str(last)))


def _times(name: str, access: CellAccess, depth: int) -> isl.Map:
    schedule = _schedule(access.place, len(access.variables), depth, access.is_write)
    schedule = schedule.set_tuple_name(isl.dim_type.in_, name)
    return schedule.intersect_domain(access.values.set.set_tuple_name(name))


@lru_cache(maxsize=4096)
def _schedule(place: tuple[int, ...], loops: int, depth: int, is_write: bool) -> isl.Map:
    """Return the map from the values of loops' variables to a time: a read before a write in one statement."""
    names = [f"x{loop}" for loop in range(loops)]
    time = [part for beside, name in zip(place, names, strict=False) for part in (str(beside), name)]
    time += [str(place[-1]), *["0"] * (2 * (depth - loops)), "1" if is_write else "0"]
    return isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(time)}] }}")


def _cells(access: CellAccess) -> isl.Map:
    """Return the map from the values of loops' variables to the cells that *access* accesses."""
    cells = isl.Map.from_domain_and_range(access.values.set, isl.Set("{ [] }"))
    if access.index:
        space = _named(access.values.set, access.variables).get_space()
        for expression in access.index:
            value = guarded_pwaff_from_expr(space, expression, frozenset())
            cells = cells.flat_range_product(isl.Map.from_pw_aff(value))
    return cells.set_tuple_name(isl.dim_type.out, "cell")


def _named(values: isl.Set, variables: Sequence[str]) -> isl.Set:
    for place, name in enumerate(variables):
        values = values.set_dim_name(SET, place, name)
    return values


# }}}


def is_affine(variables: Sequence[str], index: Sequence[Any]) -> bool:
    """Return whether isl has *index* as affine expressions of *variables*, with divisions by numbers maybe."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(variables))
    try:
        for expression in index:
            guarded_pwaff_from_expr(space, expression, frozenset())
    except (ExpressionToAffineConversionError, NotImplementedError):
        return False
    return True


# }}}


# {{{ cells


HANDED_ON = "what the barriers hand on"
STORED = "what is stored between barriers"
Index = tuple[Any, ...]


class Cells:
    """The accesses of cells by the instructions that a warp executes."""

    def __init__(self, executed: ExecutedLaunch) -> None:
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
            numbers=run.iterations,
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
        starts = {name: self.executed.warp.nest(loops).first(loops[: depth + 1]) for depth, name in enumerate(names)}
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


# }}}
