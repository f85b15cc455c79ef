"""Which warps of a launch execute alike, and how many of each kind there are.

Boundary tiles, idle warps of a reduction tree and the like execute each statement another number of times than others
do (Lemeire, section 4.1: divergence between warps is several graphs). How often a warp executes a statement is counted
as a function of where the warp is; the warps are cut up where one of these functions changes.

One warp: its work-items, the values of the hardware's inames in each lane, and the loops around statements.

A group's work-items are numbered along ``l.0`` first, then along ``l.1`` and so on, and cut into warps of 32 in that
order (NVIDIA, CUDA C++ Programming Guide, "Thread Hierarchy" and "SIMT Architecture"); AMD's wavefronts of 64 likewise.
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
from loopy.schedule import EnterLoop, RunInstruction, ScheduleItem, gather_schedule_block
from loopy.symbolic import aff_to_expr, get_dependencies
from numpy.typing import NDArray

from loopyperf.counts.conditions import Guard, guards
from loopyperf.counts.loops import vector_loop
from loopyperf.counts.memory_accesses import value_at
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch, is_unrolled
from loopyperf.polyhedral.points import Points, fixed, points_listed, without_dimensions
from loopyperf.polyhedral.ranges import LISTED, DigitExpansion, ListedNumber, number_by_place
from loopyperf.polyhedral.sets import SetMemory, groups

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Warp:
    """Lanes that execute an instruction together; its numbers are checked against each other."""

    groups: Mapping[int, int] = field(default_factory=dict[int, int])
    """the group's index along each axis of the grid"""
    shape: Mapping[int, int] = field(default_factory=lambda: {0: 32})
    """the group's work-items along each local axis"""
    number: int = 0
    """of the warp in its group"""
    size: int = 32
    """lanes of a full warp"""

    def __post_init__(self) -> None:
        """Raise :class:`ParameterError` where the group has no such warp."""
        if self.size < 1 or any(extent < 1 for extent in self.shape.values()):
            raise ParameterError(f"warps and groups have at least one lane, received {self}")
        last = warps_of_group(self.shape, self.size) - 1
        if not 0 <= self.number <= last:
            raise ParameterError(f"a group of shape {dict(self.shape)} has warps 0 to {last}, received {self.number}")

    @property
    def lanes(self) -> int:
        """Return the number of lanes that are work-items: fewer than :attr:`size` in a group's last warp, maybe."""
        return min(self.size, prod(self.shape.values()) - self.number * self.size)

    @property
    def local_ids(self) -> dict[int, Integers]:
        """Return for each local axis the index of each lane's work-item in the group."""
        left = self.number * self.size + np.arange(self.lanes, dtype=np.int64)
        ids: dict[int, Integers] = {}
        for axis, extent in sorted(self.shape.items()):
            ids[axis], left = left % extent, left // extent
        return ids


