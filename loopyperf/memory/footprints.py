"""Memory that a launch, or a part of it, touches in each global array, and the part of it that a cache has to fetch.

:class:`Footprints` are plain data: each access with the points at which it executes and the cells that it touches
there. The device determines how many groups share a cache, so :class:`WorkingSets` count touched memory on request.
Cells of arrays are counted in boxes (:mod:`loopyperf.memory.touched_sectors`), which takes a millisecond at any size.
If the cells depend on data, the whole array is the upper limit.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import chain
from math import gcd

import islpy as isl
import numpy as np

from loopyperf.errors import UncountableError
from loopyperf.kernel.launches import Assumed
from loopyperf.memory.rows import APART, Scattered
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.memory.touched_sectors import (
    ByArray,
    Touched,
    at_least,
    at_most,
    mean_blocks,
    times,
    total_cells,
    touched_by,
)
from loopyperf.polyhedral.plain_sets import PlainMap, PlainSet, plain_box
from loopyperf.polyhedral.points import Box, points_listed, values_along, without_dimensions
from loopyperf.polyhedral.quasipolynomial import number_of_points

SET = isl.dim_type.set
FIRST = "first load"
"""kind of loads that read values not yet stored by the launch, in arrays that are both loaded and stored"""
FEW_OFFSETS = 4096
"""offsets from a loaded value up to which they are listed"""
Window = Mapping[str, range]
"""iname -> analyzed values; inames that are not listed have all of their values"""


@dataclass(frozen=True, slots=True)
class StatementLoop:
    """A sequential loop in the program of a launch."""

    iname: str
    """iname of the loop"""
    body: tuple["int | StatementLoop", ...]
    """statement numbers and inner loops, in program order"""

    @property
    def statements(self) -> tuple[int, ...]:
        """Return the statements inside the loop, in program order."""
        parts = ((item,) if isinstance(item, int) else item.statements for item in self.body)
        return tuple(chain.from_iterable(parts))


Part = StatementLoop | Sequence[int]
"""a part of a program: a loop, or statement numbers"""


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """Identical loads or stores of an array in global memory, with the cells that they access."""

    array: str
    """name of the array"""
    width: int
    """bytes that a lane accesses"""
    inames: tuple[str, ...]
    """inames of the loops around the access"""
    points: PlainSet
    """values of the inames at which it executes"""
    cells: PlainMap | None
    """map from points to array indices; None if the indices are data"""
    axes: tuple[int, ...]
    """bytes between neighbors along each index"""
    base: str
    """loaded values from which the cells start, apart from each other; empty if there are none"""
    scattered: Scattered | None
    """the window of these values; None if it is unknown"""
    by_data: bool
    """whether data determines the cells, or the rows that contain them"""
    most: Touched | None
    """size of the whole array, if it limits what is touched"""
    load: tuple[int, ...] = ()
    """numbers of the statements that load"""
    store: tuple[int, ...] = ()
    """numbers of the statements that store"""
    first_load: tuple[int, ...] = ()
    """numbers of the statements that load values not yet stored: :data:`FIRST`"""

    def divided(self, number: int) -> "ArrayAccess":
        """Return the access with all distances divided by *number*, a divisor of all of them."""
        most = None if self.most is None else self.most.times(Fraction(1, number))
        axes = tuple(axis // number for axis in self.axes)
        return replace(self, width=self.width // number, axes=axes, most=most)


@dataclass(frozen=True, slots=True)
class Footprints:
    """The accesses of a launch to global arrays, and the loops around them."""

    accesses: tuple[ArrayAccess, ...]
    """accesses in program order; identical ones are merged"""
    program: StatementLoop
    """the whole launch as a loop with one iteration, which is not a loop of the kernel"""
    groups: tuple[tuple[str, int, int], ...]
    """inames that number groups: name, axis of the grid, value in the first group"""
    assumed: tuple[Assumed, ...]
    """assumptions about arrays"""
    refusal: str = ""
    """why the accesses are unknown; empty if they are known"""

    def window(self, groups: Mapping[int, range], host: Mapping[str, int]) -> Window:
        """Return the window of the *groups* along axes of the grid, in the iteration *host* of loops on the host.

        Groups are numbered from 0. Axes that are not given have all groups.
        """
        window = {name: range(value, value + 1) for name, value in host.items()}
        for name, axis, first in self.groups:
            if axis in groups:
                window[name] = range(groups[axis].start + first, groups[axis].stop + first)
        return window


@lru_cache(16)
def working_sets(footprints: Footprints) -> "WorkingSets":
    """Return the working sets of *footprints*; cached, because several devices need those of the latest launches.

    Raises :class:`UncountableError` if the footprints are unknown.
    """
    if footprints.refusal:
        raise UncountableError(footprints.refusal)
    return WorkingSets(footprints)


class _Access:
    """An access with its sets as isl objects."""

    def __init__(self, access: ArrayAccess, number: int) -> None:
        self.made_of, self.number = access, number
        self._box = plain_box(access.points)
        self.statements = {
            None: frozenset((*access.load, *access.store)),
            "load": frozenset(access.load),
            "store": frozenset(access.store),
            FIRST: frozenset(access.first_load),
        }
        """kind -> statements of this kind"""

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
        """Return a key for the part of *window* on which the access may depend."""
        values = self.values_in(window)
        return tuple([window.get(name) for name in self.made_of.inames]) if values is None else values

    def values_in(self, window: Window) -> Box | None:
        """Return the values of the inames in *window*, possibly empty ranges; None if they are not a box."""
        if self._box is None:
            return None
        return tuple(
            range(max(along.start, window[name].start), min(along.stop, window[name].stop)) if name in window else along
            for name, along in zip(self.made_of.inames, self._box, strict=True)
        )

    def is_in(self, part: Collection[int], kind: str | None = None) -> bool:
        """Return whether a statement of *part* is of *kind*; without a kind, whether it loads or stores."""
        return not self.statements[kind].isdisjoint(part)


class WorkingSets:
    """The memory in global arrays that parts of a launch touch."""

    def __init__(self, footprints: Footprints) -> None:
        """Prepare to count the accesses of *footprints*."""
        self.footprints = footprints
        self.program = footprints.program
        self._accesses: dict[tuple[str, tuple[int, ...], str], list[_Access]] = {}
        self._known: dict[tuple[object, ...], dict[str, Touched]] = {}
        self._together: dict[tuple[object, ...], Touched] = {}
        for access in footprints.accesses:
            of_array = self._accesses.setdefault((access.array, access.axes, access.base), [])
            of_array.append(_Access(access, len(of_array)))

    def touched(
        self, part: Part, window: Window, array: str | None = None, kind: str | None = None
    ) -> dict[str, Touched]:
        """Return array -> memory that *part* of the program touches, over all its iterations in *window*.

        *array* selects one array. *kind* selects ``"load"``, ``"store"`` or :data:`FIRST`.
        """
        inside = _statements(part)
        key = (inside, array, kind, tuple(sorted((name, values.start, values.stop) for name, values in window.items())))
        if key not in self._known:
            self._known[key] = self._touched(inside, window, array, kind)
        return self._known[key]

    def values(self, loop: StatementLoop, window: Window) -> range:
        """Return the range of the variable of *loop* in *window*.

        If the values are not equally spaced, the range also has values between them.
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
        """Return array -> memory touched in single iterations, without reuse between them, summed over *window*.

        Memory that several accesses or work-items touch in the same iteration counts once. See :meth:`touched` for
        *kind*.
        """
        return self._at_once(self.program, window, 1, kind)

    def _at_once(self, loop: StatementLoop, window: Window, iterations: int, kind: str | None) -> dict[str, Touched]:
        here = [item for item in loop.body if isinstance(item, int)]
        touched = self.touched(here, window, kind=kind)
        found = {array: amount.times(iterations) for array, amount in touched.items()}
        for inner in (item for item in loop.body if not isinstance(item, int)):
            values = self.values(inner, window)
            one = {**window, inner.iname: middle(values, 1)}
            for array, each in self._at_once(inner, one, iterations * len(values), kind).items():
                found[array] = found.get(array, Touched()) + each
        return found

    def common(self, window: Window, other: Window, kind: str | None = None) -> dict[str, Touched]:
        """Return array -> memory that the program touches in both *window* and *other*.

        Accesses whose cells depend on data are ignored. See :meth:`touched` for *kind*.
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
        for (array, axes, base), accesses in self._accesses.items():
            here = [access for access in accesses if access.is_in(program, kind) and access.made_of.cells is not None]
            if not here:
                continue
            if base:
                one, two = (_cells_of(here, each) for each in (window, other))
                if here[0].made_of.scattered is None:
                    amount = _Draws(here, axes, one & two).touched()
                else:
                    amount, more, together = (_Draws(here, axes, each).touched() for each in (one, two, one | two))
                    amount += more - together
            elif all(each.where(window) == each.where(other) for each in here):
                amount = touched_by(_cells_of(here, window), axes, here[0].made_of.width)
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
        for (array, axes, base), accesses in self._accesses.items():
            here = [access for access in accesses if only in (None, array) and access.is_in(inside, kind)]
            if not here:
                continue
            known = [access for access in here if access.made_of.cells is not None]
            amount = found.get(array, Touched())
            if known:
                key = (array, axes, base, tuple([(access.number, access.where(window)) for access in known]))
                if key not in self._together:
                    cells, width = _cells_of(known, window), known[0].made_of.width
                    draws = _Draws(known, axes, cells) if base else None
                    self._together[key] = touched_by(cells, axes, width) if draws is None else draws.touched()
                amount += self._together[key]
            for access in here:
                if access.made_of.cells is None:
                    number = Fraction(number_of_points(access.restricted(window)))
                    amount += Touched(number, number)
            for access in here:
                amount = amount if access.made_of.most is None else amount.at_most(access.made_of.most)
            found[array] = amount
        return found


def _cells_of(accesses: Iterable[_Access], window: Window) -> isl.Set:
    """Return the indices of the cells that *accesses* of one array touch in *window*."""
    return reduce(isl.Set.union, (access.restricted(window).apply(access.cells) for access in accesses))


@lru_cache(256)
def _of_offsets(offsets: PlainSet, axes: tuple[int, ...], width: int, apart: int) -> tuple[int, Touched | None]:
    """Return the number of *offsets*, and the memory that elements of *width* bytes at them touch.

    *axes* are the bytes between neighbors along each coordinate of an offset. They start at all multiples of *apart*
    bytes equally often. The memory is None if there are too many to list.
    """
    number = number_of_points(offsets.isl)
    if number > FEW_OFFSETS:
        return number, None
    places = points_listed(offsets.isl) @ np.array(axes, dtype=np.int64)
    return number, Touched(*(mean_blocks(places, width, apart, block) for block in (SECTOR, LINE)))


class _Draws:
    """Cells at known offsets from loaded values, the draws."""

    def __init__(self, accesses: Sequence[_Access], axes: Sequence[int], cells: isl.Set) -> None:
        """Take the *cells* of *accesses* of one array with the same base; *axes* are those of the cells."""
        self.accesses, self.axes, self.cells = accesses, axes, cells
        self.width, self.scattered = accesses[0].made_of.width, accesses[0].made_of.scattered
        self._places = [place for place, distance in enumerate(axes) if abs(distance) >= APART]
        self._offsets = without_dimensions(cells, self._places)

    def touched(self) -> Touched:
        """Return the expected memory that they touch."""
        if self.cells.is_empty():
            return Touched()
        draws, apart = self._number(self.cells), self._apart()
        if self.scattered is None:
            return apart
        everywhere = self._number(_cells_of(self.accesses, {}))
        whole = self._of_all(self.scattered, self.scattered.window or everywhere)

        def expected(blocks: Fraction, of_apart: Fraction) -> Fraction:
            assert self.scattered is not None
            untouched = self.scattered.untouched(float(of_apart / draws / blocks), draws, everywhere)
            return blocks * Fraction(1 - untouched).limit_denominator(10**6)

        return Touched(expected(whole.sectors, apart.sectors), expected(whole.lines, apart.lines))

    def _number(self, cells: isl.Set) -> int:
        """Return the number of draws in *cells*."""
        others = [place for place in range(len(self.axes)) if place not in self._places]
        return number_of_points(without_dimensions(cells, others))

    def _apart(self) -> Touched:
        """Return the memory touched by draws that share nothing."""
        apart = gcd(*(self.axes[place] for place in self._places), LINE)
        draws = self._number(self.cells)
        number, of_one = _of_offsets(PlainSet.of(self._offsets), tuple(self._axes), self.width, apart)
        if of_one is None or (number > 1 and number_of_points(self.cells) != number * draws):
            return touched_by(self.cells, self.axes, self.width)
        return of_one.times(draws)

    @property
    def _axes(self) -> list[int]:
        """Return the bytes between neighbors along each offset."""
        return [distance for place, distance in enumerate(self.axes) if place not in self._places]

    def _of_all(self, scattered: Scattered, window: int) -> Touched:
        """Return the memory that all values in a *window* of elements lead to."""
        place, number = scattered.axis - len(self._places), len(self._axes)
        before, after = (", ".join(f"{letter}{at}" for at in range(number)) for letter in "io")
        moved = (f"o{at} = i{at}" + f" + {scattered.step}*w" * (at == place) for at in range(number))
        where = f"exists w: 0 <= w < {window} and {' and '.join(moved)}"
        wide = isl.Map(f"{{[{before}] -> [{after}] : {where}}}", context=self.cells.get_ctx())
        return touched_by(self._offsets.apply(wide), self._axes, self.width)


def _statements(part: Part) -> frozenset[int]:
    return frozenset(part.statements if isinstance(part, StatementLoop) else part)


def middle(values: range, number: int) -> range:
    """Return *number* values in the middle of *values*."""
    first = (len(values) - number) // 2
    return values[first : first + number]


# {{{ sectors that a cache has to fetch, by layer conditions
#
# A cache that holds everything a loop touches fetches it once. A cache that holds what two iterations of the loop touch
# fetches, after the first iteration, what an iteration touches beyond the one before. A smaller cache fetches in every
# iteration what the body fetches, and the same rules apply to the inner loops. For consecutive parts of a body, each
# part fetches what it touches beyond the latest earlier part that touches the array, if the cache holds everything
# that these two parts and the parts between them touch. Capacity is counted in lines, of all arrays together (papers
# on layer conditions: Stengel, Treibig, Hager and Wellein, Quantifying performance bottlenecks of stencil computations
# using the Execution-Cache-Memory model, 2015).
#
# A cache that is slightly too small still holds most of the data: warps do not run in lockstep, and lines are not
# replaced strictly in the order of their use. On GPUs, misses rise slowly with the excess (Ernst, Holzer, Hager, Knorr
# and Wellein, Analytical performance estimation during code generation on modern GPUs, 2023, who fit curves to it).
# Here, the share of reused data that a cache holds is its capacity over the capacity that it would need.


ITERATIONS = LINE // 4 + 1
"""iterations over which new lines are counted: enough to reach a new line in steps of one element"""

PARTS = 1000
"""largest denominator of the share that a cache holds"""


@dataclass(frozen=True)
class LayerConditions:
    """What a cache with a capacity in bytes fetches for the launch whose accesses it serves."""

    sets: WorkingSets
    capacity: float
    kind: str | None = None
    """``"load"`` or ``"store"``: count only these, while the cache holds the data of both"""

    def fetched(self, window: Window) -> ByArray:
        """Return array -> memory that the cache fetches while the launch runs in *window*; it starts empty."""
        program = self.sets.program
        return self._touched(program, window) if self.held(window) == 1 else self._body(program, window)

    def held(self, window: Window) -> Fraction:
        """Return the share of the memory touched by the launch in *window* that the cache holds."""
        return self._held(self.sets.touched(self.sets.program, window))

    def _touched(self, part: Part, window: Window, array: str | None = None) -> ByArray:
        return self.sets.touched(part, window, array, self.kind)

    def _held(self, touched: ByArray) -> Fraction:
        """Return the share of the *touched* memory that the cache still holds when it is touched again."""
        needed = sum(amount.lines for amount in touched.values()) * LINE
        share = Fraction(self.capacity) / needed if needed else Fraction(1)
        return min(share, Fraction(1)).limit_denominator(PARTS)

    def _body(self, loop: StatementLoop, window: Window) -> ByArray:
        """Return what one iteration of *loop* fetches, part by part."""
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
        single = self._touched(loop, one)
        fits = self._held(self.sets.touched(loop, one)) == 1
        refetched = times(single if fits else self._body(loop, one), len(values))
        in_two, following = in_all, whole
        if len(values) > 1:
            in_two = self._held(self.sets.touched(loop, {**window, loop.iname: middle(values, 2)}))
            number = min(len(values), ITERATIONS)
            several = self._touched(loop, {**window, loop.iname: middle(values, number)})
            more = {array: several[array] - single[array] for array in several}
            following = total_cells([single, times(more, Fraction(len(values) - 1, number - 1))])
        in_two = max(in_all, in_two)
        fetched = [times(whole, in_all), times(following, in_two - in_all), times(refetched, 1 - in_two)]
        return at_least(total_cells(fetched), whole)


def _parts(loop: StatementLoop) -> Iterator[Part]:
    """Yield the parts of *loop* in program order: inner loops, and the runs of statements between them."""
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
