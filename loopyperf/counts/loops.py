"""The points that loops visit, including loops with loaded bounds, and the code that replaces loop variables.

Loopy allows loop bounds that the kernel computes. Such loops are counted with typical values from the user: the
iteration count if the loop is independent of other loops, otherwise the values of the variables in its bounds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import ceil
from operator import mul
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.codegen import UnvectorizableError
from loopy.diagnostic import StaticValueFindingError
from loopy.expression import VectorizabilityChecker
from loopy.isl_helpers import static_value_of_pw_aff
from loopy.kernel.data import LocalInameTag, UnrolledIlpTag, UnrollTag, VectorizeTag
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.symbolic import DependencyMapper, GroupHardwareAxisIndex, LocalHardwareAxisIndex, pw_aff_to_expr
from pymbolic.mapper import UnsupportedExpressionError

from loopyperf.counts.sizes import Typical
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch, is_unrolled
from loopyperf.polyhedral.sets import names_involved

SET = isl.dim_type.set
PARAM = isl.dim_type.param


@dataclass(frozen=True, slots=True)
class LoopPoints:
    """The points of a loop nest."""

    points: isl.Set
    """points over the inames; the parameters are the kernel's"""
    weight: Fraction = Fraction(1)
    """weight of each point: 1 unless a loop has a fractional iteration count"""
    shifted: frozenset[str] = frozenset()
    """loops of which only the iteration count is known; their variables start from zero here"""
    starts: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """loop -> data that determines its first value"""
    by_data: frozenset[str] = frozenset()
    """loops with bounds that depend on data"""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A constraint that bounds one of its loops by data."""

    loop: str
    data: frozenset[str]
    from_below: bool


def loop_points(kernel: Kernel, inames: frozenset[str], typical: Typical) -> LoopPoints:
    """Return the points that loops over exactly *inames* visit.

    Raises :class:`UncountableError` if bounds depend on data without a typical value.
    """
    points = kernel.domain(inames)
    data = _data(kernel, points)
    if not data:
        return LoopPoints(points)
    bounds = [bound for bound in _bounds(points, data) if _is_homed_by_data(kernel, bound)]
    iterations: dict[str, Fraction] = {}
    for loop in sorted({bound.loop for bound in bounds}):
        of_loop = [bound for bound in bounds if bound.loop == loop]
        number, points = _settled(points, loop, of_loop, typical)
        iterations.update(number)
    for name in data:
        points = _without_parameter(points, name)
    for loop, number in iterations.items():
        points = _iterating(points, loop, ceil(number))
    weights = (number / ceil(number) if number else Fraction(1) for number in iterations.values())
    starts = {bound.loop: bound.data for bound in bounds if bound.from_below}
    by_data = frozenset(bound.loop for bound in bounds)
    return LoopPoints(points, reduce(mul, weights, Fraction(1)), frozenset(iterations), starts, by_data)


def leaning_loops(kernel: Kernel, launch: Launch, points: isl.Set) -> frozenset[str]:
    """Return the sequential loops of *points* whose first value differs between the work-items of a group.

    A loop that starts from such a loop's variable is one as well: in the same iteration, work-items have different
    values. The result has no loops on the host and no unrolled loops, whose iterations or copies have one value for all
    work-items. It also has no loops that Loopy bounds without local inames, with conditions inside, because the bounds
    are in other domains or because all work-items have to reach a barrier inside.
    """
    names = points.get_var_names_not_none(SET)
    axes = {name: kernel.hardware_axes.get(name) for name in names}
    local = {name for name, tag in axes.items() if isinstance(tag, LocalInameTag)}
    loops = {name for name in axes.keys() - launch.host_inames if axes[name] is None}
    loops = {name for name in loops if not is_unrolled(kernel.loopy_kernel, name)}
    loops = loops.difference(*(barrier.loops for barrier in launch.barriers))
    nest = launch.nested(loops) if local else []
    leaning = set(local)
    for place, loop in enumerate(nest):
        inner = nest[place + 1 :]
        around = bounding_around(kernel, names, loop, inner)
        leaning_on = leaning.intersection(around)
        from_below = frozenset[str]().union(*_bounds_from_below(points, loop))
        if from_below & leaning_on or (
            not from_below.isdisjoint(inner) and not _starts_uniformly(kernel.domain({*around, loop}), loop, leaning_on)
        ):
            leaning.add(loop)
    return frozenset(leaning - local)


def _starts_uniformly(points: isl.Set, loop: str, names: Collection[str]) -> bool:
    """Return whether the first value of *loop* in *points* is the same for all values of *names*.

    If an inner loop bounds *loop*, no single constraint shows it: the first value is the first with an iteration of the
    inner loop.
    """
    around = [name for name in points.get_var_names_not_none(SET) if name != loop]
    start = first_values(points, around, loop)
    for name in names:
        start = start.project_out(isl.dim_type.in_, around.index(name), 1)
        around.remove(name)
    return start.is_single_valued()


def first_values(points: isl.Set, around: Sequence[str], loop: str) -> isl.Map:
    """Return the map from values of the loops *around* to the first value of *loop* in *points*."""
    order = [*around, loop]
    places = ", ".join(f"x{order.index(name)}" for name in points.get_var_names_not_none(SET))
    outside = ", ".join(f"x{place}" for place in range(len(around)))
    return points.apply(isl.Map(f"{{ [{places}] -> [[{outside}] -> [x{len(around)}]] }}")).unwrap().lexmin()


def _bounds_from_below(points: isl.Set, loop: str) -> Iterator[frozenset[str]]:
    """Yield the loops in each constraint of *points* that bounds *loop* from below."""
    place = points.get_var_names_not_none(SET).index(loop)
    for basic in points.get_basic_sets():
        for constraint in basic.get_constraints():
            if constraint.is_equality() or constraint.get_coefficient_val(SET, place).is_pos():
                involved = names_involved(constraint, SET)
                if loop in involved:
                    yield involved


def bounding_around(kernel: Kernel, names: Sequence[str], loop: str, inner: Collection[str]) -> list[str]:
    """Return the *names* that may occur in Loopy's bounds of *loop*: those of its domain and the domains around it.

    *inner* are the loops inside *loop*.
    """
    home = kernel.loopy_kernel.get_home_domain_index(loop)
    domains = (home, *kernel.loopy_kernel.all_parents_per_domain()[home])
    known = {name for index in domains for name in kernel.loopy_kernel.domains[index].get_var_names_not_none(SET)}
    return [name for name in names if name in known and name != loop and name not in inner]


def _data(kernel: Kernel, points: isl.Set) -> frozenset[str]:
    return frozenset(points.get_var_names_not_none(PARAM)) - kernel.parameters


def _settled(points: isl.Set, loop: str, bounds: list[_Bound], typical: Typical) -> tuple[dict[str, Fraction], isl.Set]:
    """Return the iteration count of *loop*, or *points* at the typical values of the data that bound it."""
    data = sorted({name for bound in bounds for name in bound.data})
    why = f"loop {loop} is bounded by data ({', '.join(data)})"
    stands_alone = _stands_alone(points, loop, data)
    if stands_alone and (typical.has(loop) or (len(data) > 1 and not all(map(typical.has, data)))):
        return {loop: typical.iterations(loop, why)}, points
    for name in data:
        points = _fixed(points, name, typical.size(name, why))
    return {}, points


def _stands_alone(points: isl.Set, loop: str, data: Iterable[str]) -> bool:
    """Return whether only *data* and a constant first value bound *loop*, and *loop* bounds no other loop."""
    for name in data:
        points = _without_parameter(points, name)
    kind, place = points.get_var_dict()[loop]
    if not points.involves_dims(kind, place, 1):
        return True
    first = points.dim_min_val(place)
    others = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    return first.is_int() and others.lower_bound_val(kind, place, first).is_equal(points)


# {{{ constraints


def _bounds(points: isl.Set, data: frozenset[str]) -> Iterator[_Bound]:
    names = points.get_var_names_not_none(SET)
    for basic in points.get_basic_sets():
        for constraint in basic.get_constraints():
            involved = names_involved(constraint, PARAM) & data
            for loop in sorted(names_involved(constraint, SET)) if involved else ():
                value = constraint.get_coefficient_val(SET, names.index(loop))
                from_below = constraint.is_equality() or value.is_pos()
                yield _Bound(loop, involved, from_below)


def _is_homed_by_data(kernel: Kernel, bound: _Bound) -> bool:
    """Return whether data bounds the loop of *bound* itself, not only a loop around or inside it."""
    home = kernel.loopy_kernel.domains[kernel.loopy_kernel.get_home_domain_index(bound.loop)]
    return bool(bound.data & frozenset(home.get_var_names_not_none(PARAM)))


# }}}


# {{{ sets


def _without_parameter(points: isl.Set, name: str) -> isl.Set:
    place = points.get_var_dict(PARAM).get(name)
    return points if place is None else points.project_out(*place, 1)


def _fixed(points: isl.Set, name: str, value: int) -> isl.Set:
    place = points.get_var_dict(PARAM).get(name)
    return points if place is None else points.fix_val(*place, isl.Val(str(value))).project_out(*place, 1)


def _iterating(points: isl.Set, loop: str, iterations: int) -> isl.Set:
    """Return *points* with this many *iterations* of *loop*, from its first value or, if that is data, from zero."""
    _, place = points.get_var_dict()[loop]
    known = points.dim_min_val(place)
    first = known if known.is_int() else isl.Val.zero(points.get_ctx())
    return points.lower_bound_val(SET, place, first).upper_bound_val(SET, place, first + isl.Val(str(iterations - 1)))


# }}}


# {{{ code that replaces loop variables


def written_iname(kernel: Kernel, iname: str) -> Any:
    """Return the expression that generated code has instead of *iname*; None if it is a variable.

    See ``generate_unroll_loop`` and ``set_up_hw_parallel_loops`` in ``loopy/codegen/loop.py``. An unrolled loop without
    a constant first value or a constant iteration count is treated as not unrolled.
    """
    loopy_kernel = kernel.loopy_kernel
    if loopy_kernel.iname_tags_of_type(iname, (UnrollTag, UnrolledIlpTag, VectorizeTag)):
        try:
            lower: Any = loopy_kernel.get_iname_bounds(iname, constants_only=True).lower_bound_pw_aff.coalesce()
            first = pw_aff_to_expr(static_value_of_pw_aff(lower, constants_only=False))
        except (StaticValueFindingError, isl.Error):  # isl.Error: there is no constant bound
            return None
        return first if prim.is_constant(first) else None
    tag = kernel.hardware_axes.get(iname)
    if tag is None:
        return None
    base = pw_aff_to_expr(get_hw_axis_base_for_codegen(loopy_kernel, iname).to_pw_aff())
    axis = LocalHardwareAxisIndex if isinstance(tag, LocalInameTag) else GroupHardwareAxisIndex
    return None if prim.is_zero(base) else prim.flattened_sum([axis(tag.axis), base])


# }}}


# {{{ loops executed at once, as vector operations


NOT_IN_VECTORS = (AssertionError, NotImplementedError, UnsupportedExpressionError, UnvectorizableError, ValueError)
"""exceptions of Loopy's vectorizability checker, intended or not, for what is not a vector operation"""


