"""Counts of everything that a kernel does, in one walk over its launches and instructions: :func:`loopyperf.count`."""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import islpy as isl
import numpy as np
from loopy.kernel.instruction import InstructionBase

from loopyperf.counts.conditions import Conditions, guards_in, scheduled
from loopyperf.counts.execution import (
    COUNTINGS,
    Counting,
    ExecutionCounter,
    Executions,
    Site,
    barrier_executions,
    launch_executions,
)
from loopyperf.counts.item import LAUNCHES, WORK_GROUPS, Access, Item, MemorySpace, Overhead, property_name
from loopyperf.counts.lanes import offsets_in_temporaries
from loopyperf.counts.memory_accesses import Reference, on_collisions, resolved
from loopyperf.counts.property_vector import CountTable, PropertyVector, Totals, unified_properties
from loopyperf.counts.sizes import Typical
from loopyperf.counts.stride_classes import StrideClassifier
from loopyperf.counts.walk import Walk
from loopyperf.display import ReportText, Shown
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.kernel import Group, group_of
from loopyperf.kernel.launches import Assumption, Launch, sentences
from loopyperf.polyhedral.evaluation import IntegerArray
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial


@dataclass(frozen=True, slots=True)
class Signature:
    """Name, sizes and groups of a kernel, without Loopy objects, so that it can be stored."""

    name: str
    """name of the entry point"""
    assumptions: isl.BasicSet
    """the kernel's parameters and their admissible values"""
    group: Group
    """minimum resources of a core that a group occupies"""
    contiguous: frozenset[str] = frozenset()
    """parameters that are strides or offsets without a given value: the arrays are contiguous"""


# {{{ one walk over launches and instructions


@dataclass(frozen=True, slots=True)
class Tally:
    """*number* of *item* for each of the *executions* of *source*."""

    launch: str
    """name of the device program"""
    source: str
    """instruction id, barrier label or launch"""
    item: Item
    """the counted item"""
    number: int | Fraction
    """items per execution"""
    executions: QuasiPolynomial
    """number of executions as a function of the sizes"""


