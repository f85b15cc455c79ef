"""Review what limits a launch: utilization, stall reasons, memory traffic and occupancy.

The numbers follow from the launch and from the cycles that a model predicts. Stalls are counted in the trace of a short
part of the simulation; the stall reasons are those of :func:`loopyperf.pipeline.simulator.stalls`, and two for memory.
Waiting for an operand counts as memory latency if a load from beyond the core produces it. Waiting for a pipeline
counts as memory bandwidth if it is a memory level that all cores share. On a GPU, warps issue such loads and wait for
the results, so that both correspond to Nsight Compute's "long scoreboard" stall.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import DRAM
from loopyperf.device.occupancy import occupancy
from loopyperf.device.parts import Lanes, Per
from loopyperf.device.vocabulary import ISSUE
from loopyperf.errors import LoopyperfError, OccupancyError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.memory.kernel_profile import AccessProfile
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.pipeline import explicit_scenario
from loopyperf.models.profiler_counters import active_lanes
from loopyperf.models.timing import WAVEFRONT, InstructionTimes, is_of_device
from loopyperf.models.traffic import neighbours
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import PLACE, SOURCE, Ticks, executed, stalls
from loopyperf.pipeline.timed_program import Request, TimedLaunch
from loopyperf.units import amount, prefixed, ratio_in_words


@dataclass(frozen=True, slots=True)
class LineWork:
    """The work of a source line on a pipeline or memory level."""

    line: str
    """source line"""
    resource: str
    """pipeline or memory level"""
    access: str
    """direction and array, e.g. ``"load b"``; empty for instructions without memory access"""
    instructions: float
    """warp instructions executed on the resource, in all executions of the launch"""
    share: float
    """share of the device's peak; the shares of a resource add up to its utilization"""


def warps_of(launch: TimedLaunch) -> float:
    """Return the number of warps of *launch*, in all its executions."""
    return float(launch.all_groups * launch.warps_per_group * launch.times)


def work_of(launch: TimedLaunch, utilization: Mapping[str, float]) -> tuple[LineWork, ...]:
    """Return the work of each line on each resource; *utilization* is the share of peak by resource."""
    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for share, program in launch.shared():
        for insn, times, request in zip(program.graph.instructions, program.times, program.requests, strict=True):
            executions = share * float(insn.executions)
            busy = {time.pipeline: executions * float(time.issue) for time in times} | {ISSUE: executions}
            for resource, cycles in busy.items():
                key = insn.label, resource, "" if request is None else f"{insn.kind} {request.array}"
                number, before = found.get(key, (0.0, 0.0))
                found[key] = number + executions, before + cycles
    every: dict[str, float] = {}
    for (_, resource, _), (_, cycles) in found.items():
        every[resource] = every.get(resource, 0.0) + cycles
    warps = warps_of(launch)
    return tuple(
        LineWork(*key, number * warps, utilization.get(key[1], 0.0) * cycles / (every[key[1]] or 1.0))
        for key, (number, cycles) in found.items()
    )


def lanes_of(machine: MachineLaunch) -> dict[str, float]:
    """Return source line -> mean active lanes, for the lines of *machine* that conditions or loop ends restrict."""
    found: dict[str, tuple[float, float]] = {}
    most = machine.representative.example.size
    for warps in machine.classes:
        lanes = active_lanes(warps, most)
        for insn, active in zip(warps.graph.instructions, lanes, strict=True):
            executed, before = warps.warps * float(insn.executions), found.get(insn.source, (0.0, 0.0))
            found[insn.source] = before[0] + executed * active, before[1] + executed
    means = {source: active / executed for source, (active, executed) in found.items() if source and executed}
    return {source: mean for source, mean in means.items() if mean < FULL_OCCUPANCY * most}


EQUAL_TRAFFIC = 1.05
"""ratio of DRAM traffic to compulsory traffic up to which the two count as equal"""
FULL_OCCUPANCY = 0.999
"""occupancy from which a core counts as full"""

# {{{ utilization of resources


