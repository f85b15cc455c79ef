"""Profile of a kernel at given sizes: launches, classes of warps, and the instructions and memory accesses of each.

A :class:`KernelProfile` is plain data: profiles of the same kernel are equal, also after pickling. It does not depend
on the device, except for the number of lanes of a warp.
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
from loopyperf.counts.memory_accesses import Reference, Update
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.errors import UncountableError
from loopyperf.idg.dispatch import Dispatch
from loopyperf.idg.graph import Idg, checked_access
from loopyperf.idg.program import Predicates
from loopyperf.idg.warp_classes import Integers, Warp
from loopyperf.idg.warp_iterations import Activity, WarpIterations
from loopyperf.kernel.launches import SUBJECTS, Assumed, Assumption, sentences
from loopyperf.memory.addresses import LaneAddresses, lane_addresses
from loopyperf.memory.footprints import Footprints
from loopyperf.memory.residues import AddressStride, Places, TooManyOffsetsError, Visits, iterations_by_offset, visited
from loopyperf.memory.sectors import (
    CACHED_ACCESSES,
    LINE,
    WORD,
    BankAccess,
    SectorAccess,
    bank_access,
    from_first,
    sector_access,
    updates_in_sequence,
)
from loopyperf.polyhedral.points import Points
from loopyperf.units import amount, number_of

# {{{ memory accesses of one warp
#
# In one iteration of the surrounding loops, and in all its iterations.
#
# Sectors, lines and banks depend on addresses modulo 128 bytes. If addresses are affine in the loops, or formed from
# affine ones by integer divisions, they have few offsets in a line, and the iterations at each offset are counted
# without visiting them. The same holds for loops that move all lanes equally, in any way. Otherwise the iterations, or
# a sample of them, are visited one by one.


WarpAccess = SectorAccess | BankAccess
"""access of global memory, or of local memory"""
Quantity = Literal[
    "lanes", "requested", "sectors", "partial", "lines", "distinct", "wavefronts", "ideal_wavefronts", "conflicts",
    "updates",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccessProfile:
    """All executions of an access by one warp, grouped by equal effect on memory."""

    executions: Mapping[WarpAccess, int | Fraction]
    """number of executions of each kind, averaged over several warps; without executions that have no active lane"""

    @property
    def number(self) -> int | Fraction:
        """Return how often the warp executes the access."""
        return sum(self.executions.values())

    def total(self, quantity: Quantity) -> int | Fraction:
        """Return the sum of *quantity* over all executions; raises :class:`AttributeError` for the other memory's."""
        return sum(getattr(access, quantity) * number for access, number in self.executions.items())

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the exact mean of *quantity* over executions; 0 if there are none."""
        return Fraction(self.total(quantity)) / (self.number or 1)


@dataclass(frozen=True)
class AccessPattern:
    """One reference of a kernel as one warp executes it, exact except for :attr:`assumed`."""

    reference: Reference
    iterations: WarpIterations
    addresses: LaneAddresses
    width: int
    """bytes moved for each lane"""

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return the assumptions about addresses as sentences."""
        return sentences(self.assumptions)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return the assumptions about addresses that depend on data, and about sampled iterations."""
        is_affine = self.addresses.steps is not None
        if is_affine or not any(isinstance(place, Visits) and place.is_sample for place in self._places.values()):
            return self.addresses.assumed
        sentence = f"addresses have no short period ({SUBJECTS}); sectors are means over sampled iterations"
        return (*self.addresses.assumed, self.reference.assumption(sentence))

    def at(self, iterations: Mapping[str, int]) -> WarpAccess:
        """Return the memory access at loop values *iterations*.

        Loops that start differently in lanes are numbered from zero; see :mod:`loopyperf.idg.warp_iterations`.
        """
        return _access(self.iterations.active(iterations), self.addresses.at(iterations), self._kind)

    @cached_property
    def profile(self) -> AccessProfile:
        """Return the memory accesses in all iterations of the warp.

        If addresses have no period and iterations are many, they are those of a sample, with a note in
        :attr:`assumed`.
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
        """Yield the addresses of the lanes, up to whole lines, with the number of iterations that have them."""
        places = self._places[activity.lanes]
        if isinstance(places, Visits):
            yield from self.addresses.at_all(places.values, places.times)
            return
        phases = {place.phases for place in places}
        known = {each: self.addresses.at(dict(zip(self.iterations.loops, each, strict=True))) for each in phases}
        yield from ((known[place.phases] + place.offset, number) for place, number in places.items())

    @cached_property
    def _places(self) -> Mapping[tuple[int, ...], Places | Visits]:
        """Return active lanes -> iterations by offset in a line, or the iterations to visit."""
        return {activity.lanes: self._places_of(activity.iterations) for activity in self.iterations.activities}

    def _places_of(self, iterations: Points) -> Places | Visits:
        try:
            return iterations_by_offset(iterations, self.addresses.progress, self._block, self.addresses.added)
        except TooManyOffsetsError:
            return visited(iterations)

    @property
    def _kind(self) -> "_Kind":
        ref = self.reference
        is_local = ref.space == MemorySpace.LOCAL
        return _Kind(is_local, self.width, ref.direction == "load", ref.is_in_constant_memory, ref.update)

    @property
    def _block(self) -> int:
        """Return the bytes by which shifting all lanes changes nothing: a line, or a word for banks."""
        return WORD if self.reference.space == MemorySpace.LOCAL else LINE


