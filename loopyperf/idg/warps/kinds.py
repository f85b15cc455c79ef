"""Which warps of a launch execute alike, and how many of each kind there are.

Boundary tiles, idle warps of a reduction tree and the like execute each statement another number of times than others
do (Lemeire, section 4.1: divergence between warps is several graphs). How often a warp executes a statement is counted
as a function of where the warp is; the warps are cut up where one of these functions changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from loopyperf.idg.warps.warp import Warp
from loopyperf.polyhedral.points import Points, fixed, points_listed, without
from loopyperf.polyhedral.ranges import LISTED, ListedNumber, NumberByPlace, number_by_place
from loopyperf.polyhedral.sets import SetMemory, groups

SET = isl.dim_type.set
Number = NumberByPlace | ListedNumber
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
class Kind:
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


def kinds_of(warps: isl.Set, executions: Sequence[isl.Set]) -> list[Kind]:
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
    kinds: list[Kind] = []
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
    return _Part(where, without(isl.Set.from_basic_set(depending), untied))


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


def _kinds_in(piece: isl.Set, varying: Sequence[Number]) -> Iterator[Kind]:
    """Yield the kinds of warps in *piece*, where some numbers of executions are *varying* from warp to warp."""
    axes = [axis for axis in range(piece.dim(SET)) if any(number.depends_on(axis) for number in varying)]
    deciding = without(piece, [axis for axis in range(piece.dim(SET)) if axis not in axes])
    warps, listed = Points(piece).number, Points(deciding).number if axes else 0
    if not axes or listed > LISTED:
        yield Kind(piece, warps, _middle(piece), is_uniform=not axes, numbers=tuple(varying) if axes else ())
        return
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place in sorted(tuple(map(int, row)) for row in points_listed(deciding)):
        found = tuple(number.at(dict(zip(axes, place, strict=True))) for number in varying)
        alike.setdefault(found, []).append(place)
    if len(alike) > MOST:
        yield Kind(piece, warps, _middle(piece), is_uniform=False, numbers=tuple(varying))
        return
    beside = Points(without(piece, axes)).number
    is_product = warps == listed * beside
    for places in alike.values():
        here = (fixed(piece, dict(zip(axes, place, strict=True))) for place in places)
        number = len(places) * beside if is_product else sum(Points(each).number for each in here)
        middle = fixed(piece, dict(zip(axes, places[len(places) // 2], strict=True)))
        yield Kind(piece, number, _middle(middle), is_uniform=True, axes=tuple(axes), values=tuple(places))


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
