"""Counts of everything that a kernel does, in one walk over its launches and instructions."""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, cast

import islpy as isl
import numpy as np
from loopy.kernel.instruction import InstructionBase

from loopyperf.counts.atomic_updates import on_collisions
from loopyperf.counts.conditions import ALWAYS, Conditions, guards
from loopyperf.counts.execution import (
    COUNTINGS,
    Counting,
    ExecutionCounter,
    Executions,
    Site,
    barrier_executions,
    launch_executions,
)
from loopyperf.counts.item import LAUNCHES, WORK_GROUPS, Access, Item, MemorySpace, Overhead
from loopyperf.counts.lanes import offsets_in_temporaries
from loopyperf.counts.loops import loops_bounded_by_data
from loopyperf.counts.memory_accesses import Reference, resolved
from loopyperf.counts.sizes import Typical
from loopyperf.counts.stride_classes import StrideClassifier
from loopyperf.counts.walk import Walk
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.kernel import Group, group_of
from loopyperf.kernel.launches import Assumption, Launch, sentences
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


OnUnknown = Literal["refuse", "report"]


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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An instruction that was not counted, with the reason."""

    source: str
    """instruction id"""
    reason: str
    """why it has no count"""
    keyword: str | None
    """key of ``typical`` that makes it countable"""


@dataclass(frozen=True)
class KernelTallies:
    """Counts of a kernel as exact functions of its sizes, by instruction."""

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
    left_out: tuple[LeftOut, ...] = ()
    """instructions that were not counted; empty unless ``on_unknown`` is ``"report"``"""
    runs: Mapping[str, Executions] = field(default_factory=dict[str, Executions])
    """instruction -> executions of its loops; filled only if instructions were left out"""

    @cached_property
    def totals(self) -> Mapping[Item, tuple[tuple[QuasiPolynomial, int | Fraction], ...]]:
        """Return the distinct execution counts of each item, with their multiplicities."""
        sums: dict[Item, dict[Same[QuasiPolynomial], int | Fraction]] = defaultdict(lambda: defaultdict(int))
        for tally in self.tallies:
            sums[tally.item][Same(tally.executions)] += tally.number
        return {item: tuple((key.value, number) for key, number in numbers.items()) for item, numbers in sums.items()}


def count_kernel(
    kernel: Kernel,
    counting: Counting = "executed",
    *,
    typical: Typical | None = None,
    sub_group_size: int | None = None,
    on_unknown: OnUnknown = "refuse",
) -> KernelTallies:
    """Return the exact counts of everything that *kernel* does.

    *typical* has values that the source does not determine. *sub_group_size* counts sub-groups of that many lanes
    instead of work-items. With *on_unknown* ``"report"``, instructions that cannot be counted are left out and listed.

    Raises :class:`UncountableError` for a construct without an exact count, naming instruction, construct and keyword,
    and :class:`ParameterError` for an invalid option or typical value.
    """
    check_options(counting, sub_group_size, on_unknown)
    given = Typical({}) if typical is None else typical
    lanes = None if sub_group_size is None else int(sub_group_size)  # also from NumPy integers
    counted = _KernelCounter(kernel, counting, given, lanes, on_unknown).counted()
    given.check_all_used(kernel.name)
    return counted


def memory_references(kernel: Kernel, typical: Typical) -> list[tuple[Site, Reference]]:
    """Return all loads and stores of *kernel* with their sites."""
    walk = _KernelCounter(kernel, "executed", typical, None, "refuse")
    sightings = (sighting for launch in kernel.launches for sighting in walk.walked(launch))
    return [(each.site, each.event) for each in sightings if isinstance(each.event, Reference)]


def check_options(counting: object, sub_group_size: object, on_unknown: object) -> None:
    """Raise :class:`ParameterError` for an invalid option, of any type."""
    if not isinstance(counting, str) or counting not in COUNTINGS:
        raise ParameterError(f"unknown counting {counting!r}; choose one of: {', '.join(COUNTINGS)}")
    if not isinstance(on_unknown, str) or on_unknown not in ("refuse", "report"):
        raise ParameterError(f"on_unknown must be 'refuse' or 'report', got {on_unknown!r}")
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


class _KernelCounter:
    """One counting of one kernel, with the state that its instructions share."""

    def __init__(
        self, kernel: Kernel, counting: Counting, typical: Typical, sub_group_size: int | None, on_unknown: OnUnknown
    ) -> None:
        self.kernel = kernel
        self.counting: Counting = counting
        self.sub_group_size = sub_group_size
        self.on_unknown = on_unknown
        self.counter = ExecutionCounter(kernel, typical, sub_group_size)
        self.walk = Walk(kernel, typical)
        self.assumed: dict[Assumption, None] = {}
        """assumptions about atomic updates, in program order"""
        self.offsets = offsets_in_temporaries(kernel)
        self.left_out: dict[str, LeftOut] = {}

    def counted(self) -> KernelTallies:
        sightings = [sighting for launch in self.kernel.launches for sighting in self.walked(launch)]
        references = [(s.site, s.event) for s in sightings if isinstance(s.event, Reference)]
        classifier = StrideClassifier(self.counter, references)
        tallies = [tally for sighting in sightings for tally in self._tally(sighting, classifier)]
        tallies += [tally for launch in self.kernel.launches for tally in self._overheads(launch)]
        added = (assumption for launch in self.kernel.launches for assumption in launch.assumptions)
        return KernelTallies(
            kernel=Signature(
                self.kernel.name, self.kernel.assumptions, group_of(self.kernel), frozenset(self.kernel.contiguous)
            ),
            counting=self.counting,
            tallies=tuple(tally for tally in tallies if tally.source not in self.left_out),
            sub_group_size=self.sub_group_size,
            assumed=sentences((*self.kernel.assumed, *added, *self.assumed, *classifier.assumed)),
            left_out=tuple(self.left_out.values()),
            runs=self._runs() if self.left_out else {},
        )

    @contextmanager
    def _refusals_of(self, source: str, prefix: str) -> Generator[None]:
        """Prepend *prefix* to refusals of *source*, or leave *source* out of the counts."""
        try:
            yield
        except UncountableError as error:
            if self.on_unknown == "refuse":
                error.args = (f"{prefix}: {error}",)
                raise
            self.left_out.setdefault(source, LeftOut(source, str(error), error.keyword))

    # {{{ instructions

    def _of_instruction(self, name: str) -> AbstractContextManager[None]:
        return self._refusals_of(name, f"instruction {name!r}")

    def walked(self, launch: Launch) -> Iterator[_Sighting]:
        """Yield every operation and every reference of *launch* with its site."""
        for guard in guards(self.kernel, launch):
            with self._of_instruction(guard.instruction.id):
                self.walk.steps.clear()
                self.walk.predicate(guard)
                yield from self._sightings(launch, guard.inames, guard.instruction)
        for instruction in launch.instructions:
            with self._of_instruction(instruction.id):
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
        with self._of_instruction(site.source):
            executions = self.counter.executions(site, self.counting)
            if executions.count.form and executions.weight:
                item = _access(site, event, classifier) if isinstance(event, Reference) else event
                yield _tally(site.launch, site.source, item, executions, sighting.number)

    def _runs(self) -> dict[str, Executions]:
        """Return the executions of each instruction's loops; loops bounded by unknown data count as one iteration."""
        return {
            instruction.id: self._runs_of(launch, instruction)
            for launch in self.kernel.launches
            for instruction in launch.instructions
        }

    def _runs_of(self, launch: Launch, instruction: InstructionBase) -> Executions:
        inames = frozenset(instruction.within_inames)
        try:
            return self.counter.executions(Site(launch, inames, ALWAYS, instruction.id), self.counting)
        except UncountableError:
            inames -= loops_bounded_by_data(self.kernel, inames)
            return self.counter.executions(Site(launch, inames, ALWAYS, instruction.id), self.counting)

    # }}}

    def _overheads(self, launch: Launch) -> Iterator[Tally]:
        for barrier in launch.barriers:
            with self._refusals_of(barrier.label, barrier.label):
                met = barrier_executions(self.counter, launch, barrier)
                yield _tally(launch, barrier.label, Overhead("barriers"), met)
        source = f"launch of {launch.name}"
        with self._refusals_of(source, source):
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
