"""Warp classes of a launch: warps that execute each statement equally often, and the number of warps of each class.

Warps in boundary tiles, idle warps of a reduction tree and the like have different execution counts (Lemeire, section
4.1: divergence between warps gives several graphs). The execution count of each statement is a function of the warp's
position; the positions are divided where one of these functions changes.

The file also describes one warp: its work-items, the values of the hardware inames in each lane, and the loops around
statements. The work-items of a group are numbered along ``l.0`` first, then along ``l.1`` and so on, and divided into
warps of 32 in that order (NVIDIA, CUDA C++ Programming Guide, "Thread Hierarchy" and "SIMT Architecture"). AMD divides
them into wavefronts of 64 in the same way.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import lcm, prod

import islpy as isl
import numpy as np
from loopy.diagnostic import StaticValueFindingError
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, VectorizeTag
from loopy.kernel.instruction import InstructionBase
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.schedule import Barrier as BarrierItem
from loopy.symbolic import aff_to_expr, get_dependencies
from numpy.typing import NDArray

from loopyperf.counts.conditions import Guard, Scheduled, ScheduledLoop, scheduled
from loopyperf.counts.generated_code import vector_loop
from loopyperf.counts.memory_accesses import value_at
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch, is_unrolled
from loopyperf.polyhedral.points import (
    LISTED,
    DigitExpansion,
    ListedNumber,
    Points,
    fixed,
    number_by_place,
    points_listed,
    without_dimensions,
)
from loopyperf.polyhedral.sets import SetMemory, as_int, groups

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Warp:
    """A warp: the lanes that execute an instruction together."""

    groups: Mapping[int, int] = field(default_factory=dict[int, int])
    """index of the group along each grid axis"""
    shape: Mapping[int, int] = field(default_factory=lambda: {0: 32})
    """work-items of the group along each local axis"""
    number: int = 0
    """index of the warp in its group"""
    size: int = 32
    """lanes of a full warp"""

    def __post_init__(self) -> None:
        """Raise :class:`ParameterError` if the group has no such warp."""
        if self.size < 1 or any(extent < 1 for extent in self.shape.values()):
            raise ParameterError(f"warps and groups must have at least one lane, got {self}")
        last = warps_of_group(self.shape, self.size) - 1
        if not 0 <= self.number <= last:
            raise ParameterError(f"a group of shape {dict(self.shape)} has warps 0 to {last}, got {self.number}")

    @property
    def lanes(self) -> int:
        """Return the number of lanes with a work-item; the last warp of a group may have fewer than :attr:`size`."""
        return min(self.size, prod(self.shape.values()) - self.number * self.size)

    @property
    def local_ids(self) -> dict[int, Integers]:
        """Return local axis -> index of each lane's work-item along that axis."""
        left = self.number * self.size + np.arange(self.lanes, dtype=np.int64)
        ids: dict[int, Integers] = {}
        for axis, extent in sorted(self.shape.items()):
            ids[axis], left = left % extent, left // extent
        return ids


