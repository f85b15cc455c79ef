"""Which execution of a statement last wrote what another one reads, by isl's dataflow analysis.

Cells are elements of private variables, and of those arrays in memory that one work-item both stores and loads. What
work-items exchange through local arrays is one cell, which barriers write.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.symbolic import guarded_pwaff_from_expr
from pymbolic.mapper.substitutor import substitute

SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class CellAccess:
    """A read or a write of one cell in each execution of a statement."""

    name: str
    """its own"""
    array: str
    index: tuple[Any, ...] | None
    """affine expressions of *variables*; None for the array as a whole"""
    variables: tuple[str, ...]
    """of the loops around it, the outermost first"""
    executions: isl.Set
    """values of the variables"""
    place: tuple[int, ...]
    """among what stands beside each loop around it, and beside it in the innermost one"""
    is_write: bool
    is_certain: bool = True
    """otherwise it may not happen: a condition on data"""


@dataclass(frozen=True, slots=True)
class Dependence:
    """What is read in some executions was last written in these."""

    source: str
    target: str
    relation: isl.Map
    """from the values of the variables around the target to those around the source"""


def dependences(accesses: Sequence[CellAccess]) -> Iterator[Dependence]:
    """Yield what reads among *accesses* read that others of them wrote."""
    by_array: dict[str, list[CellAccess]] = {}
    for access in accesses:
        by_array.setdefault(access.array, []).append(access)
    for of_array in by_array.values():
        writes = [access for access in of_array if access.is_write]
        reads = [access for access in of_array if not access.is_write]
        if any(access.index is None for access in of_array):
            writes, reads = ([replace(access, index=None) for access in each] for each in (writes, reads))
        hard: list[CellAccess] = []
        for read in reads if writes else ():
            found = _of_same_pass(read, writes)
            if found is None:
                hard.append(read)
            else:
                yield found
        if hard:
            yield from flow(hard, writes)


# {{{ by the order of the program


def _of_same_pass(read: CellAccess, writes: Sequence[CellAccess]) -> Dependence | None:
    """Return what *read* depends on where the last write is in the same pass of the loops around both; else None.

    That is so where the nearest of the writes that come before it writes all that it reads, and none that comes later
    is in a loop with it that the nearest is not in.
    """
    before = sorted((_order(write, read), place) for place, write in enumerate(writes) if _precedes(write, read))
    if not before:
        return None
    nearest, place = before[-1]
    write = writes[place]
    rivals = [order for order, _ in before[:-1] if order == nearest]
    later = [_shared(other, read) for other in writes if not _precedes(other, read)]
    if rivals or not write.is_certain or any(shared > nearest[0] for shared in later):
        return None
    relation = _cells(read).apply_range(_cells(write).reverse())
    relation = (relation & _aligned(len(read.variables), len(write.variables), nearest[0])).lexmax()
    if not read.executions.is_subset(relation.domain()):
        return None
    return Dependence(write.name, read.name, relation)


def _shared(one: CellAccess, other: CellAccess) -> int:
    """Return how many loops are around both."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one.place[:-1], other.place[:-1], strict=False))
    return len(list(same))


def _order(write: CellAccess, read: CellAccess) -> tuple[int, int]:
    """Return how near before *read* what is around *write* stands: the more, the nearer."""
    shared = _shared(write, read)
    return shared, write.place[shared]


def _precedes(write: CellAccess, read: CellAccess) -> bool:
    shared = _shared(write, read)
    return write.place[shared] < read.place[shared]


@lru_cache(maxsize=1024)
def _aligned(before: int, after: int, shared: int) -> isl.Map:
    left, right = (", ".join(f"{letter}{place}" for place in range(n)) for letter, n in (("x", before), ("y", after)))
    tests = " and ".join(f"x{place} = y{place}" for place in range(shared))
    return isl.Map(f"{{ [{left}] -> [{right}]{' : ' + tests if tests else ''} }}")


# }}}


# {{{ by isl's analysis


def flow(reads: Sequence[CellAccess], writes: Sequence[CellAccess], backwards: bool = False) -> Iterator[Dependence]:
    """Yield what *reads* read that *writes* wrote last, or with *backwards* what next writes over it."""
    depth = max(len(access.variables) for access in (*reads, *writes))
    certain, uncertain, sinks, schedule = (isl.UnionMap("{}") for _ in range(4))
    for access in (*reads, *writes):
        cells = _cells(access).set_tuple_name(isl.dim_type.in_, access.name)
        if not access.is_write:
            sinks = sinks.union(isl.UnionMap.from_map(cells))
        elif access.is_certain:
            certain = certain.union(isl.UnionMap.from_map(cells))
        else:
            uncertain = uncertain.union(isl.UnionMap.from_map(cells))
        schedule = schedule.union(isl.UnionMap.from_map(_times(access, depth, backwards)))
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(certain).set_may_source(uncertain)
    found: list[isl.Map] = []
    info.set_schedule_map(schedule).compute_flow().get_may_dependence().foreach_map(found.append)
    for each in found:
        source, target = each.get_tuple_name(isl.dim_type.in_), each.get_tuple_name(isl.dim_type.out)
        relation = each.reverse().reset_tuple_id(isl.dim_type.in_).reset_tuple_id(isl.dim_type.out)
        yield Dependence(source, target, relation)


def _times(access: CellAccess, depth: int, backwards: bool) -> isl.Map:
    schedule = _schedule(access.place, len(access.variables), depth, access.is_write, backwards)
    schedule = schedule.set_tuple_name(isl.dim_type.in_, access.name)
    return schedule.intersect_domain(access.executions.set_tuple_name(access.name))


@lru_cache(maxsize=4096)
def _schedule(place: tuple[int, ...], loops: int, depth: int, is_write: bool, backwards: bool) -> isl.Map:
    """Return the map from the values of loops' variables to a time: a read before a write in one statement."""
    names = [f"x{loop}" for loop in range(loops)]
    time = [part for beside, name in zip(place, names, strict=False) for part in (str(beside), name)]
    time += [str(place[-1]), *["0"] * (2 * (depth - loops)), "1" if is_write else "0"]
    time = [f"-({part})" for part in time] if backwards else time
    return isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(time)}] }}")


# }}}


def _cells(access: CellAccess) -> isl.Map:
    """Return the map from the values of loops' variables to the cells that *access* accesses."""
    cells = isl.Map.from_domain_and_range(access.executions, isl.Set("{ [] }"))
    if access.index:
        space = _named(access.executions, access.variables).get_space()
        for expression in access.index:
            value = guarded_pwaff_from_expr(space, expression, frozenset())
            cells = cells.flat_range_product(isl.Map.from_pw_aff(value))
    return cells.set_tuple_name(isl.dim_type.out, "cell")


def _named(executions: isl.Set, variables: Sequence[str]) -> isl.Set:
    for place, name in enumerate(variables):
        executions = executions.set_dim_name(SET, place, name)
    return executions


def is_affine(executions: isl.Set, variables: Sequence[str], index: Sequence[Any]) -> bool:
    """Return whether *index* is made of affine expressions of *variables*."""
    space = _named(executions, variables).get_space()
    try:
        for expression in index:
            guarded_pwaff_from_expr(space, expression, frozenset())
    except (ExpressionToAffineConversionError, NotImplementedError):
        return False
    return True


def with_values(expression: Any, values: Mapping[str, int]) -> Any:
    """Return *expression* where variables have *values*."""
    return substitute(expression, dict(values)) if isinstance(expression, prim.ExpressionNode) else expression
