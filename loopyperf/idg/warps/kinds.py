"""Which warps of a launch execute alike, and how many of each kind there are.

Boundary tiles, idle warps of a reduction tree and the like execute each statement another number of times than others
do (Lemeire, section 4.1: divergence between warps is several graphs). How often a warp executes a statement is counted
as a function of where the warp is; the warps are cut up where one of these functions changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.idg.warps.points import points_listed, without
from loopyperf.idg.warps.warp import Warp

SET = isl.dim_type.set
PARAM = isl.dim_type.param
LISTED = 4096
"""warps whose numbers of executions differ from one to the next are compared one by one, up to so many"""
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

    places: isl.Set | None
    """where they are, if they are not uniform"""
    warps: int
    """how many there are"""
    example: tuple[int, ...]
    """the place of one of them, in their middle"""
    is_uniform: bool
    """they execute each statement equally often"""


def kinds_of(warps: isl.Set, executions: Sequence[isl.Set]) -> list[Kind]:
    """Return the kinds of *warps*, those of most warps first.

    *warps* is the set of their places; each of *executions* is a set of places with the passes in which they run
    something.
    """
    pieces = [] if warps.is_empty() else [warps.coalesce()]
    varying: list[isl.PwQPolynomial] = []
    for each in executions:
        number = _per_warp(each, warps.dim(SET))
        for where, count in _pieces(number):
            pieces = [part for piece in pieces for part in (piece & where, piece - where) if not part.is_empty()]
            if not _is_constant(count):
                varying.append(number)
    kinds = [kind for piece in pieces for kind in _kinds_in(piece.coalesce(), varying)]
    return sorted(kinds, key=lambda kind: -kind.warps)


def _per_warp(executions: isl.Set, axes: int) -> isl.PwQPolynomial:
    """Return how many passes there are at each place of a warp."""
    apart = executions.move_dims(PARAM, 0, SET, 0, axes)
    for place in range(axes):
        apart = apart.set_dim_name(PARAM, place, f"w{place}")
    return apart.card()


def _pieces(number: isl.PwQPolynomial) -> list[tuple[isl.Set, isl.QPolynomial]]:
    """Return the parts of the places, as sets, with how many passes there are in each."""
    found: list[tuple[isl.Set, isl.QPolynomial]] = []
    number.foreach_piece(lambda where, count: found.append((_as_places(where), count)))
    return found


def _is_constant(count: isl.QPolynomial) -> bool:
    found: list[bool] = []
    kinds = (PARAM, isl.dim_type.in_, isl.dim_type.div)
    count.foreach_term(
        lambda term: found.append(any(term.get_exp(kind, at) for kind in kinds for at in range(count.dim(kind))))
    )
    return not any(found)


def _as_places(where: isl.Set) -> isl.Set:
    number = where.dim(PARAM)
    return isl.Set.from_params(where.params()).move_dims(SET, 0, PARAM, 0, number)


def _kinds_in(piece: isl.Set, varying: Sequence[isl.PwQPolynomial]) -> Iterator[Kind]:
    """Yield the kinds of warps in *piece*, where some numbers of executions are *varying* from warp to warp."""
    axes = [axis for axis in range(piece.dim(SET)) if any(_involves(number, axis) for number in varying)]
    deciding = without(piece, [axis for axis in range(piece.dim(SET)) if axis not in axes])
    if not axes or number_of_points(deciding) > LISTED:
        yield Kind(piece if axes else None, number_of_points(piece), _middle(piece), is_uniform=not axes)
        return
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place in sorted(tuple(map(int, row)) for row in points_listed(deciding)):
        found = tuple(_at(number, axes, place) for number in varying)
        alike.setdefault(found, []).append(place)
    if len(alike) > MOST:
        yield Kind(piece, number_of_points(piece), _middle(piece), is_uniform=False)
        return
    for places in alike.values():
        here = [_fixed(piece, axes, place) for place in places]
        yield Kind(None, sum(map(number_of_points, here)), _middle(here[len(here) // 2]), is_uniform=True)


def _involves(number: isl.PwQPolynomial, axis: int) -> bool:
    found: list[bool] = []
    number.foreach_piece(lambda _, count: found.append(count.involves_dims(PARAM, axis, 1)))
    return any(found)


def _fixed(piece: isl.Set, axes: Sequence[int], place: Sequence[int]) -> isl.Set:
    for axis, value in zip(axes, place, strict=True):
        piece = piece.fix_val(SET, axis, isl.Val(value))
    return piece


def _at(number: isl.PwQPolynomial, axes: Sequence[int], place: Sequence[int]) -> int:
    """Return *number* at *place* on the *axes* that it depends on."""
    point = isl.Point.zero(number.get_domain_space())
    for axis, value in zip(axes, place, strict=True):
        point = point.set_coordinate_val(PARAM, axis, isl.Val(value))
    return number.eval(point).to_python()


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
            fixed = places.fix_val(SET, axis, isl.Val(value))
            if not fixed.is_empty():
                break
        else:
            fixed = places.fix_val(SET, axis, places.sample_point().get_coordinate_val(SET, axis))
            value = places.sample_point().get_coordinate_val(SET, axis).to_python()
        places = fixed
        found.append(value)
    return tuple(found)