class VectorLoop:
    """A loop that an instruction executes as one vector operation."""

    def __init__(self, kernel: Kernel, iname: str) -> None:
        """Check the loop over *iname*."""
        self.iname = iname
        length: Any = kernel.loopy_kernel.get_constant_iname_length(iname)
        self.length = int(length)
        """vector length"""
        self._is_vector = VectorizabilityChecker(kernel.loopy_kernel, iname, self.length)

    def is_vector(self, expression: Any) -> bool:
        """Return whether *expression* has a value for each iteration of the loop, or one value for all."""
        try:
            return self._is_vector(expression)
        except NOT_IN_VECTORS:  # e.g. a function call at a place that Loopy's checker does not visit
            return True

    def stores(self, assignment: Assignment) -> bool:
        """Return whether Loopy writes *assignment* as one operation; raises any of :data:`NOT_IN_VECTORS`.

        Loopy does not check all operands and may then generate invalid code; this method checks all of them.
        """
        stores, computes = self._is_vector(assignment.assignee), self._is_vector(assignment.expression)
        for leaf in DependencyMapper(include_subscripts=True)(assignment.expression):
            self._is_vector(leaf)
        return stores or not computes


def vector_loop(kernel: Kernel, instruction: InstructionBase) -> VectorLoop | None:
    """Return the loop that *instruction* executes as one vector operation; None if there is none.

    Loopy unrolls the loop if it cannot vectorize it, or if some iterations are skipped.
    """
    tagged = (name for name in instruction.within_inames if kernel.loopy_kernel.iname_tags_of_type(name, VectorizeTag))
    iname = next(tagged, None)
    if iname is None or not isinstance(instruction, Assignment) or instruction.atomicity:
        return None
    try:
        loop = VectorLoop(kernel, iname)
        at_once = loop.stores(instruction) and _is_whole(kernel, instruction.within_inames, iname)
    except NOT_IN_VECTORS:
        return None
    return loop if at_once else None


def _is_whole(kernel: Kernel, inames: frozenset[str], iname: str) -> bool:
    """Return whether the loop over *iname* always executes all of its iterations.

    With slabs, all but the last one do; the last one executes element by element but is counted as a vector operation.
    """
    if any(any(slabs) for slabs in kernel.loopy_kernel.iname_slab_increments.values()):
        return True
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    points = kernel.domain(inames).intersect_params(assumed)
    kind, place = points.get_var_dict()[iname]
    anywhere = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    first, last = points.dim_min_val(place), points.dim_max_val(place)
    return points.is_equal(anywhere.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last))


# }}}
