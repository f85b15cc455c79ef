"""What a launch, or a part of it, touches of each array of global memory, and what of that a cache has to fetch.

:class:`Footprints` are plain: each access with the points at which it is executed and the cells that it touches there.
How many groups share a cache is for a device to say, so :class:`WorkingSets` count what they touch when it is asked
for. Cells of arrays are counted in boxes (:mod:`loopyperf.memory.touched_sectors`), so that it takes a millisecond
whatever the size. Where data tells the cells, no more is touched than the whole array.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import chain
from math import gcd

import islpy as isl

from loopyperf.errors import UncountableError
from loopyperf.kernel.launches import Assumed
from loopyperf.memory.sectors import LINE
from loopyperf.memory.touched_sectors import (
    ByArray,
    Touched,
    at_least,
    at_most,
    times,
    total_cells,
    touched_by,
    touched_by_boxes,
)
from loopyperf.polyhedral.plain_sets import PlainMap, PlainSet, box_image, plain_box, plain_outputs
from loopyperf.polyhedral.points import Box, values_along
from loopyperf.polyhedral.quasipolynomial import number_of_points

SET = isl.dim_type.set
FIRST = "first load"
"""the loads of what nothing in the launch has stored before, of arrays that are both loaded and stored"""
Window = Mapping[str, range]
"""iname -> the values that are looked at; all of those that are not named"""


@dataclass(frozen=True, slots=True)
class StatementLoop:
    """A sequential loop of the program of a launch."""

    iname: str
    """of the loop"""
    body: tuple["int | StatementLoop", ...]
    """statements by number, and inner loops, in the order of the program"""

    @property
    def statements(self) -> tuple[int, ...]:
        """Return the statements inside it, in their order."""
        parts = ((item,) if isinstance(item, int) else item.statements for item in self.body)
        return tuple(chain.from_iterable(parts))


Part = StatementLoop | Sequence[int]
"""what of a program is looked at: a loop, or statements by number"""


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """Loads or stores of an array of global memory that are all alike, and where they go."""

    array: str
    """its name"""
    width: int
    """bytes of what a lane accesses"""
    inames: tuple[str, ...]
    """over which it is executed"""
    points: PlainSet
    """their values"""
    cells: PlainMap | None
    """from these to the indices; None where data tells them"""
    axes: tuple[int, ...]
    """bytes between neighbours along each index"""
    by_data: bool
    """data tells the cells, or the rows that they are in"""
    most: Touched | None
    """the whole array, where its size bounds what is touched"""
    load: tuple[int, ...] = ()
    """the statements that load so, by number"""
    store: tuple[int, ...] = ()
    """those that store so"""
    first_load: tuple[int, ...] = ()
    """those that load what nothing has stored before: :data:`FIRST`"""


@dataclass(frozen=True, slots=True)
class Footprints:
    """The accesses of a launch to arrays of global memory, and the loops that they are in."""

    accesses: tuple[ArrayAccess, ...]
    """in the order of the program, those that are alike as one"""
    program: StatementLoop
    """the whole launch, as a loop of one pass, which is no loop of the kernel"""
    groups: tuple[tuple[str, int, int], ...]
    """inames that number groups: name, axis of the grid, value in the first group"""
    assumed: tuple[Assumed, ...]
    """what had to be assumed of arrays"""
    refusal: str = ""
    """why they are not known"""

    def window(self, groups: Mapping[int, range], host: Mapping[str, int]) -> Window:
        """Return what is looked at where those *groups* run, by the axes of the grid, in one pass of loops on the host.

        Groups are numbered from 0; along an axis that is not given, all are looked at.
        """
        window = {name: range(value, value + 1) for name, value in host.items()}
        for name, axis, first in self.groups:
            if axis in groups:
                window[name] = range(groups[axis].start + first, groups[axis].stop + first)
        return window


@lru_cache(16)
def working_sets(footprints: Footprints) -> "WorkingSets":
    """Return what counts what parts of a launch touch: several devices ask the same of the latest launches.

    Raises :class:`UncountableError` where that is refused.
    """
    if footprints.refusal:
        raise UncountableError(footprints.refusal)
    return WorkingSets(footprints)


class _Access:
    """An access with its sets as isl has them."""

    def __init__(self, access: ArrayAccess, number: int) -> None:
        self.made_of, self.number = access, number
        self._box = plain_box(access.points)
        self._outputs = None if access.cells is None else plain_outputs(access.cells)
        self.statements = {
            None: frozenset((*access.load, *access.store)),
            "load": frozenset(access.load),
            "store": frozenset(access.store),
            FIRST: frozenset(access.first_load),
        }
        """kind -> those that do so"""

    @cached_property
    def points(self) -> isl.Set:
        return self.made_of.points.isl

    @cached_property
    def cells(self) -> isl.Map:
        assert self.made_of.cells is not None
        return self.made_of.cells.isl

    def restricted(self, window: Window) -> isl.Set:
        """Return the points in *window*."""
        points = self.points
        for place, name in enumerate(self.made_of.inames):
            if name in window:
                points = points.lower_bound_val(SET, place, isl.Val(window[name].start))
                points = points.upper_bound_val(SET, place, isl.Val(window[name].stop - 1))
        return points

    def where(self, window: Window) -> Sequence[range | None]:
        """Return what of *window* the access may depend on."""
        values = self.values_in(window)
        return tuple([window.get(name) for name in self.made_of.inames]) if values is None else values

    def values_in(self, window: Window) -> Box | None:
        """Return the values of the inames in *window*, some of which may be none; None where they are no box."""
        if self._box is None:
            return None
        return tuple(
            range(max(along.start, window[name].start), min(along.stop, window[name].stop)) if name in window else along
            for name, along in zip(self.made_of.inames, self._box, strict=True)
        )

    def box_in(self, window: Window) -> Box | None:
        """Return the indices of the cells that are accessed in *window*; None where they are no box or none at all."""
        values = self.values_in(window)
        if values is None or self._outputs is None or not all(map(len, values)):
            return None
        return box_image(self._outputs, values)

    def is_in(self, part: Collection[int], kind: str | None = None) -> bool:
        """Return whether a statement of *part* makes it, as what *kind* says, or as a load or store."""
        return not self.statements[kind].isdisjoint(part)


class WorkingSets:
    """The parts of global arrays that parts of a launch touch."""

    def __init__(self, footprints: Footprints) -> None:
        """Count what *footprints* say."""
        self.footprints = footprints
        self.program = footprints.program
        self._accesses: dict[tuple[str, tuple[int, ...]], list[_Access]] = {}
        self._known: dict[tuple[object, ...], dict[str, Touched]] = {}
        self._together: dict[tuple[object, ...], Touched] = {}
        for each in footprints.accesses:
            of_array = self._accesses.setdefault((each.array, each.axes), [])
            of_array.append(_Access(each, len(of_array)))

    def touched(
        self, part: Part, window: Window, array: str | None = None, kind: str | None = None
    ) -> dict[str, Touched]:
        """Return array -> what *part* of the program touches of it, all its passes in *window* together.

        Where an *array* is named, the others are left out; where a *kind* is, ``"load"``, ``"store"`` or
        :data:`FIRST`, what is done otherwise.
        """
        inside = _statements(part)
        key = (inside, array, kind, tuple(sorted((name, values.start, values.stop) for name, values in window.items())))
        if key not in self._known:
            self._known[key] = self._touched(inside, window, array, kind)
        return self._known[key]

    def values(self, loop: StatementLoop, window: Window) -> range:
        """Return the values that the variable of *loop* takes in *window*, from the least to the largest.

        They are equally far apart; where they are not, there are others between them.
        """
        found: list[range] = []
        inside = _statements(loop)
        for access in (each for accesses in self._accesses.values() for each in accesses if each.is_in(inside)):
            place = access.made_of.inames.index(loop.iname)
            values = access.values_in(window)
            if values is not None:
                found += [values[place]] if all(map(len, values)) else []
            elif not (points := access.restricted(window)).is_empty():
                found.append(values_along(points, place))
        if not found:
            return range(0)
        first = min(each.start for each in found)
        step = gcd(*(number for each in found for number in (each.step, each.start - first)))
        return range(first, max(each.stop for each in found), step)

    def at_once(self, window: Window, kind: str | None = None) -> dict[str, Touched]:
        """Return array -> what is touched of it without a loop between, summed over all passes in *window*.

        What several accesses or work-items touch in the same pass is there once. A *kind* is as in :meth:`touched`.
        """
        return self._at_once(self.program, window, 1, kind)

    def _at_once(self, loop: StatementLoop, window: Window, passes: int, kind: str | None) -> dict[str, Touched]:
        here = [item for item in loop.body if isinstance(item, int)]
        touched = self.touched(here, window, kind=kind)
        found = {array: each.times(passes) for array, each in touched.items()}
        for inner in (item for item in loop.body if not isinstance(item, int)):
            values = self.values(inner, window)
            one = {**window, inner.iname: middle(values, 1)}
            for array, each in self._at_once(inner, one, passes * len(values), kind).items():
                found[array] = found.get(array, Touched()) + each
        return found

    def common(self, window: Window, other: Window, kind: str | None = None) -> dict[str, Touched]:
        """Return array -> the part that the program touches both in *window* and in the *other* one.

        Accesses whose cells depend on data are left out. A *kind* is as in :meth:`touched`.
        """
        key = (
            "common",
            kind,
            *(tuple(sorted((name, values.start) for name, values in each.items())) for each in (window, other)),
        )
        if key not in self._known:
            self._known[key] = self._common(window, other, kind)
        return self._known[key]

    def _common(self, window: Window, other: Window, kind: str | None) -> dict[str, Touched]:
        found: dict[str, Touched] = {}
        program = _statements(self.program)
        for (array, axes), accesses in self._accesses.items():
            here = [each for each in accesses if each.is_in(program, kind) and each.made_of.cells is not None]
            if not here:
                continue
            if all(each.where(window) == each.where(other) for each in here):
                amount = _touched_by(here, window, axes)
            else:
                cells = (_cells_of(here, each) for each in (window, other))
                amount = touched_by(reduce(isl.Set.intersect, cells), axes, here[0].made_of.width)
            for each in here:
                amount = amount if each.made_of.most is None else amount.at_most(each.made_of.most)
            found[array] = found.get(array, Touched()) + amount
        return found

    def _touched(
        self, inside: frozenset[int], window: Window, only: str | None, kind: str | None
    ) -> dict[str, Touched]:
        found: dict[str, Touched] = {}
        for (array, axes), accesses in self._accesses.items():
            here = [access for access in accesses if only in (None, array) and access.is_in(inside, kind)]
            if not here:
                continue
            known = [access for access in here if access.made_of.cells is not None]
            amount = found.get(array, Touched())
            if known:
                key = (array, axes, tuple([(access.number, access.where(window)) for access in known]))
                if key not in self._together:
                    self._together[key] = _touched_by(known, window, axes)
                amount += self._together[key]
            for access in here:
                if access.made_of.cells is None:
                    number = Fraction(number_of_points(access.restricted(window)))
                    amount += Touched(number, number)
            for access in here:
                amount = amount if access.made_of.most is None else amount.at_most(access.made_of.most)
            found[array] = amount
        return found


def _touched_by(accesses: Sequence[_Access], window: Window, axes: Sequence[int]) -> Touched:
    """Return what *accesses* of an array touch together in *window*."""
    width = accesses[0].made_of.width
    boxes = [box for each in accesses if (box := each.box_in(window)) is not None]
    known = touched_by_boxes(boxes, axes, width) if len(boxes) == len(accesses) else None
    if known is not None:
        return known
    return touched_by(_cells_of(accesses, window), axes, width)


def _cells_of(accesses: Iterable[_Access], window: Window) -> isl.Set:
    """Return the indices of the cells that *accesses* of an array touch together in *window*."""
    return reduce(isl.Set.union, (each.restricted(window).apply(each.cells) for each in accesses))


def _statements(part: Part) -> frozenset[int]:
    return frozenset(part.statements if isinstance(part, StatementLoop) else part)


def middle(values: range, number: int) -> range:
    """Return so many values in the middle of *values*."""
    first = (len(values) - number) // 2
    return values[first : first + number]


# {{{ what a cache does not keep: the sectors that it has to fetch, by layer conditions
#
# A cache that holds all that a loop touches fetches it once. One that holds what two passes of the loop touch fetches,
# after the first pass, what a pass touches beyond the one before. One that holds less fetches in every pass what the
# body fetches, and there the loops inside are asked the same. Of what is in a body one after the other, each part
# fetches what it touches beyond the latest part before it that touches the array, if the cache holds all that both and
# the parts between them touch. Capacity is counted in lines, of all arrays together (papers on layer conditions:
# Stengel, Treibig, Hager and Wellein, Quantifying performance bottlenecks of stencil computations using the
# Execution-Cache-Memory model, 2015).
#
# A cache that is too small by a little holds most of it all the same: warps do not run in lockstep, and lines are not
# replaced strictly in the order of their use. On GPUs, misses rise slowly with what is too much (Ernst, Holzer, Hager,
# Knorr and Wellein, Analytical performance estimation during code generation on modern GPUs, 2023, who fit curves to
# it). Here, of what is reused, the part that a cache holds is its capacity over what it would have to hold.


ITERATIONS = LINE // 4 + 1
"""over which new lines are counted: so many that one which moves on by elements comes to a new line"""

PARTS = 1000
"""to which the part that a cache holds is told, at least"""


@dataclass(frozen=True)
class Cache:
    """A cache of so many bytes, and the launch whose accesses it serves."""

    sets: WorkingSets
    capacity: float
    kind: str | None = None
    """``"load"`` or ``"store"``: what is fetched for these alone, or written, while the cache holds what both touch"""

    def fetched(self, window: Window) -> ByArray:
        """Return array -> what the cache fetches of it while the launch runs in *window*, which it begins empty."""
        program = self.sets.program
        return self._touched(program, window) if self.held(window) == 1 else self._body(program, window)

    def held(self, window: Window) -> Fraction:
        """Return the part of all that the launch touches in *window* that the cache holds."""
        return self._held(self.sets.touched(self.sets.program, window))

    def _touched(self, part: Part, window: Window, array: str | None = None) -> ByArray:
        return self.sets.touched(part, window, array, self.kind)

    def _held(self, touched: ByArray) -> Fraction:
        """Return the part of what is *touched* that the cache still holds when it is touched again."""
        needed = sum(each.lines for each in touched.values()) * LINE
        share = Fraction(self.capacity) / needed if needed else Fraction(1)
        return min(share, Fraction(1)).limit_denominator(PARTS)

    def _body(self, loop: StatementLoop, window: Window) -> ByArray:
        """Return what is fetched in one pass of *loop*: by what is in it one after the other."""
        parts = list(_parts(loop))
        whole, everything = self._touched(loop, window), self.sets.touched(loop, window)
        touched = [self._touched(part, window) for part in parts]
        needed = [self.sets.touched(part, window) for part in parts]
        fetched: list[ByArray] = []
        latest: dict[str, int] = {}
        for number, part in enumerate(parts):
            found = dict(self._loop(part, window) if isinstance(part, StatementLoop) else touched[number])
            for array in found:
                if (before := latest.get(array)) is not None:
                    both = self._touched([*_statements_of(parts[before]), *_statements_of(part)], window, array)[array]
                    held = self._held(at_most(total_cells(needed[before : number + 1]), everything))
                    more = (both - touched[before][array]).at_least(Touched())
                    found[array] = more.times(held) + found[array].times(1 - held)
                latest[array] = number
            fetched.append(found)
        return at_least(total_cells(fetched), whole)

    def _loop(self, loop: StatementLoop, window: Window) -> ByArray:
        whole, values = self._touched(loop, window), self.sets.values(loop, window)
        in_all = self._held(self.sets.touched(loop, window))
        if in_all == 1 or not values:
            return whole
        one = {**window, loop.iname: middle(values, 1)}
        pass_ = self._touched(loop, one)
        fits = self._held(self.sets.touched(loop, one)) == 1
        anew = times(pass_ if fits else self._body(loop, one), len(values))
        in_two, following = in_all, whole
        if len(values) > 1:
            in_two = self._held(self.sets.touched(loop, {**window, loop.iname: middle(values, 2)}))
            number = min(len(values), ITERATIONS)
            several = self._touched(loop, {**window, loop.iname: middle(values, number)})
            more = {array: several[array] - pass_[array] for array in several}
            following = total_cells([pass_, times(more, Fraction(len(values) - 1, number - 1))])
        in_two = max(in_all, in_two)
        fetched = [times(whole, in_all), times(following, in_two - in_all), times(anew, 1 - in_two)]
        return at_least(total_cells(fetched), whole)


def _parts(loop: StatementLoop) -> Iterator[Part]:
    """Yield what is in *loop* in its order: each loop, and the statements between two of them together."""
    between: list[int] = []
    for item in loop.body:
        if isinstance(item, int):
            between.append(item)
            continue
        if between:
            yield between
        yield item
        between = []
    if between:
        yield between


def _statements_of(part: Part) -> Sequence[int]:
    return part.statements if isinstance(part, StatementLoop) else part


# }}}
