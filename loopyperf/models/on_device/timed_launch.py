"""A launch on a device: its machine graphs, how many groups reside at once, and how long each instruction takes.

Each instruction of the machine graphs is given its latencies (:mod:`loopyperf.models.on_device.timing`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from math import gcd
from typing import Any, TypeVar

from loopyperf.compiler import Placement, PrivateArray
from loopyperf.compiler.compiled_launch import compiled
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.sizes import numbered
from loopyperf.device.description import Device
from loopyperf.device.parts import Per
from loopyperf.device.substitutes import completed
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.kernel.launches import Assumed, sentences
from loopyperf.memory.kernel_profile import KernelProfile, LaunchProfile
from loopyperf.memory.private_reuse import StackReuse
from loopyperf.models.aspects import ASPECTS, Aspect
from loopyperf.models.on_device.batches import Batches, MakeUp
from loopyperf.models.on_device.cached_groups import Residence, Way
from loopyperf.models.on_device.representative_groups import dealt_out
from loopyperf.models.on_device.shortened import Light, light
from loopyperf.models.on_device.substitutions import Substitution, limit_substitutions, substitution_notes
from loopyperf.models.on_device.timing import Timing, partitions, reaching
from loopyperf.models.on_device.traffic import Served, levels_that_serve, levels_that_serve_stacks
from loopyperf.models.on_device.warp_accesses import WarpAccesses
from loopyperf.pipeline.timed_graph import Timed, TimedGraph, steady

Made = TypeVar("Made")
Programs = Mapping[int, tuple[tuple[Timed, ...], ...]]
"""program -> for each instruction, how long it takes on each pipeline that it needs"""
Placed = tuple[tuple[TimedGraph, ...], tuple[int, ...]]
"""programs, each once, and which of them the warps of some groups execute"""
PLACES: Mapping[Placement, bool] = {"registers": False, "private memory": True}
"""where all arrays may live of which that is unsure, and whether that is in memory"""


@dataclass(frozen=True)
class TimedKernel:
    """The launches of a kernel on a device, in the order of the program."""

    profile: KernelProfile
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
        executed = [launch for launch in self.profile.launches if launch.classes]
        with numbered(self.profile.sizes):
            return tuple(TimedLaunch(each, self.device, self.concurrent_groups, self.placement) for each in executed)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was assumed of all launches, and of the device."""
        return self.notes_for(ASPECTS)

    def notes_for(self, sees: Collection[Aspect]) -> tuple[str, ...]:
        """Return :attr:`notes` for a model that *sees* so much: what is assumed of other latencies is not in them."""
        said = sentences(each for launch in self.launches for each in launch.assumed)
        substitutions = [each for launch in self.launches for each in launch.substitutions]
        return (*said, *substitution_notes(substitutions, self.device.slug, sees))

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
        launch: LaunchProfile,
        device: Device,
        concurrent_groups: int | None = None,
        placement: Placement = "likelier",
    ) -> None:
        """Time *launch*; see :class:`TimedKernel`."""
        self.launch, self.device = launch, completed(device)
        self._made: dict[Any, Any] = {}
        self.order = tuple(dealt_out(launch))
        """the kinds of the warps of one or more groups one after the other; one alone where all are of one kind"""
        self.compiled = compiled(launch, self.device, placement, concurrent_groups)
        self.execution = self.compiled.execution
        self.groups: float = self.execution.total_groups
        """of the core that ends last"""
        self.active_cores = min(self.device.needed("cores"), launch.groups)
        """about so many cores have as much to do as that one"""
        light = dict(self._light())
        self.machine = {**self.compiled.machine, **{each.program: each.graph for each in light.values()}}
        """program -> its machine graph: those of the kinds of warps, then light ones of kinds of unequal work"""
        self.are_alike = launch.dispatch.is_uniform
        """all groups do the same work"""
        self.batches = Batches.of(launch, light)
        """the groups in the order in which they start"""
        self.shares = launch.shares
        """program -> its share of all warps"""
        self._serve()
        self.assumed: tuple[Assumed, ...] = (
            *launch.assumed,
            *self.compiled.assumed,
            *(assumption for each in self.accesses.values() for assumption in each.assumed),
            *launch.footprints.assumed,
        )

    # {{{ how far accesses go, and how long instructions take

    def _light(self) -> Iterator[tuple[int, Light]]:
        """Yield the kinds of warps of unequal work, each with its light program, if groups differ."""
        kinds = self.launch.classes
        for kind, each in enumerate(kinds if not self.launch.dispatch.is_uniform else ()):
            found = light(self.compiled.machine[kind], len(kinds) + kind, each.unequal_loops)
            if found is not None:
                yield kind, found

    def _sectors(self, warps: Mapping[int, float]) -> dict[Way, float]:
        """Return the sectors that the loads of each array, and the stores to it, ask for in so many *warps*."""
        found: defaultdict[Way, float] = defaultdict(float)
        for kind, number in warps.items():
            for way, sectors in self.accesses[kind].sectors_by_way.items():
                found[way] += number * sectors
        return found

    def _serving(self) -> dict[Way, Served]:
        """Return how far accesses go: those of the mean group, by the one in the middle of those that access most."""
        launch = self.launch
        sectors = self._sectors({kind: share * launch.warps_per_group for kind, share in self.shares.items()})
        middle = sectors if self.are_alike else self._sectors(launch.middle)
        mean_of = {way: number / middle[way] for way, number in sectors.items() if middle.get(way)}
        return levels_that_serve(launch, self.device, self.residence, sectors, mean_of)

    @cached_property
    def stacks_served(self) -> Mapping[str, Served]:
        """Return ``"load"`` and ``"store"`` -> how far accesses of private memory go."""
        lanes = self.device.needed("warp_size")
        of_kind = {kind: StackReuse.of(graph, lanes) for kind, graph in self.machine.items()}
        stacks = [of_kind[kind] for kind in self.order]
        return levels_that_serve_stacks(self.launch, self.device, self.residence, stacks)

    def _serve(self) -> None:
        """Find how far accesses go, and how long all instructions take."""
        launch, device = self.launch, self.device
        at_once = min(self.execution.concurrent_groups, self.execution.total_groups)
        self.residence = Residence(at_once, min(launch.groups, at_once * device.needed("cores")))
        kinds = len(launch.classes)
        machine = self.compiled.machine
        self.accesses = {number: WarpAccesses(launch.classes[number], graph) for number, graph in machine.items()}
        self.accesses |= {program: self.accesses[program - kinds] for program in self.machine if program >= kinds}
        """program -> what each of its loads and stores asks of memory"""
        self.served = self._serving()
        """how far the loads and the stores of each array go"""
        self.timing = Timing(device, self.balance, dict(self._balances()))
        self.timed = self._all_timed(self.timing)
        """program -> for each instruction of its graph, how long it takes on each pipeline that it needs"""
        self.start = self.timing.start(launch.warps_per_group)
        """how long a warp takes to begin; None if nothing is known"""

    def _all_timed(self, timing: Timing) -> Programs:
        times: dict[Hashable, tuple[Timed, ...]] = {}
        found: dict[int, tuple[tuple[Timed, ...], ...]] = {}
        kinds = len(self.launch.classes)
        for program, graph in self.machine.items():
            of = partial(self._of, timing, self.accesses[program])
            asked = (of(*each) for each in enumerate(graph.instructions))
            found[program] = found.get(program - kinds) or tuple(self._once_timed(times, each) for each in asked)
        return found

    def _of(
        self, timing: Timing, accesses: WarpAccesses, number: int, instruction: Instruction
    ) -> tuple[Hashable, Callable[[], Iterable[Timed]]]:
        """Return what decides how long an instruction takes, and what tells it."""
        kind, subsystem = instruction.kind, instruction.subsystem
        if instruction.reference is None or instruction.is_idle:
            what = kind, instruction.dtype, subsystem, instruction.is_idle, instruction.text
            return what, lambda: [timing.arithmetic(instruction)]
        if subsystem == MemorySpace.LOCAL:
            wavefronts = accesses.wavefronts(number)
            return (subsystem, wavefronts), lambda: [timing.local_memory(wavefronts)]
        asked, array = accesses.asked(number), "" if subsystem == MemorySpace.PRIVATE else instruction.reference.array
        return (kind, subsystem, array, asked), lambda: timing.memory(kind, self.serving(instruction), asked)

    @staticmethod
    def _once_timed(
        times: dict[Hashable, tuple[Timed, ...]], question: tuple[Hashable, Callable[[], Iterable[Timed]]]
    ) -> tuple[Timed, ...]:
        """Return how long an instruction takes. Most are copies of others, which are not timed again."""
        what, find = question
        if what not in times:
            times[what] = tuple(map(steady, find()))
        return times[what]

    def _balances(self, *, one_group: bool = False) -> Iterator[tuple[str, float]]:
        """Yield each level that all cores share, and what the mean core moves over what the core moves with most.

        With *one_group*, a core has no more than one group. Nothing is yielded where all groups do the same work.
        """
        if self.launch.dispatch.is_uniform:
            return
        cores = self.device.needed("cores")
        for level in self.device.memory:
            if level.per == Per.DEVICE:
                moved = [
                    sum(number * self._moved[program].get(level.name, 0.0) for program, number in each.items())
                    for each in self.batches.make_ups
                ]
                most = (
                    max(batch.value(moved) for _, batch in self.batches.every)
                    if one_group
                    else self.batches.most(moved, cores)
                )
                every = self.batches.total(moved) / self.batches.executions
                yield level.name, min(1.0, every / (cores * most)) if most else 1.0

    @cached_property
    def _moved(self) -> Mapping[int, Mapping[str, float]]:
        """Return program -> level of memory -> the sectors that it moves."""
        found: dict[int, dict[str, float]] = {}
        for program, graph in self.machine.items():
            moved: defaultdict[str, float] = defaultdict(float)
            for number, each in enumerate(graph.instructions):
                if each.reference is not None and each.subsystem != MemorySpace.LOCAL and not each.is_idle:
                    sectors = self.accesses[program].asked(number).sectors * float(each.executions)
                    for level, share in reaching(each.kind, self.serving(each)).items():
                        moved[level] += sectors * share
            found[program] = moved
        return found

    def serving(self, instruction: Instruction) -> Served:
        """Return how far an access of global or private memory goes."""
        if instruction.subsystem == MemorySpace.PRIVATE:
            return self.stacks_served[instruction.kind]
        return self.served[Way(instruction.reference.array, instruction.kind)]

    @cached_property
    def graphs(self) -> Mapping[int, TimedGraph]:
        """Return program -> its machine graph with latencies, on the pipelines of a core as a whole.

        What is executed in a share of the passes takes so much less in each of them.
        """
        return self._with_latencies(self.timed, self.start)

    @cached_property
    def alone(self) -> Mapping[int, TimedGraph]:
        """Return :attr:`graphs` of warps whose core has one group, and whose group has no more of a level than that.

        How long a warp takes alone then does not fall when a core gets another group.
        """
        balance = min(1.0, self.launch.groups / self.device.needed("cores"))
        balances = dict(self._balances(one_group=True))
        if (balance, balances) == (self.timing.balance, self.timing.balances):
            return self.graphs
        timing = Timing(self.device, balance, balances)
        return self._with_latencies(self._all_timed(timing), timing.start(self.launch.warps_per_group))

    def _with_latencies(self, programs: Programs, start: Timed | None) -> Mapping[int, TimedGraph]:
        found: dict[int, TimedGraph] = {}
        for program, graph in self.machine.items():
            pairs = zip(programs[program], shares_of_runs(graph), strict=True)
            timed = [[steady(time.times(share)) for time in times] for times, share in pairs]
            found[program] = TimedGraph.of(graph, timed, start)
        return found

    @cached_property
    def warps(self) -> Placed:
        """Return the programs of warps on the pipelines of their partitions, and those of the warps of some groups."""
        return self.placed(self.graphs)

    def placed(self, graphs: Mapping[int, TimedGraph]) -> Placed:
        """Return the *graphs* in their partitions, and which of them the warps of some groups execute.

        The groups are those of so many groups that the next ones begin in the first partition again.
        """
        parts = partitions(self.device)
        order = list(self.order) * (self.launch.warps_per_group if len(self.order) == 1 else 1)
        order *= parts // gcd(len(order), parts)
        placed = [(kind, number % parts) for number, kind in enumerate(order)]
        distinct = list(dict.fromkeys(placed))
        programs = tuple(graphs[kind].in_partition(part, parts) for kind, part in distinct)
        return programs, tuple(map(distinct.index, placed))

    # }}}

    @property
    def substitutions(self) -> Iterator[Substitution]:
        """Yield what was assumed of the device, since its description lacks it."""
        yield from limit_substitutions(self.device)
        yield from self.timing.substituted

    def once(self, make: "Callable[[TimedLaunch], Made]") -> "Made":
        """Return what *make* makes of the launch: made when it is first asked for, whichever model asks."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    def like(self, group: MakeUp, groups: float, active_cores: int = 1) -> "TimedLaunch":
        """Return a launch of which the core that ends last has so many *groups*, all with the warps of *group*."""
        found = copy(self)
        found.__dict__.pop("warps", None)
        size = self.launch.warps_per_group
        found._made, found.are_alike, found.groups, found.active_cores = {}, True, groups, active_cores
        found.shares = {program: number / size for program, number in group.items()}
        found.order = tuple(self._in_place(group))
        found.execution = replace(self.execution, total_groups=max(1, round(groups)))
        return found

    @property
    def group(self) -> MakeUp:
        """Return the warps of the mean group."""
        return {program: share * self.launch.warps_per_group for program, share in self.shares.items()}

    @cached_property
    def evenly(self) -> "TimedLaunch":
        """Return the launch with equal parts for all cores of what they share."""
        return self.with_balance(1.0)

    def with_balance(self, balance: float) -> "TimedLaunch":
        """Return the launch as if its mean core had so much of what the core with most work has."""
        found = copy(self)
        for name in ("warps", "graphs", "evenly"):
            found.__dict__.pop(name, None)
        found._made, found.timing = {}, Timing(self.device, balance)
        found.timed = found._all_timed(found.timing)
        found.start = found.timing.start(self.launch.warps_per_group)
        return found

    def _in_place(self, group: MakeUp) -> Iterator[int]:
        """Yield the programs of the warps of *group*, in the order of their numbers."""
        kinds = self.launch.classes
        numbers: defaultdict[int, float] = defaultdict(float)
        for program, number in group.items():
            numbers[program % len(kinds)] += number
        for kind in sorted(numbers, key=lambda kind: kinds[kind].example.number):
            yield from repeat(kind if kind in group else kind + len(kinds), round(numbers[kind]))

    def executed(
        self, shares: Mapping[int, float] | None = None
    ) -> Iterator[tuple[float, Instruction, tuple[Timed, ...]]]:
        """Yield how often a warp executes each instruction, on average, it, and how long it takes.

        The average is over all warps, or over those whose programs have these *shares*.
        """
        for program, share in (self.shares if shares is None else shares).items():
            for instruction, times in zip(self.machine[program].instructions, self.timed[program], strict=True):
                yield share * float(instruction.executions), instruction, times

    @property
    def balance(self) -> float:
        """Return the groups of the mean core over those of the core with most: 1 where all have as many."""
        return self.launch.groups / (self.device.needed("cores") * self.execution.total_groups)

    def balance_of(self, level: str) -> float:
        """Return :attr:`balance` of what groups move of a level that all cores share."""
        return self.timing.balances.get(level, self.timing.balance)

    @property
    def warps_of_core(self) -> float:
        """Return how many warps the core that ends last executes, in all executions of the launch."""
        return self.groups * self.launch.warps_per_group * self.launch.times


def shares_of_runs(graph: Idg) -> list[float]:
    """Return for each instruction how often it is executed, of all passes of the loops around it.

    It is less than 1 where a condition on data seldom holds, or where nvcc writes out a loop that the graph has.
    """
    return [
        min(1.0, float(each.executions) / runs) if runs else 1.0
        for each, runs in zip(graph.instructions, runs_of_all(graph.instructions, graph.loops_around), strict=True)
    ]