class _Kind(NamedTuple):
    """Properties of an access, other than addresses, that determine its effect on memory."""

    is_local: bool
    width: int
    is_load: bool
    is_in_constant_memory: bool
    update: Update | None


def _access(lanes: tuple[int, ...], addresses: Integers, kind: _Kind) -> WarpAccess:
    is_combined = kind.update is not None and kind.update.is_combined
    active = np.array(lanes[:1] if is_combined else lanes, dtype=np.int64)
    places = addresses[active]
    if kind.is_in_constant_memory:
        return replace(sector_access(places, kind.width), wavefronts=len(np.unique(places)))
    # Parts of a warp that load from the same addresses are served together by local memory, but not by the cache.
    banks = bank_access(active, places, kind.width, kind.is_load and kind.is_local, kind.update is not None)
    if kind.is_local:
        return banks
    sectors = sector_access(places, kind.width)
    if kind.update is not None:
        return replace(sectors, wavefronts=sectors.lines, updates=updates_in_sequence(places))
    return replace(sectors, wavefronts=banks.wavefronts if kind.is_load else max(banks.wavefronts, sectors.lines))


@lru_cache(maxsize=CACHED_ACCESSES)
def _affine_profile(
    activities: tuple[Activity, ...], steps: tuple[int, ...], first: bytes, kind: _Kind
) -> AccessProfile:
    """Return the profile of accesses of *kind* with lanes at *first* that move by *steps* along the loops."""
    lanes, block = np.frombuffer(first, dtype=np.int64), WORD if kind.is_local else LINE
    found = Counter[WarpAccess]()
    for activity in activities:
        places = iterations_by_offset(
            activity.iterations, lambda loops: [AddressStride(1, steps[loop]) for loop in loops], block
        )
        for place, number in places.items():
            found[_access(activity.lanes, lanes + place.offset, kind)] += number
    return AccessProfile(dict(found))


