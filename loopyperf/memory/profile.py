"""What an access does to memory when one warp executes it: in one pass of the loops around, and in all its passes.

Sectors, lines and banks see addresses modulo 128 bytes. Where addresses are affine in the loops, or made of such by
integer divisions, a loop takes them through few places in a line, and the passes at each are counted, not visited. So
are they where loops move all lanes alike, however they do. Other passes are visited, or a sample of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import islpy as isl
import numpy as np

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.warps.passes import Activity, Lockstep, WarpPasses
from loopyperf.idg.warps.warp import Integers
from loopyperf.kernel.launches import SUBJECTS, Assumption, sentences
from loopyperf.memory.addresses import LaneAddresses, addresses_at, lane_addresses
from loopyperf.memory.residues import NoPlacesError, Places, Visits, passes_by_place, visited
from loopyperf.memory.sectors import LINE, BankAccess, SectorAccess, bank_access, sector_access
from loopyperf.polyhedral.points import boxed

WarpAccess = SectorAccess | BankAccess
"""of global memory, of local memory"""
Quantity = Literal["lanes", "requested", "sectors", "lines", "distinct", "wavefronts", "ideal_wavefronts", "conflicts"]


@dataclass(frozen=True, slots=True)
class AccessProfile:
    """What all executions of an access by one warp do, by kind."""

    executions: Mapping[WarpAccess, int]
    """how often each happens; those without active lanes are none"""

    @property
    def number(self) -> int:
        """Return how often the warp executes the access."""
        return sum(self.executions.values())

    def total(self, quantity: Quantity) -> int:
        """Return the sum of *quantity* over all executions; raises :class:`AttributeError` for the other memory's."""
        return sum(getattr(access, quantity) * number for access, number in self.executions.items())

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the exact average of *quantity* over executions, zero where there are none."""
        return Fraction(self.total(quantity), max(self.number, 1))


@dataclass(frozen=True)
class AccessPattern:
    """One reference of a kernel as one warp executes it, exact up to what :attr:`assumed` says."""

    reference: Reference
    passes: WarpPasses
    addresses: LaneAddresses
    width: int
    """bytes that it moves for a lane"""

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return what was assumed of addresses, in sentences."""
        return sentences(self.assumptions)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return what was assumed of addresses that depend on data, and whether iterations were sampled."""
        if not any(isinstance(places, Visits) and places.is_sample for places in self._places.values()):
            return self.addresses.assumed
        sentence = f"addresses have no short period ({SUBJECTS}); their sectors are the mean over sampled iterations"
        return (*self.addresses.assumed, self.reference.assumption(sentence))

    def at(self, passes: Mapping[str, int]) -> WarpAccess:
        """Return what the access does where the loops have the values *passes*.

        Loops that do not start alike in all lanes are numbered from zero; see :mod:`loopyperf.idg.warps.passes`.
        """
        return self._access(self.passes.active(passes), self.addresses.at(passes))

    @cached_property
    def profile(self) -> AccessProfile:
        """Return what the access does in all passes that the warp makes.

        Where addresses follow no period and passes are many, it is that of a sample, as :attr:`assumed` says.
        """
        found = Counter[WarpAccess]()
        for activity in self.passes.activities:
            for addresses, number in self._happening(activity):
                found[self._access(activity.lanes, addresses)] += number
        return AccessProfile(dict(found))

    def _happening(self, activity: Activity) -> Iterator[tuple[Integers, int]]:
        """Yield the addresses of each lane, up to whole lines, and in how many passes they are those."""
        places = self._places[activity.lanes]
        if isinstance(places, Visits):
            yield from self.addresses.at_all(places.values, places.times)
            return
        phases = {place.phases for place in places}
        known = {each: self.addresses.at(dict(zip(self.passes.loops, each, strict=True))) for each in phases}
        yield from ((known[place.phases] + place.offset, number) for place, number in places.items())

    @cached_property
    def _places(self) -> Mapping[tuple[int, ...], Places | Visits]:
        """Return active lanes -> the places in a line that the addresses have, or the passes that are looked at."""
        return {activity.lanes: self._places_of(activity.passes) for activity in self.passes.activities}

    def _places_of(self, passes: isl.Set) -> Places | Visits:
        try:
            return passes_by_place(passes, self.addresses.progress, LINE, self.addresses.added)
        except NoPlacesError:
            return visited(passes)

    def _access(self, lanes: tuple[int, ...], addresses: Integers) -> WarpAccess:
        ref = self.reference
        active = np.array(lanes, dtype=np.int64)
        if ref.space == MemorySpace.LOCAL:
            return bank_access(active, addresses[active], self.width, ref.direction == "load")
        return sector_access(addresses[active], self.width)


def access_pattern(ref: Reference, passes: WarpPasses, stride: str | None = None) -> AccessPattern:
    """Return how the warp of *passes* executes *ref*.

    *stride* is the stride class of lanes that data tells apart, as stated through ``typical``; without it, they share
    no sector of global memory and no bank of local memory. For errors see :func:`lane_addresses`.
    """
    return AccessPattern(ref, passes, lane_addresses(ref, passes, stride), ref.bits // 8)


def pattern_of_copy(pattern: AccessPattern, address: Any, trips: Mapping[str, int], bits: int) -> AccessPattern:
    """Return how the warp executes a copy of the access of *pattern*, in all passes of loops of so many *trips*.

    *address* is how many elements from the array's first one each lane accesses, an expression of the numbers of these
    passes and of the hardware's inames; *bits* are what it moves for a lane. Raises :class:`UncountableError` where the
    lanes that are active depend on the pass, since the copy has passes of its own.
    """
    if len(pattern.passes.activities) != 1:
        raise UncountableError(
            f"the lanes that are active in the access of {pattern.reference.array!r} depend on the pass, so its "
            "copies cannot be told apart: ask for the instruction of the source graph, which is all of them"
        )
    (activity,) = pattern.passes.activities
    boxes = boxed(tuple(range(number) for number in trips.values()))
    passes = replace(
        pattern.passes,
        loops=tuple(trips),
        activities=(Activity(activity.lanes, boxes),),
        lockstep=Lockstep(),
    )
    return AccessPattern(pattern.reference, passes, addresses_at(pattern.reference, passes, address), bits // 8)
