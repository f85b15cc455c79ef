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
from loopy.kernel.data import LocalInameTag
from loopy.schedule import EnterLoop
from loopy.symbolic import IdentityMapper, get_dependencies, pw_aff_to_expr

from loopyperf.counts.loops import leaning_loops
from loopyperf.counts.sub_groups import Loops, loop_start
from loopyperf.kernel import Kernel
from loopyperf.launches import Launch, is_unrolled

SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Points whose leaning loops are numbered by passes."""

    points: isl.Set
    """over the same inames"""
    starts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """loop -> the value of its first pass, an expression in the loops around it and the lanes; the innermost first"""

    def in_passes(self, expression: Any) -> Any:
        """Return *expression* with the values of leaning loops written by the numbers of their passes."""
        for loop, start in self.starts.items():
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


def in_lockstep(kernel: Kernel, launch: Launch, points: isl.Set, loops: Loops) -> Lockstep:
    """Return *points* by passes that lanes of *launch* make together.

    *loops* tells what points the loops over some inames visit. There are no parameters in either.
    """
    names = points.get_var_names_not_none(SET)
    visited = loops(frozenset(names))
    if not leaning_loops(kernel, launch, visited):
        return Lockstep(points)
    nest = _nest(launch, names)
    leaning = {name for name in names if isinstance(kernel.hardware_axis(name), LocalInameTag)}
    starts: dict[str, isl.PwAff] = {}
    expressions: dict[str, Any] = {}
    for place, loop in enumerate(nest):
        start = _named(loop_start(kernel, loops, names, nest[place + 1 :], loop), names).gist(visited)
        expression = pw_aff_to_expr(start)
        # What starts from a leaning loop leans as well.
        if leaning & get_dependencies(expression) and not is_unrolled(kernel.loopy_kernel, loop):
            leaning.add(loop)
            starts[loop], expressions[loop] = start, expression
    return Lockstep(_numbered(points, names, starts), dict(reversed(expressions.items())))


def _nest(launch: Launch, names: Sequence[str]) -> list[str]:
    """Return the loops of *launch* among *names* that its device program enters, the outermost first."""
    entered = [item.iname for item in launch.schedule if isinstance(item, EnterLoop)]
    return [name for name in entered if name in names]


def _named(start: isl.Map, names: Sequence[str]) -> isl.PwAff:
    """Return the one value of *start* as a function of *names*."""
    for place, name in enumerate(names):
        start = start.set_dim_name(isl.dim_type.in_, place, name)
    return isl.PwMultiAff.from_map(start).get_pw_aff(0).coalesce()


def _numbered(points: isl.Set, names: Sequence[str], starts: Mapping[str, isl.PwAff]) -> isl.Set:
    """Return *points* with the loops that have *starts* counted from there."""
    space = isl.LocalSpace.from_space(points.get_space())
    values = (isl.PwAff.var_on_domain(space, SET, place) for place in range(len(names)))
    numbers = [value.sub(starts[name]) if name in starts else value for name, value in zip(names, values, strict=True)]
    maps = (isl.Map.from_pw_aff(number) for number in numbers)
    numbered = points.apply(reduce(isl.Map.flat_range_product, maps))
    for place, name in enumerate(names):
        numbered = numbered.set_dim_name(SET, place, name)
    return numbered
