"""The loop iterations that one warp executes around an access, and the active lanes in each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import index
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper, aff_to_expr, pw_aff_to_expr, set_to_cond_expr

from loopyperf.counts.loops import LoopPoints, Loops, leaning_loops, loop_start
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.idg.warp_classes import Integers, Nest, Warp, iname_values
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import conjunction
from loopyperf.polyhedral.points import Box, Points, fixed, without_dimensions
from loopyperf.polyhedral.sets import SetMemory, as_int

# {{{ loops with a lane-dependent start ("leaning" loops)
#
# In a loop over ``i <= j < n`` of a kernel that maps ``i`` to the lanes, each lane starts at ``j = i``, but the lanes
# of a warp execute their iterations in lockstep. Such loops are numbered by iteration from zero here; other loops keep
# the values of their variable.


SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Start values of leaning loops, which differ between lanes."""

    names: tuple[str, ...] = ()
    """inames of the dimensions of point sets"""
    starts: Mapping[str, isl.PwAff] = field(default_factory=dict[str, isl.PwAff])
    """loop -> its start value as a function of *names*"""
    expressions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """loop -> its start value as an expression in the enclosing loops and the lanes, innermost loop first"""

    def numbered(self, points: isl.Set) -> isl.Set:
        """Return *points* with leaning loops numbered by iteration."""
        if not self.starts:
            return points
        space = isl.LocalSpace.from_space(points.get_space())
        values = ((name, isl.PwAff.var_on_domain(space, SET, place)) for place, name in enumerate(self.names))
        numbers = (value.sub(self.starts[name]) if name in self.starts else value for name, value in values)
        numbered = points.apply(reduce(isl.Map.flat_range_product, map(isl.Map.from_pw_aff, numbers)))
        for place, name in enumerate(self.names):
            numbered = numbered.set_dim_name(SET, place, name)
        return numbered

    def in_iterations(self, expression: Any) -> Any:
        """Return *expression* with the variables of leaning loops replaced by start value plus iteration."""
        for loop, start in self.expressions.items():
            expression = _Shifted(loop, start)(expression)
        return expression


class _Shifted(IdentityMapper[[]]):
    """Replaces a loop variable by its start value plus the iteration."""

    def __init__(self, loop: str, start: Any) -> None:
        super().__init__()
        self.loop = loop
        self.start = start

    def map_variable(self, expr: prim.Variable) -> Any:
        return self.start + expr if expr.name == self.loop else expr


