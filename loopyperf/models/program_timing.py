"""Timing of a kernel's machine program on a core: latencies, and the memory levels that serve each access."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf

from loopyperf.compiler.machine_program import MachineLaunch, MachineProgram
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory_accesses import IN_LOOPS, IN_SLICES, ON_ANY_MEMORY, SLICE, Update
from loopyperf.counts.sizes import check_64_bit
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM, with_traffic
from loopyperf.device.parts import Per
from loopyperf.device.substitutes import completed
from loopyperf.idg.graph import Idg, distinct
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.launches import Assumed, Assumption
from loopyperf.memory.kernel_profile import Quantity, WarpClass
from loopyperf.memory.private_reuse import StackReuse, private_access
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.memory.touched_sectors import Touched
from loopyperf.models.timing import InstructionTimes, NeededNumbers, size_substitutions
from loopyperf.models.traffic import (
    ArrayStream,
    RequestedSectors,
    Residence,
    levels_that_serve,
    levels_that_serve_stacks,
    sampled_warp_classes,
    sectors_touched,
    stored_at_once,
)
from loopyperf.pipeline.batches import Batches
from loopyperf.pipeline.timed_graph import Light, Timed, light, steady
from loopyperf.pipeline.timed_program import Request, Served, TimedLaunch, TimedProgram, TimedWarps, moved_sectors
from loopyperf.polyhedral.expressions import Same

# {{{ memory requests of a machine graph


ASKED: tuple[Quantity, ...] = ("sectors", "lines", "wavefronts")
"""Requested quantities of global memory."""
STORED: tuple[Quantity, ...] = ("sectors", "partial", "distinct")
"""Quantities of global memory that determine what the farther levels move."""


def divergent_shares(warps: WarpClass) -> Mapping[int, float]:
    """Return source access -> its executions in the source over those in the machine graph, where the latter are more.

    Lanes that leave a loop at different iterations execute the access separately: each execution has part of the lanes.
    """
    found: dict[int, float] = {}
    for instruction in warps.graph.instructions:
        if instruction.origin is not None and instruction.subsystem != MemorySpace.PRIVATE and not instruction.is_idle:
            found[instruction.origin] = found.get(instruction.origin, 0.0) + float(instruction.executions)
    numbers = {origin: float(warps.accesses[origin].profile.number) for origin in found}
    return {origin: numbers[origin] / each for origin, each in found.items() if 0 < numbers[origin] < each}


class WarpAccesses:
    """Memory requests of the loads and stores of a machine graph, per execution, on average."""

    def __init__(self, warps: WarpClass) -> None:
        """Use *warps*, which have a machine graph."""
        self.warps, self.graph, self.divergent_shares = warps, warps.graph, divergent_shares(warps)
        self._found: dict[tuple[int, int, Quantity], float] = {}

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """Return the assumptions about the addresses of the global and local memory accesses in the graph."""
        found = (self.warps.accesses[each] for each in dict.fromkeys(self._origins))
        return tuple(dict.fromkeys(chain.from_iterable(each.assumed for each in found)))

    @property
    def _origins(self) -> Iterator[int]:
        yield from (
            each.origin
            for each in self.graph.instructions
            if each.origin is not None and each.subsystem != MemorySpace.PRIVATE and not each.is_idle
        )

    def requests(
        self, served: Mapping[ArrayStream, Served], of_stacks: Mapping[str, Served], residence: Residence
    ) -> Iterator[Request | None]:
        """Yield the request of each instruction, given the levels that serve accesses; None without a memory access."""
        for each in self.graph.instructions:
            if each.reference is None or each.is_idle:
                yield None
            elif each.subsystem in (MemorySpace.LOCAL, MemorySpace.CONSTANT):
                wavefronts, update = self._mean(each, "wavefronts"), each.reference.update
                is_loop = update is not None and update.is_loop
                updates = wavefronts / residence.on_core if is_loop else 0.0
                yield Request(each.reference.array, wavefronts=wavefronts, updates=updates)
            else:
                is_of_stack = each.subsystem == MemorySpace.PRIVATE
                yield self.request(
                    each, of_stacks[each.kind] if is_of_stack else served[ArrayStream(each.reference.array, each.kind)]
                )

    def in_sequence(self, instruction: Instruction, updated: Touched) -> float:
        """Return the updates of an atomic update that follow one another if the resident groups update that much.

        A loop around a compare-exchange repeats for other updates of its element; the shared cache adds to one element
        of each part of :data:`SLICE` bytes at a time.
        """
        update, symbolic = instruction.reference.update, instruction.symbolic
        is_one = symbolic is not None and not any("." in name for name in symbolic.names)
        most = 1 if is_one else update.distinct or inf
        if update.is_loop:
            return self._mean(instruction, "lanes") / max(
                1.0, min(most, float(updated.sectors) * 8 * SECTOR / instruction.bits)
            )
        return self._mean(instruction, "updates") / max(1.0, min(most, float(updated.lines) * LINE / SLICE))

    def request(self, instruction: Instruction, served: Served | None = None) -> Request:
        """Return the request of an access to global or private memory that the levels *served* serve."""
        if instruction.subsystem != MemorySpace.PRIVATE:
            sectors, lines, wavefronts = (self._mean(instruction, each) for each in ASKED)
            return Request(instruction.reference.array, sectors, lines, wavefronts, served)
        # Whole lines of stacks are moved: groups of 6 and 12 lanes take as long as full warps (docs/pipeline.md).
        access = private_access(instruction.reference, self.warps.example.size)
        return Request(instruction.reference.array, access.sectors, access.lines, access.lines, served)

    @cached_property
    def requested(self) -> Mapping[ArrayStream, RequestedSectors]:
        """Return the sectors that a warp requests for the loads of each array and for the stores to it."""
        found: dict[ArrayStream, RequestedSectors] = {}
        origins: dict[ArrayStream, set[int | None]] = {}
        for each in self.graph.instructions:
            if each.subsystem == MemorySpace.GLOBAL and each.reference is not None and not each.is_idle:
                way = ArrayStream(each.reference.array, each.kind)
                origins.setdefault(way, set()).add(each.origin)
                sectors, partial, distinct = (self._mean(each, quantity) for quantity in STORED)
                one = RequestedSectors(sectors, partial, distinct, 1.0, len(origins[way]))
                found[way] = found.get(way, RequestedSectors()) + one.times(float(each.executions))
        return found

    def _mean(self, instruction: Instruction, quantity: Quantity) -> float:
        """Return the mean of *quantity* over all executions; copies of an access have the mean of their source.

        Merged loads of local memory count as one wide load; other wide accesses count in proportion to their bits.
        """
        origin, bits = instruction.origin, instruction.bits
        assert origin is not None
        if (origin, bits, quantity) not in self._found:
            source = self.warps.accesses[origin]
            number = 1.0 if bits in source.wider else bits / source.bits
            mean = float(source.wider.get(bits, source.known).mean(quantity)) * number
            if quantity == "wavefronts" and instruction.subsystem == MemorySpace.LOCAL:
                mean = max(
                    min(1.0, mean), mean * self.divergent_shares.get(origin, 1.0)
                )  # fewer lanes have fewer bank conflicts
            self._found[origin, bits, quantity] = mean
        return self._found[origin, bits, quantity]


# }}}


# {{{ program timing


Requests = tuple[Request | None, ...]
TimedOnce = dict[Hashable, tuple[Timed, ...]]
"""Properties that determine an instruction's times -> its times; most instructions are copies of others."""