@dataclass(frozen=True, repr=False)
class KernelCounts(Shown):
    """Operations, memory accesses and overheads of a kernel, as exact functions of its sizes.

    :func:`loopyperf.count` returns it. ``str`` gives a table of the properties; a notebook shows it with formulas.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf
    >>> double = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", name="double", lang_version=(2018, 2))
    >>> counts = loopyperf.count(lp.add_dtypes(double, {"a": np.float32}))
    >>> print(counts.properties()["f32 mul"])
    n
    >>> counts.properties().evaluate(n=1000)["f32 mul"]
    1000
    """

    kernel: Signature
    """name, sizes and groups of the kernel"""
    counting: Counting
    """``"executed"`` or ``"paper"``"""
    tallies: tuple[Tally, ...]
    """counts of each instruction, barrier and launch"""
    sub_group_size: int | None = None
    """lanes of the counted sub-groups; None if work-items are counted"""
    assumed: tuple[str, ...] = ()
    """assumptions about what neither the source nor ``typical`` determines, one sentence each"""

    def properties(self) -> PropertyVector:
        """Return the properties of the unified model.

        Returns
        -------
        PropertyVector
            Property name -> count as a function of the sizes.
        """
        return self._properties

    @cached_property
    def _properties(self) -> PropertyVector:
        sums: dict[Item, dict[Same[QuasiPolynomial], int | Fraction]] = defaultdict(lambda: defaultdict(int))
        for tally in self.tallies:
            sums[tally.item][Same(tally.executions)] += tally.number
        totals = {item: [(key.value, number) for key, number in numbers.items()] for item, numbers in sums.items()}
        return unified_properties(self.kernel.assumptions, totals)

    @cached_property
    def _by_source(self) -> Totals[tuple[str, str]]:
        """Return the total of each property in each instruction, barrier and launch."""
        sums: dict[tuple[str, str], list[tuple[QuasiPolynomial, int | Fraction]]] = {}
        for tally in self.tallies:
            name = property_name(tally.item)
            if name is not None:
                sums.setdefault((name, tally.source), []).append((tally.executions, tally.number))
        return Totals(self.kernel.assumptions, sums, {})

    @cached_property
    def _places(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """Return each property with its sources, and the places of their counts in :attr:`_by_source`."""
        places: dict[str, list[tuple[str, int]]] = {name: [] for name in self._properties}
        for place, (name, source) in enumerate(self._by_source.keys):
            places[name].append((source, place))
        return list(places.items())

    def shares(self, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Return the counts at *sizes* by property and source; they add up to the property.

        Counts that are fractions because of ``typical`` are rounded; the largest counts of a property absorb the
        rounding difference, one each. A minimum of loads and stores consists of the counts of the fewer of the two.

        Parameters
        ----------
        sizes
            Size name -> value.

        Returns
        -------
        dict
            Property -> instruction, barrier or launch -> exact count.

        Raises
        ------
        ParameterError
            If *sizes* are inadmissible.
        """
        counts = self._by_source.evaluator.at(sizes)
        shares = {name: {source: counts[place] for source, place in parts} for name, parts in self._places}
        if any(isinstance(tally.number, Fraction) for tally in self.tallies):
            totals = self._properties.totals
            for name, total in zip(totals.sums, totals.evaluator.at(sizes), strict=False):
                _make_add_up(shares[name], total)
        for name, sides in self._properties.totals.minima.items():
            shares[name] = dict(min((shares[side] for side in sides), key=lambda parts: sum(parts.values())))
        return shares

    def table(self, /, **sizes: int | IntegerArray) -> CountTable:
        """Return the properties as a table of formulas, with a column of numbers for each size.

        Parameters
        ----------
        sizes
            Sizes by keyword; an array makes one column for each element.

        Returns
        -------
        CountTable
            One row for each property.

        Raises
        ------
        ParameterError
            If the sizes are inadmissible, or arrays do not broadcast.

        Examples
        --------
        ``counts.table(n=1024)`` has one column, ``counts.table(n=np.array([512, 1024]))`` has two.
        """
        table = self._properties.table(**sizes)
        return replace(table, title=f"{self.kernel.name}, {self.counting} counting: {table.title}")

    def report_text(self) -> ReportText:
        """Return the properties with their formulas as report text."""
        return self.table().report_text()


def _make_add_up(parts: dict[str, int], total: int) -> None:
    """Change the largest *parts* by one each so that they add up to *total*."""
    missing = total - sum(parts.values())
    for source in sorted(parts, key=lambda source: -parts[source])[: abs(missing)]:
        parts[source] += 1 if missing > 0 else -1


def count_kernel(
    kernel: Kernel,
    counting: Counting = "executed",
    *,
    typical: Mapping[str, Any] | Typical | None = None,
    sub_group_size: int | None = None,
) -> KernelCounts:
    """Return the exact counts of everything that *kernel* does; see :func:`loopyperf.count` for the options.

    Raises :class:`UncountableError` for a construct without an exact count, naming instruction, construct and keyword,
    and :class:`ParameterError` for an invalid option or typical value.
    """
    check_options(counting, sub_group_size)
    given = typical if isinstance(typical, Typical) else Typical(typical or {})
    lanes = None if sub_group_size is None else int(sub_group_size)  # also from NumPy integers
    counted = _KernelCounter(kernel, counting, given, lanes).counted()
    given.check_all_used(kernel.name)
    return counted


def memory_references(kernel: Kernel, typical: Typical) -> list[tuple[Site, Reference]]:
    """Return all loads and stores of *kernel* with their sites."""
    walk = _KernelCounter(kernel, "executed", typical, None)
    sightings = (sighting for launch in kernel.launches for sighting in walk.walked(launch))
    return [(each.site, each.event) for each in sightings if isinstance(each.event, Reference)]


def check_options(counting: object, sub_group_size: object = None) -> None:
    """Raise :class:`ParameterError` for an invalid option, of any type."""
    if not isinstance(counting, str) or counting not in COUNTINGS:
        raise ParameterError(f"unknown counting {counting!r}; choose one of: {', '.join(COUNTINGS)}")
    is_integer = isinstance(sub_group_size, (int, np.integer)) and not isinstance(sub_group_size, bool)
    is_number = is_integer and int(cast("int", sub_group_size)) > 0
    if sub_group_size is not None and not is_number:
        raise ParameterError(f"sub_group_size must be an integer >= 1, got {sub_group_size!r}")


@dataclass(frozen=True)
class _Sighting:
    """An operation or a memory reference with its site."""

    site: Site
    event: Item | Reference
    number: int | Fraction
    """number per execution of the site"""


@contextmanager
def _refusals_of(part: str) -> Generator[None]:
    """Prepend *part* to the message of an :class:`UncountableError`."""
    try:
        yield
    except UncountableError as error:
        error.args = (f"{part}: {error}",)
        raise


class _KernelCounter:
    """One counting of one kernel, with the state that its instructions share."""

    def __init__(self, kernel: Kernel, counting: Counting, typical: Typical, sub_group_size: int | None) -> None:
        self.kernel = kernel
        self.counting: Counting = counting
        self.sub_group_size = sub_group_size
        self.counter = ExecutionCounter(kernel, typical, sub_group_size)
        self.walk = Walk(kernel, typical)
        self.assumed: dict[Assumption, None] = {}
        """assumptions about atomic updates, in program order"""
        self.offsets = offsets_in_temporaries(kernel)

    def counted(self) -> KernelCounts:
        sightings = [sighting for launch in self.kernel.launches for sighting in self.walked(launch)]
        references = [(s.site, s.event) for s in sightings if isinstance(s.event, Reference)]
        classifier = StrideClassifier(self.counter, references)
        tallies = [tally for sighting in sightings for tally in self._tally(sighting, classifier)]
        tallies += [tally for launch in self.kernel.launches for tally in self._overheads(launch)]
        added = (assumption for launch in self.kernel.launches for assumption in launch.assumptions)
        return KernelCounts(
            kernel=Signature(
                self.kernel.name, self.kernel.assumptions, group_of(self.kernel), frozenset(self.kernel.contiguous)
            ),
            counting=self.counting,
            tallies=tuple(tallies),
            sub_group_size=self.sub_group_size,
            assumed=sentences((*self.kernel.assumed, *added, *self.assumed, *classifier.assumed)),
        )

    # {{{ instructions

    def walked(self, launch: Launch) -> Iterator[_Sighting]:
        """Yield every operation and every reference of *launch* with its site."""
        for guard in guards_in(scheduled(self.kernel, launch)):
            with _refusals_of(f"instruction {guard.instruction.id!r}"):
                self.walk.steps.clear()
                self.walk.predicate(guard)
                yield from self._sightings(launch, guard.inames, guard.instruction)
        for instruction in launch.instructions:
            with _refusals_of(f"instruction {instruction.id!r}"):
                self.walk.steps.clear()
                self.walk.instruction(instruction)
                for assumption in on_collisions(instruction):
                    self.walk.typical.distinct(assumption.name)  # device models use it
                    self.assumed[assumption] = None
                yield from self._sightings(launch, instruction.within_inames, instruction)

    def _sightings(self, launch: Launch, inames: frozenset[str], instruction: InstructionBase) -> Iterator[_Sighting]:
        """Yield the sum of the walk's steps, parts of *instruction* in loops over *inames*."""
        vector = frozenset((self.walk.vector.iname,)) if self.walk.vector else frozenset[str]()
        numbers: dict[tuple[frozenset[str], Conditions, Item | Reference], int | Fraction] = {}
        for step in self.walk.steps:
            event = step.item or step.reference
            # One member of a vector represents all, each in its own iteration of the vector's loop.
            if event is not None and not step.is_repeated and not step.member:
                key = inames if step.member == 0 else inames - vector, step.conditions, event
                numbers[key] = numbers.get(key, 0) + (1 if step.number is None else step.number)
        for (loops, conditions, event), number in numbers.items():
            if isinstance(event, Reference):
                index = resolved(self.kernel, self.walk.typical, event.index, self.offsets)
                event = replace(event, index=index)
            yield _Sighting(Site(launch, loops, conditions, instruction.id), event, number)

    def _tally(self, sighting: _Sighting, classifier: StrideClassifier) -> Iterator[Tally]:
        """Yield the tally of *sighting*; nothing if it never executes, since it has no stride class then."""
        site, event = sighting.site, sighting.event
        with _refusals_of(f"instruction {site.source!r}"):
            executions = self.counter.executions(site, self.counting)
            if executions.count.form and executions.weight:
                item = _access(site, event, classifier) if isinstance(event, Reference) else event
                yield _tally(site.launch, site.source, item, executions, sighting.number)

    # }}}

    def _overheads(self, launch: Launch) -> Iterator[Tally]:
        for barrier in launch.barriers:
            with _refusals_of(barrier.label):
                met = barrier_executions(self.counter, launch, barrier)
                yield _tally(launch, barrier.label, Overhead("barriers"), met)
        source = f"launch of {launch.name}"
        with _refusals_of(source):
            for launches in launch_executions(self.counter, launch):
                groups = Executions(self.counter.work_groups(launch) * launches.count, launches.weight)
                yield _tally(launch, source, WORK_GROUPS, groups)
                yield _tally(launch, source, LAUNCHES, launches)


def _access(site: Site, ref: Reference, classifier: StrideClassifier) -> Access:
    stride = "" if ref.space == MemorySpace.LOCAL else classifier.stride_class(site, ref)
    return Access(ref.direction, ref.space, ref.bits, stride)


def _tally(launch: Launch, source: str, item: Item, executions: Executions, number: int | Fraction = 1) -> Tally:
    total = number * executions.weight
    return Tally(launch.name, source, item, int(total) if total.denominator == 1 else total, executions.count)


# }}}