def lockstep_of(kernel: Kernel, launch: Launch, inames: frozenset[str], loops: Loops) -> Lockstep:
    """Return the start values of the leaning loops among *inames*.

    *loops* returns the points that the loops over given inames visit, as a set without parameters.
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
            for inner in nest[place:]:  # the start value must not depend on this loop or inner ones
                around = around.eliminate(SET, names.index(inner), 1)
            starts[loop] = _named(loop_start(kernel, loops, names, nest[place + 1 :], loop), names).gist(around)
    expressions = {loop: pw_aff_to_expr(start) for loop, start in reversed(starts.items())}
    return Lockstep(tuple(names), starts, expressions)


def _named(start: isl.Map, names: Sequence[str]) -> isl.PwAff:
    """Return the single-valued map *start* as a function of *names*."""
    for place, name in enumerate(names):
        start = start.set_dim_name(isl.dim_type.in_, place, name)
    return isl.PwMultiAff.from_map(start).get_pw_aff(0).coalesce()


# }}}


# {{{ iterations


MOST_KINDS = 1024
"""maximum number of different sets of active lanes"""


@dataclass(frozen=True, slots=True)
class Activity:
    """Iterations in which the same lanes are active."""

    lanes: tuple[int, ...]
    """indices of the active lanes"""
    iterations: Points
    """iterations of the sequential loops"""


@dataclass(frozen=True)
class WarpIterations:
    """The iterations in which one warp executes a site, grouped by active lanes."""

    kernel: Kernel
    sizes: Mapping[str, int]
    warp: Warp
    loops: tuple[str, ...]
    """sequential loops, in the order of the dimensions of iteration sets"""
    lane_values: Mapping[str, Integers]
    """hardware iname -> its value in each lane"""
    activities: tuple[Activity, ...]
    """disjoint sets of iterations, each with at least one active lane"""
    lockstep: Lockstep
    counted: LoopPoints
    """points of all enclosing loops, for counting"""
    points: isl.Set
    """points over all inames, at the given sizes, in which any warp executes the site"""

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        warp: Warp,
        points: isl.Set,
        counted: LoopPoints,
        lockstep: Lockstep,
        sizes: Mapping[str, int],
        host: Mapping[str, int],
    ) -> "WarpIterations":
        """Return the iterations of *warp* among *points*; *host* has the values of the loops around the launch."""
        names: Sequence[str] = points.get_var_names_not_none(SET)
        fixed = {name: np.full(warp.lanes, value) for name, value in host.items() if name in names}
        values = iname_values(kernel, warp, names, sizes) | fixed
        return cls(
            kernel=kernel,
            sizes={name: index(size) for name, size in sizes.items()},
            warp=warp,
            loops=tuple(name for name in names if name not in values),
            lane_values=values,
            activities=_activities(lockstep.numbered(points), [values.get(name) for name in names], warp.lanes),
            lockstep=lockstep,
            counted=counted,
            points=points,
        )

    @property
    def data_starts(self) -> Mapping[str, frozenset[str]]:
        """Return loop -> names of the data that its start value depends on."""
        return self.counted.starts

    def active(self, iterations: Mapping[str, int]) -> tuple[int, ...]:
        """Return the active lanes at the loop values *iterations*, which may also contain other loops.

        Loops with a lane-dependent start are numbered by iteration from zero. Raises :class:`ParameterError` if the
        value of a loop is missing.
        """
        missing = set(self.loops) - iterations.keys()
        if missing:
            raise ParameterError(
                f"no iteration given for loop {', '.join(sorted(missing))}; the access is in loops over "
                f"{', '.join(self.loops)}"
            )
        values = {place: iterations[name] for place, name in enumerate(self.loops)}
        found = (kind.lanes for kind in self.activities if not fixed(kind.iterations.set, values).is_empty())
        return next(found, ())


# {{{ active lanes


def _activities(points: isl.Set, values: Sequence[Integers | None], lanes: int) -> tuple[Activity, ...]:
    """Return the iterations of *points* by active lanes; *values* has the values per lane of hardware dimensions."""
    varying: list[Integers | None] = []
    for place, value in reversed(list(enumerate(values))):
        if value is None or value.min() < value.max():
            varying.insert(0, value)
        else:
            points = points.fix_val(SET, place, isl.Val(int(value[0]))).project_out(SET, place, 1)
    # The remaining set is the same for all warps except those at boundaries.
    known = _ACTIVITIES.setdefault(points.remove_redundancies(), {})
    key = lanes, tuple(None if value is None else tuple(value.tolist()) for value in varying)
    if key not in known:
        known[key] = tuple(_distinguished(points, varying, lanes))
    return known[key]


_ACTIVITIES = SetMemory[dict[Any, tuple[Activity, ...]]](most=256)


def _distinguished(points: isl.Set, values: Sequence[Integers | None], lanes: int) -> Iterator[Activity]:
    hardware = [place for place, value in enumerate(values) if value is not None]
    by_lane = np.array([value for value in values if value is not None]).reshape(len(hardware), lanes)
    for place, value in zip(hardware, by_lane, strict=True):
        points = points.lower_bound_val(SET, place, isl.Val(int(value.min())))
        points = points.upper_bound_val(SET, place, isl.Val(int(value.max())))
    if points.is_empty():
        return
    iterations = without_dimensions(points, hardware)
    if _is_product(points, iterations, hardware, by_lane):
        yield Activity(tuple(range(lanes)), Points(iterations.remove_redundancies()))
        return
    for active, part in _parts(iterations, _by_iterations(points, hardware, by_lane)):
        yield Activity(tuple(sorted(active)), Points(part))


def _is_product(points: isl.Set, iterations: isl.Set, hardware: Sequence[int], values: Integers) -> bool:
    """Return whether all lanes are active in all *iterations*; a cheap sufficient test."""
    everywhere = iterations
    for place, value in zip(hardware, values, strict=True):
        everywhere = everywhere.insert_dims(SET, place, 1)
        everywhere = everywhere.lower_bound_val(SET, place, isl.Val(int(value.min())))
        everywhere = everywhere.upper_bound_val(SET, place, isl.Val(int(value.max())))
    return everywhere.is_subset(points)


def _by_iterations(points: isl.Set, hardware: Sequence[int], values: Integers) -> list[tuple[frozenset[int], isl.Set]]:
    """Return the distinct iteration sets of single lanes, each with the lanes that have it."""
    found: list[tuple[frozenset[int], isl.Set]] = []
    for lanes, coordinates in _uniform(values):
        own = without_dimensions(fixed(points, dict(zip(hardware, coordinates, strict=True))), hardware)
        same = next((place for place, (_, other) in enumerate(found) if other.is_equal(own)), None)
        if same is None:
            found.append((lanes, own))
        else:
            found[same] = (found[same][0] | lanes, own)
    return found


def _uniform(values: Integers) -> Iterator[tuple[frozenset[int], tuple[int, ...]]]:
    """Yield groups of lanes with equal *values* of the hardware inames, each with these values."""
    columns = [tuple(map(int, column)) for column in values.T]
    for coordinates in dict.fromkeys(columns):
        yield frozenset(lane for lane, column in enumerate(columns) if column == coordinates), coordinates


def _parts(
    iterations: isl.Set, by_iterations: Sequence[tuple[frozenset[int], isl.Set]]
) -> list[tuple[frozenset[int], isl.Set]]:
    """Return *iterations* divided by active lanes; raises :class:`UncountableError` for too many parts."""
    parts = [(frozenset[int](), iterations)]
    for lanes, own in by_iterations:
        cut = [(active | lanes, part & own) for active, part in parts]
        cut += [(active, part - own) for active, part in parts]
        parts = [(active, part.coalesce()) for active, part in cut if not part.is_empty()]
        if len(parts) > MOST_KINDS:
            raise UncountableError(
                f"more than {MOST_KINDS} different sets of active lanes; simplify the conditions on the work-item"
            )
    return [(active, part) for active, part in parts if active]


# }}}


# }}}


# {{{ sets and functions of loop iterations, as expressions in the loop names


IN = isl.dim_type.in_


def condition_on(iterations: Points, everywhere: Points, loops: Sequence[Nest]) -> Any:
    """Return the condition on iterations of *loops* that selects *iterations* from *everywhere*.

    The result is None for all of them and False for none.
    """
    if iterations is everywhere:
        return None
    if iterations.box is not None and everywhere.box is not None:
        return conjunction(*_tests(iterations.box, everywhere.box, loops))
    if everywhere.set.is_subset(iterations.set):
        return None
    among = iterations.set.gist(everywhere.set)
    return set_to_cond_expr(_named_set(among, loops)) if among.n_basic_set() else False


def _tests(iterations: Box, everywhere: Box, loops: Sequence[Nest]) -> Iterator[Any]:
    """Yield the tests that distinguish *iterations* from the others of *everywhere*, in the order of *loops*."""
    for here, whole, nest in zip(iterations, everywhere, loops, strict=True):
        begins, ends = here.start > whole.start, here.stop < whole.stop
        if ends and len(here) == 1:
            yield prim.Comparison(Affine(((nest.iname, 1),), -here.start).expression, "==", 0)
            continue
        if begins:
            yield prim.Comparison(Affine(((nest.iname, 1),), -here.start).expression, ">=", 0)
        if ends:
            yield prim.Comparison(Affine(((nest.iname, -1),), here.stop - 1).expression, ">=", 0)


def function_of(number: isl.PwAff, loops: Sequence[Nest]) -> Any:
    """Return *number* as an expression in the iterations of *loops*."""
    found: Any = None
    for where, value in reversed(number.get_pieces()):
        expression = affine_function_of(value, loops)
        found = expression if found is None else prim.If(set_to_cond_expr(_named_set(where, loops)), expression, found)
    return found


def affine_function_of(value: isl.Aff, loops: Sequence[Nest]) -> Any:
    """Return *value* as an integer, or as an expression in the iterations of *loops*."""
    if value.is_cst():
        return as_int(value.get_constant_val())
    for place in range(value.dim(IN)):
        value = value.set_dim_name(IN, place, loops[place].iname)
    return aff_to_expr(value)


def _named_set(iterations: isl.Set, loops: Sequence[Nest]) -> isl.Set:
    """Return *iterations* with its dimensions named after *loops*."""
    for place in range(iterations.dim(SET)):
        iterations = iterations.set_dim_name(SET, place, loops[place].iname)
    return iterations


# }}}