def warps_of_group(shape: Mapping[int, int], size: int = 32) -> int:
    """Return the number of warps of *size* lanes in a group of *shape*."""
    return -(-prod(shape.values()) // size)


def warp_period(shape: Mapping[int, int], size: int = 32) -> int:
    """Return the period, in warps, with which lanes have the same positions in the rows of a group of *shape*."""
    extents = [extent for _, extent in sorted(shape.items())]
    rows = [prod(extents[:axis]) for axis in range(1, len(extents))]
    return max((lcm(row, size) // size for row in rows if row % size and size % row), default=1)


def group_shape(launch: Launch, sizes: Mapping[str, int]) -> dict[int, int]:
    """Return the number of work-items of a group of *launch* along each local axis at *sizes*."""
    return {axis: _extent(extent, sizes) for axis, extent in launch.local_axes.items()}


def grid_extent(launch: Launch, axis: int, sizes: Mapping[str, int]) -> int:
    """Return the number of groups of *launch* along grid *axis* at *sizes*."""
    return _extent(launch.group_axes[axis], sizes)


def iname_values(
    kernel: Kernel, warp: Warp, inames: Iterable[str], sizes: Mapping[str, int] | None = None
) -> dict[str, Integers]:
    """Return the value of each hardware iname among *inames* in each lane of *warp*.

    Loopy numbers the work-items or groups of an axis from the first point of the iname's loop, which may depend on
    *sizes*. Raises :class:`ParameterError` if the warp lacks an axis or a size is missing.
    """
    local_ids = warp.local_ids
    values: dict[str, Integers] = {}
    for iname in inames:
        tag = kernel.hardware_axes.get(iname)
        if isinstance(tag, LocalInameTag):
            # A group without an axis has one work-item along it.
            ids = local_ids.get(tag.axis, np.zeros(warp.lanes, dtype=np.int64))
        elif isinstance(tag, GroupInameTag):
            ids = np.full(warp.lanes, _group(warp, iname, tag.axis), dtype=np.int64)
        else:
            continue
        values[iname] = ids + first_value(kernel, iname, sizes or {})
    return values


def _group(warp: Warp, iname: str, axis: int) -> int:
    if axis not in warp.groups:
        raise ParameterError(f"iname {iname!r} needs the group index along g.{axis}; add it to the warp's groups")
    return warp.groups[axis]


def first_value(kernel: Kernel, iname: str, sizes: Mapping[str, int]) -> int:
    """Return the value of *iname* in the first work-item or group along its axis in Loopy's code.

    Raises :class:`UncountableError` if the value is not a single expression, and :class:`ParameterError` if a size is
    missing.
    """
    if iname in kernel.first_on_axes:
        return kernel.first_on_axes[iname]
    try:
        first = aff_to_expr(get_hw_axis_base_for_codegen(kernel.loopy_kernel, iname))
    except StaticValueFindingError as error:
        raise UncountableError(
            f"the first value of iname {iname!r} is not a single expression; its values per lane are unknown"
        ) from error
    missing = kernel.parameters & get_dependencies(first) - sizes.keys()
    if missing:
        raise ParameterError(f"iname {iname!r} starts at {first}; give size {', '.join(map(repr, sorted(missing)))}")
    return value_at(first, sizes, f"the first value of {iname} ({first})")


def _extent(extent: isl.PwAff, sizes: Mapping[str, int]) -> int:
    for name, (kind, place) in extent.domain().get_var_dict(isl.dim_type.param).items():
        if not extent.involves_dims(kind, place, 1):
            continue  # launch parameters include values that only bound inner loops
        if name not in sizes:
            raise ParameterError(f"the shape of a group depends on size {name!r}; give its value")
        fixed = isl.Set.universe(extent.domain().get_space()).fix_val(kind, place, isl.Val(str(sizes[name])))
        extent = extent.intersect_domain(fixed)
    return as_int(extent.max_val())


# {{{ the loop nest of a launch, from its schedule


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction, a barrier, or the evaluation of a predicate in the generated code."""

    what: InstructionBase | Barrier | Guard
    loops: tuple["Nest", ...]
    """enclosing loops, outermost first"""
    inames: frozenset[str]
    """inames that it runs over, including hardware axes but not vector axes"""
    number: int
    """index in program order"""

    @property
    def name(self) -> str:
        """Return the id of the instruction, the id of the first one that a predicate guards, or the barrier's label."""
        match self.what:
            case Barrier(label=label):
                return label
            case Guard(instruction=first):
                return first.id
            case instruction:
                return instruction.id


@dataclass(eq=False, slots=True)
class Nest:
    """A sequential loop. Loops over the same iname are distinguished by object identity."""

    iname: str
    is_unrolled: bool
    body: list["Nest | Statement"] = field(default_factory=list["Nest | Statement"])

    def statements(self) -> Iterator[Statement]:
        """Yield the statements inside the loop in program order."""
        for item in self.body:
            if isinstance(item, Statement):
                yield item
            else:
                yield from item.statements()


def nest_of(kernel: Kernel, launch: Launch) -> Nest:
    """Return the body of *launch* as an artificial loop of one iteration."""
    tags_of, barriers, numbers = kernel.loopy_kernel.iname_tags_of_type, iter(launch.barriers), count()

    def add(nest: Nest, item: Scheduled, loops: tuple[Nest, ...]) -> None:
        """Append *item* to *nest*, the innermost of *loops*; of a vectorized loop, only the body."""
        if isinstance(item, ScheduledLoop):
            inner = nest
            if not tags_of(item.iname, VectorizeTag):
                inner = Nest(item.iname, is_unrolled(kernel.loopy_kernel, item.iname))
                nest.body.append(inner)
                loops = (*loops, inner)
            for each in item.body:
                add(inner, each, loops)
            return
        if isinstance(item, BarrierItem):
            what = next(barriers)
            inames = what.inames | what.groups
        elif isinstance(item, Guard):
            what, inames = item, kernel.on_every_lane(launch, item.inames)
        else:
            vector = vector_loop(kernel, item)
            what, own = item, item.within_inames - {vector.iname if vector else ""}
            inames = kernel.on_every_lane(launch, frozenset(own))
            # Loopy writes copies of the instruction for these inames.
            for iname in sorted(own.difference(outer.iname for outer in loops)):
                if tags_of(iname, (IlpBaseTag, VectorizeTag)):
                    inner = Nest(iname, is_unrolled=True)
                    nest.body.append(inner)
                    nest, loops = inner, (*loops, inner)
        nest.body.append(Statement(what, loops, inames, next(numbers)))

    whole = Nest("", is_unrolled=False)
    for item in scheduled(kernel, launch):
        add(whole, item, ())
    return whole


Loops = tuple[Nest, ...]
"""nested loops, outermost first"""


@contextmanager
def naming(statement: Statement) -> Generator[None]:
    """Prefix the message of an :class:`UncountableError` with the name of *statement*."""
    try:
        yield
    except UncountableError as error:
        error.args = (f"instruction {statement.name!r}: {error}",)
        raise


# }}}


SET = isl.dim_type.set
Number = DigitExpansion | ListedNumber
MOST_CLASSES = 16
"""maximum number of classes per region; beyond it, its warps form one class with mean execution counts"""


@dataclass(frozen=True, slots=True)
class Placement:
    """Coordinate system of warp positions: host loops, grid axes, and the warp index in the group."""

    host: tuple[str, ...]
    """host loops around the launch"""
    groups: tuple[int, ...]
    """grid axes"""
    shape: Mapping[int, int]
    """work-items of a group along each local axis"""
    size: int
    """lanes of a warp"""

    @property
    def axes(self) -> int:
        """Return the number of coordinates of a warp position."""
        return len(self.host) + len(self.groups) + 1

    def warp(self, place: Sequence[int]) -> tuple[Warp, dict[str, int]]:
        """Return the warp at position *place*, and the values of the host loops around its launch."""
        host = dict(zip(self.host, place, strict=False))
        groups = dict(zip(self.groups, place[len(self.host) :], strict=False))
        return Warp(groups, self.shape, place[-1], self.size), host


@dataclass(frozen=True, slots=True)
class WarpKind:
    """A warp class: warps that execute each statement equally often, or nearly so."""

    places: isl.Set
    """positions of the warps; a superset if :attr:`values` is not empty"""
    warps: int
    """number of warps"""
    example: tuple[int, ...]
    """position of a representative warp near the middle"""
    is_uniform: bool
    """whether all warps have the same execution counts"""
    axes: tuple[int, ...] = ()
    """axes of :attr:`values`"""
    values: tuple[tuple[int, ...], ...] = ()
    """if not empty, the class has only the :attr:`places` with one of these values on :attr:`axes`"""
    numbers: tuple[Number, ...] = ()
    """varying execution counts of a non-uniform class, as functions of the position"""

    def is_of(self, place: Sequence[int]) -> bool:
        """Return whether the warp at *place*, one of :attr:`places`, belongs to this class."""
        return not self.values or tuple(place[axis] for axis in self.axes) in self.values

    def work(self, place: Sequence[int]) -> int:
        """Return the sum of the varying execution counts of the warp at *place*."""
        return sum(number.at(dict(enumerate(place))) for number in self.numbers)


def warp_kinds(warps: isl.Set, executions: Sequence[isl.Set]) -> list[WarpKind]:
    """Return the warp classes of a launch, largest first.

    *warps* is the set of warp positions. Each of *executions* is a set of (position, loop iterations) pairs in which a
    warp executes a statement.
    """
    axes = warps.dim(SET)
    pieces = [] if warps.is_empty() else [warps.coalesce()]
    parts = [_apart(each, axes) for each in _distinct(executions)]
    for where in _distinct(part.where for part in parts):
        pieces = _cut(pieces, where)
    known = SetMemory[int]()
    numbers: list[Number] = []
    varying: list[tuple[isl.Set, int]] = []
    """(region, index in *numbers*) of execution counts that vary from warp to warp"""
    for part in parts:
        if part.depending is not None:
            place = known.setdefault(part.depending, len(numbers))
            if place == len(numbers):
                numbers.append(number_by_place(part.depending, axes))
            for where, is_constant in numbers[place].pieces():
                pieces = _cut(pieces, where & part.where)
                if not is_constant:
                    varying.append((part.where, place))
    kinds: list[WarpKind] = []
    for piece in pieces:
        # No piece crosses a border of the functions.
        here = dict.fromkeys(place for where, place in varying if piece.is_subset(where))
        kinds += _kinds_in(piece.coalesce(), [numbers[place] for place in here])
    return sorted(kinds, key=lambda kind: -kind.warps)


def _distinct(sets: Iterable[isl.Set]) -> list[isl.Set]:
    """Return *sets* without duplicates."""
    known = SetMemory[int]()
    return [each for number, each in enumerate(sets) if known.setdefault(each, number) == number]


def _cut(pieces: Sequence[isl.Set], where: isl.Set) -> list[isl.Set]:
    """Return *pieces* split into the parts inside and outside *where*."""
    if all(piece.is_subset(where) for piece in pieces):
        return list(pieces)
    return [part for piece in pieces for part in (piece & where, piece - where) if not part.is_empty()]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Positions with executions of a statement, and the executions on which the count per position depends."""

    where: isl.Set
    depending: isl.Set | None
    """None if the count is the same at all positions"""


def _apart(executions: isl.Set, axes: int) -> _Part:
    """Return the positions of *executions*, and the dimensions and constraints on which their number depends there.

    A loop that no constraint ties to the position contributes a constant factor. Constraints between axes of the
    position alone are part of the positions.
    """
    where = executions.project_out(SET, axes, executions.dim(SET) - axes).coalesce()
    parts = executions.get_basic_sets()
    if len(parts) != 1:
        return _Part(where, executions if parts else None)
    tied = _tied(parts[0], axes)
    if not tied:
        return _Part(where, None)
    depending = parts[0]
    for place in range(axes):
        if place not in tied:
            depending = depending.drop_constraints_involving_dims(SET, place, 1)
    untied = [place for place in range(axes, executions.dim(SET)) if place not in tied]
    return _Part(where, without_dimensions(isl.Set.from_basic_set(depending), untied))


def _tied(part: isl.BasicSet, axes: int) -> frozenset[int]:
    """Return the dimensions of *part* in constraint groups that connect position *axes* with loops."""
    loops = range(axes, part.dim(SET))
    return frozenset[int]().union(
        *(group for group in groups(part) if min(group) < axes and not group.isdisjoint(loops))
    )


def loops_by_place(executions: isl.Set, axes: int) -> frozenset[int]:
    """Return the loops of *executions* (0 = outermost) whose iterations may depend on the first *axes* dimensions."""
    tied = frozenset[int]().union(*(_tied(part, axes) for part in executions.get_basic_sets()))
    return frozenset(place - axes for place in range(axes, executions.dim(SET)) if place in tied)


def _kinds_in(piece: isl.Set, varying: Sequence[Number]) -> Iterator[WarpKind]:
    """Yield the warp classes in *piece*, given the execution counts that are *varying* from warp to warp."""
    axes = [axis for axis in range(piece.dim(SET)) if any(number.depends_on(axis) for number in varying)]
    deciding = without_dimensions(piece, [axis for axis in range(piece.dim(SET)) if axis not in axes])
    warps, listed = Points(piece).number, Points(deciding).number if axes else 0
    if not axes or listed > LISTED:
        yield WarpKind(piece, warps, _middle(piece), is_uniform=not axes, numbers=tuple(varying) if axes else ())
        return
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place in sorted(tuple(map(int, row)) for row in points_listed(deciding)):
        found = tuple(number.at(dict(zip(axes, place, strict=True))) for number in varying)
        alike.setdefault(found, []).append(place)
    if len(alike) > MOST_CLASSES:
        yield WarpKind(piece, warps, _middle(piece), is_uniform=False, numbers=tuple(varying))
        return
    beside = Points(without_dimensions(piece, axes)).number
    is_product = warps == listed * beside
    for places in alike.values():
        here = (fixed(piece, dict(zip(axes, place, strict=True))) for place in places)
        number = len(places) * beside if is_product else sum(Points(each).number for each in here)
        middle = fixed(piece, dict(zip(axes, places[len(places) // 2], strict=True)))
        yield WarpKind(piece, number, _middle(middle), is_uniform=True, axes=tuple(axes), values=tuple(places))


def _middle(places: isl.Set) -> tuple[int, ...]:
    """Return one of *places*, near the middle of each axis in turn."""
    found: list[int] = []
    for axis in range(places.dim(SET)):
        low, high = as_int(places.dim_min_val(axis)), as_int(places.dim_max_val(axis))
        near = (
            sorted(range(low, high + 1), key=lambda value: abs(2 * value - low - high))
            if high - low < 64
            else [(low + high) // 2]
        )
        for value in near:
            here = fixed(places, {axis: value})
            if not here.is_empty():
                break
        else:
            value = as_int(places.sample_point().get_coordinate_val(SET, axis))
            here = fixed(places, {axis: value})
        places = here
        found.append(value)
    return tuple(found)
