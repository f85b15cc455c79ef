"""The instructions that a core executes for a kernel, with latencies: the input of all device models.

A :class:`TimedProgram` is a plain value without references to Loopy: graphs of instructions with latencies, the number
of resident groups, and the memory levels that accesses reach. Models and the simulator compute from it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import repeat
from math import gcd
from typing import Any, TypeVar

from loopyperf.device.description import Device
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Substitution
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.idg.graph import Idg, runs_of_all
from loopyperf.idg.program import Instruction
from loopyperf.kernel.launches import Assumed
from loopyperf.pipeline.batches import Batches, Composition
from loopyperf.pipeline.timed_graph import Timed, TimedGraph, steady
from loopyperf.polyhedral.expressions import Same
from loopyperf.units import amount, number_of

Made = TypeVar("Made")
Placed = tuple[tuple[TimedGraph, ...], tuple[int, ...]]
"""distinct programs, and the programs of the warps of some groups"""


@dataclass(frozen=True, slots=True)
class Served:
    """The memory levels that accesses reach, nearest first."""

    asked: Mapping[str, float]
    """level -> share of the requested sectors that it delivers; 1 for the nearest"""
    waited: Mapping[str, float]
    """level -> share of accesses that wait for it; 1 for the nearest. An access to data that another one has requested
    in the same iteration waits as long as that one."""
    partial: float = 0.0
    """sectors that a store writes in part in the caches that cores share, relative to those that it requests"""
    filled: float = 0.0
    """sectors that DRAM reads because a store wrote a part of them, relative to those that it requests; included in
    :attr:`asked`"""


@dataclass(frozen=True, slots=True)
class Request:
    """The mean memory request of one execution of an access."""

    array: str
    """name of the array"""
    sectors: float = 0.0
    """sectors of global or local (stack) memory"""
    lines: float = 0.0
    """cache lines that contain these sectors"""
    wavefronts: float = 0.0
    """passes through the banks of local memory, or of the cache that contains it"""
    served: Served | None = None
    """levels that it reaches; None for local memory, and if unknown"""
    updates: float = 0.0
    """atomic updates of one element, or of neighboring ones, that follow one another, if all resident groups execute it
    at once"""
    added: str = ""
    """type of an atomic update by one instruction, e.g. ``"f32"``; empty for a loop around a compare-exchange"""

    @property
    def reaching(self) -> dict[str, float]:
        """Return level -> sectors that pass through it."""
        if self.served is None:
            return {}
        return {level: self.sectors * share for level, share in self.served.asked.items()}


def moved_sectors(graph: Idg, requests: Sequence[Request | None]) -> Mapping[str, float]:
    """Return memory level -> sectors that a warp moves through it, given the *requests* of its instructions."""
    found: dict[str, float] = {}
    for instruction, request in zip(graph.instructions, requests, strict=True):
        for level, sectors in ({} if request is None else request.reaching).items():
            found[level] = found.get(level, 0.0) + sectors * float(instruction.executions)
    return found


@dataclass(frozen=True)
class TimedWarps:
    """Warps that execute the same program."""

    graph: Idg
    """machine graph"""
    times: tuple[tuple[Timed, ...], ...]
    """latencies of each instruction on each pipeline that it needs"""
    requests: tuple[Request | None, ...]
    """memory request of each instruction; None if it does not access memory"""
    start: Timed | None
    """latencies of the start of a warp; None if unknown"""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields only; cached values are not pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """Return, for each instruction, the iterations of the loops around it in which its condition holds."""
        conditions = [instruction.condition for instruction in self.graph.instructions]
        return tuple(runs_of_all(conditions, self.graph.loops_around))

    @cached_property
    def timed_graph(self) -> TimedGraph:
        """Return the graph on the pipelines of a whole core.

        An instruction that executes in a share of the iterations has its latencies multiplied by that share.
        """
        shares = [
            float(instruction.executions) / runs if runs else 1.0
            for instruction, runs in zip(self.graph.instructions, self.runs, strict=True)
        ]
        pairs = zip(self.times, shares, strict=True)
        timed = [times if share == 1 else [steady(time.times(share)) for time in times] for times, share in pairs]
        return TimedGraph.of(self.graph, timed, self.start, self.runs)

    @cached_property
    def moved(self) -> Mapping[str, float]:
        """Return memory level -> sectors that a warp moves through it."""
        return moved_sectors(self.graph, self.requests)

    def balanced(self, balance: float, balances: Mapping[str, float]) -> "TimedWarps":
        """Return the warps with latencies for other shares of the common levels; see :meth:`Timed.balanced`."""
        times = tuple(
            [
                tuple([steady(time.balanced(balance, balances)) if time.shared else time for time in times])
                for times in self.times
            ]
        )
        return replace(self, times=times, start=None if self.start is None else self.start.balanced(balance, balances))


@dataclass(frozen=True)
class TimedLaunch:
    """A launch on a device, as executed by the core that finishes last."""

    name: str
    """name of the device program"""
    device: Device
    """device, with assumed values for missing parameters"""
    times: int
    """executions of the launch, from loops on the host"""
    all_groups: int
    """groups of one execution"""
    warps_per_group: int
    """warps per group"""
    work_items: int
    """work-items per group"""
    local_memory: int
    """bytes of local memory per group"""
    registers: int
    """registers per work-item"""
    spilled: int
    """spilled registers per work-item"""
    bound_by: tuple[str, ...]
    """resources that limit the resident groups"""
    sectors: float
    """minimum sectors that one execution moves for all arrays: fetches and writes"""
    execution: Execution
    """execution configuration of the core"""
    programs: Mapping[int, TimedWarps]
    """program of each warp class, by number, followed by light programs for classes whose warps do unequal work; equal
    programs are one object"""
    shares: Mapping[int, float]
    """program -> its share of all warps"""
    order: tuple[int, ...]
    """programs of the warps of one or more groups, in order; a single one if all are equal"""
    places: tuple[int, ...]
    """position in its group of one warp of each warp class"""
    batches: Batches
    """groups in the order in which they start"""
    are_equal: bool
    """whether all groups do the same work"""
    groups: float
    """groups of the core"""
    active_cores: int
    """approximate number of cores with as much work as this one"""
    balance: float
    """groups of the mean core relative to the busiest core; 1 if all have equally many"""
    balances: Mapping[str, float]
    """shared memory level -> the same ratio for its traffic, if it differs"""
    balances_alone: Mapping[str, float]
    """the same ratios if each core has at most one group"""
    assumed: tuple[Assumed, ...]
    """assumptions about the kernel"""
    unknown_collisions: tuple[str, ...]
    """collisions of atomic updates that the time does not include, because data determines them"""
    substitutions: tuple[Substitution, ...]
    """assumed values of missing device parameters"""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields only; cached values are not pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def executed(self, shares: Mapping[int, float] | None = None) -> list[tuple[float, Instruction, tuple[Timed, ...]]]:
        """Return (mean executions per warp, instruction, latencies) for all instructions.

        The mean is over all warps, or over warps whose programs have these *shares*.
        """
        return [
            (share * float(instruction.executions), instruction, times)
            for share, program in self.shared(shares)
            for instruction, times in zip(program.graph.instructions, program.times, strict=True)
        ]

    def requested(self) -> list[tuple[float, Instruction, Request]]:
        """Return (mean executions per warp, instruction, memory request) for all memory accesses."""
        return [
            (share * float(instruction.executions), instruction, request)
            for share, program in self.shared()
            for instruction, request in zip(program.graph.instructions, program.requests, strict=True)
            if request is not None
        ]

    def shared(self, shares: Mapping[int, float] | None = None) -> Iterator[tuple[float, TimedWarps]]:
        """Yield (share of warps, program); *shares* replaces the actual shares."""
        yield from ((share, self.programs[each]) for each, share in (self.shares if shares is None else shares).items())

    @property
    def start(self) -> Timed | None:
        """Return the latencies of the start of a warp; None if unknown."""
        return next(iter(self.programs.values())).start

    @property
    def warps_of_core(self) -> float:
        """Return the warps that the core finishing last executes, in all executions of the launch."""
        return self.groups * self.warps_per_group * self.times

    def balance_of(self, level: str) -> float:
        """Return :attr:`balance` for the traffic of a shared memory level."""
        return self.balances.get(level, self.balance)

    # {{{ programs in partitions

    @cached_property
    def warps(self) -> Placed:
        """Return the programs on the pipelines of their partitions, and the programs of the warps of some groups."""
        # Enough groups that the next one starts in the first partition again.
        order = list(self.order) * (self.warps_per_group if len(self.order) == 1 else 1)
        order *= self.partitions // gcd(len(order), self.partitions)
        every = [(self.first[program], number % self.partitions) for number, program in enumerate(order)]
        distinct = {each: place for place, each in enumerate(dict.fromkeys(every))}
        graphs = (self.programs[program].timed_graph.in_partition(part, self.partitions) for program, part in distinct)
        return tuple(graphs), tuple([distinct[each] for each in every])

    @cached_property
    def first(self) -> Mapping[int, int]:
        """Return program -> first equal program."""
        known: dict[Same[TimedWarps], int] = {}
        return {program: known.setdefault(Same(each), program) for program, each in self.programs.items()}

    @property
    def partitions(self) -> int:
        """Return the number of partitions of a core, each with its own warps and pipelines; 1 if unknown."""
        return self.device.limits.partitions or 1

    @cached_property
    def alone(self) -> Mapping[int, TimedWarps]:
        """Return :attr:`programs` for cores with one group each, which share the common levels accordingly.

        This ensures that the time of a warp alone does not fall when a core gets another group.
        """
        balance = min(1.0, self.all_groups / self.device.needed("cores"))
        return self._balanced(balance, self.balances_alone)

    # }}}

    # {{{ modified launches

    @property
    def group(self) -> Composition:
        """Return the warps of the mean group."""
        return {program: share * self.warps_per_group for program, share in self.shares.items()}

    def like(self, group: Composition, groups: float, active_cores: int = 1) -> "TimedLaunch":
        """Return a launch whose last core to finish has so many *groups*, all with the warps of *group*."""
        return replace(
            self,
            are_equal=True,
            groups=groups,
            active_cores=active_cores,
            shares={program: number / self.warps_per_group for program, number in group.items()},
            order=tuple(self._in_place(group)),
            execution=replace(self.execution, total_groups=max(1, round(groups))),
        )

    def _in_place(self, group: Composition) -> Iterator[int]:
        """Yield the programs of the warps of *group*, in the order of the warps."""
        numbers: defaultdict[int, float] = defaultdict(float)
        of_kind: dict[int, int] = {}
        for program, number in sorted(group.items(), reverse=True):  # the light program if there is no other
            kind = program % len(self.places)
            numbers[kind] += number
            of_kind[kind] = program
        for kind in sorted(numbers, key=lambda kind: (self.places[kind], kind)):
            yield from repeat(of_kind[kind], round(numbers[kind]))

    @cached_property
    def evenly(self) -> "TimedLaunch":
        """Return the launch with equal shares of common resources for all cores."""
        return self.with_balance(1.0)

    def with_balance(self, balance: float) -> "TimedLaunch":
        """Return the launch with another :attr:`balance`, for all memory levels."""
        return replace(self, balance=balance, balances={}, programs=self._balanced(balance, {}))

    def _balanced(self, balance: float, balances: Mapping[str, float]) -> Mapping[int, TimedWarps]:
        if (balance, balances) == (self.balance, self.balances):
            return self.programs
        made = {
            number: self.programs[number].balanced(balance, balances) for number in dict.fromkeys(self.first.values())
        }
        return {program: made[first] for program, first in self.first.items()}

    # }}}


@dataclass(frozen=True, repr=False)
class TimedProgram(Shown):
    """The launches of a kernel on a device."""

    kernel: str
    """kernel name"""
    sizes: Mapping[str, int]
    """given problem sizes"""
    device: Device
    """device with its specified parameters"""
    launches: tuple[TimedLaunch, ...]
    """launches that execute instructions, in program order"""
    launched: tuple[tuple[str, int], ...]
    """(name of launch, number of executions); 0 executions for a launch without instructions"""

    def alone(self, launch: TimedLaunch) -> "TimedProgram":
        """Return the program with only one of its launches."""
        return replace(
            self, launches=(launch,), launched=tuple(each for each in self.launched if each[0] == launch.name)
        )

    def report_text(self) -> ReportText:
        """Return the programs of each launch: share of warps, instructions, residency, and memory traffic."""
        rows = [
            (
                launch.name,
                f"{share:.1%}",
                amount(program.graph.executed),
                f"{launch.execution.concurrent_warps:,}",
                ", ".join(f"{level} {sectors:,.4g}" for level, sectors in program.moved.items()),
            )
            for launch in self.launches
            for share, program in launch.shared()
        ]
        headings = ("launch", "share of warps", "instructions per warp", "resident warps", "sectors moved")
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{number_of(len(self.launches), 'launch')} on {self.device.slug}",
            tables=[Table(headings, rows, last=1)],
        )