def utilization(launch: TimedLaunch, cycles: float) -> dict[str, float]:
    """Return the utilization of each pipeline and memory level, from 0 to 1, the busiest first.

    *cycles* is the duration of one execution. The pipelines of an idle core count as idle.
    """
    busy = cached_for_launch(
        launch, LaunchDemand
    ).busy  # of the mean warp, because the last groups may do less than others
    warps = launch.groups * launch.warps_per_group
    most = {name: 1.0 if is_of_device(name, launch) else launch.balance for name in busy}
    shares = {name: most[name] * min(1.0, each * warps / cycles) for name, each in busy.items() if cycles}
    return {name: shares[name] for name in sorted(shares, key=lambda name: -shares[name])}


# }}}


# {{{ stall reasons

ISSUES = 12_000
"""number of traced issues"""

StallReason = Literal["pipeline busy", "memory bandwidth", "memory latency", "dependency", "barrier", "issue limit"]
"""stall reasons: a busy pipeline of the core; a busy memory level beyond the core; the result of a load; another
result; other warps of the group; the issue limit"""
STALLS: tuple[StallReason, ...] = get_args(StallReason)
BUSY_STALLS: tuple[StallReason, ...] = ("pipeline busy", "memory bandwidth")
"""stall reasons that utilization already shows"""
OF_MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Stall reasons of the warps of a core, as shares of stall cycles, by waiting instruction."""

    _DERIVED = ("total",)

    by_source: Mapping[str, Mapping[StallReason, float]]
    """source line -> stall reason -> share"""

    @property
    def total(self) -> dict[StallReason, float]:
        """Return the share of each stall reason, largest first."""
        found = {cause: sum((waits.get(cause, 0.0) for waits in self.by_source.values()), 0.0) for cause in STALLS}
        order: list[StallReason] = sorted(STALLS, key=lambda cause: -found[cause])
        return {cause: found[cause] for cause in order if found[cause]}


def waiting_of(launch: TimedLaunch) -> Waiting:
    """Return the stall reasons in the part of *launch* that is simulated instruction by instruction.

    Raises :class:`MissingNumberError` if the device lacks a latency.
    """
    scenario = explicit_scenario(launch, ISSUES)
    trace = executed(scenario, is_traced=True).trace
    instructions = [instruction for graph in scenario.graphs for instruction in graph.instructions]
    found: dict[str, dict[StallReason, float]] = {}
    for cause, rows, begin, end in _waits(launch, scenario, trace, instructions):
        ticks = np.bincount(trace[rows, PLACE], weights=(end - begin)[rows], minlength=len(instructions))
        for index in np.flatnonzero(ticks):
            own = found.setdefault(instructions[index].label, {})
            own[cause] = own.get(cause, 0.0) + float(ticks[index])
    every = sum(sum(own.values()) for own in found.values()) or 1.0
    return Waiting({source: {cause: ticks / every for cause, ticks in own.items()} for source, own in found.items()})


def _waits(
    launch: TimedLaunch, scenario: Scenario, trace: Ticks, instructions: Sequence[Instruction]
) -> Iterator[tuple[StallReason, NDArray[np.bool_], Ticks, Ticks]]:
    """Yield each stall reason with a mask of the issues that waited for it, and the start and end times."""
    loads = _loads(launch)
    is_load = np.array([_identity(insn) in loads for insn in instructions], dtype=bool)
    shared = {name for name in scenario.subsystems if is_of_device(name, launch)}
    is_shared = np.array([insn.subsystem in shared for insn in instructions], dtype=bool)
    of_shared = is_shared[trace[:, PLACE]]
    of_memory = (trace[:, SOURCE] >= 0) & is_load[np.maximum(trace[:, SOURCE], 0)]
    for cause, start, until in stalls(trace):
        waited = until > start
        if cause == "dependency":
            yield "memory latency", waited & of_memory, start, until
            waited &= ~of_memory
        if cause == "pipeline busy":
            yield "memory bandwidth", waited & of_shared, start, until
            waited &= ~of_shared
        yield cause, waited, start, until


def _loads(launch: TimedLaunch) -> frozenset[tuple[str, str, int | None]]:
    """Return the identities of loads from beyond the core; parts of a load on several pipelines share one identity."""
    return frozenset(
        _identity(insn)
        for _, program in launch.shared()
        for insn in program.graph.instructions
        if insn.kind == Opcode.LOAD and insn.subsystem in OF_MEMORY
    )


def _identity(instruction: Instruction) -> tuple[str, str, int | None]:
    return instruction.source, instruction.text, instruction.origin


# }}}


# {{{ memory traffic


@dataclass(frozen=True, slots=True)
class Traffic:
    """The memory traffic of all executions of a launch, in bytes."""

    _DERIVED = ("excess",)

    loaded: Mapping[str, float]
    """bytes of global and local (stack) memory that loads move through each level, the nearest level first"""
    stored: Mapping[str, float]
    """the same for stores"""
    local: float
    """bytes through the banks of local memory, with a full wavefront for each request"""
    compulsory: float
    """minimum DRAM traffic: each accessed sector once in each direction"""
    cache: str = ""
    """the last-level cache, if DRAM traffic exceeds the compulsory traffic"""
    working_set: float = 0.0
    """bytes accessed by all concurrent groups; 0 without such a cache"""
    capacity: float = 0.0
    """capacity of that cache, in bytes"""

    @property
    def moved(self) -> dict[str, float]:
        """Return the bytes of loads and stores through each level, the nearest level first."""
        levels = dict.fromkeys([*self.loaded, *self.stored])
        return {level: self.loaded.get(level, 0.0) + self.stored.get(level, 0.0) for level in levels}

    @property
    def in_words(self) -> str:
        """Return a clause that compares DRAM traffic with the compulsory traffic."""
        moved, least = (prefixed(each, "B") for each in (self.moved.get(DRAM, 0.0), self.compulsory))
        words = f"DRAM moves {moved}; compulsory traffic is {least}"
        if self.excess > EQUAL_TRAFFIC:
            words = f"DRAM moves {moved}, {ratio_in_words(self.excess)} times the compulsory traffic of {least}"
        if self.working_set > self.capacity:
            accessed, held = (prefixed(each, "B") for each in (self.working_set, self.capacity))
            words += f"; concurrent groups access {accessed}, {self.cache} holds {held}"
        return words

    @property
    def excess(self) -> float:
        """Return the ratio of DRAM traffic to compulsory traffic; 1 without memory accesses."""
        return self.moved.get(DRAM, 0.0) / self.compulsory if self.compulsory else 1.0


def bytes_moved(launch: TimedLaunch) -> Iterator[tuple[str, str, float]]:
    """Yield (direction, memory level, bytes) of each access in all executions; ``"local"`` is that of a group."""
    warps = warps_of(launch)
    for executions, insn, request in launch.requested():
        if request.served is None:
            yield insn.kind, "local", executions * request.wavefronts * WAVEFRONT * warps
        for level, sectors in request.reaching.items():
            yield insn.kind, level, executions * sectors * SECTOR * warps


def traffic_of(machine: MachineLaunch, launch: TimedLaunch) -> Traffic:
    """Return the memory traffic of all executions of *launch*."""
    moved: dict[str, dict[str, float]] = {Opcode.LOAD: {}, Opcode.STORE: {}}
    local = 0.0
    for kind, level, nbytes in bytes_moved(launch):
        if level == "local":
            local += nbytes
        else:
            moved[kind][level] = moved[kind].get(level, 0.0) + nbytes
    found = Traffic(moved[Opcode.LOAD], moved[Opcode.STORE], local, launch.sectors * SECTOR * launch.times)
    caches = [level for level in launch.device.memory if level.per == Per.DEVICE and level.name != DRAM and level.size]
    if found.excess <= EQUAL_TRAFFIC or not caches:
        return found
    at_once = min(launch.execution.concurrent_groups, launch.execution.total_groups) * launch.device.needed("cores")
    touched = float(neighbours(machine, min(launch.all_groups, at_once)).lines) * LINE
    return replace(found, cache=caches[-1].name, working_set=touched, capacity=float(caches[-1].needed("size")))


# }}}


# {{{ occupancy


@dataclass(frozen=True, slots=True)
class Residents:
    """The resident groups of a core, and what one more group would need."""

    warps: float
    """resident warps per core; the mean over the cores if the whole grid is resident at once"""
    slots: int
    """warp slots per core"""
    groups: int
    """resident groups per core, limited by the grid"""
    fitting: int
    """groups that fit on a core"""
    total: int
    """groups that the core with most groups executes in total"""
    registers: int
    """registers per work-item"""
    spilled: int
    """spilled registers per work-item"""
    limited_by: tuple[str, ...]
    """the resources without room for another group, or ``"grid"`` if there are no more groups"""
    fewer_registers: int | None
    """most registers per work-item with which one more group fits; None if registers are not the only limit"""

    @property
    def share(self) -> float:
        """Return the occupancy: resident warps over warp slots."""
        return self.warps / self.slots

    @property
    def warps_in_words(self) -> str:
        """Return the resident warps with at most one decimal, e.g. ``"3.2"``, or ``"< 0.1"``."""
        rounded = round(self.warps, 1)
        return amount(rounded) if rounded or not self.warps else "< 0.1"

    @property
    def is_full(self) -> bool:
        """Return whether all warp slots of the core are occupied."""
        return self.share > FULL_OCCUPANCY


def residents_of(machine: MachineLaunch, launch: TimedLaunch) -> Residents:
    """Return the resident groups of *launch* per core, and what one more group would need."""
    execution, room = launch.execution, machine.room
    at_once = min(execution.concurrent_groups, execution.total_groups)
    everything_fits = execution.total_groups <= execution.concurrent_groups
    mean = launch.all_groups / launch.device.needed("cores") if everything_fits else float(at_once)
    limited_by = ("grid",) if mean < room.groups and everything_fits else room.bound_by
    return Residents(
        warps=mean * launch.warps_per_group,
        slots=room.warp_slots,
        groups=at_once,
        fitting=room.groups,
        total=execution.total_groups,
        registers=launch.registers,
        spilled=launch.spilled,
        limited_by=tuple(limited_by),
        fewer_registers=_fewer_registers(launch, room.groups + 1) if room.bound_by == ("registers",) else None,
    )


def _fewer_registers(launch: TimedLaunch, groups: int) -> int | None:
    """Return the most registers per work-item with which *groups* groups fit on a core; None if none do."""
    for registers in range(launch.registers - 1, 0, -1):
        try:
            room = occupancy(launch.device, launch.work_items, registers, launch.local_memory)
        except OccupancyError:
            continue
        if room.groups >= groups:
            return registers
    return None


# }}}


# {{{ accesses


@dataclass(frozen=True, slots=True)
class AccessReview:
    """The accesses of an array by a source line, with means per execution by a warp."""

    line: str
    """source line"""
    kind: str
    """``"load"`` or ``"store"``"""
    array: str
    """name of the array"""
    space: str
    """memory space, a value of :class:`~loopyperf.counts.item.MemorySpace`"""
    executions: float
    """executions per warp, averaged over all warps of the launch"""
    sectors: float
    """sectors of global or local (stack) memory; 0 for local memory of a group"""
    fewest_sectors: float
    """sectors that the accessed elements fill"""
    wavefronts: float
    """wavefronts (bank passes)"""
    fewest_wavefronts: float
    """wavefronts without bank conflicts"""
    reached: Mapping[str, float]
    """share of the sectors that reach each memory level; 1 for the nearest"""

    def hit_rate(self, level: str) -> float | None:
        """Return the hit rate of *level*, 0 to 1; None if no access reaches it or it is the last level."""
        names = list(self.reached)
        if level not in names or not self.reached[level] or level == names[-1]:
            return None
        return 1 - self.reached[names[names.index(level) + 1]] / self.reached[level]


def accesses_of(machine: MachineLaunch, launch: TimedLaunch) -> tuple[AccessReview, ...]:
    """Return the accesses of *launch*, those with most sectors or wavefronts first."""
    sources = machine.representative.accesses
    found: dict[tuple[str, str, str, str], list[tuple[float, Request, float, float]]] = {}
    for executions, insn, request in launch.requested():
        source = None if insn.origin is None else sources.get(insn.origin)
        profile = None
        if source is not None and not source.refusal and insn.dtype:
            profile = source.wider.get(insn.bits, source.profile)
        sectors, wavefronts = _fewest(request, profile)
        key = insn.label, insn.kind, request.array, insn.subsystem
        found.setdefault(key, []).append((executions, request, sectors, wavefronts))
    rows = [_access(*key, every) for key, every in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.executions * max(row.sectors, row.wavefronts)))


def _fewest(request: Request, profile: AccessProfile | None) -> tuple[float, float]:
    """Return the sectors that the elements of an access fill, and its wavefronts without bank conflicts."""
    if profile is None or not profile.number:
        return request.sectors, request.wavefronts
    if request.served is not None:
        return max(1.0, ceil(float(profile.mean("distinct")) / SECTOR)), request.wavefronts
    return 0.0, float(profile.mean("ideal_wavefronts"))


def _access(
    line: str, kind: str, array: str, space: str, every: Sequence[tuple[float, Request, float, float]]
) -> AccessReview:
    executions = sum(number for number, *_ in every)
    shares = [number / executions if executions else 0.0 for number, *_ in every]

    def mean(numbers: Iterable[float]) -> float:
        return sum(share * value for share, value in zip(shares, numbers, strict=True))

    served = next((request.served for _, request, *_ in every if request.served is not None), None)
    sectors = mean(request.sectors for _, request, *_ in every)
    reached = {} if served is None else dict(served.asked)
    return AccessReview(
        line=line,
        kind=kind,
        array=array,
        space=space,
        executions=executions,
        sectors=sectors,
        fewest_sectors=min(sectors, mean(fewest for _, _, fewest, _ in every)),
        wavefronts=mean(request.wavefronts for _, request, *_ in every),
        fewest_wavefronts=mean(fewest for *_, fewest in every),
        reached=reached,
    )


# }}}


# {{{ review of a launch


@dataclass(frozen=True, slots=True)
class LaunchReview:
    """The quantities that limit a launch."""

    name: str
    """name of the device program"""
    seconds: float
    """run time of all executions, without launch overhead"""
    times: int
    """number of executions"""
    groups: int
    """groups of one execution"""
    work_items: int
    """work-items per group"""
    warps: float
    """warps of all executions"""
    utilization: Mapping[str, float]
    """utilization by pipeline or memory level, the busiest first"""
    pipeline_of_local: str
    """pipeline that serves local memory"""
    of_local: float
    """share of local memory in the work of that pipeline; 1 if it is unused"""
    balance: float
    """share of the time for which the mean core has work; 1 if all cores have equal work"""
    waiting: Waiting | None
    """stall reasons; None if a core cannot be simulated"""
    traffic: Traffic
    """memory traffic of all executions"""
    residents: Residents
    """resident groups per core"""
    accesses: tuple[AccessReview, ...]
    """memory accesses, those with most sectors or wavefronts first"""
    work: tuple[LineWork, ...]
    """work of each line on each pipeline and memory level"""
    lanes: Mapping[str, float]
    """source line -> mean active lanes of its instructions, for lines that not all lanes of full warps execute"""

    @property
    def busiest(self) -> str:
        """Return the busiest pipeline or memory level; empty if there is none."""
        return next(iter(self.utilization), "")

    def waits_for(self, cause: StallReason) -> float:
        """Return the share of stall cycles due to *cause*; 0 if unknown."""
        return 0.0 if self.waiting is None else self.waiting.total.get(cause, 0.0)


def review_of(machine: MachineLaunch, launch: TimedLaunch, seconds: float) -> LaunchReview:
    """Return the review of *launch*, which takes *seconds* in all its executions."""
    cycles = seconds * launch.device.needed("clock") / launch.times
    pipeline = InstructionTimes(launch.device).pipeline_of("local")
    shares = utilization(launch, cycles)
    try:
        waiting = waiting_of(launch) if launch.device.lanes == Lanes.TOGETHER else None
    except LoopyperfError:
        waiting = None
    return LaunchReview(
        name=launch.name,
        seconds=seconds,
        times=launch.times,
        groups=launch.all_groups,
        work_items=launch.work_items,
        warps=warps_of(launch),
        utilization=shares,
        pipeline_of_local=pipeline,
        of_local=of_local(launch, pipeline),
        balance=launch.balance,
        waiting=waiting,
        traffic=traffic_of(machine, launch),
        residents=residents_of(machine, launch),
        accesses=accesses_of(machine, launch),
        work=work_of(launch, shares),
        lanes=lanes_of(machine),
    )


def of_local(launch: TimedLaunch, pipeline: str) -> float:
    """Return the share of local memory in the work of *pipeline*; 1 if it is unused."""
    every = local = 0.0
    for executions, instruction, times in launch.executed():
        busy = sum(float(time.issue) for time in times if time.pipeline == pipeline) * executions
        every += busy
        local += busy if instruction.subsystem == MemorySpace.LOCAL else 0.0
    return local / every if every else 1.0


# }}}
