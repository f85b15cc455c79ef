"""A launch on a device: its machine graphs, how many groups reside at once, and how long each instruction takes.

The kernel's graphs are lowered to what the compiler makes of them, and each instruction is given its latencies on the
device (:mod:`loopyperf.models.on_device.timing`). What a core then makes of it is for the models to say.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, TypeVar

from loopyperf.counts.magnitude import numbered
from loopyperf.device.description import Device
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.access.private_reuse import StackReuse
from loopyperf.idg.construction.kernel_graphs import KernelIdg, LaunchGraphs
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering import Placement, PrivateArray
from loopyperf.idg.lowering.private_memory import SPACE
from loopyperf.idg.program import Instruction
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.models.on_device.batches import Batch, Batches
from loopyperf.models.on_device.cached_groups import Residence, Way
from loopyperf.models.on_device.compiled_launch import compiled
from loopyperf.models.on_device.dealing import Machines
from loopyperf.models.on_device.representative_groups import dealt_out
from loopyperf.models.on_device.timed_graph import TimedGraph
from loopyperf.models.on_device.timing import Timed, Timing, partitions, reaching, steady
from loopyperf.models.on_device.traffic import Served, levels_that_serve, levels_that_serve_stacks
from loopyperf.models.on_device.warp_accesses import WarpAccesses

Made = TypeVar("Made")
Programs = Mapping[int, tuple[tuple[Timed, ...], ...]]
"""program -> for each instruction, how long it takes on each pipeline that it needs"""
PLACES: Mapping[Placement, bool] = {"registers": False, "private memory": True}
"""where all arrays may live of which that is unsure, and whether that is in memory"""


@dataclass(frozen=True)
class TimedKernel:
    """The launches of a kernel on a device, in the order of the program."""

    graphs: KernelIdg
    device: Device
    concurrent_groups: int | None = None
    """groups that reside on a core at once, as if something else took the rest of the room; None for all that fit"""
    placement: Placement = "likelier"
    """where private arrays live of which that is unsure"""

    @cached_property
    def launches(self) -> "tuple[TimedLaunch, ...]":
        """Return the launches that execute anything.

        Raises :class:`MissingNumberError` for a number that the device's description does not state, and
        :class:`OccupancyError` for a group that fits on no core, or for more concurrent groups than do; also
        :class:`ParameterError` for sizes at which addresses are more than can be numbered.
        """
        executed = [launch for launch in self.graphs.launches if launch.kinds]
        with numbered(self.graphs.sizes):
            return tuple(TimedLaunch(each, self.device, self.concurrent_groups, self.placement) for each in executed)

    @cached_property
    def unsure(self) -> "Mapping[str, PrivateArray]":
        """Return the private arrays of all launches of which it is unsure where they live, by name."""
        return {name: array for launch in self.launches for name, array in launch.compiled.unsure.items()}

    @cached_property
    def alternatives(self) -> "tuple[TimedKernel, ...]":
        """Return the kernel with those arrays in registers, and in private memory, where it does not have them.

        There are none where it is sure of all arrays; there are two where some likelier are here, and others there.
        """
        here = {array.is_in_memory_by(self.placement) for array in self.unsure.values()}
        return tuple(replace(self, placement=place) for place, has in PLACES.items() if not here <= {has})


class TimedLaunch:
    """A launch on a device."""

    def __init__(
        self,
        launch: LaunchGraphs,
        device: Device,
        concurrent_groups: int | None = None,
        placement: Placement = "likelier",
    ) -> None:
        """Time *launch*; see :class:`TimedKernel`."""
        self.launch, self.device = launch, device
        self.batches = Batches(launch)
        """its groups in the order in which they are dealt to cores"""
        self._made: dict[Any, Any] = {}
        self.order = tuple(dealt_out(launch))
        """the kinds of the warps of one or more groups one after the other; one alone where all are of one kind"""
        self.compiled = compiled(launch, device, placement, concurrent_groups)
        self.machine, self.execution = self.compiled.machine, self.compiled.execution
        self._serve()
        assumed = (
            *self.compiled.notes,
            *self.timing.missing,
            *(sentence for each in self.accesses.values() for sentence in each.assumed),
            *launch.representative.working_sets().assumed,
        )
        self.notes = tuple(dict.fromkeys(assumed))
        """what was assumed, in sentences"""

    # {{{ how far accesses go, and how long instructions take

    def _sectors(self, warps: Mapping[int, float]) -> dict[Way, float]:
        """Return the sectors that the loads of each array, and the stores to it, ask for in so many *warps*."""
        found: defaultdict[Way, float] = defaultdict(float)
        for program, number in warps.items():
            for way, sectors in self.accesses[program].sectors_by_way.items():
                found[way] += number * sectors
        return found

    def _serving(self) -> dict[Way, Served]:
        """Return how far accesses go: those of the mean group, by the one in the middle of those that have most."""
        launch = self.launch
        sectors = self._sectors({kind: share * launch.warps_per_group for kind, share in self.shares.items()})
        middle = launch.kinds.index(launch.accessing)
        classes = launch.dispatch.classes
        groups = {group: 0.0 for group, made_of in enumerate(classes) if middle in dict(made_of)}
        for times, order in launch.dispatch.executions:
            for run in order:
                if run.group in groups:
                    groups[run.group] += times * run.number
        of_middle = self._sectors(dict(classes[max(groups, key=lambda group: groups[group])]))
        mean_of = {way: number / of_middle[way] for way, number in sectors.items() if of_middle.get(way)}
        return levels_that_serve(launch, self.device, self.residence, sectors, mean_of)

    @cached_property
    def stacks_served(self) -> Mapping[str, Served]:
        """Return ``"load"`` and ``"store"`` -> how far accesses of private memory go."""
        lanes = self.device.warp_size
        of_kind = {kind: StackReuse.of(graph, lanes) for kind, graph in self.machine.items()}
        stacks = [of_kind[kind] for kind in self.order]
        return levels_that_serve_stacks(self.launch, self.device, self.residence, stacks)

    def _serve(self) -> None:
        """Find how far accesses go."""
        launch, device = self.launch, self.device
        at_once = min(self.execution.concurrent_groups, self.execution.total_groups)
        self.residence = Residence(at_once, min(launch.groups, at_once * device.cores))
        programs = self.batches.programs
        self.accesses = {program: WarpAccesses(programs[program], graph) for program, graph in self.machine.items()}
        """program -> what its loads and stores ask of memory"""
        self.served = self._serving()
        """how far the loads and the stores of each array go"""
        self._time()

    def _time(self) -> None:
        """Find how long all instructions take."""
        self.timing = Timing(self.device, self.balance, self._moved())
        self.timed = self._all_timed(self.timing)
        """program -> for each instruction of its graph, how long it takes on each pipeline that it needs"""
        self.start = self.timing.start(self.launch.warps_per_group)
        """how long a warp takes to begin; None if nothing is known"""

    def _moved(self) -> dict[str, float]:
        """Return, where groups differ, level that all cores share -> what the mean core moves over what most is."""
        if self.batches.are_alike:
            return {}
        of_programs: list[dict[str, float]] = []
        for program, graph in self.machine.items():
            moved: defaultdict[str, float] = defaultdict(float)
            for number, each in enumerate(graph.instructions):
                if each.reference is not None and each.subsystem != "local" and not each.is_idle:
                    sectors = self.accesses[program].asked(number).sectors * float(each.executions)
                    for level, share in reaching(each.kind, self.serving(each)).items():
                        moved[level] += sectors * share
            of_programs.append(moved)
        shared = [level.name for level in self.device.memory if level.per == "device"]
        return {level: min(self.balance, self._balance([each[level] for each in of_programs])) for level in shared}

    def _balance(self, of_programs: Sequence[float]) -> float:
        """Return what the mean core has over what the core has that has most, given how much a program is."""
        make_ups = [
            sum(number * of_programs[program] for program, number in each.items()) for each in self.batches.make_ups
        ]
        every = most = 0.0
        for times, order in self.batches.orders:
            cores = Machines[Batch](self.device.cores)
            for batch in order:
                cores.deal(batch.mean(make_ups), batch.groups, batch)
            every += times * sum(batch.groups * batch.mean(make_ups) for batch in order)
            most += times * cores.most
        return every / (self.device.cores * most) if most else self.balance

    def _all_timed(self, timing: Timing) -> Programs:
        once: dict[Hashable, tuple[Timed, ...]] = {}
        return {program: tuple(self._timed(program, timing, once)) for program in self.machine}

    def _timed(
        self, program: int, timing: Timing, once: dict[Hashable, tuple[Timed, ...]]
    ) -> Iterator[tuple[Timed, ...]]:
        """Yield how long instructions take. Most are copies of others, which are not timed again."""
        for number, instruction in enumerate(self.machine[program].instructions):
            what, find = self._question(self.accesses[program], number, instruction, timing)
            if what not in once:
                once[what] = tuple(map(steady, find()))
            yield once[what]

    def _question(
        self, accesses: WarpAccesses, number: int, instruction: Instruction, timing: Timing
    ) -> tuple[Hashable, Callable[[], Iterable[Timed]]]:
        """Return what decides how long an instruction takes, and what tells it."""
        kind, subsystem = instruction.kind, instruction.subsystem
        if instruction.reference is None or instruction.is_idle:
            what = kind, instruction.dtype, subsystem, instruction.is_idle, instruction.text
            return what, lambda: [timing.arithmetic(instruction)]
        if subsystem == "local":
            wavefronts = accesses.wavefronts(number)
            return (subsystem, wavefronts), lambda: [timing.local_memory(wavefronts)]
        asked, array = accesses.asked(number), "" if subsystem == SPACE else instruction.reference.array
        what = kind, subsystem, array, asked
        return what, lambda: timing.memory(kind, self.serving(instruction), asked)

    def serving(self, instruction: Instruction) -> Served:
        """Return how far an access of global or private memory goes."""
        if instruction.subsystem == SPACE:
            return self.stacks_served[instruction.kind]
        return self.served[Way(instruction.reference.array, instruction.kind)]

    @cached_property
    def graphs(self) -> Mapping[int, TimedGraph]:
        """Return program -> its machine graph with latencies, on the pipelines of a core as a whole.

        What is executed in a share of the passes takes so much less in each of them.
        """
        return self._graphs(self.timed, self.start)

    @cached_property
    def with_equal_parts(self) -> Programs:
        """Return :attr:`timed` of a core that has its equal part of all that cores share."""
        is_equal = self.balance == 1 and all(each == 1 for each in self.timing.moved.values())
        return self.timed if is_equal else self._all_timed(Timing(self.device))

    @cached_property
    def alone(self) -> Mapping[int, TimedGraph]:
        """Return :attr:`graphs` with equal parts: how long one warp takes must not hang on who else is there."""
        if self.with_equal_parts is self.timed:
            return self.graphs
        return self._graphs(self.with_equal_parts, Timing(self.device).start(self.launch.warps_per_group))

    def _graphs(self, programs: Programs, start: Lambdas | None) -> Mapping[int, TimedGraph]:
        found: dict[int, TimedGraph] = {}
        for program, graph in self.machine.items():
            pairs = zip(programs[program], shares_of_runs(graph), strict=True)
            timed = [[steady(time.times(share)) for time in times] for times, share in pairs]
            found[program] = TimedGraph.of(graph, timed, start)
        return found

    @cached_property
    def warps(self) -> tuple[TimedGraph, ...]:
        """Return the graphs of the warps of some groups one after the other, each on the pipelines of its partition."""
        return self.placed(self.graphs)

    def placed(self, graphs: Mapping[int, TimedGraph]) -> tuple[TimedGraph, ...]:
        """Return the *graphs* of the warps of some groups one after the other, each in its partition.

        They are those of so many groups that the next ones begin in the first partition again.
        """
        parts = partitions(self.device)
        order = list(self.order) * (self.launch.warps_per_group if len(self.order) == 1 else 1)
        order *= parts // gcd(len(order), parts)
        placed = [(kind, number % parts) for number, kind in enumerate(order)]
        found = {(kind, part): graphs[kind].in_partition(part, parts) for kind, part in set(placed)}
        return tuple(found[each] for each in placed)

    # }}}

    @cached_property
    def full_waves(self) -> "TimedLaunch | None":
        """Return the groups that are dispatched before the last wave, if that is no full one, as a launch of their own.

        The last wave has more of what all cores share for each of its groups, and where groups differ it may be of
        less work; but those before it do not end sooner for that. None where all waves are full.
        """
        cores, groups = self.device.cores, self.batches.groups
        whole = groups - groups % cores
        if not 0 < whole < groups:
            return None
        found = copy(self)
        for name in ("graphs", "with_equal_parts", "alone", "warps", "full_waves"):
            found.__dict__.pop(name, None)
        found._made = {}
        found.batches = replace(self.batches, first=whole)
        found.execution = replace(self.execution, total_groups=whole // cores)
        found._time()
        return found

    def once(self, make: "Callable[[TimedLaunch], Made]") -> "Made":
        """Return what *make* makes of the launch: made when it is first asked for, whichever model asks."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    @property
    def shares(self) -> Mapping[int, float]:
        """Return kind of warps -> its share of all warps."""
        every = sum(kind.warps for kind in self.launch.kinds)
        return {number: kind.warps / every for number, kind in enumerate(self.launch.kinds)}

    def executed(
        self, shares: Mapping[int, float] | None = None, timed: Programs | None = None
    ) -> Iterator[tuple[float, Instruction, tuple[Timed, ...]]]:
        """Yield how often a warp executes each instruction, on average over all warps, it, and how long it takes.

        With *shares* of programs, it is the mean of warps that execute these.
        """
        for program, share in (self.shares if shares is None else shares).items():
            every = (self.timed if timed is None else timed)[program]
            for instruction, times in zip(self.machine[program].instructions, every, strict=True):
                yield share * float(instruction.executions), instruction, times

    @property
    def balance(self) -> float:
        """Return the groups of the mean core over those of the core with most: 1 where all have as many."""
        return self.batches.groups / (self.device.cores * self.execution.total_groups)

    @property
    def warps_of_core(self) -> int:
        """Return how many warps the core with most groups executes, in all executions of the launch."""
        return self.execution.total_warps * self.launch.times


def shares_of_runs(graph: Idg) -> list[float]:
    """Return for each instruction how often it is executed, of all passes of the loops around it.

    It is less than 1 where a condition on data seldom holds, or where nvcc writes out a loop that the graph has.
    """
    return [
        min(1.0, float(each.executions) / runs) if runs else 1.0
        for each, runs in zip(graph.instructions, runs_of_all(graph.instructions, graph.loops_around), strict=True)
    ]
