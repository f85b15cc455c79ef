"""A read or a write of one cell: an element of a private variable or of an array, or what barriers hand on."""

from dataclasses import dataclass
from typing import Any

from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points


@dataclass(frozen=True, slots=True, eq=False)
class CellAccess:
    """A read or a write of one cell in each execution of an instruction."""

    node: int
    """the instruction, by its place in the program"""
    operands: tuple[int | None, ...]
    """of a read: which of the instruction's operands it is; None where it is none"""
    array: str
    is_write: bool
    place: tuple[int, ...]
    """of the statement: among what stands beside each loop around it, and beside it in the innermost one"""
    variables: tuple[str, ...]
    """of the loops around it, the outermost first"""
    values: Points
    """of the variables"""
    index: tuple[Any, ...] | None
    """affine expressions of the variables, in isl's sense; None for the array as a whole"""
    passes: tuple[Box, ...] | None
    """the numbers of the passes of the loops, as disjoint products of intervals; None where they are not a few"""
    cells: tuple[Affine[str], ...] | None
    """the index as functions of the numbers of the passes, each variable called as its loop; None where it is none"""
    is_certain: bool = True
    """otherwise it may not happen: a condition on data"""
    is_part: bool = False
    """of a write: the instruction computes it alone, without the others that compute parts of the same value"""
