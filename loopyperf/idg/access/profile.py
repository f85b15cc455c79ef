"""What an access does to memory when one warp executes it: in one pass of the loops around, and in all its passes.

Sectors, lines and banks see addresses modulo 128 bytes. Where addresses are affine in the loops, or made of such by
integer divisions, a loop takes them through few places in a line, and the passes at each are counted, not visited.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from loopyperf.counts.memory import Reference
from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.errors import UncountableError
from loopyperf.idg.access.addresses import LaneAddresses, addresses_at, lane_addresses
from loopyperf.idg.access.banks import BankAccess, bank_access
from loopyperf.idg.access.index_values import NotPeriodicError
from loopyperf.idg.access.residues import Places, passes_by_place
from loopyperf.idg.access.sectors import LINE, SectorAccess, sector_access
from loopyperf.idg.warps.lockstep import Lockstep
from loopyperf.idg.warps.passes import Activity, WarpPasses
from loopyperf.idg.warps.points import boxed, points_listed
from loopyperf.idg.warps.warp import Integers

WarpAccess = SectorAccess | BankAccess
"""of global memory, of local memory"""
Quantity = Literal["lanes", "requested", "sectors", "lines", "distinct", "wavefronts", "ideal_wavefronts", "conflicts"]
MOST_PASSES = 4096
"""that are looked at one by one"""


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
        """Return what was assumed of addresses that are data, in sentences."""
        return self.addresses.assumed

    def at(self, passes: Mapping[str, int]) -> WarpAccess:
        """Return what the access does where the loops have the values *passes*.

        Loops that do not start alike in all lanes are numbered from zero; see :mod:`loopyperf.idg.warps.lockstep`.
        """
        return self._access(self.passes.active(passes), self.addresses.at(passes))

    @cached_property
    def profile(self) -> AccessProfile:
        """Return what the access does in all passes that the warp makes.

        Raises :class:`UncountableError` where addresses follow no period and passes are too many to look at.
        """
        found = Counter[WarpAccess]()
        for activity in self.passes.activities:
            for addresses, number in self._happening(activity):
                found[self._access(activity.lanes, addresses)] += number
        return AccessProfile(found)

    def _happening(self, activity: Activity) -> Iterator[tuple[Integers, int]]:
        """Yield the addresses of each lane, up to whole lines, and in how many passes they are those."""
        try:
            progress = self.addresses.progress
        except NotPeriodicError as cause:
            return self._listed(activity, str(cause))
        return self._counted(passes_by_place(activity.passes, progress, LINE))

    def _counted(self, places: Places) -> Iterator[tuple[Integers, int]]:
        loops = self.passes.loops
        phases = {place.phases for place in places}
        known = {each: self.addresses.at(dict(zip(loops, each, strict=True))) for each in phases}
        return ((known[place.phases] + place.offset, number) for place, number in places.items())

    def _listed(self, activity: Activity, cause: str) -> Iterator[tuple[Integers, int]]:
        number = number_of_points(activity.passes)
        if number > MOST_PASSES:
            raise UncountableError(
                f"the index of {self.reference.array!r} has no period ({cause}) and {number} passes, more than the "
                f"{MOST_PASSES} that are looked at: take single ones, at(...)"
            )
        return self.addresses.at_all(points_listed(activity.passes))

    def _access(self, lanes: tuple[int, ...], addresses: Integers) -> WarpAccess:
        ref = self.reference
        active = np.array(lanes, dtype=np.int64)
        if ref.space == "local":
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
