"""The last write before a read of the same cell, for loops that are intervals and simple indices.

The search goes back in time from a read in iteration x of its loops. For each depth d, from the number of loops down
to 0, it examines two kinds of writes:

1. writes that precede the read in the same iteration of the d outermost loops;
2. writes in an earlier iteration of the innermost of these d loops and the same iteration of the others.

Among the writes of one kind, equality of the cells gives the iterations of some loops as functions of x. The other
loops are at their latest iteration: the last one of a loop that is re-entered, the previous one of the loop that
carries the value. This is exact as long as the executions are products of intervals and each index is a multiple of
one such iteration plus functions of x. The remaining iterations of the read are then again a product of intervals.
Executions that consist of a few such products, such as tiles with a partial last tile, are examined product by product.
isl handles all other cases. If isl takes too long, every write counts as a write of the cell (:func:`last_of_each`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product, takewhile
from typing import Any

from loopyperf.errors import LoopyperfError
from loopyperf.idg.launch_program import CellAccess
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points

MOST_PARTS = 16
"""maximum number of boxes into which the iterations of a read are divided"""
_Cell = tuple[int, ...]


class _UndecidedError(LoopyperfError):
    """Intervals do not determine the last write."""


@dataclass(frozen=True, slots=True)
class LastWrite:
    """The last write before a read, for some iterations of the read."""

    source: CellAccess
    target: CellAccess
    where: tuple[Box, ...]
    """iterations of the loops around the target, as disjoint boxes"""
    iterations: tuple[Affine[str], ...]
    """iteration of each loop around the source, in terms of those of the target"""
    is_exact: bool = True
    """False if another write may be the last one"""


class Writes:
    """The writes of one array, indexed so that a read examines few of them."""

    def __init__(self, writes: Sequence[CellAccess]) -> None:
        self._known = all(write.iterations is not None and write.cells is not None for write in writes)
        self._of_nest: dict[tuple[int, ...], dict[_Cell | None, list[CellAccess]]] = {}
        for write in writes if self._known else ():
            of_cell = self._of_nest.setdefault(write.place[:-1], {})
            of_cell.setdefault(_constant_cell(write), []).append(write)
        self._seen_from: dict[tuple[tuple[int, ...], _Cell | None], _Seen] = {}

    def last(self, read: CellAccess) -> list[LastWrite] | None:
        """Return the last writes before *read*; None if intervals do not determine them."""
        if not self._known or read.iterations is None or read.cells is None:
            return None
        key = read.place[:-1], _constant_cell(read)
        seen = self._seen_from.get(key) or self._seen_from.setdefault(key, self._seen(read))
        try:
            boxes = list(islice((part for box in read.iterations for part in seen.cut_up(box)), MOST_PARTS + 1))
            if len(boxes) > MOST_PARTS:
                return None
            return _together(found for box in boxes for found in _Search(read, box, seen).found())
        except _UndecidedError:
            return None

    def _seen(self, read: CellAccess) -> "_Seen":
        """Return the writes that may access the cell of *read*, arranged relative to its loops."""
        cell = _constant_cell(read)
        parts: list[_Part] = []
        for of_cell in self._of_nest.values():
            cells = of_cell if cell is None else [each for each in (cell, None) if each in of_cell]
            for write in (write for each in cells for write in of_cell[each]):
                parts += (_Part(write, box, shared_loops(write, read)) for box in write.iterations or ())
        return _Seen(parts, len(read.variables))


def last_of_each(read: CellAccess, writes: Sequence[CellAccess]) -> Iterator[LastWrite]:
    """Yield the last execution of each of *writes* before *read*, regardless of the cells.

    The execution is exact if the iterations of both are boxes with few parts. Otherwise all iterations in the bounding
    box of both count.
    """
    for write in writes:
        are_boxes = read.numbers.box is not None and write.numbers.box is not None
        found = _on_one_cell(read, write, read.numbers, write.numbers) if are_boxes else None
        if found is None:
            found = _on_one_cell(read, write, *_common_spans(read, write))
        assert found is not None, "intervals determine the last write for one write of one cell"
        yield from (replace(each, is_exact=False) for each in found)


def _on_one_cell(read: CellAccess, write: CellAccess, reading: Points, written: Points) -> list[LastWrite] | None:
    alone = Writes([replace(write, cells=(), is_certain=True, numbers=written)])
    return alone.last(replace(read, cells=(), numbers=reading))


def _common_spans(read: CellAccess, write: CellAccess) -> tuple[Points, Points]:
    """Return the bounding boxes of the iterations of both, equal in the common loops."""
    reading, written = [*read.numbers.span], [*write.numbers.span]
    for place in range(shared_loops(read, write)):
        ends = (*_ends(reading[place]), *_ends(written[place]))
        reading[place] = written[place] = range(min(ends), max(ends))
    return Points(tuple(reading)), Points(tuple(written))


def _constant_cell(access: CellAccess) -> "_Cell | None":
    """Return the cell that *access* accesses; None if it depends on the iteration."""
    assert access.cells is not None
    return None if any(cell.terms for cell in access.cells) else tuple(cell.constant for cell in access.cells)


def _together(found: Iterable[LastWrite]) -> list[LastWrite]:
    """Return *found* with entries merged that have the same source and source iterations."""
    alike: dict[Any, LastWrite] = {}
    for each in found:
        key = each.source, each.iterations
        alike[key] = replace(each, where=(*alike[key].where, *each.where)) if key in alike else each
    return list(alike.values())


def shared_loops(one: CellAccess, other: CellAccess) -> int:
    """Return the number of common loops."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one.place[:-1], other.place[:-1], strict=False))
    return len(list(same))


