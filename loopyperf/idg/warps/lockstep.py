"""Loops that do not start from the same value in all lanes: the lanes of a warp still make their passes together.

In a loop over ``i <= j < n`` of a kernel that maps ``i`` to the lanes, the first pass is ``j = i`` in each lane. Such
loops are numbered by passes from zero here; other loops keep their values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper, pw_aff_to_expr

from loopyperf.counts.loops import leaning_loops
from loopyperf.counts.sub_groups import Loops, loop_start
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch

SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Where leaning loops start."""

    names: tuple[str, ...] = ()
    """the inames that points are over"""
    starts: Mapping[str, isl.PwAff] = field(default_factory=dict[str, isl.PwAff])
    """loop -> the value of its first pass, a function of *names*"""
    expressions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """the same as expressions in the loops around it and the lanes; the innermost first"""

    def numbered(self, points: isl.Set) -> isl.Set:
        """Return *points* with leaning loops numbered by passes."""
        if not self.starts:
            return points
        space = isl.LocalSpace.from_space(points.get_space())
        values = ((name, isl.PwAff.var_on_domain(space, SET, place)) for place, name in enumerate(self.names))
        numbers = (value.sub(self.starts[name]) if name in self.starts else value for name, value in values)
        numbered = points.apply(reduce(isl.Map.flat_range_product, map(isl.Map.from_pw_aff, numbers)))
        for place, name in enumerate(self.names):
            numbered = numbered.set_dim_name(SET, place, name)
        return numbered

    def in_passes(self, expression: Any) -> Any:
        """Return *expression* with the values of leaning loops written by the numbers of their passes."""
        for loop, start in self.expressions.items():
            expression = _Shifted(loop, start)(expression)
        return expression


class _Shifted(IdentityMapper[[]]):
    """Writes the values of a loop as what it starts from and the number of the pass."""

    def __init__(self, loop: str, start: Any) -> None:
        super().__init__()
        self.loop = loop
        self.start = start

    def map_variable(self, expr: prim.Variable) -> Any:
        return self.start + expr if expr.name == self.loop else expr


def lockstep_of(kernel: Kernel, launch: Launch, inames: frozenset[str], loops: Loops) -> Lockstep:
    """Return where the loops among *inames* start that do not start alike in all lanes of *launch*.

    *loops* tells what points the loops over some inames visit; there are no parameters in it.
    """
    visited = loops(inames)
    found = leaning_loops(kernel, launch, visited)
    if not found or visited.is_empty():
        return Lockstep()
    names: Sequence[str] = visited.get_var_names_not_none(SET)
    nest = launch.nested(names)
    starts: dict[str, isl.PwAff] = {}
    for place, loop in enumerate(nest):
        if loop in found:
            around = visited
            for inner in nest[place:]:  # in whose words the start shall not be
                around = around.eliminate(SET, names.index(inner), 1)
            starts[loop] = _named(loop_start(kernel, loops, names, nest[place + 1 :], loop), names).gist(around)
    expressions = {loop: pw_aff_to_expr(start) for loop, start in reversed(starts.items())}
    return Lockstep(tuple(names), starts, expressions)


def _named(start: isl.Map, names: Sequence[str]) -> isl.PwAff:
    """Return the one value of *start* as a function of *names*."""
    for place, name in enumerate(names):
        start = start.set_dim_name(isl.dim_type.in_, place, name)
    return isl.PwMultiAff.from_map(start).get_pw_aff(0).coalesce()
