"""A launch on a device: its machine graphs, how many groups reside at once, and how long each instruction takes.

The kernel's graphs are lowered to what the compiler makes of them, and each instruction is given its latencies on the
device (:mod:`loopyperf.models.on_device.timing`). What a core then makes of it is for the models to say.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, TypeVar

from loopyperf.assumptions import Assumed, sentences
from loopyperf.counts.magnitude import numbered
from loopyperf.device.description import Device
from loopyperf.device.substitutes import completed
from loopyperf.idg.access.private_reuse import StackReuse
from loopyperf.idg.construction.kernel_graphs import KernelIdg, LaunchGraphs
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering import Placement, PrivateArray
from loopyperf.idg.lowering.private_memory import SPACE
from loopyperf.idg.program import Instruction
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.models.aspects import ASPECTS, Aspect
from loopyperf.models.on_device.cached_groups import Residence, Way
from loopyperf.models.on_device.compiled_launch import compiled
from loopyperf.models.on_device.representative_groups import dealt_out
from loopyperf.models.on_device.substitutions import Substitution, limit_substitutions, substitution_notes
from loopyperf.models.on_device.timed_graph import TimedGraph
from loopyperf.models.on_device.timing import Timed, Timing, partitions, steady
from loopyperf.models.on_device.traffic import Served, levels_that_serve, levels_that_serve_stacks
from loopyperf.models.on_device.warp_accesses import WarpAccesses

Made = TypeVar("Made")
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

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was assumed of all launches, and of the device, in sentences."""
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
        launch: LaunchGraphs,
        device: Device,
        concurrent_groups: int | None = None,
        placement: Placement = "likelier",
    ) -> None:
        """Time *launch*; see :class:`TimedKernel`."""
        self.launch, self.device = launch, completed(device)
        self._made: dict[Any, Any] = {}
        self._times: dict[Hashable, tuple[Timed, ...]] = {}
        self.order = tuple(dealt_out(launch))
        """the kinds of the warps of one or more groups one after the other; one alone where all are of one kind"""
        self.compiled = compiled(launch, self.device, placement, concurrent_groups)
        self.machine, self.execution = self.compiled.machine, self.compiled.execution
        self._serve()
        self.assumed: tuple[Assumed, ...] = (
            *launch.assumed,
            *self.compiled.assumed,
            *(assumption for each in self.accesses.values() for assumption in each.assumed),
            *launch.representative.working_sets().assumed,
        )

    # {{{ how far accesses go, and how long instructions take

    def _sectors(self) -> dict[Way, float]:
        """Return the sectors that the loads of each array, and the stores to it, ask for in a group, on average."""
        found: defaultdict[Way, float] = defaultdict(float)
        for kind, share in self.shares.items():
            for way, number in self.accesses[kind].sectors_by_way.items():
                found[way] += share * self.launch.warps_per_group * number
        return found

    @cached_property
    def stacks_served(self) -> Mapping[str, Served]:
        """Return ``"load"`` and ``"store"`` -> how far accesses of private memory go."""
        lanes = self.device.warp_size
        of_kind = {kind: StackReuse.of(graph, lanes) for kind, graph in self.machine.items()}
        stacks = [of_kind[kind] for kind in self.order]
        return levels_that_serve_stacks(self.launch, self.device, self.residence, stacks)

    def _serve(self) -> None:
        """Find how far accesses go, and how long all instructions take."""
        launch, device = self.launch, self.device
        at_once = min(self.execution.concurrent_groups, self.execution.total_groups)
        self.residence = Residence(at_once, min(launch.groups, at_once * device.cores))
        self.accesses = {kind: WarpAccesses(launch.kinds[kind], graph) for kind, graph in self.machine.items()}
        """kind of warps -> what its loads and stores ask of memory"""
        self.timing = Timing(device, self.balance)
        self.served = levels_that_serve(launch, device, self.residence, self._sectors())
        """how far the loads and the stores of each array go"""
        self.timed: Mapping[int, tuple[tuple[Timed, ...], ...]] = {kind: self._timed(kind) for kind in self.machine}
        """kind of warps -> for each instruction of its graph, how long it takes on each pipeline that it needs"""
        self.start = self.timing.start(launch.warps_per_group)
        """how long a warp takes to begin; None if nothing is known"""

    def _timed(self, kind: int) -> tuple[tuple[Timed, ...], ...]:
        graph = self.machine[kind]
        accesses = self.accesses[kind]
        return tuple(self._of(accesses, number, each) for number, each in enumerate(graph.instructions))

    def _of(self, accesses: WarpAccesses, number: int, instruction: Instruction) -> tuple[Timed, ...]:
        """Return how long an instruction takes. Most are copies of others, which are not timed again."""
        kind, subsystem = instruction.kind, instruction.subsystem
        if instruction.reference is None or instruction.is_idle:
            what = kind, instruction.dtype, subsystem, instruction.is_idle, instruction.text
            return self._once_timed(what, lambda: [self.timing.arithmetic(instruction)])
        if subsystem == "local":
            wavefronts = accesses.wavefronts(number)
            return self._once_timed((subsystem, wavefronts), lambda: [self.timing.local_memory(wavefronts)])
        asked, array = accesses.asked(number), "" if subsystem == SPACE else instruction.reference.array
        return self._once_timed(
            (kind, subsystem, array, asked), lambda: self.timing.memory(kind, self.serving(instruction), asked)
        )

    def _once_timed(self, what: Hashable, find: Callable[[], Iterable[Timed]]) -> tuple[Timed, ...]:
        if what not in self._times:
            self._times[what] = tuple(map(steady, find()))
        return self._times[what]

    def serving(self, instruction: Instruction) -> Served:
        """Return how far an access of global or private memory goes."""
        if instruction.subsystem == SPACE:
            return self.stacks_served[instruction.kind]
        return self.served[Way(instruction.reference.array, instruction.kind)]

    @cached_property
    def graphs(self) -> Mapping[int, TimedGraph]:
        """Return kind of warps -> its machine graph with latencies, on the pipelines of a core as a whole.

        What is executed in a share of the passes takes so much less in each of them.
        """
        found: dict[int, TimedGraph] = {}
        for kind, graph in self.machine.items():
            pairs = zip(self.timed[kind], shares_of_runs(graph), strict=True)
            timed = [[steady(time.times(share)) for time in times] for times, share in pairs]
            found[kind] = TimedGraph.of(graph, timed, self.start)
        return found

    @cached_property
    def warps(self) -> tuple[TimedGraph, ...]:
        """Return the graphs of the warps of some groups one after the other, each on the pipelines of its partition.

        They are those of so many groups that the next ones begin in the first partition again.
        """
        parts = partitions(self.device)
        order = list(self.order) * (self.launch.warps_per_group if len(self.order) == 1 else 1)
        order *= parts // gcd(len(order), parts)
        placed = [(kind, number % parts) for number, kind in enumerate(order)]
        found = {(kind, part): self.graphs[kind].in_partition(part, parts) for kind, part in set(placed)}
        return tuple(found[each] for each in placed)

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

    @property
    def shares(self) -> Mapping[int, float]:
        """Return kind of warps -> its share of all warps."""
        every = sum(kind.warps for kind in self.launch.kinds)
        return {number: kind.warps / every for number, kind in enumerate(self.launch.kinds)}

    def executed(self) -> Iterator[tuple[float, Instruction, tuple[Timed, ...]]]:
        """Yield how often a warp executes each instruction, on average over all kinds, it, and how long it takes."""
        for kind, share in self.shares.items():
            for instruction, times in zip(self.machine[kind].instructions, self.timed[kind], strict=True):
                yield share * float(instruction.executions), instruction, times

    @property
    def balance(self) -> float:
        """Return the groups of the mean core over those of the core with most: 1 where all have as many."""
        return self.launch.groups / (self.device.cores * self.execution.total_groups)

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