@dataclass(frozen=True, slots=True)
class _Part:
    """A write in iterations that are a product of intervals."""

    write: CellAccess
    iterations: Box
    shared: int
    """number of loops in common with the read"""


class _Seen:
    """Writes arranged relative to reads in the same loops, latest first."""

    def __init__(self, parts: Sequence[_Part], loops: int) -> None:
        """Take the *parts* of writes, and the number of *loops* around the reads."""
        self.beside = [_by_place((part for part in parts if part.shared == depth), depth) for depth in range(loops + 1)]
        """by depth: writes in exactly that many common loops, by position in the innermost one"""
        self.inside = [_by_place((part for part in parts if part.shared >= depth), depth) for depth in range(loops + 1)]
        """by depth: writes in at least that many common loops"""
        self._ends = [
            {end for part in parts if part.shared > place for end in _ends(part.iterations[place])}
            for place in range(loops)
        ]

    def cut_up(self, iterations: Box) -> Iterator[Box]:
        """Yield *iterations* divided in the common loops at each end of a write and one iteration after it."""
        runs: list[list[range]] = []
        for interval, known in zip(iterations, self._ends, strict=True):
            inside = {end for end in known if interval.start < end < interval.stop}
            ends = sorted({interval.start, interval.stop, *inside, *(end + 1 for end in inside)} - {interval.stop + 1})
            runs.append([range(first, end) for first, end in pairwise(ends)])
        yield from product(*runs)


def _by_place(parts: Iterable[_Part], depth: int) -> list[list[_Part]]:
    """Return *parts* grouped by their position in the loop at *depth*, last position first."""
    places: dict[int, list[_Part]] = {}
    for part in parts:
        places.setdefault(part.write.place[depth], []).append(part)
    return [places[place] for place in sorted(places, reverse=True)]


def _ends(interval: range) -> tuple[int, int]:
    return interval.start, interval.stop


class _Search:
    """Backward search from one read, in iterations that are a product of intervals."""

    def __init__(self, read: CellAccess, iterations: Box, seen: _Seen) -> None:
        self.read, self.names, self.left, self.seen = read, read.variables, iterations, seen

    def found(self) -> Iterator[LastWrite]:
        for depth in range(len(self.names), -1, -1):
            found = self._last_before(depth)
            if found is not None:
                yield found
                return
            while depth and (found := self._last_carried(depth)) is not None:
                yield found
                # The first iterations of the loop that carries the value remain.
                carrying = range(self.left[depth - 1].start, found.where[0][depth - 1].start)
                if not carrying:
                    return
                self.left = (*self.left[: depth - 1], carrying, *self.left[depth:])

    def _last_before(self, depth: int) -> LastWrite | None:
        """Return the last write before the read in the same iteration of *depth* loops; None if there is none."""
        places = self.seen.beside[depth]
        first = bisect_right(places, -self.read.place[depth], key=lambda parts: -parts[0].write.place[depth])
        # All are in the same iterations of the common loops, so program order decides.
        for parts in islice(places, first, None):
            found = self._latest(self._candidates(parts, depth))
            if found is not None:
                return found
        return None

    def _last_carried(self, depth: int) -> LastWrite | None:
        """Return the last write in an earlier iteration of the innermost of *depth* loops; None if there is none."""
        carrying, latest = depth - 1, list[LastWrite]()
        before = Affine(((self.names[carrying], 1),), -1)
        for parts in self.seen.inside[depth]:
            found = self._latest(self._candidates(parts, carrying, is_carried=True))
            latest += [] if found is None else [found]
            # No write is in a later iteration than the previous one, in which program order decides.
            if found is not None and found.iterations[carrying] == before:
                break
        return self._latest(latest)

    def _candidates(self, parts: Iterable[_Part], fixed: int, is_carried: bool = False) -> list[LastWrite]:
        found = (_Candidate(self, part, fixed, is_carried).last() for part in parts)
        return [each for each in found if each is not None]

    def _latest(self, found: Sequence[LastWrite]) -> LastWrite | None:
        """Return the latest of *found*; None if it is empty."""
        if not found:
            return None
        latest = found[0]
        for other in found[1:]:
            latest = latest if self._is_later(latest, other) else other
        if not latest.source.is_certain or not all(one is latest or self._is_later(latest, one) for one in found):
            raise _UndecidedError
        return latest

    def _is_later(self, one: LastWrite, other: LastWrite) -> bool:
        """Return whether *one* is always later than *other*."""
        ranges = dict(zip(self.names, self.left, strict=True))
        for level, (here, there) in enumerate(zip(one.source.place, other.source.place, strict=False)):
            if here != there:
                return here > there
            if level == len(one.iterations):
                raise _UndecidedError  # both are of the same statement
            low, high = (one.iterations[level] - other.iterations[level]).between(ranges)
            if low > 0 or high < 0:
                return low > 0
            if low != high:
                raise _UndecidedError
        raise _UndecidedError


