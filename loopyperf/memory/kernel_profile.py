"""What a kernel does at given sizes: its launches, their classes of warps, what each executes and asks of memory.

A :class:`KernelProfile` is plain: two of the same kernel are equal, and one that was pickled is the same again. It
does not depend on the device, except for the number of lanes of a warp.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory_accesses import Reference
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.errors import UncountableError
from loopyperf.idg.graph import Idg, checked_access
from loopyperf.idg.warps.dispatch import Dispatch
from loopyperf.idg.warps.warp_classes import Integers, Warp
from loopyperf.idg.warps.warp_iterations import Activity, WarpIterations
from loopyperf.kernel.launches import SUBJECTS, Assumed, Assumption, sentences
from loopyperf.memory.addresses import LaneAddresses, lane_addresses
from loopyperf.memory.footprints import Footprints
from loopyperf.memory.residues import AddressStride, Places, TooManyOffsetsError, Visits, iterations_by_offset, visited
from loopyperf.memory.sectors import KNOWN, LINE, WORD, BankAccess, SectorAccess, bank_access, from_first, sector_access
from loopyperf.polyhedral.points import Points
from loopyperf.units import amount, number_of

# {{{ what an access does to memory when one warp executes it
#
# In one pass of the loops around, and in all its passes.
#
# Sectors, lines and banks see addresses modulo 128 bytes. Where addresses are affine in the loops, or made of such by
# integer divisions, a loop takes them through few places in a line, and the passes at each are counted, not visited. So
# are they where loops move all lanes alike, however they do. Other passes are visited, or a sample of them.


WarpAccess = SectorAccess | BankAccess
"""of global memory, of local memory"""
Quantity = Literal["lanes", "requested", "sectors", "lines", "distinct", "wavefronts", "ideal_wavefronts", "conflicts"]


@dataclass(frozen=True, slots=True)
class AccessProfile:
    """What all executions of an access by one warp do, by kind."""

    executions: Mapping[WarpAccess, int | Fraction]
    """how often each happens, on average over several warps; those without active lanes are none"""

    @property
    def number(self) -> int | Fraction:
        """Return how often the warp executes the access."""
        return sum(self.executions.values())

    def total(self, quantity: Quantity) -> int | Fraction:
        """Return the sum of *quantity* over all executions; raises :class:`AttributeError` for the other memory's."""
        return sum(getattr(access, quantity) * number for access, number in self.executions.items())

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the exact average of *quantity* over executions, zero where there are none."""
        return Fraction(self.total(quantity)) / (self.number or 1)


@dataclass(frozen=True)
class AccessPattern:
    """One reference of a kernel as one warp executes it, exact up to what :attr:`assumed` says."""

    reference: Reference
    iterations: WarpIterations
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
        is_affine = self.addresses.steps is not None
        if is_affine or not any(isinstance(each, Visits) and each.is_sample for each in self._places.values()):
            return self.addresses.assumed
        sentence = f"addresses have no short period ({SUBJECTS}); their sectors are the mean over sampled iterations"
        return (*self.addresses.assumed, self.reference.assumption(sentence))

    def at(self, passes: Mapping[str, int]) -> WarpAccess:
        """Return what the access does where the loops have the values *passes*.

        Loops that do not start alike in all lanes are numbered from zero; see
        :mod:`loopyperf.idg.warps.warp_iterations`.
        """
        return _access(self.iterations.active(passes), self.addresses.at(passes), self._kind)

    @cached_property
    def profile(self) -> AccessProfile:
        """Return what the access does in all passes that the warp makes.

        Where addresses follow no period and passes are many, it is that of a sample, as :attr:`assumed` says.
        """
        steps = self.addresses.steps
        if steps is not None:
            first = self.addresses.at(dict.fromkeys(self.iterations.loops, 0))
            return _affine_profile(self.iterations.activities, steps, from_first(first, self._block), self._kind)
        found = Counter[WarpAccess]()
        for activity in self.iterations.activities:
            for addresses, number in self._happening(activity):
                found[_access(activity.lanes, addresses, self._kind)] += number
        return AccessProfile(dict(found))

    def _happening(self, activity: Activity) -> Iterator[tuple[Integers, int]]:
        """Yield the addresses of each lane, up to whole lines, and in how many passes they are those."""
        places = self._places[activity.lanes]
        if isinstance(places, Visits):
            yield from self.addresses.at_all(places.values, places.times)
            return
        phases = {place.phases for place in places}
        known = {each: self.addresses.at(dict(zip(self.iterations.loops, each, strict=True))) for each in phases}
        yield from ((known[place.phases] + place.offset, number) for place, number in places.items())

    @cached_property
    def _places(self) -> Mapping[tuple[int, ...], Places | Visits]:
        """Return active lanes -> the places in a line that the addresses have, or the passes that are looked at."""
        return {activity.lanes: self._places_of(activity.iterations) for activity in self.iterations.activities}

    def _places_of(self, passes: Points) -> Places | Visits:
        try:
            return iterations_by_offset(passes, self.addresses.progress, self._block, self.addresses.added)
        except TooManyOffsetsError:
            return visited(passes)

    @property
    def _kind(self) -> "_Kind":
        ref = self.reference
        return _Kind(ref.space == MemorySpace.LOCAL, self.width, ref.direction == "load", ref.is_in_constant_memory)

    @property
    def _block(self) -> int:
        """Return the bytes by which all lanes may move on without a difference: banks are as many from any word."""
        return WORD if self.reference.space == MemorySpace.LOCAL else LINE


class _Kind(NamedTuple):
    """What decides beside the addresses what an access does."""

    is_local: bool
    width: int
    is_load: bool
    is_in_constant_memory: bool


def _access(lanes: tuple[int, ...], addresses: Integers, kind: _Kind) -> WarpAccess:
    active = np.array(lanes, dtype=np.int64)
    places = addresses[active]
    if kind.is_in_constant_memory:
        return replace(sector_access(places, kind.width), wavefronts=len(np.unique(places)))
    # Parts of a warp that load from the same addresses go together in local memory, and not in the cache.
    banks = bank_access(active, places, kind.width, kind.is_load and kind.is_local)
    if kind.is_local:
        return banks
    sectors = sector_access(places, kind.width)
    return replace(sectors, wavefronts=banks.wavefronts if kind.is_load else max(banks.wavefronts, sectors.lines))


@lru_cache(maxsize=KNOWN)
def _affine_profile(
    activities: tuple[Activity, ...], steps: tuple[int, ...], first: bytes, kind: _Kind
) -> AccessProfile:
    """Return what an access of some *kind* does whose lanes are at *first*, and move on by *steps* along the loops."""
    lanes, block = np.frombuffer(first, dtype=np.int64), WORD if kind.is_local else LINE
    found = Counter[WarpAccess]()
    for activity in activities:
        places = iterations_by_offset(
            activity.iterations, lambda loops: [AddressStride(1, steps[loop]) for loop in loops], block
        )
        for place, number in places.items():
            found[_access(activity.lanes, lanes + place.offset, kind)] += number
    return AccessProfile(dict(found))


def access_pattern(ref: Reference, passes: WarpIterations, stride: str | None = None) -> AccessPattern:
    """Return how the warp of *passes* executes *ref*.

    *stride* is the stride class of lanes that data tells apart, as stated through ``typical``; without it, they share
    no sector of global memory and no bank of local memory. For errors see :func:`lane_addresses`.
    """
    return AccessPattern(ref, passes, lane_addresses(ref, passes, stride), ref.bits // 8)


# }}}


# {{{ kernel profile


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """What a load or store of a class of warps asks of memory, as the example of the class executes it."""

    bits: int
    """that it moves for a lane"""
    profile: AccessProfile
    """what its executions do, by kind; empty where that is refused"""
    wider: Mapping[int, AccessProfile]
    """bits -> what executions would do that load so many from the same addresses; of local memory, where the loads of
    neighbours may become one"""
    assumed: tuple[Assumed, ...] = ()
    """what was assumed of its addresses"""
    refusal: str = ""
    """why that is not known"""

    @property
    def known(self) -> AccessProfile:
        """Return the profile; raises :class:`UncountableError` where it is refused."""
        if self.refusal:
            raise UncountableError(self.refusal)
        return self.profile


@dataclass(frozen=True)
class WarpClass:
    """Warps that execute alike."""

    warps: int
    """how many there are in all executions of the launch"""
    is_uniform: bool
    """otherwise they differ in how often they execute some instructions: the graph has the mean"""
    example: Warp
    """one of them"""
    host: Mapping[str, int]
    """the values of the host's loops around the launch of the example"""
    graph: Idg
    """of the example"""
    accesses: Mapping[int, MemoryAccess]
    """of the graph's loads and stores of arrays, by their :attr:`~loopyperf.idg.program.Instruction.origin`"""
    unequal_loops: frozenset[str]
    """loops whose passes are not the same in all of them"""
    executed_accesses: int | Fraction
    """how often one of them loads from arrays or stores to them, by the source"""

    def access(self, number: int) -> AccessProfile:
        """Return what the load or store *number* of the graph asks of memory, as the example executes it.

        Raises :class:`GraphError` for an instruction that accesses no array, :class:`UncountableError` where that is
        refused.
        """
        return self.accesses[checked_access(self.graph, number)].known


