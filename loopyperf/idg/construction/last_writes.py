"""Which execution last wrote a cell that another one reads, where loops are intervals and indices are simple.

Going back in time from a read, in pass x of the loops around it, one meets in turn, for each number of loops d from
all of them down to none: what stands before it in the same passes of the d outermost loops; then what is in an earlier
pass of the innermost of these d, and in the same ones of the others. Among the writes of one such kind, cells being
equal gives passes of some loops as functions of x; those of the other loops are the latest there are: the last pass
in a loop entered anew, the pass before in the loop that carries the value from pass to pass. As long as executions
are products of intervals and each index is a multiple of one such pass and functions of x, all of this is exact, and
what is left of the read's passes after each step is a product of intervals again. Executions that are a few such
products, as those of tiles the last of which is not full, are looked at product by product. Whatever else happens is
left to isl.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product, takewhile
from typing import Any

from loopyperf.errors import LoopyperfError
from loopyperf.idg.affine import Affine
from loopyperf.idg.construction.cell_access import CellAccess
from loopyperf.idg.warps.points import Box


class _UndecidedError(LoopyperfError):
    """Intervals do not tell."""


@dataclass(frozen=True, slots=True)
class LastWrite:
    """What is read in some passes was last written in these."""

    source: CellAccess
    target: CellAccess
    where: tuple[Box, ...]
    """passes of the loops around the target, in disjoint parts"""
    passes: tuple[Affine, ...]
    """of the loops around the source, as functions of those"""


def last_writes(read: CellAccess, writes: Sequence[CellAccess]) -> list[LastWrite] | None:
    """Return what *read* reads of what *writes* wrote; None where intervals do not tell."""
    if any(access.passes is None or access.cells is None for access in (read, *writes)):
        return None
    parts = [_Part(write, box, shared_loops(write, read)) for write in writes for box in write.passes or ()]
    try:
        boxes = [part for box in read.passes or () for part in _cut_up(box, parts)]
        return _together(found for box in boxes for found in _Search(read, box, parts).found())
    except _UndecidedError:
        return None


def _together(found: Iterable[LastWrite]) -> list[LastWrite]:
    """Return what was *found* of parts, as one where the passes of the source are the same functions."""
    alike: dict[Any, LastWrite] = {}
    for each in found:
        key = each.source, tuple((value.constant, frozenset(value.factors.items())) for value in each.passes)
        alike[key] = replace(each, where=(*alike[key].where, *each.where)) if key in alike else each
    return list(alike.values())


def shared_loops(one: CellAccess, other: CellAccess) -> int:
    """Return how many loops are around both."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one.place[:-1], other.place[:-1], strict=False))
    return len(list(same))


@dataclass(frozen=True, slots=True)
class _Part:
    """A write in passes that are a product of intervals."""

    write: CellAccess
    passes: Box
    shared: int
    """loops around it and the read"""


def _cut_up(passes: Box, writes: Sequence[_Part]) -> Iterator[Box]:
    """Yield *passes* cut in the loops around both where *writes* begin or end, and where the pass before is there."""
    runs: list[list[range]] = []
    for place, interval in enumerate(passes):
        there = [write.passes[place] for write in writes if write.shared > place]
        inside = {end for each in there for end in (each.start, each.stop) if interval.start < end < interval.stop}
        ends = sorted({interval.start, interval.stop, *inside, *(end + 1 for end in inside)} - {interval.stop + 1})
        runs.append([range(first, end) for first, end in pairwise(ends)])
    yield from product(*runs)


class _Search:
    """Goes back in time from one read, in passes that are a product of intervals."""

    def __init__(self, read: CellAccess, passes: Box, writes: Sequence[_Part]) -> None:
        self.read, self.names, self.left, self.writes = read, read.variables, passes, writes

    def found(self) -> Iterator[LastWrite]:
        for depth in range(len(self.names), -1, -1):
            before = [each for each in self.writes if each.shared == depth and self._precedes(each.write, depth)]
            found = self._last(before, depth)
            if found is not None:
                yield found
                return
            around = [each for each in self.writes if each.shared >= depth]
            while depth and (found := self._last(around, depth - 1, is_carried=True)) is not None:
                yield found
                # What is left are earlier passes of the loop that carries the value: the first ones that there are.
                carrying = range(self.left[depth - 1].start, found.where[0][depth - 1].start)
                if not carrying:
                    return
                self.left = (*self.left[: depth - 1], carrying, *self.left[depth:])

    def _precedes(self, write: CellAccess, shared: int) -> bool:
        return write.place[shared] < self.read.place[shared]

    def _last(self, writes: Sequence[_Part], fixed: int, is_carried: bool = False) -> LastWrite | None:
        """Return the last of *writes* in the same passes of so many *fixed* loops; None where there is none.

        With *is_carried*, they are in an earlier pass of the loop inside these.
        """
        candidates = (_Candidate(self, write, fixed, is_carried).last() for write in writes)
        found = [each for each in candidates if each is not None]
        for one in found:
            if all(one is other or self._is_later(one, other) for other in found):
                if not one.source.is_certain:
                    raise _UndecidedError
                return one
        if found:
            raise _UndecidedError
        return None

    def _is_later(self, one: LastWrite, other: LastWrite) -> bool:
        """Return whether *one* is later than *other* wherever both are."""
        ranges = dict(zip(self.names, self.left, strict=True))
        for level, (here, there) in enumerate(zip(one.source.place, other.source.place, strict=False)):
            if here != there:
                return here > there
            if level == len(one.passes):
                raise _UndecidedError  # of the same statement
            low, high = one.passes[level].minus(other.passes[level]).between(ranges)
            if low > 0 or high < 0:
                return low > 0
            if low != high:
                raise _UndecidedError
        raise _UndecidedError


