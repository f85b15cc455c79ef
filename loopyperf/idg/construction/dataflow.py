"""Which execution of a statement last wrote what another one reads.

Cells are elements of private variables, and of those arrays in memory that one work-item both stores and loads. What
work-items exchange through local arrays is one cell, which barriers write. Where intervals do not tell
(:mod:`loopyperf.idg.construction.last_writes`), isl's dataflow analysis does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import islpy as isl
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.symbolic import guarded_pwaff_from_expr

from loopyperf.idg.construction.cell_access import CellAccess
from loopyperf.idg.construction.last_writes import LastWrite, Writes

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
        yield from _flows(hard, writes)


# {{{ by isl's analysis


def _flows(reads: Sequence[CellAccess], writes: Sequence[CellAccess]) -> Iterator[Flow]:
    """Yield what *reads* read that *writes* wrote last."""
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
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(certain).set_may_source(uncertain)
    found: list[isl.Map] = []
    info.set_schedule_map(schedule).compute_flow().get_may_dependence().foreach_map(found.append)
    for each in found:
        source, target = each.get_tuple_name(isl.dim_type.in_), each.get_tuple_name(isl.dim_type.out)
        relation = each.reverse().reset_tuple_id(isl.dim_type.in_).reset_tuple_id(isl.dim_type.out)
        # What data decide of may have been written in any earlier pass: one waits for the last of them.
        yield Flow(named[source], named[target], relation if relation.is_single_valued() else relation.lexmax())


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
