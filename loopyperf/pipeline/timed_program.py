"""What a core executes of a kernel, and how long each instruction takes: all that models of a device are told.

A :class:`TimedProgram` is plain, and independent of Loopy: graphs of instructions with their latencies, how many
groups reside at once, and how far accesses go. Models and the simulator are arithmetic on it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import repeat
from math import gcd
from typing import Any, TypeVar

from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Substitution
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.idg.graph import Idg, runs_of_all
from loopyperf.idg.program import Instruction, Opcode, placed
from loopyperf.kernel.launches import Assumed
from loopyperf.pipeline.core import Batches, MakeUp
from loopyperf.pipeline.expression_code import decoded, decoded_body
from loopyperf.pipeline.timed_graph import Timed, TimedGraph, steady
from loopyperf.polyhedral.sets import Same
from loopyperf.units import amount, number_of

Made = TypeVar("Made")
Placed = tuple[tuple[TimedGraph, ...], tuple[int, ...]]
"""programs, each once, and which of them the warps of some groups execute"""


@dataclass(frozen=True, slots=True)
class Served:
    """How far accesses go, level by level, the nearest first."""

    asked: Mapping[str, float]
    """level -> the share of the sectors asked for that is moved from there, 1 for the nearest"""
    waited: Mapping[str, float]
    """level -> the share of accesses that wait for it, 1 for the nearest: those that find what another access has
    asked for already in the same pass wait as long as that one"""

    def reaching(self, kind: str) -> dict[str, float]:
        """Return level -> the share of what a load or store moves that goes by way of it, the nearest first."""
        return {name: 1.0 if kind == Opcode.STORE and name != DRAM else share for name, share in self.asked.items()}


@dataclass(frozen=True, slots=True)
class Request:
    """What an access asks of memory each time that it is executed, on average."""

    array: str
    """its name"""
    sectors: float = 0.0
    """of global memory or of the stack"""
    lines: float = 0.0
    """of these"""
    wavefronts: float = 0.0
    """passes through the banks of local memory, or of a cache that it is part of"""
    served: Served | None = None
    """how far it goes; None for local memory, and where that is not known"""

    def reaching(self, kind: str) -> dict[str, float]:
        """Return level -> the sectors that go by way of it, if it is of that *kind*; see :meth:`Served.reaching`."""
        shares = {} if self.served is None else self.served.reaching(kind)
        return {level: self.sectors * share for level, share in shares.items()}


def moved_sectors(graph: Idg, requests: Sequence[Request | None]) -> Mapping[str, float]:
    """Return level of memory -> the sectors that a warp moves by way of it, of *requests* of its instructions."""
    found: dict[str, float] = {}
    for each, request in zip(graph.instructions, requests, strict=True):
        for level, sectors in ({} if request is None else request.reaching(each.kind)).items():
            found[level] = found.get(level, 0.0) + sectors * float(each.executions)
    return found


@dataclass(frozen=True)
class TimedWarps:
    """Warps that execute the same program."""

    graph: Idg
    """the machine graph; its expressions are :class:`~loopyperf.pipeline.expression_code.Code`"""
    times: tuple[tuple[Timed, ...], ...]
    """of each instruction: how long it takes on each pipeline that it needs"""
    requests: tuple[Request | None, ...]
    """of each instruction: what it asks of memory; None where it accesses none"""
    start: Timed | None
    """how long a warp takes to begin; None where nothing is known"""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: what was derived from them is not pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """Return for each instruction how many passes the loops around it make in which its condition holds."""
        known = dict(placed(decoded_body(self.graph.body)))
        around = [known[place] for place in range(len(known))]
        names = ([loop.name for loop in loops] for loops in around)
        pairs = zip(self.graph.instructions, names, strict=True)
        return tuple(runs_of_all([decoded(each.condition, own) for each, own in pairs], around))

    @cached_property
    def timed_graph(self) -> TimedGraph:
        """Return the graph on the pipelines of a core as a whole.

        What is executed in a share of the passes takes so much less in each of them.
        """
        shares = [
            min(1.0, float(each.executions) / runs) if runs else 1.0
            for each, runs in zip(self.graph.instructions, self.runs, strict=True)
        ]
        pairs = zip(self.times, shares, strict=True)
        timed = [times if share == 1 else [steady(time.times(share)) for time in times] for times, share in pairs]
        return TimedGraph.of(self.graph, timed, self.start, self.runs)

    @cached_property
    def moved(self) -> Mapping[str, float]:
        """Return level of memory -> the sectors that a warp moves by way of it."""
        return moved_sectors(self.graph, self.requests)

    def balanced(self, balance: float, balances: Mapping[str, float]) -> "TimedWarps":
        """Return them where a core has another part of each level that all share; see :meth:`Timed.balanced`."""
        times = tuple(
            [
                tuple([steady(time.balanced(balance, balances)) if time.shared else time for time in times])
                for times in self.times
            ]
        )
        return replace(self, times=times, start=None if self.start is None else self.start.balanced(balance, balances))


@dataclass(frozen=True)
class TimedLaunch:
    """A launch on a device, as the core that ends last executes it."""

    name: str
    """of the device program"""
    device: Device
    """with what is assumed of it"""
    times: int
    """how often it is executed, in loops on the host"""
    all_groups: int
    """of one execution"""
    warps_per_group: int
    """how many warps a group has"""
    work_items: int
    """of a group"""
    local_memory: int
    """bytes of a group"""
    registers: int
    """of a work-item"""
    spilled: int
    """registers of a work-item beyond them"""
    bound_by: tuple[str, ...]
    """the resources that have no room for another group"""
    sectors: float
    """of all arrays that an execution moves at least: fetches, and writes"""
    execution: Execution
    """of the core"""
    programs: Mapping[int, TimedWarps]
    """by the number of the class of warps; then light programs of classes whose warps do unequal work. Equal ones are
    one object."""
    shares: Mapping[int, float]
    """program -> its share of all warps"""
    order: tuple[int, ...]
    """the programs of the warps of one or more groups one after the other; one alone where there is no other"""
    places: tuple[int, ...]
    """of each class of warps, the number in its group of one of them"""
    batches: Batches
    """the groups in the order in which they start"""
    are_equal: bool
    """all groups do the same work"""
    groups: float
    """of the core"""
    active_cores: int
    """about so many cores have as much to do as that one"""
    balance: float
    """the groups of the mean core over those of the core with most: 1 where all have as many"""
    balances: Mapping[str, float]
    """the same of what groups move of each level that all cores share, where they differ in that"""
    balances_alone: Mapping[str, float]
    """the same where a core has no more than one group"""
    assumed: tuple[Assumed, ...]
    """of the kernel"""
    substitutions: tuple[Substitution, ...]
    """what was assumed of the device, since its description lacks it"""
    made: dict[Any, Any] = field(default_factory=dict[Any, Any], init=False, repr=False, compare=False)
    """what models found out about it, by what found it out; neither compared nor pickled"""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without what was made of the launch."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare} | {"made": {}}

    def executed(self, shares: Mapping[int, float] | None = None) -> list[tuple[float, Instruction, tuple[Timed, ...]]]:
        """Return how often a warp executes each instruction, on average, it, and how long it takes.

        The average is over all warps, or over those whose programs have these *shares*.
        """
        return [
            (share * float(instruction.executions), instruction, times)
            for share, program in self.shared(shares)
            for instruction, times in zip(program.graph.instructions, program.times, strict=True)
        ]

    def requested(self) -> list[tuple[float, Instruction, Request]]:
        """Return how often a warp executes each access of memory, on average, it, and what it asks for."""
        return [
            (share * float(instruction.executions), instruction, request)
            for share, program in self.shared()
            for instruction, request in zip(program.graph.instructions, program.requests, strict=True)
            if request is not None
        ]

    def shared(self, shares: Mapping[int, float] | None = None) -> Iterator[tuple[float, TimedWarps]]:
        """Yield the programs of warps, each with its share; with *shares*, those and with these."""
        yield from ((share, self.programs[each]) for each, share in (self.shares if shares is None else shares).items())

    @property
    def start(self) -> Timed | None:
        """Return how long a warp takes to begin; None where nothing is known."""
        return next(iter(self.programs.values())).start

    @property
    def warps_of_core(self) -> float:
        """Return how many warps the core that ends last executes, in all executions of the launch."""
        return self.groups * self.warps_per_group * self.times

    def balance_of(self, level: str) -> float:
        """Return :attr:`balance` of what groups move of a level that all cores share."""
        return self.balances.get(level, self.balance)

    # {{{ programs in partitions

    @cached_property
    def warps(self) -> Placed:
        """Return the programs on the pipelines of their partitions, and those of the warps of some groups."""
        # So many groups that the next ones begin in the first partition again.
        order = list(self.order) * (self.warps_per_group if len(self.order) == 1 else 1)
        order *= self.partitions // gcd(len(order), self.partitions)
        every = [(self.first[program], number % self.partitions) for number, program in enumerate(order)]
        distinct = {each: place for place, each in enumerate(dict.fromkeys(every))}
        graphs = (self.programs[program].timed_graph.in_partition(part, self.partitions) for program, part in distinct)
        return tuple(graphs), tuple([distinct[each] for each in every])

    @cached_property
    def first(self) -> Mapping[int, int]:
        """Return program -> the first one that is equal to it."""
        known: dict[Same[TimedWarps], int] = {}
        return {program: known.setdefault(Same(each), program) for program, each in self.programs.items()}

    @property
    def partitions(self) -> int:
        """Return how many parts a core's warps are dealt out to, each with pipelines of its own; 1 if not known."""
        return self.device.limits.partitions or 1

    @cached_property
    def alone(self) -> Mapping[int, TimedWarps]:
        """Return :attr:`programs` of warps whose core has one group, and whose group has no more of a level than that.

        How long a warp takes alone then does not fall when a core gets another group.
        """
        balance = min(1.0, self.all_groups / self.device.needed("cores"))
        return self._balanced(balance, self.balances_alone)

    # }}}

    # {{{ launches like it

    @property
    def group(self) -> MakeUp:
        """Return the warps of the mean group."""
        return {program: share * self.warps_per_group for program, share in self.shares.items()}

    def like(self, group: MakeUp, groups: float, active_cores: int = 1) -> "TimedLaunch":
        """Return a launch of which the core that ends last has so many *groups*, all with the warps of *group*."""
        return replace(
            self,
            are_equal=True,
            groups=groups,
            active_cores=active_cores,
            shares={program: number / self.warps_per_group for program, number in group.items()},
            order=tuple(self._in_place(group)),
            execution=replace(self.execution, total_groups=max(1, round(groups))),
        )

    def _in_place(self, group: MakeUp) -> Iterator[int]:
        """Yield the programs of the warps of *group*, in the order of their numbers."""
        numbers: defaultdict[int, float] = defaultdict(float)
        of_kind: dict[int, int] = {}
        for program, number in sorted(group.items(), reverse=True):  # the light one where there is no other
            kind = program % len(self.places)
            numbers[kind] += number
            of_kind[kind] = program
        for kind in sorted(numbers, key=lambda kind: (self.places[kind], kind)):
            yield from repeat(of_kind[kind], round(numbers[kind]))

    @cached_property
    def evenly(self) -> "TimedLaunch":
        """Return the launch with equal parts for all cores of what they share."""
        return self.with_balance(1.0)

    def with_balance(self, balance: float) -> "TimedLaunch":
        """Return the launch as if its mean core had so much of what the core with most work has."""
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
    """its name"""
    sizes: Mapping[str, int]
    """of the kernel, those that are given"""
    device: Device
    """as it is described"""
    launches: tuple[TimedLaunch, ...]
    """those that execute anything, in the order of the program"""
    launched: tuple[tuple[str, int], ...]
    """name of each launch -> how often it is executed; 0 where it executes nothing"""

    def alone(self, launch: TimedLaunch) -> "TimedProgram":
        """Return the program with nothing but one of its launches."""
        return replace(
            self, launches=(launch,), launched=tuple(each for each in self.launched if each[0] == launch.name)
        )

    def report_text(self) -> ReportText:
        """Return the programs of each launch: how many warps execute each, its instructions, and what it moves."""
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
        headings = ("launch", "of all warps", "instructions of each", "warps at once", "sectors moved")
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{number_of(len(self.launches), 'launch')} on {self.device.slug}",
            tables=[Table(headings, rows, last=1)],
        )
