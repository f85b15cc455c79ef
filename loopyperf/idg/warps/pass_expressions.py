"""Sets and functions of passes of loops, as expressions in the loops' names."""

from collections.abc import Iterator, Sequence
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import aff_to_expr, set_to_cond_expr

from loopyperf.idg.warps.nest import Nest
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points

SET = isl.dim_type.set
IN = isl.dim_type.in_


def condition_on(passes: Points, everywhere: Points, loops: Sequence[Nest]) -> Any:
    """Return the condition on passes of *loops* under which those of *everywhere* are among *passes*; None for all."""
    if passes.box is not None and everywhere.box is not None:
        tests = list(_tests(passes.box, everywhere.box, loops))
        return prim.LogicalAnd(tuple(tests)) if len(tests) > 1 else next(iter(tests), None)
    if everywhere.set.is_subset(passes.set):
        return None
    return set_to_cond_expr(_named_set(passes.set.gist(everywhere.set), loops))


def _tests(passes: Box, everywhere: Box, loops: Sequence[Nest]) -> Iterator[Any]:
    """Yield what tells *passes* from the others of *everywhere*, in the order of *loops*."""
    for here, whole, nest in zip(passes, everywhere, loops, strict=True):
        begins, ends = here.start > whole.start, here.stop < whole.stop
        if ends and len(here) == 1:
            yield prim.Comparison(Affine(((nest.iname, 1),), -here.start).expression, "==", 0)
            continue
        if begins:
            yield prim.Comparison(Affine(((nest.iname, 1),), -here.start).expression, ">=", 0)
        if ends:
            yield prim.Comparison(Affine(((nest.iname, -1),), here.stop - 1).expression, ">=", 0)


def function_of(number: isl.PwAff, loops: Sequence[Nest]) -> Any:
    """Return *number* as an expression of the passes of *loops*."""
    found: Any = None
    for where, value in reversed(number.get_pieces()):
        expression = affine_function_of(value, loops)
        found = expression if found is None else prim.If(set_to_cond_expr(_named_set(where, loops)), expression, found)
    return found


def affine_function_of(value: isl.Aff, loops: Sequence[Nest]) -> Any:
    """Return *value* as an integer, or as an expression of the passes of *loops*."""
    if value.is_cst():
        return value.get_constant_val().to_python()
    for place in range(value.dim(IN)):
        value = value.set_dim_name(IN, place, loops[place].iname)
    return aff_to_expr(value)


def _named_set(passes: isl.Set, loops: Sequence[Nest]) -> isl.Set:
    """Return *passes* with its dimensions called as *loops*, as many as there are."""
    for place in range(passes.dim(SET)):
        passes = passes.set_dim_name(SET, place, loops[place].iname)
    return passes
