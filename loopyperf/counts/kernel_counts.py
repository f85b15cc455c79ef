"""Everything that a kernel does, counted: one pass over its launches and instructions."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from loopyperf.counts.arithmetic import Operation
from loopyperf.counts.execution import COUNTINGS, Conditions, Counting, ExecutionCounter, Site
from loopyperf.counts.footprint import Footprint, large_sizes, spacious_sizes
from loopyperf.counts.memory import Direction, Reference, Space, lane_pattern, stride_class
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.counts.synchronization import barrier_executions, launch_executions
from loopyperf.counts.walk import Event, InstructionWalker
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import Kernel, Launch


@dataclass(frozen=True, slots=True)
class Access:
    """Loads or stores of one class."""

    direction: Direction
    space: Space
    bits: int
    stride: str
    """amortized stride fraction of a global access; empty for local memory"""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a launch costs beside its instructions."""

    kind: Literal["barriers", "work-groups", "launches"]


Item = Operation | Access | Overhead


@dataclass(frozen=True, slots=True)
class Tally:
    """*number* of *item* for each of the *executions* of *source*."""

    launch: str
    source: str
    """instruction id, barrier label or launch"""
    item: Item
    number: int
    executions: QuasiPolynomial


@dataclass(frozen=True)
class KernelTallies:
    """What a kernel does, as exact functions of its sizes, instruction by instruction."""

    kernel: Kernel
    counting: Counting
    tallies: tuple[Tally, ...]

    @cached_property
    def totals(self) -> Mapping[Item, tuple[tuple[QuasiPolynomial, int], ...]]:
        """Return for each item its distinct execution counts with their multiplicities."""
        sums: dict[Item, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        distinct = {id(tally.executions): tally.executions for tally in self.tallies}
        for tally in self.tallies:
            sums[tally.item][id(tally.executions)] += tally.number
        return {
            item: tuple((distinct[key], number) for key, number in numbers.items()) for item, numbers in sums.items()
        }


def count_kernel(kernel: Kernel, counting: Counting = "executed") -> KernelTallies:
    """Return everything that *kernel* does, counted exactly.

    Raises :class:`UncountableError`, naming instruction and construct, for what has no exact count.
    """
    if counting not in COUNTINGS:
        raise ParameterError(f"unknown counting {counting!r}; choose one of: {', '.join(COUNTINGS)}")
    return KernelTallies(kernel, counting, tuple(_Pass(kernel, counting).tallies()))


@dataclass(frozen=True)
class _Sighting:
    """An event of the walk, with where it happens."""

    site: Site
    event: Event
    number: int


class _Pass:
    """One counting of one kernel; what is shared between instructions lives here."""

    def __init__(self, kernel: Kernel, counting: Counting) -> None:
        self.kernel = kernel
        self.counting: Counting = counting
        self.counter = ExecutionCounter(kernel)
        self.walker = InstructionWalker(kernel)
        self._footprints: dict[tuple[str, tuple[int, ...]], Footprint] = {}
        self._classes: dict[tuple[frozenset[str], Conditions, Reference], str] = {}

    def tallies(self) -> Iterator[Tally]:
        for sighting in self.sightings:
            yield from self._tally(sighting)
        for launch in self.kernel.launches:
            yield from self._overheads(launch)

    @cached_property
    def sightings(self) -> tuple[_Sighting, ...]:
        return tuple(sighting for launch in self.kernel.launches for sighting in self._walked(launch))

    def _walked(self, launch: Launch) -> Iterator[_Sighting]:
        for instruction in launch.instructions:
            events = self.walker.events(instruction)
            for (conditions, event), number in events.items():
                site = Site(launch, frozenset(instruction.within_inames), conditions, instruction.id)
                yield _Sighting(site, event, number)

    def _tally(self, sighting: _Sighting) -> Iterator[Tally]:
        """Yield the tally of *sighting*, unless it never happens: then it has no stride class either."""
        site, event = sighting.site, sighting.event
        executions = self.counter.executions(site, self.counting)
        if executions.form:
            item = self._access(site, event) if isinstance(event, Reference) else event
            yield Tally(site.launch.name, site.instruction, item, sighting.number, executions)

    def _overheads(self, launch: Launch) -> Iterator[Tally]:
        for barrier in launch.barriers:
            met = barrier_executions(self.counter, launch, barrier)
            yield Tally(launch.name, barrier.label, Overhead("barriers"), 1, met)
        launches = launch_executions(self.counter, launch)
        source = f"launch of {launch.name}"
        groups = self.counter.work_groups(launch) * launches
        yield Tally(launch.name, source, Overhead("work-groups"), 1, groups)
        yield Tally(launch.name, source, Overhead("launches"), 1, launches)

    # {{{ classes of memory accesses

    def _access(self, site: Site, ref: Reference) -> Access:
        if ref.space == "local":
            return Access(ref.direction, "local", ref.bits, "")
        key = (site.inames, site.conditions, ref)
        if key not in self._classes:
            self._classes[key] = self._stride_class(site, ref)
        return Access(ref.direction, "global", ref.bits, self._classes[key])

    def _stride_class(self, site: Site, ref: Reference) -> str:
        try:
            pattern = lane_pattern(self.kernel, site, ref, self._large_sizes)
        except UncountableError as error:
            raise UncountableError(f"instruction {site.instruction!r}, array {ref.array!r}: {error}") from error
        if pattern.stride <= 1:
            return str(pattern.stride)
        density = self._footprint(ref.array, self._large_sizes).density(site, ref, pattern)
        return stride_class(pattern.stride, density) if density else self._class_of_few_lanes(site, ref)

    def _class_of_few_lanes(self, site: Site, ref: Reference) -> str:
        """Return the stride class of an access without neighbouring lanes where all sizes are equally large."""
        sizes = spacious_sizes(self.kernel, self.counter.points(site))
        pattern = lane_pattern(self.kernel, site, ref, sizes)
        if pattern.stride <= 1:
            return str(pattern.stride)
        footprint = self._footprint(ref.array, sizes)
        density = footprint.density(site, ref, pattern) or footprint.density_of_lone_lanes(site, ref, pattern)
        return stride_class(pattern.stride, density)

    @cached_property
    def _large_sizes(self) -> dict[str, int]:
        return large_sizes(self.kernel)

    def _footprint(self, array: str, sizes: Mapping[str, int]) -> Footprint:
        key = (array, tuple(sizes.values()))
        if key not in self._footprints:
            references = [
                (s.site, s.event) for s in self.sightings if isinstance(s.event, Reference) and s.event.array == array
            ]
            self._footprints[key] = Footprint(self.counter, array, references, sizes)
        return self._footprints[key]

    # }}}