class _Candidate:
    """A write that may be the last one."""

    def __init__(self, search: _Search, part: _Part, fixed: int, is_carried: bool) -> None:
        self.read, self.left, self.names = search.read, search.left, search.names
        self.write, self.intervals, self.fixed, self.is_carried = part.write, part.iterations, fixed, is_carried
        self.own = [Affine(((name, 1),)) for name in self.names[:fixed]]
        self.ranges = dict(zip(self.names, self.left, strict=True))

    def last(self) -> LastWrite | None:
        """Return the last execution on the cell that is read; None if there is none."""
        known = self._known()
        if known is None or any(_is_outside(here, there) for here, there in self._same()):
            return None
        if not all(_is_inside(here, there) for here, there in self._same()):
            raise _UndecidedError
        where = self.left
        if self.is_carried:
            carrying = self._carried(known)
            if carrying is None:
                return None
            where = (*where[: self.fixed], carrying, *where[self.fixed + 1 :])
        ranges = dict(zip(self.names, where, strict=True))
        for place in range(len(self.own), len(self.intervals)):
            value = known.get(place, Affine((), self.intervals[place][-1]))
            low, high = value.between(ranges)
            if _is_outside(range(low, high + 1), self.intervals[place]):
                return None
            if not _is_inside(range(low, high + 1), self.intervals[place]):
                raise _UndecidedError
            self.own.append(value)
        return LastWrite(self.write, self.read, (where,), tuple(self.own))

    def _same(self) -> Iterator[tuple[range, range]]:
        """Yield the intervals of the read and of the write in the loops in which both are in the same iteration."""
        return zip(self.left[: self.fixed], self.intervals[: self.fixed], strict=True)

    # {{{ equal cells

    def _known(self) -> dict[int, Affine[str]] | None:
        """Return loop -> iteration as far as equality of the cells determines it; None if the cells always differ."""
        assert self.write.cells is not None
        assert self.read.cells is not None
        known: dict[int, Affine[str]] = {}
        for written, wanted in zip(self.write.cells, self.read.cells, strict=True):
            free = [term for term in written.terms if self._place(term[0]) >= self.fixed]
            rest = wanted - Affine(tuple(term for term in written.terms if term not in free), written.constant)
            if len(free) > 1:
                raise _UndecidedError
            if not free:
                if self._differ(rest):
                    return None
                continue
            ((name, factor),) = free
            if any(each % factor for _, each in rest.terms):
                raise _UndecidedError
            if rest.constant % factor:
                return None
            value = rest.divided(factor)
            if self._place(name) in known and self._differ(known[self._place(name)] - value):
                return None
            known[self._place(name)] = value
        return known

    def _place(self, name: str) -> int:
        return self.write.variables.index(name)

    def _differ(self, difference: Affine[str]) -> bool:
        """Return whether *difference* is nonzero in all iterations; raise if it is zero only in some."""
        low, high = difference.between(self.ranges)
        if low > 0 or high < 0:
            return True
        if low != high:
            raise _UndecidedError
        return False

    # }}}

    def _carried(self, known: Mapping[int, Affine[str]]) -> range | None:
        """Append the iteration of the loop that carries the value; return where there is one, None if nowhere."""
        place = self.fixed
        here, there, iteration = self.left[place], self.intervals[place], Affine(((self.names[place], 1),))
        if place in known:
            low, high = (iteration - known[place]).between(self.ranges)
            if high <= 0:
                return None
            if low != high:
                raise _UndecidedError
            where = range(max(here.start, there.start + low), min(here.stop, there.stop + low))
            self.own.append(known[place])
        elif here.stop <= there.stop + 1:
            where = range(max(here.start, there.start + 1), here.stop)
            self.own.append(Affine(iteration.terms, -1))
        elif here.start >= there.stop:
            where = here
            self.own.append(Affine((), there[-1]))
        else:
            raise _UndecidedError
        if not where:
            return None
        if where.stop != here.stop:
            raise _UndecidedError
        return where


def _is_inside(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def _is_outside(one: range, other: range) -> bool:
    return one.stop <= other.start or other.stop <= one.start