class _Candidate:
    """A write that may be the last one."""

    def __init__(self, search: _Search, part: _Part, fixed: int, is_carried: bool) -> None:
        self.read, self.left, self.names = search.read, search.left, search.names
        self.write, self.intervals, self.fixed, self.is_carried = part.write, part.passes, fixed, is_carried
        self.own = [Affine(0, {name: 1}) for name in self.names[:fixed]]
        self.ranges = dict(zip(self.names, self.left, strict=True))

    def last(self) -> LastWrite | None:
        """Return in which passes it was last executed on the cell that is read; None where it was in none."""
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
            value = known.get(place, Affine(self.intervals[place][-1], {}))
            low, high = value.between(ranges)
            if _is_outside(range(low, high + 1), self.intervals[place]):
                return None
            if not _is_inside(range(low, high + 1), self.intervals[place]):
                raise _UndecidedError
            self.own.append(value)
        return LastWrite(self.write, self.read, (where,), tuple(self.own))

    def _same(self) -> Iterator[tuple[range, range]]:
        """Yield the passes of the read and of the write in loops in which they are in the same pass."""
        return zip(self.left[: self.fixed], self.intervals[: self.fixed], strict=True)

    # {{{ equal cells

    def _known(self) -> dict[int, Affine] | None:
        """Return the passes of loops that equal cells determine; None where no cells are equal."""
        assert self.write.cells is not None
        assert self.read.cells is not None
        known: dict[int, Affine] = {}
        for written, wanted in zip(self.write.cells, self.read.cells, strict=True):
            free = {name: factor for name, factor in written.factors.items() if self._place(name) >= self.fixed}
            rest = wanted.minus(Affine(written.constant, self._without(written.factors, free)))
            if len(free) > 1:
                raise _UndecidedError
            if not free:
                if self._differ(rest):
                    return None
                continue
            ((name, factor),) = free.items()
            if any(each % factor for each in rest.factors.values()):
                raise _UndecidedError
            if rest.constant % factor:
                return None
            value = rest.divided(factor)
            if self._place(name) in known and self._differ(known[self._place(name)].minus(value)):
                return None
            known[self._place(name)] = value
        return known

    def _place(self, name: str) -> int:
        return self.write.variables.index(name)

    @staticmethod
    def _without(factors: Mapping[str, int], names: Mapping[str, int]) -> dict[str, int]:
        return {name: factor for name, factor in factors.items() if name not in names}

    def _differ(self, difference: Affine) -> bool:
        """Return whether *difference* is nowhere zero; raises where it is so in some passes and not in others."""
        low, high = difference.between(self.ranges)
        if low > 0 or high < 0:
            return True
        if low != high:
            raise _UndecidedError
        return False

    # }}}

    def _carried(self, known: Mapping[int, Affine]) -> range | None:
        """Append the pass of the loop that carries the value; return in which passes there is one, None if in none."""
        place = self.fixed
        here, there, pass_ = self.left[place], self.intervals[place], Affine(0, {self.names[place]: 1})
        if place in known:
            low, high = pass_.minus(known[place]).between(self.ranges)
            if high <= 0:
                return None
            if low != high:
                raise _UndecidedError
            where = range(max(here.start, there.start + low), min(here.stop, there.stop + low))
            self.own.append(known[place])
        elif here.stop <= there.stop + 1:
            where = range(max(here.start, there.start + 1), here.stop)
            self.own.append(Affine(-1, pass_.factors))
        elif here.start >= there.stop:
            where = here
            self.own.append(Affine(there[-1], {}))
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