def access_pattern(ref: Reference, iterations: WarpIterations, stride: str | None = None) -> AccessPattern:
    """Return how the warp of *iterations* executes *ref*.

    *stride* is the stride class, from ``typical``, of lanes that differ by data. Without it, they share no sector of
    global memory and no bank of local memory. For errors see :func:`lane_addresses`.
    """
    return AccessPattern(ref, iterations, lane_addresses(ref, iterations, stride), ref.bits // 8)


# }}}


# {{{ kernel profile


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """The memory accesses of a load or store in a class of warps, as the representative warp executes it."""

    bits: int
    """bits moved for each lane"""
    profile: AccessProfile
    """its executions by kind; empty if unknown"""
    wider: Mapping[int, AccessProfile]
    """bits -> profile of wider loads from the same addresses; for local memory, where loads may be merged"""
    assumed: tuple[Assumed, ...] = ()
    """assumptions about its addresses"""
    refusal: str = ""
    """why the profile is unknown; empty if it is known"""

    @property
    def known(self) -> AccessProfile:
        """Return the profile; raises :class:`UncountableError` if it is unknown."""
        if self.refusal:
            raise UncountableError(self.refusal)
        return self.profile


@dataclass(frozen=True)
class WarpClass:
    """Warps that execute the same instructions."""

    warps: int
    """number of warps in all executions of the launch"""
    is_uniform: bool
    """whether all execute each instruction equally often; otherwise the graph has means"""
    example: Warp
    """the representative warp"""
    host: Mapping[str, int]
    """values of the host's loops around the launch of the representative warp"""
    graph: Idg
    """instruction graph of the representative warp"""
    accesses: Mapping[int, MemoryAccess]
    """accesses of the graph's loads and stores, by their :attr:`~loopyperf.idg.program.Instruction.origin`"""
    unequal_loops: frozenset[str]
    """loops whose iteration count differs between the warps"""
    executed_accesses: int | Fraction
    """loads and stores of arrays that one warp executes, by the source"""
    active: Mapping[tuple[str, Predicates], Fraction]
    """(source, predicates) of the instructions that not all lanes execute -> mean share of active lanes"""

    def access(self, number: int) -> AccessProfile:
        """Return the memory accesses of load or store *number* of the graph, as the representative warp executes it.

        Raises :class:`GraphError` if the instruction does not access an array, and :class:`UncountableError` if the
        accesses are unknown.
        """
        return self.accesses[checked_access(self.graph, number)].known


@dataclass(frozen=True)
class LaunchProfile:
    """Warps, groups and memory accesses of one launch."""

    name: str
    """name of the device program"""
    classes: tuple[WarpClass, ...]
    """classes of warps, the most frequent first; empty if nothing executes"""
    grid: Mapping[int, int]
    """work-groups along each axis"""
    local_memory: int | None
    """bytes per work-group; None if they depend on a parameter"""
    dispatch: Dispatch
    """groups in the order in which the hardware starts them"""
    footprints: Footprints
    """accesses to global arrays"""
    assumed: tuple[Assumed, ...] = ()
    """hardware axes that were added"""

    @property
    def groups(self) -> int:
        """Return the number of work-groups in one execution."""
        return prod(self.grid.values())

    @property
    def work_items(self) -> int:
        """Return the number of work-items in a group."""
        return prod(self.representative.example.shape.values())

    @property
    def warps_per_group(self) -> int:
        """Return the number of warps in a group."""
        return -(-self.work_items // self.representative.example.size)

    @property
    def times(self) -> int:
        """Return the number of executions by loops on the host."""
        warps = sum(warp_class.warps for warp_class in self.classes)
        return warps // (self.groups * self.warps_per_group) if warps else 0

    @property
    def representative(self) -> WarpClass:
        """Return the most frequent class, which is that of interior warps."""
        return self.classes[0]

    @property
    def shares(self) -> Mapping[int, float]:
        """Return class number -> share of all warps."""
        every = sum(warp_class.warps for warp_class in self.classes)
        return {number: warp_class.warps / every for number, warp_class in enumerate(self.classes)}

    @property
    def middle(self) -> Mapping[int, int]:
        """Return class number -> warps, in the most frequent kind of group that contains the most accessing class."""
        number = next(number for number, warp_class in enumerate(self.classes) if warp_class is self.accessing)
        groups = {group: 0.0 for group, warps in enumerate(self.dispatch.classes) if number in dict(warps)}
        for times, order in self.dispatch.executions:
            for run in order:
                if run.group in groups:
                    groups[run.group] += times * run.number
        return dict(self.dispatch.classes[max(groups, key=lambda group: groups[group])])

    @cached_property
    def accessing(self) -> WarpClass:
        """Return the most frequent of the classes with many accesses: if groups differ, most warps may be idle."""
        if self.dispatch.is_uniform:
            return self.representative
        accesses = [warp_class.warps * warp_class.executed_accesses for warp_class in self.classes]
        return next(each for each, number in zip(self.classes, accesses, strict=True) if 2 * number >= max(accesses))


@dataclass(frozen=True, repr=False)
class KernelProfile(Shown):
    """Launches of a kernel and their warps at given sizes."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, int]
    """given sizes of the kernel"""
    warp_size: int
    """lanes of a warp"""
    launches: tuple[LaunchProfile, ...]
    """launches in program order"""
    is_opencl: bool = False
    """whether Loopy generates OpenCL C"""

    @property
    def longest(self) -> LaunchProfile:
        """Return the launch whose most frequent class of warps executes the most instructions."""
        return max(self.launches, key=_executed)

    @property
    def graph(self) -> "KernelIdg":
        """Return the graph of the representative warp of the longest launch."""
        launch = self.longest
        graph = launch.representative.graph if launch.classes else Idg((), (), ())
        return KernelIdg(graph.instructions, graph.edges, graph.body, graph.idle, launch.name, self)

    @property
    def table(self) -> Table:
        """Return the classes of warps of each launch, with their number and the work of each warp."""
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
        return Table(("launch", "groups", "warps", "instructions per warp", "loads and stores per warp"), rows)

    def report_text(self) -> ReportText:
        """Return the launches with their classes of warps as report text."""
        launches = number_of(len(self.launches), "launch")
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{launches}, warp size {self.warp_size}",
            tables=[self.table],
        )


@dataclass(frozen=True, repr=False)
class KernelIdg(Idg):
    """The graph of the representative warp of a kernel's longest launch, with the profile of the whole kernel."""

    launch: str = ""
    """name of the launch to which the representative warp belongs"""
    profile: KernelProfile = KernelProfile("", {}, 32, ())
    """profile of the kernel"""

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