@dataclass(frozen=True)
class LaunchProfile:
    """What one launch does."""

    name: str
    """of the device program"""
    classes: tuple[WarpClass, ...]
    """of warps, the one with most of them first; empty where nothing is executed"""
    grid: Mapping[int, int]
    """work-groups along each axis"""
    local_memory: int | None
    """bytes of a work-group; None where they depend on a parameter"""
    dispatch: Dispatch
    """the groups in the order in which the hardware starts them"""
    footprints: Footprints
    """what is touched of global arrays"""
    assumed: tuple[Assumed, ...] = ()
    """which hardware axes were added"""

    @property
    def groups(self) -> int:
        """Return the work-groups of one execution."""
        return prod(self.grid.values())

    @property
    def work_items(self) -> int:
        """Return the work-items of a group."""
        return prod(self.representative.example.shape.values())

    @property
    def warps_per_group(self) -> int:
        """Return the warps of a group."""
        return -(-self.work_items // self.representative.example.size)

    @property
    def times(self) -> int:
        """Return how often it is executed, in loops on the host."""
        warps = sum(each.warps for each in self.classes)
        return warps // (self.groups * self.warps_per_group) if warps else 0

    @property
    def representative(self) -> WarpClass:
        """Return the class with most warps, which is that of the interior."""
        return self.classes[0]

    @property
    def shares(self) -> Mapping[int, float]:
        """Return number of a class of warps -> its share of all warps."""
        every = sum(each.warps for each in self.classes)
        return {number: each.warps / every for number, each in enumerate(self.classes)}

    @property
    def middle(self) -> Mapping[int, int]:
        """Return the classes of the warps of a group that accesses most, of the most frequent sort of such groups."""
        number = next(number for number, each in enumerate(self.classes) if each is self.accessing)
        groups = {group: 0.0 for group, warps in enumerate(self.dispatch.classes) if number in dict(warps)}
        for times, order in self.dispatch.executions:
            for run in order:
                if run.group in groups:
                    groups[run.group] += times * run.number
        return dict(self.dispatch.classes[max(groups, key=lambda group: groups[group])])

    @cached_property
    def accessing(self) -> WarpClass:
        """Return the class with most warps of those that access much: if groups differ, most warps may be idle."""
        if self.dispatch.is_uniform:
            return self.representative
        accesses = [each.warps * each.executed_accesses for each in self.classes]
        return next(each for each, number in zip(self.classes, accesses, strict=True) if 2 * number >= max(accesses))


@dataclass(frozen=True, repr=False)
class KernelProfile(Shown):
    """What a kernel does at given sizes."""

    kernel: str
    """its name"""
    sizes: Mapping[str, int]
    """of the kernel, those that are given"""
    warp_size: int
    """lanes of a warp"""
    launches: tuple[LaunchProfile, ...]
    """in the order of the program"""
    is_opencl: bool = False
    """Loopy writes it in OpenCL C"""

    @property
    def longest(self) -> LaunchProfile:
        """Return the launch of which the warps of the most frequent class execute most instructions."""
        return max(self.launches, key=_executed)

    @property
    def graph(self) -> "KernelIdg":
        """Return the graph of the representative warp of the longest launch."""
        launch = self.longest
        graph = launch.representative.graph if launch.classes else Idg((), (), ())
        return KernelIdg(graph.instructions, graph.edges, graph.body, graph.idle, launch.name, self)

    @property
    def table(self) -> Table:
        """Return the classes of warps of each launch, with how many there are and what each executes."""
        rows = [
            (
                launch.name,
                " × ".join(map(str, launch.grid.values())),
                f"{each.warps:,}",
                amount(each.graph.executed),
                amount(each.executed_accesses),
            )
            for launch in self.launches
            for each in launch.classes
        ]
        return Table(("launch", "groups", "warps of a class", "instructions of each", "loads and stores"), rows)

    def report_text(self) -> ReportText:
        """Return the launches with their classes of warps."""
        launches = number_of(len(self.launches), "launch")
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{launches}, in warps of {self.warp_size} lanes",
            tables=[self.table],
        )


@dataclass(frozen=True, repr=False)
class KernelIdg(Idg):
    """The graph of the representative warp of a kernel's longest launch, with what all others do."""

    launch: str = ""
    """the name of the launch whose representative warp this is"""
    profile: KernelProfile = KernelProfile("", {}, 32, ())
    """of the kernel that it is of"""

    @property
    def launches(self) -> tuple[LaunchProfile, ...]:
        """Return all launches of the kernel, with the graphs of all classes of their warps."""
        return self.profile.launches

    def _summary(self) -> str:
        return f"{self.launch} {super()._summary()}"

    def _further_tables(self) -> tuple[Table, ...]:
        return (self.profile.table,)


def _executed(launch: LaunchProfile) -> int | Fraction:
    """Return how many instructions the warps of the most frequent class execute."""
    return launch.representative.warps * launch.representative.graph.executed if launch.classes else 0


# }}}
