"""What a cache moves for a group of a launch, beside the other groups that it serves.

A core's cache belongs to the groups that reside there, one as much as the other, beside the local memory that is taken
from it. The device's serves one round of groups after the other, of as many as reside on all cores at once: what a
round fetches stays for the next one if there is room for what both touch. Within a round, the layer conditions of
:mod:`loopyperf.memory.reuse` say what is fetched again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod
from statistics import fmean
from typing import NamedTuple

from loopyperf.device.description import MemoryLevel
from loopyperf.device.parts import Per
from loopyperf.memory.blocks import Touched
from loopyperf.memory.footprints import FIRST, Window, WorkingSets, working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.memory.reuse import Cache
from loopyperf.memory.sectors import LINE

SIDES = (0.25, 0.75)
"""of all groups: those at these places, where those in the middle do not stand for the others"""
MORE = 1.1
"""times as many lines: groups on either side that touch so many more, or less, are looked at in the middle's stead"""


@dataclass(frozen=True)
class Residence:
    """How many groups of a launch reside at once."""

    on_core: int
    on_device: int


class Way(NamedTuple):
    """The loads of an array of global memory, or the stores to it."""

    array: str
    kind: str
    """``"load"`` or ``"store"``"""


@dataclass(frozen=True)
class CachedGroups:
    """A cache whose size is stated, and the groups of a launch that it serves."""

    launch: LaunchProfile
    level: MemoryLevel
    residence: Residence
    mean_of: Mapping[Way, float] = field(default_factory=dict[Way, float])
    """what the mean group asks for, over what the one in the middle does"""

    @property
    def room(self) -> float:
        """Return the bytes that local memory leaves."""
        local = (self.launch.local_memory or 0) * self.residence.on_core if self.level.holds_local_memory else 0
        return max(self.level.needed("size") - local, 0)

    def moved(self, ways: Collection[Way]) -> dict[Way, float]:
        """Return the sectors that it fetches for the loads of a group, and those that it writes for its stores."""
        if self.level.per == Per.CORE:
            places = [None] if len(self.launch.classes) == 1 else self._places(1)
            room = self.room / self.residence.on_core
            moved = _mean([neighbours(self.launch, 1, place).moved(room, ways) for place in places])
            return (
                {way: each * self.mean_of.get(way, 1.0) for way, each in moved.items()} if len(places) == 1 else moved
            )
        everything = Groups.all_of(self.launch)
        if everything.lines * LINE <= self.level.needed("size"):
            return everything.moved(self.level.needed("size"), ways)
        return _mean([self._moved_in_rounds(place, ways) for place in self._places(self.residence.on_device)])

    def _places(self, at_once: int) -> Sequence[float | None]:
        """Return where groups are looked at, of which so many run at once: in the middle (None), or on either side.

        Where groups on either side touch more than those in the middle, these meet there what they would not elsewhere,
        as in an array that is added to itself reversed; or groups do not do as much as each other, as those of a
        triangle.
        """
        here, *there = (neighbours(self.launch, at_once, place).lines for place in (None, *SIDES))
        touching = tuple(place for place, lines in zip(SIDES, there, strict=True) if lines)
        if len(touching) < len(SIDES):  # groups on a side are idle
            return touching or (None,)
        return SIDES if max(sum(there), 2 * here) > MORE * min(sum(there), 2 * here) else (None,)

    def _moved_in_rounds(self, place: float | None, ways: Collection[Way]) -> dict[Way, float]:
        """Return what is moved for a group where as many as reside at once follow each other.

        Of what they touch of what the groups of the round before have touched, the part is there still that there is
        room for, of all that both rounds touch.
        """
        at_once, size = self.residence.on_device, self.level.needed("size")
        round_, two = (neighbours(self.launch, number, place) for number in (at_once, 2 * at_once))
        moved = round_.moved(size * round_.number / at_once, ways)
        if two.number > round_.number:
            held = min(1.0, size * two.number / (2 * at_once) / float(two.lines * LINE))
            after_another = 1 - round_.number / self.launch.groups
            for way, sectors in moved.items():
                anew = (two.touched(way, ways) - round_.touched(way, ways)) / (two.number - round_.number)
                again = max(0.0, round_.touched(way, ways) / round_.number - anew)
                moved[way] = max(0.0, sectors - again * held * after_another)
        return moved


@dataclass(frozen=True)
class Groups:
    """Groups of a launch that are each other's neighbours in its grid."""

    launch: LaunchProfile
    along: Mapping[int, range]
    """axis of the grid -> those of it"""

    @classmethod
    def all_of(cls, launch: LaunchProfile) -> "Groups":
        """Return all groups of *launch*."""
        return cls(launch, {axis: range(length) for axis, length in launch.grid.items()})

    @property
    def number(self) -> int:
        """Return how many they are."""
        return prod(map(len, self.along.values()))

    @cached_property
    def window(self) -> Window:
        """Return what is looked at of the launch."""
        return self.launch.footprints.window(self.along, self.launch.accessing.host)

    @cached_property
    def lines(self) -> Fraction:
        """Return how many lines of all arrays they touch together."""
        touched = self._sets.touched(self._sets.program, self.window)
        return sum((each.lines for each in touched.values()), Fraction(0))

    def touched(self, way: Way, ways: Collection[Way]) -> float:
        """Return how many sectors they load of an array that they have not stored, or how many they store."""
        kind = FIRST if way.kind == "load" and Way(way.array, "store") in ways else way.kind
        touched = self._sets.touched(self._sets.program, self.window, way.array, kind)
        return float(touched.get(way.array, Touched()).sectors)

    def moved(self, room: float, ways: Collection[Way]) -> dict[Way, float]:
        """Return the sectors that a cache of so many bytes moves for one of them, which it begins empty.

        Of arrays that are both loaded and stored, it need not fetch what was stored before, as far as it holds all.
        """
        cache, window = Cache(self._sets, room), self.window
        loaded, stored = ({way.array for way in ways if way.kind == kind} for kind in ("load", "store"))
        together = cache.fetched(window)
        found = {way: together[way.array] for way in ways if way.array in together}
        if loaded & stored:
            held = cache.held(window)
            first = self._sets.touched(self._sets.program, window, kind=FIRST)
            apart = {kind: replace(cache, kind=kind).fetched(window) for kind in ("load", "store")}
            for way in (way for way in found if way.array in loaded & stored):
                each = apart[way.kind].get(way.array, Touched())
                if way.kind == "load":
                    each = each.times(1 - held) + first.get(way.array, Touched()).times(held)
                found[way] = each
        return {way: float(each.sectors) / self.number for way, each in found.items()}

    @property
    def _sets(self) -> WorkingSets:
        return working_sets(self.launch.footprints)


def neighbours(launch: LaunchProfile, number: int, place: float | None = None) -> Groups:
    """Return so many groups or some more, one after the other, by the axes of the grid.

    They are about the representative one, in the middle, or at that *place* of all, from 0 to 1. They fill rows: there
    are no more than twice as many.
    """
    found: dict[int, range] = {}
    for axis, length in sorted(launch.grid.items()):
        here = min(length, max(1, number))
        about = launch.accessing.example.groups.get(axis, 0) if place is None else int(place * (length - 1))
        first = min(max(0, about - here // 2), length - here)
        found[axis] = range(first, first + here)
        number = -(-number // here)
    return Groups(launch, found)


def _mean(moved: Sequence[Mapping[Way, float]]) -> dict[Way, float]:
    """Return the means of what is moved at some places."""
    return {way: fmean(each.get(way, 0.0) for each in moved) for way in dict.fromkeys(chain(*moved))}