def timing(machine: MachineProgram, device: Device) -> TimedProgram:
    """Return the timed program of a kernel on one core of *device*.

    :raises MissingNumberError: if a device parameter is unknown.
    :raises ParameterError: if addresses exceed 64 bits at these sizes.
    """
    known = completed(device)
    with check_64_bit(machine.sizes):
        launches = tuple(_LaunchTiming(launch, known).timed() for launch in machine.launches)
    return TimedProgram(machine.kernel, machine.sizes, device, launches, machine.launched)


@dataclass(frozen=True)
class _LaunchTiming:
    """Steps from a launch to its timed program on a core."""

    launch: MachineLaunch
    device: Device

    def timed(self) -> TimedLaunch:
        """Return the launch with latencies."""
        launch, device, execution = self.launch, with_traffic(self.device, self._written()), self.launch.execution
        balance, balances = launch.groups / (self.cores * execution.total_groups), dict(self._balances())
        timing = InstructionTimes(device)
        programs = self._programs(timing, balance, balances)
        accesses = [self.accesses[number] for number in programs]
        return TimedLaunch(
            name=launch.name,
            device=device,
            times=launch.times,
            all_groups=launch.groups,
            warps_per_group=launch.warps_per_group,
            work_items=launch.work_items,
            local_memory=launch.local_memory or 0,
            registers=launch.registers,
            spilled=launch.spilled,
            bound_by=tuple(launch.room.bound_by),
            sectors=sectors_touched(launch),
            execution=execution,
            programs=programs,
            shares=launch.shares,
            order=self.order,
            places=tuple(each.example.number for each in launch.classes),
            batches=self.batches,
            are_equal=launch.dispatch.is_uniform,
            groups=execution.total_groups,
            active_cores=min(self.cores, launch.groups),
            balance=balance,
            balances=balances,
            balances_alone=dict(self._balances(one_group=True)),
            assumed=(
                *launch.assumed,
                *(each for one in accesses for each in one.assumed),
                *launch.footprints.assumed,
                *self._on_updates(timing),
            ),
            unknown_collisions=tuple(dict.fromkeys(self._unknown_collisions())),
            substitutions=(*size_substitutions(device), *timing.substituted),
        )

    def _updates(self) -> Iterator[tuple[Instruction, Update]]:
        """Yield the atomic updates of all warps."""
        for each in (instruction for graph in self.graphs.values() for instruction in graph.instructions):
            if each.reference is not None and each.reference.update is not None and not each.is_idle:
                yield each, each.reference.update

    def _on_updates(self, timing: InstructionTimes) -> Iterator[Assumption]:
        """Yield the assumptions about collisions of atomic updates."""
        for each, update in self._updates():
            sentence = IN_LOOPS if update.is_loop else IN_SLICES
            if not timing.has_time_of_updates:
                sentence = ON_ANY_MEMORY
            elif each.subsystem == MemorySpace.LOCAL and not update.is_loop:
                continue
            yield Assumption(sentence, each.reference.array, each.reference.array)

    def _unknown_collisions(self) -> Iterator[str]:
        """Yield what the time does not include: collisions of updates whose elements depend on data."""
        for each, update in self._updates():
            if each.address is None and update.distinct is None:
                yield f"further collisions of updates of {each.reference.array}"

    # {{{ programs of warps

    @cached_property
    def cores(self) -> int:
        """Return the number of cores of the device."""
        return self.device.needed("cores")

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Return the warp classes of the warps of one or more sample groups, one warp at a time."""
        return tuple(sampled_warp_classes(self.launch))

    @cached_property
    def lights(self) -> Mapping[int, Light]:
        """Return warp class -> light program, for warp classes of unequal work, if groups differ."""
        classes = self.launch.classes
        if self.launch.dispatch.is_uniform:
            return {}
        unequal = ((kind, each) for kind, each in enumerate(classes) if each.unequal_loops)
        found = {kind: light(each.graph, len(classes) + kind, each.unequal_loops) for kind, each in unequal}
        return {kind: each for kind, each in found.items() if each is not None}

    @cached_property
    def graphs(self) -> Mapping[int, Idg]:
        """Return program -> machine graph: those of the warp classes, then the light programs."""
        own = {kind: each.graph for kind, each in enumerate(self.launch.classes)}
        return own | {each.program: each.graph for each in self.lights.values()}

    @cached_property
    def batches(self) -> Batches:
        """Return the groups in the order in which they start."""
        return Batches.of(self.launch, self.lights)

    def _programs(
        self, timing: InstructionTimes, balance: float, balances: Mapping[str, float]
    ) -> dict[int, TimedWarps]:
        start, known = timing.start(self.launch.warps_per_group), TimedOnce()
        start = None if start is None else start.balanced(balance, balances)
        found: dict[int, TimedWarps] = {}
        of_graph: dict[Same[Idg], list[TimedWarps]] = {}
        for program, graph in self.graphs.items():
            requests, alike = self.requests[program], of_graph.setdefault(Same(graph), [])
            same = next((each for each in alike if each.requests == requests), None)
            if same is None:
                asked = zip(graph.instructions, requests, strict=True)
                times = tuple([times_of(timing, balance, balances, known, *each) for each in asked])
                same = TimedWarps(alike[0].graph if alike else _bare(graph), times, requests, start)
                alike.append(same)
            found[program] = same
        return found

    # }}}

    # {{{ memory requests, and the levels that serve them

    @cached_property
    def accesses(self) -> Mapping[int, WarpAccesses]:
        """Return program -> memory accesses."""
        own = [WarpAccesses(each) for each in self.launch.classes]
        return {program: own[program % len(own)] for program in self.graphs}

    @cached_property
    def residence(self) -> Residence:
        """Return the number of groups that reside at once."""
        execution = self.launch.execution
        at_once = min(execution.concurrent_groups, execution.total_groups)
        return Residence(at_once, min(self.launch.groups, at_once * self.cores), self.cores)

    @cached_property
    def requests(self) -> Mapping[int, Requests]:
        """Return program -> memory request of each of its instructions."""
        served, of_stacks = self._served(), self._served_stacks()
        found: dict[int, Requests] = {}
        for program, accesses in self.accesses.items():
            kind = program % len(self.launch.classes)
            if kind not in found:
                plain = accesses.requests(served, of_stacks, self.residence)
                found[kind] = tuple(
                    self._updating(accesses, *each) for each in zip(accesses.graph.instructions, plain, strict=True)
                )
            found[program] = found[kind]
        return found

    def _updating(self, accesses: WarpAccesses, instruction: Instruction, request: Request | None) -> Request | None:
        """Return *request* with its atomic updates, if it has any in global memory."""
        update = None if instruction.reference is None else instruction.reference.update
        if request is None or request.served is None or update is None:
            return request
        updates = accesses.in_sequence(instruction, self.updated.get(request.array, Touched()))
        if update.is_loop:
            return replace(request, updates=updates)
        # The shared cache adds: DRAM reads what it writes later.
        served = request.served
        written = served.asked.get(DRAM, 0.0) - served.filled
        asked = {**served.asked, DRAM: 2 * written} if DRAM in served.asked else served.asked
        served = replace(served, asked=asked, partial=0.0, filled=written)
        return replace(request, served=served, updates=updates, added=instruction.scalar)

    @cached_property
    def updated(self) -> Mapping[str, Touched]:
        """Return array -> the part that the resident groups store to."""
        return stored_at_once(self.launch, self.residence)

    def _served(self) -> Mapping[ArrayStream, Served]:
        """Return the levels that serve accesses of the mean group, by the middle one of those that access most."""
        launch = self.launch
        requested = self._requested({kind: share * launch.warps_per_group for kind, share in launch.shares.items()})
        middle = requested if launch.dispatch.is_uniform else self._requested(launch.middle)
        mean_of = {
            way: each.sectors / middle[way].sectors
            for way, each in requested.items()
            if way in middle and middle[way].sectors
        }
        return levels_that_serve(launch, self.device, self.residence, requested, mean_of)

    def _requested(self, warps: Mapping[int, float]) -> dict[ArrayStream, RequestedSectors]:
        """Return the sectors that *warps* (class -> number) request for the loads and stores of each array."""
        found: dict[ArrayStream, RequestedSectors] = {}
        for kind, number in warps.items():
            for way, each in self.accesses[kind].requested.items():
                found[way] = found.get(way, RequestedSectors()) + each.times(number)
        return found

    def _served_stacks(self) -> Mapping[str, Served]:
        """Return ``"load"`` and ``"store"`` -> the levels that serve private memory; empty without such accesses."""
        every = (instruction for graph in self.graphs.values() for instruction in graph.instructions)
        if not any(each.subsystem == MemorySpace.PRIVATE and not each.is_idle for each in every):
            return {}
        lanes = self.device.needed("warp_size")
        graphs, places = distinct(list(self.graphs.values()))
        reuse = [StackReuse.of(each, lanes) for each in graphs]
        stacks = {program: reuse[place] for program, place in zip(self.graphs, places, strict=True)}
        return levels_that_serve_stacks(self.launch, self.device, self.residence, stacks, self.order)

    def _written(self) -> float:
        """Return the share of stores in the traffic of device memory."""
        written = total = 0.0
        for number, share in self.launch.shares.items():
            for instruction, request in zip(self.graphs[number].instructions, self.requests[number], strict=True):
                if request is not None and request.served is not None:
                    sectors = share * float(instruction.executions) * request.sectors
                    moved = request.served.asked.get(DRAM, 0.0)
                    total += sectors * moved
                    written += sectors * (moved - request.served.filled) if instruction.kind == Opcode.STORE else 0.0
        return written / total if total else 0.0

    def _balances(self, *, one_group: bool = False) -> Iterator[tuple[str, float]]:
        """Yield each level that all cores share, with the traffic of the mean core over that of the core with most.

        With *one_group*, a core has at most one group. If all groups do the same work, yield nothing.
        """
        if self.launch.dispatch.is_uniform:
            return
        batches = self.batches
        moved = {program: moved_sectors(graph, self.requests[program]) for program, graph in self.graphs.items()}
        for level in (each.name for each in self.device.memory if each.per == Per.DEVICE):
            of_groups = [
                sum(number * moved[program].get(level, 0.0) for program, number in composition.items())
                for composition in batches.compositions
            ]
            longest = max(batch.value(of_groups) for _, batch in batches.every) if one_group else None
            most = batches.most(of_groups, self.cores) if longest is None else longest
            every = batches.total(of_groups) / batches.executions
            yield level, min(1.0, every / (self.cores * most)) if most else 1.0

    # }}}


def _bare(graph: Idg) -> Idg:
    """Return *graph* without the fields that only the compiler model needs, and with plain expressions."""
    instructions = tuple(
        Instruction(
            instruction.kind,
            instruction.dtype,
            instruction.subsystem,
            instruction.source,
            instruction.text,
            executions=instruction.executions,
            condition=instruction.condition,
            origin=instruction.origin,
            is_idle=instruction.is_idle,
        )
        for instruction in graph.instructions
    )
    return replace(graph, instructions=instructions)


def times_of(
    timing: InstructionTimes,
    balance: float,
    balances: Mapping[str, float],
    known: TimedOnce,
    instruction: Instruction,
    request: Request | None,
) -> tuple[Timed, ...]:
    """Return the times of an instruction on each pipeline that it uses."""
    what, find = _keyed(timing, instruction, request)
    if what not in known:
        known[what] = tuple(steady(each.balanced(balance, balances)) for each in find())
    return known[what]


def _keyed(
    timing: InstructionTimes, instruction: Instruction, request: Request | None
) -> tuple[Hashable, Callable[[], Iterable[Timed]]]:
    """Return a key of the properties that determine an instruction's times, and a function that computes the times."""
    kind, subsystem = instruction.kind, instruction.subsystem
    if request is None:
        what = kind, instruction.dtype, subsystem, instruction.is_idle, instruction.function
        return what, lambda: [timing.arithmetic(instruction)]
    served = request.served
    if served is None:
        what = subsystem, request.wavefronts, request.updates
        return what, lambda: [timing.local_memory(request.wavefronts, request.updates)]
    asked = NeededNumbers(request.sectors, request.lines, request.wavefronts)
    array = "" if subsystem == MemorySpace.PRIVATE else request.array
    return (kind, subsystem, array, asked, request.updates, request.added), lambda: [
        *timing.memory(kind, served, asked),
        *timing.updates(request),
    ]


# }}}