def warps_of_group(shape: Mapping[int, int], size: int = 32) -> int:
    """Return the number of warps of *size* lanes in a group of *shape*."""
    return -(-prod(shape.values()) // size)


def warp_period(shape: Mapping[int, int], size: int = 32) -> int:
    """Return after how many warps of a group of *shape* lanes lie in the same places of the group's rows again."""
    extents = [extent for _, extent in sorted(shape.items())]
    rows = [prod(extents[:axis]) for axis in range(1, len(extents))]
    return max((lcm(row, size) // size for row in rows if row % size and size % row), default=1)


def group_shape(launch: Launch, sizes: Mapping[str, int]) -> dict[int, int]:
    """Return the work-items of a group of *launch* along each local axis at *sizes*."""
    return {axis: _extent(extent, sizes) for axis, extent in launch.local_axes.items()}


def grid_extent(launch: Launch, axis: int, sizes: Mapping[str, int]) -> int:
    """Return the groups of *launch* along *axis* of the grid at *sizes*."""
    return _extent(launch.group_axes[axis], sizes)


def iname_values(
    kernel: Kernel, warp: Warp, inames: Iterable[str], sizes: Mapping[str, int] | None = None
) -> dict[str, Integers]:
    """Return for those of *inames* that the hardware numbers their value in each lane of *warp*.

    Loopy numbers the work-items (groups) of an axis from the first point of the iname's loop, at *sizes* where that
    depends on them. Raises :class:`ParameterError` where the warp lacks an axis, or a size is missing.
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
        raise ParameterError(f"{iname} numbers the groups along g.{axis}, of which the warp has no index: add it")
    return warp.groups[axis]


def first_value(kernel: Kernel, iname: str, sizes: Mapping[str, int]) -> int:
    """Return the value of *iname* in the first work-item or group along its axis, as Loopy's code has it.

    Raises :class:`UncountableError` where it is no one expression, and :class:`ParameterError` without its sizes.
    """
    if iname in kernel.first_on_axes:
        return kernel.first_on_axes[iname]
    try:
        first = aff_to_expr(get_hw_axis_base_for_codegen(kernel.loopy_kernel, iname))
    except StaticValueFindingError as error:
        raise UncountableError(f"where {iname} starts is no one expression, so lanes have no values of it") from error
    missing = kernel.parameters & get_dependencies(first) - sizes.keys()
    if missing:
        raise ParameterError(f"{iname} starts from {first}: state {', '.join(sorted(missing))}")
    return value_at(first, sizes, f"where {iname} starts ({first})")


def _extent(extent: isl.PwAff, sizes: Mapping[str, int]) -> int:
    for name, (kind, place) in extent.domain().get_var_dict(isl.dim_type.param).items():
        if not extent.involves_dims(kind, place, 1):
            continue  # values that bound loops inside are parameters of the launch too
        if name not in sizes:
            raise ParameterError(f"the shape of a group depends on {name}: state it among the sizes")
        fixed = isl.Set.universe(extent.domain().get_space()).fix_val(kind, place, isl.Val(str(sizes[name])))
        extent = extent.intersect_domain(fixed)
    return extent.max_val().to_python()


# {{{ the loops of a launch as its schedule nests them, with what stands where


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction, a barrier, or the evaluation of a predicate, in the order of the generated code."""

    what: InstructionBase | Barrier | Guard
    loops: tuple["Nest", ...]
    """around it, from the outermost on"""
    inames: frozenset[str]
    """those that it runs over, hardware axes included; a vector's is none of them"""
    number: int
    """in the order of the program, counted from 0"""

    @property
    def name(self) -> str:
        """Return the id of the instruction, or of the first one that a predicate guards, or the barrier's label."""
        match self.what:
            case Barrier(label=label):
                return label
            case Guard(instruction=first):
                return first.id
            case instruction:
                return instruction.id


@dataclass(eq=False, slots=True)
class Nest:
    """A sequential loop, told apart from others over the same iname by identity."""

    iname: str
    is_unrolled: bool
    body: list["Nest | Statement"] = field(default_factory=list["Nest | Statement"])

    def statements(self) -> Iterator[Statement]:
        """Yield the statements inside it, in their order."""
        for item in self.body:
            if isinstance(item, Statement):
                yield item
            else:
                yield from item.statements()


def nest_of(kernel: Kernel, launch: Launch) -> Nest:
    """Return the body of *launch* as a loop of one pass, which is no loop of the kernel."""
    whole = Nest("", is_unrolled=False)
    _Reader(kernel, launch).fill(whole, launch.schedule, ())
    return whole


class _Reader:
    """Reads the schedule of one launch."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        self.kernel, self.launch = kernel, launch
        self.barriers = iter(launch.barriers)
        self.numbers = count()
        self.guards: dict[tuple[str, int], list[Guard]] = {}
        for guard in guards(kernel, launch):
            depth = sum(kernel.hardware_axes.get(name) is None for name in guard.inames - launch.host_inames)
            self.guards.setdefault((guard.instruction.id, depth), []).append(guard)

    def fill(self, nest: Nest, schedule: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        """Append what *schedule* says to the body of *nest*, which is inside *loops*."""
        place = 0
        while place < len(schedule):
            item, end = schedule[place], place + 1
            if isinstance(item, EnterLoop):
                _, end = gather_schedule_block(schedule, place)
                self._add_loop(nest, item.iname, schedule[place:end], loops)
            elif isinstance(item, RunInstruction):
                self._add_guards(nest, [item], loops)
                self._add_instruction(nest, self.kernel.loopy_kernel.id_to_insn[item.insn_id], loops)
            elif isinstance(item, BarrierItem) and item.synchronization_kind == "local":
                barrier = next(self.barriers)
                self._append(nest, barrier, loops, barrier.inames | barrier.groups)
            place = end

    def _add_loop(self, nest: Nest, iname: str, block: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        """Append the loop over *iname* that *block* is; of a vector's loop, each instruction has copies of its own."""
        if self.kernel.loopy_kernel.iname_tags_of_type(iname, VectorizeTag):
            self.fill(nest, block[1:-1], loops)
            return
        self._add_guards(nest, block, loops)
        inner = Nest(iname, is_unrolled(self.kernel.loopy_kernel, iname))
        self.fill(inner, block[1:-1], (*loops, inner))
        nest.body.append(inner)

    def _add_guards(self, nest: Nest, block: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        first = next((item.insn_id for item in block if isinstance(item, RunInstruction)), "")
        for guard in self.guards.pop((first, len(loops)), []):
            self._append(nest, guard, loops, self.kernel.on_every_lane(self.launch, guard.inames))

    def _add_instruction(self, nest: Nest, instruction: InstructionBase, loops: tuple[Nest, ...]) -> None:
        """Append *instruction*, inside loops of its own over what Loopy writes copies of it for."""
        vector = vector_loop(self.kernel, instruction)
        inames = instruction.within_inames - {vector.iname if vector else ""}
        for iname in sorted(inames.difference(outer.iname for outer in loops)):
            if self.kernel.loopy_kernel.iname_tags_of_type(iname, (IlpBaseTag, VectorizeTag)):
                inner = Nest(iname, is_unrolled=True)
                nest.body.append(inner)
                nest, loops = inner, (*loops, inner)
        self._append(nest, instruction, loops, self.kernel.on_every_lane(self.launch, frozenset(inames)))

    def _append(
        self, nest: Nest, what: InstructionBase | Barrier | Guard, loops: tuple[Nest, ...], inames: frozenset[str]
    ) -> None:
        nest.body.append(Statement(what, loops, inames, next(self.numbers)))


Loops = tuple[Nest, ...]
"""one inside the other, the outermost first"""


@contextmanager
def naming(statement: Statement) -> Generator[None]:
    """Begin what is refused of *statement* with its name."""
    try:
        yield
    except UncountableError as error:
        error.args = (f"instruction {statement.name!r}: {error}",)
        raise


# }}}


SET = isl.dim_type.set
Number = DigitExpansion | ListedNumber
MOST = 16
"""kinds among these; more are taken as one kind, with the mean of what they execute"""


@dataclass(frozen=True, slots=True)
class Placement:
    """The axes by which the warps of a launch are numbered: host loops, axes of the grid, and the warps of a group."""

    host: tuple[str, ...]
    groups: tuple[int, ...]
    """axes of the grid"""
    shape: Mapping[int, int]
    """work-items of a group along each local axis"""
    size: int
    """lanes of a warp"""

    @property
    def axes(self) -> int:
        """Return how many numbers place a warp."""
        return len(self.host) + len(self.groups) + 1

    def warp(self, place: Sequence[int]) -> tuple[Warp, dict[str, int]]:
        """Return the warp at *place*, and the values of the host's loops around its launch."""
        host = dict(zip(self.host, place, strict=False))
        groups = dict(zip(self.groups, place[len(self.host) :], strict=False))
        return Warp(groups, self.shape, place[-1], self.size), host


@dataclass(frozen=True, slots=True)
class WarpKind:
    """Warps that execute each statement equally often, or nearly so."""

    places: isl.Set
    """where they are; with :attr:`values`, others may be there too"""
    warps: int
    """how many there are"""
    example: tuple[int, ...]
    """the place of one of them, in their middle"""
    is_uniform: bool
    """they execute each statement equally often"""
    axes: tuple[int, ...] = ()
    """the axes of :attr:`values`"""
    values: tuple[tuple[int, ...], ...] = ()
    """if any are listed: only the :attr:`places` with one of these values on :attr:`axes` are meant"""
    numbers: tuple[Number, ...] = ()
    """if they are not uniform: how often they execute something, each as a function of the place"""

    def is_of(self, place: Sequence[int]) -> bool:
        """Return whether the warp at *place*, one of :attr:`places`, is of this kind."""
        return not self.values or tuple(place[axis] for axis in self.axes) in self.values

    def work(self, place: Sequence[int]) -> int:
        """Return how often the warp at *place* executes those statements that these warps execute unequally often."""
        return sum(number.at(dict(enumerate(place))) for number in self.numbers)


def warp_kinds(warps: isl.Set, executions: Sequence[isl.Set]) -> list[WarpKind]:
    """Return the kinds of *warps*, those of most warps first.

    *warps* is the set of their places; each of *executions* is a set of places with the passes in which they run
    something.
    """
    axes = warps.dim(SET)
    pieces = [] if warps.is_empty() else [warps.coalesce()]
    parts = [_apart(each, axes) for each in _distinct(executions)]
    for where in _distinct(part.where for part in parts):
        pieces = _cut(pieces, where)
    known = SetMemory[int]()
    numbers: list[Number] = []
    varying: list[tuple[isl.Set, int]] = []
    """where numbers of executions differ from warp to warp, each by its place among *numbers*"""
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
        # A piece is on one side of each border of the numbers.
        here = dict.fromkeys(place for where, place in varying if piece.is_subset(where))
        kinds += _kinds_in(piece.coalesce(), [numbers[place] for place in here])
    return sorted(kinds, key=lambda kind: -kind.warps)


def _distinct(sets: Iterable[isl.Set]) -> list[isl.Set]:
    """Return *sets*, each once."""
    known = SetMemory[int]()
    return [each for number, each in enumerate(sets) if known.setdefault(each, number) == number]


def _cut(pieces: Sequence[isl.Set], where: isl.Set) -> list[isl.Set]:
    """Return *pieces* cut into what is there and what is not."""
    if all(piece.is_subset(where) for piece in pieces):
        return list(pieces)
    return [part for piece in pieces for part in (piece & where, piece - where) if not part.is_empty()]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Executions of something: where there are any, and what says how their number depends on the place."""

    where: isl.Set
    depending: isl.Set | None
    """None where nothing does"""


def _apart(executions: isl.Set, axes: int) -> _Part:
    """Return *executions* as where they are, and on what part of them their number depends there.

    Loops that no constraint ties to the place are entered alike wherever they are, so their passes are a constant
    factor of the number. What ties axes of the place to each other alone is in where they are.
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
    """Return the dimensions of *part* that constraints tie to each other, where some are *axes* and some are loops."""
    loops = range(axes, part.dim(SET))
    return frozenset[int]().union(
        *(group for group in groups(part) if min(group) < axes and not group.isdisjoint(loops))
    )


def loops_by_place(executions: isl.Set, axes: int) -> frozenset[int]:
    """Return the loops of *executions*, numbered from the outermost, whose passes may depend on the *axes* before."""
    tied = frozenset[int]().union(*(_tied(part, axes) for part in executions.get_basic_sets()))
    return frozenset(place - axes for place in range(axes, executions.dim(SET)) if place in tied)


def _kinds_in(piece: isl.Set, varying: Sequence[Number]) -> Iterator[WarpKind]:
    """Yield the kinds of warps in *piece*, where some numbers of executions are *varying* from warp to warp."""
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
    if len(alike) > MOST:
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
    """Return one of *places*, in the middle of each axis in turn."""
    found: list[int] = []
    for axis in range(places.dim(SET)):
        low, high = places.dim_min_val(axis).to_python(), places.dim_max_val(axis).to_python()
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
            value = places.sample_point().get_coordinate_val(SET, axis).to_python()
            here = fixed(places, {axis: value})
        places = here
        found.append(value)
    return tuple(found)
