"""Tools for isl sets: caches, copies that isl may rewrite, products, projections and tiles.

A set of points is the product of its projections onto groups of dimensions that share no constraint. If a projection is
never empty, whatever the parameters, its dimensions can be dropped instead of projected out, which is far faster in isl
than eliminating them one by one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Generic, TypeVar

import islpy as isl

SET = isl.dim_type.set
PARAM = isl.dim_type.param
DIV = isl.dim_type.div
Groups = tuple[frozenset[int], ...]


def as_int(value: isl.Val) -> int:
    """Return the integer *value*, like ``value.to_python()``, which loses the 32 bytes of text that it parses.

    Raises :class:`ValueError` if *value* is not an integer.
    """
    number = value.get_num_si()  # 0 if it has more than 64 bits
    return number if value.is_int() and (number or value.is_zero()) else value.to_python()


# {{{ caches and copies

Value = TypeVar("Value")


class SetMemory(Generic[Value]):
    """A cache with a value for each set; names of dimensions are ignored.

    A dictionary would test sets for equality in isl, which is slower than comparing their representations.
    """

    def __init__(self, most: int | None = None) -> None:
        """Create an empty cache, which is cleared when it has *most* entries."""
        self._most = most
        self._values: dict[int, list[tuple[isl.Set, Value]]] = {}

    def get(self, points: isl.Set) -> Value | None:
        """Return the value of *points*; None if there is none."""
        candidates = self._values.get(hash(points), ())
        return next((value for other, value in candidates if other.plain_is_equal(points)), None)

    def setdefault(self, points: isl.Set, value: Value) -> Value:
        """Return the value of *points*, after setting it to *value* if there is none."""
        known = self.get(points)
        if known is not None:
            return known
        if self._most is not None and len(self._values) >= self._most:
            self._values.clear()
        self._values.setdefault(hash(points), []).append((points, value))
        return value


def own(points: isl.BasicSet) -> isl.BasicSet:
    """Return a copy of *points* with the same constraints, in memory that is not shared.

    isl may simplify the constraints of a set in place whenever it examines it: all holders of the set then see other
    constraints, although the points are the same. Code generation rewrites the domains of a kernel in this way.
    """
    for kind in (SET, PARAM):
        name = points.get_dim_name(kind, 0) if points.dim(kind) else None
        if name is not None:
            return points.set_dim_name(kind, 0, name)  # isl copies the set to rename a dimension
    return points


def minimal(points: isl.BasicSet) -> isl.BasicSet:
    """Return *points* without redundant constraints; *points* themselves are unchanged."""
    return own(points).remove_redundancies()


# }}}

_EXISTENCE = SetMemory[dict[frozenset[int], isl.BasicSet]](most=256)
_INTERVALS = SetMemory[dict[int, "range | None"]](most=256)
"""the same domains of a kernel recur with other names of dimensions"""


def _cached(function: Callable[[isl.BasicSet], Groups]) -> Callable[[isl.BasicSet], Groups]:
    """Return *function* with a cache."""
    memory = SetMemory[Groups](most=256)

    @wraps(function)
    def cached(points: isl.BasicSet) -> Groups:
        key = isl.Set.from_basic_set(points)
        known = memory.get(key)
        return memory.setdefault(key, function(points)) if known is None else known

    return cached


@_cached
def groups(points: isl.BasicSet) -> Groups:
    """Return the dimensions of *points* in groups that share no constraint, directly or through divisions.

    For given parameters, *points* are the product of their projections onto the groups. Divisions are members too,
    numbered after the dimensions.
    """
    return tuple(map(frozenset, tied_together(points.dim(SET) + points.dim(DIV), _ties(points))))


def factors(points: isl.BasicSet) -> Iterator[tuple[list[int], isl.BasicSet]]:
    """Yield the dimensions of each of the :func:`groups`, with the projection of (non-empty) *points* onto them."""
    places = range(points.dim(SET))
    for group in groups(points):
        others = [place for place in places if place not in group]
        if len(others) < len(places):
            part = _without_constraints(points, others)
            for first, number in reversed(_runs(others)):
                part = part.project_out(SET, first, number)
            yield [place for place in places if place in group], part


def tied_together(number: int, ties: Iterable[Collection[int]]) -> list[list[int]]:
    """Return the places 0 to *number* - 1 in groups: *ties*, merged if they share a place."""
    group = list(range(number))
    for together in ties:
        tied = {group[place] for place in together}
        if len(tied) > 1:
            least = min(tied)
            group = [least if each in tied else each for each in group]
    members: dict[int, list[int]] = {}
    for place, each in enumerate(group):
        members.setdefault(each, []).append(place)
    return list(members.values())


@_cached
def _ties(points: isl.BasicSet) -> Groups:
    """Return the dimensions and divisions in each constraint of *points*."""
    return tuple(frozenset(_involved(constraint)) for constraint in points.get_constraints())


def _involved(constraint: isl.Constraint) -> list[int]:
    """Return the dimensions in *constraint*, and its divisions, numbered after the dimensions."""
    number = constraint.dim(SET)
    found = [place for place in range(number) if constraint.involves_dims(SET, place, 1)]
    divisions = (place for place in range(constraint.dim(DIV)) if constraint.involves_dims(DIV, place, 1))
    return found + [number + place for place in divisions]


def names_involved(constraint: isl.Constraint, *kinds: isl.dim_type) -> frozenset[str]:
    """Return the names of dimensions of these *kinds* in *constraint*, including those in its divisions."""
    places = ((kind, place) for kind in kinds for place in range(constraint.dim(kind)))
    return frozenset(str(constraint.get_dim_name(*each)) for each in places if constraint.involves_dims(*each, 1))


def parameters_of(points: isl.BasicSet) -> list[str]:
    """Return the parameters that the constraints of *points* involve."""
    return [name for name, (kind, place) in points.get_var_dict(PARAM).items() if points.involves_dims(kind, place, 1)]


@_cached
def independent(points: isl.BasicSet) -> Groups:
    """Return the groups of *points* whose projections are not empty and do not depend on parameters."""
    by_parameters = [each for each in points.get_constraints() if each.involves_dims(PARAM, 0, each.dim(PARAM))]
    parametric = {place for constraint in by_parameters for place in _involved(constraint)}
    every = () if points.is_empty() else groups(points)
    return tuple(group for group in every if group.isdisjoint(parametric))


def dimension_interval(points: isl.BasicSet, name: str, given: Collection[str] = ()) -> range | None:
    """Return the range of the dimension *name* of *points*; None if its ends are not constant.

    They are constant if they depend neither on parameters nor on the dimensions *given*.
    """
    names = points.get_var_names(SET)
    place = names.index(name)
    group = next((group for group in independent(points) if place in group), None)
    if group is None or any(other != place and names[other] in given for other in group if other < len(names)):
        return None
    known = _INTERVALS.setdefault(isl.Set.from_basic_set(points), {})
    if place not in known:
        is_alone = len(group) == 1
        bounds = points.drop_constraints_not_involving_dims(SET, place, 1) if is_alone else tied_to(points, name, ())
        known[place] = between_ends(isl.Set.from_basic_set(bounds), name)
    return known[place]


def between_ends(points: isl.Set, name: str) -> range | None:
    """Return the range from the first to the last value of the dimension *name*; None if it is unbounded."""
    _, place = points.get_var_dict()[name]
    first, last = points.dim_min_val(place), points.dim_max_val(place)
    return range(as_int(first), as_int(last) + 1) if first.is_int() and last.is_int() else None


def projected(points: isl.BasicSet, names: Collection[str]) -> isl.BasicSet:
    """Return the projection of *points* onto the dimensions *names*."""
    kept = {place for place, name in enumerate(points.get_var_names(SET)) if name in names}
    others = [place for place in range(points.dim(SET)) if place not in kept]
    left_out = [group for group in groups(points) if group.isdisjoint(kept) and not group.isdisjoint(others)]
    found = _without_constraints(points, frozenset[int]().union(*left_out).intersection(others))
    for first, number in reversed(_runs(others)):
        found = found.project_out(SET, first, number)
    always = independent(points)
    for group in left_out:
        if group not in always:
            found = found.intersect_params(_existence(points, group))
    return found


def _existence(points: isl.BasicSet, group: frozenset[int]) -> isl.BasicSet:
    """Return the parameters for which the projection of *points* onto *group*, one of its groups, is not empty."""
    known = _EXISTENCE.setdefault(isl.Set.from_basic_set(points), {})
    if group not in known:
        others = set(range(points.dim(SET))) - group
        known[group] = _without_constraints(points, others).params()
    return known[group]


def _without_constraints(points: isl.BasicSet, places: Collection[int]) -> isl.BasicSet:
    for first, number in _runs(sorted(places)):
        points = points.drop_constraints_involving_dims(SET, first, number)
    return points


def tied_to(points: isl.BasicSet, name: str, given: Collection[str]) -> isl.BasicSet:
    """Return the constraints of *points* on the dimension *name*, with the dimensions *given* known.

    Constraints linked to it only through *given* and parameters are dropped, and so is the condition that they can
    hold.
    """
    places = {each: place for place, each in enumerate(points.get_var_names(SET))}
    known = {place for each, place in places.items() if each in given and each != name}
    ties = [tie - known for tie in _ties(points)]
    found, reached = frozenset[int](), frozenset((places[name],))
    while reached != found:
        found = reached
        reached = found.union(*(tie for tie in ties if not found.isdisjoint(tie)))
    others = [place for place in range(points.dim(SET)) if place not in found | known]
    for first, number in reversed(_runs(others)):
        points = points.drop_constraints_involving_dims(SET, first, number).project_out(SET, first, number)
    return points


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ascending *places* as runs of consecutive numbers: the first number and the length of each."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and sum(found[-1]) == place:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((place, 1))
    return found


# {{{ tiled loops, joined to the original loops
#
# A tiled loop (``outer``, ``0 <= inner < 16``) has as many points as the loop over ``16*outer + inner``, since the map
# is one to one. The joined domain is simpler. For example, a tiled triangle becomes a triangle again, with the count
# n²/2 + n/2, whereas Barvinok's algorithm would yield a polynomial in floors of n/16 for the two loops.


@dataclass(frozen=True, slots=True)
class _Tile:
    """Two dimensions that occur in a constraint as width·outer + inner."""

    outer: int
    inner: int
    width: int


def without_tiles(points: isl.Set) -> isl.Set:
    """Return a set with the same number of points, in which the outer and inner variables of tiles are joined.

    A tile that is only partly filled would leave holes in the set, and is not joined.
    """
    for tile in _tiles(points):
        if _fits(points, tile):
            joined = points.apply(_joining(points.dim(SET), tile)).coalesce()
            if _existentials(joined) <= _existentials(points):
                return without_tiles(joined)
    return points


def _tiles(points: isl.Set) -> list[_Tile]:
    """Return candidate tiles of *points*, narrow ones first, so that nested tiles are joined from the inside."""
    constraints = (constraint for basic in points.get_basic_sets() for constraint in basic.get_constraints())
    found = dict.fromkeys(tile for constraint in constraints for tile in _proportions(_coefficients(constraint)))
    return sorted(found, key=lambda tile: tile.width)


def _coefficients(constraint: isl.Constraint) -> dict[int, int]:
    """Return the coefficients of the dimensions that *constraint* involves."""
    values = ((dim, constraint.get_coefficient_val(SET, dim)) for dim in range(constraint.dim(SET)))
    return {dim: as_int(value) for dim, value in values if not value.is_zero()}


def _proportions(coefficients: Mapping[int, int]) -> Iterator[_Tile]:
    """Yield the pairs of dimensions whose coefficients have an integer ratio above one."""
    for outer, inner in ((outer, inner) for outer in coefficients for inner in coefficients):
        width, rest = divmod(coefficients[outer], coefficients[inner])
        if width > 1 and not rest:
            yield _Tile(outer, inner, width)


def _fits(points: isl.Set, tile: _Tile) -> bool:
    """Return whether 0 <= inner < width, so that width·outer + inner is one to one."""
    least, most = points.dim_min_val(tile.inner), points.dim_max_val(tile.inner)
    return least.is_nonneg() and most.is_int() and as_int(most) < tile.width


@cache
def _joining(dims: int, tile: _Tile) -> isl.Map:
    """Return the map that replaces outer by width·outer + inner, and removes inner."""
    joined = {tile.outer: f"{tile.width}*x{tile.outer} + x{tile.inner}"}
    before = ", ".join(f"x{dim}" for dim in range(dims))
    after = ", ".join(joined.get(dim, f"x{dim}") for dim in range(dims) if dim != tile.inner)
    return isl.Map(f"{{ [{before}] -> [{after}] }}")


def _existentials(points: isl.Set) -> int:
    return sum(basic.dim(DIV) for basic in points.get_basic_sets())


# }}}
