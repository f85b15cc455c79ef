"""What limits a launch: how busy each resource is, what warps wait for, what is moved, how many groups reside.

All of it is arithmetic on the launch and on the cycles that a model says it takes; waiting is counted in the trace of
a short part of the simulation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM
from loopyperf.device.occupancy import occupancy
from loopyperf.device.parts import Lanes, Per
from loopyperf.device.vocabulary import ISSUE
from loopyperf.errors import LoopyperfError, OccupancyError
from loopyperf.explain.waiting import Wait, Waiting, waiting_of
from loopyperf.idg.program import Opcode
from loopyperf.memory.kernel_profile import AccessProfile
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.timing import WAVEFRONT, InstructionTimes, is_of_device
from loopyperf.models.traffic import neighbours
from loopyperf.models.workload import START
from loopyperf.pipeline.timed_program import Request, TimedLaunch
from loopyperf.units import prefixed


@dataclass(frozen=True, slots=True)
class LineWork:
    """What the instructions of a line of the source do on a pipeline or memory level."""

    line: str
    """of the source"""
    resource: str
    """the pipeline or memory level"""
    access: str
    """the direction and the array, e.g. ``"load b"``; empty for instructions that access no memory"""
    instructions: float
    """that all warps execute on it, in all executions of the launch"""
    share: float
    """of the device's peak; the shares of a resource add up to its utilization"""


def warps_of(launch: TimedLaunch) -> float:
    """Return how many warps execute *launch*, in all its executions."""
    return float(launch.all_groups * launch.warps_per_group * launch.times)


def work_of(launch: TimedLaunch, utilization: Mapping[str, float]) -> tuple[LineWork, ...]:
    """Return what each line of *launch* does on each resource; *utilization* is the share of its peak of each."""
    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for share, program in launch.shared():
        for each, times, request in zip(program.graph.instructions, program.times, program.requests, strict=True):
            executions = share * float(each.executions)
            busy = {time.pipeline: executions * float(time.issue) for time in times} | {ISSUE: executions}
            for resource, cycles in busy.items():
                key = each.label, resource, "" if request is None else f"{each.kind} {request.array}"
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


ALIKE = 1.05
"""times: what is moved and what is touched are then about the same"""
FULL = 0.999
"""of the warp slots: nothing more would fit"""

# {{{ how busy each resource is


def utilization(launch: TimedLaunch, cycles: float) -> dict[str, float]:
    """Return pipeline or memory level -> the share of the device's peak that *launch* takes, the busiest first.

    *cycles* are those of one execution. A core that waits for others to end is idle: its pipelines count as idle.
    """
    busy = cached_for_launch(
        launch, LaunchDemand
    ).busy  # of the mean warp: the last core's last groups may do less than others
    warps = launch.groups * launch.warps_per_group
    shares = {
        name: each * warps / cycles * (1.0 if is_of_device(name, launch) else launch.balance)
        for name, each in busy.items()
        if name != START and cycles
    }
    return {name: min(1.0, shares[name]) for name in sorted(shares, key=lambda name: -shares[name])}


# }}}


# {{{ what is moved


@dataclass(frozen=True, slots=True)
class Traffic:
    """What all executions of a launch move, in bytes."""

    loaded: Mapping[str, float]
    """level of memory -> bytes of global and local (stack) memory that loads move by way of it, the nearest first"""
    stored: Mapping[str, float]
    """the same of stores"""
    local: float
    """bytes that pass through the banks of a group's memory: a whole pass for each wavefront"""
    compulsory: float
    """bytes that device memory moves at least: each sector that is touched, once in each direction"""
    cache: str = ""
    """the last cache before device memory, where that moves more than it has to"""
    working_set: float = 0.0
    """bytes that the groups touch which reside on the device at once, where there is such a cache"""
    capacity: float = 0.0
    """bytes that it holds"""

    @property
    def moved(self) -> dict[str, float]:
        """Return level of memory -> bytes of loads and stores, the nearest level first."""
        levels = dict.fromkeys([*self.loaded, *self.stored])
        return {level: self.loaded.get(level, 0.0) + self.stored.get(level, 0.0) for level in levels}

    @property
    def in_words(self) -> str:
        """Return what device memory moves, beside what it moves at least, in a clause."""
        moved, least = (prefixed(each, "B") for each in (self.moved.get(DRAM, 0.0), self.compulsory))
        times = f": {self.excess:.2g} times" if self.excess > ALIKE else ""
        if self.working_set > self.capacity:
            touched, held = (prefixed(each, "B") for each in (self.working_set, self.capacity))
            times += f"; groups that run together touch {touched}, {self.cache} holds {held}"
        return f"DRAM moves {moved}, the arrays touched are {least}{times}"

    @property
    def excess(self) -> float:
        """Return how many times the compulsory traffic device memory moves; 1 where nothing is touched."""
        return self.moved.get(DRAM, 0.0) / self.compulsory if self.compulsory else 1.0


def traffic_of(machine: MachineLaunch, launch: TimedLaunch) -> Traffic:
    """Return what all executions of *launch* move by way of each level of memory, in bytes."""
    warps = warps_of(launch)
    moved: dict[str, dict[str, float]] = {Opcode.LOAD: {}, Opcode.STORE: {}}
    local = 0.0
    for executions, each, request in launch.requested():
        if request.served is None:
            local += executions * request.wavefronts * WAVEFRONT * warps
        for level, sectors in request.reaching(each.kind).items():
            moved[each.kind][level] = moved[each.kind].get(level, 0.0) + executions * sectors * SECTOR * warps
    found = Traffic(moved[Opcode.LOAD], moved[Opcode.STORE], local, launch.sectors * SECTOR * launch.times)
    caches = [each for each in launch.device.memory if each.per == Per.DEVICE and each.name != DRAM and each.size]
    if found.excess <= ALIKE or not caches:
        return found
    at_once = min(launch.execution.concurrent_groups, launch.execution.total_groups) * launch.device.needed("cores")
    touched = float(neighbours(machine, min(launch.all_groups, at_once)).lines) * LINE
    return replace(found, cache=caches[-1].name, working_set=touched, capacity=float(caches[-1].needed("size")))


# }}}


# {{{ how many groups reside on a core


@dataclass(frozen=True, slots=True)
class Residents:
    """How many groups of a launch reside on a core at once, and what one more would need."""

    warps: float
    """that reside on a core at once: of a grid that fits at once, on average over the cores"""
    slots: int
    """warps that a core has room for"""
    groups: int
    """that reside at once; fewer than fit where the grid has no more"""
    fitting: int
    """groups that a core has room for"""
    total: int
    """groups that the core with most groups executes"""
    registers: int
    """of a work-item"""
    spilled: int
    """registers of a work-item that local (stack) memory holds"""
    limited_by: tuple[str, ...]
    """the resources that have no room for another group; ``"grid"`` where there are no more groups"""
    fewer_registers: int | None
    """of a work-item, with which one group more fits, if nothing but registers has to change"""
    less_local_memory: int | None
    """bytes of a group, with which one group more fits, if nothing but local memory has to change"""

    @property
    def share(self) -> float:
        """Return the occupancy: warps that reside over those that a core has room for."""
        return self.warps / self.slots

    @property
    def is_full(self) -> bool:
        """Return whether every warp slot of the core is taken."""
        return self.share > FULL


def residents_of(machine: MachineLaunch, launch: TimedLaunch) -> Residents:
    """Return how many groups of a launch reside on a core at once, and what one more would need."""
    execution, room = launch.execution, machine.room
    at_once = min(execution.concurrent_groups, execution.total_groups)
    everything_fits = execution.total_groups <= execution.concurrent_groups
    mean = launch.all_groups / launch.device.needed("cores") if everything_fits else float(at_once)
    limited_by = ("grid",) if mean < room.groups and everything_fits else room.bound_by
    fits = _Fits(launch.device, launch.work_items, launch.local_memory, room.groups + 1)
    return Residents(
        warps=mean * launch.warps_per_group,
        slots=room.warp_slots,
        groups=at_once,
        fitting=room.groups,
        total=execution.total_groups,
        registers=launch.registers,
        spilled=launch.spilled,
        limited_by=tuple(limited_by),
        fewer_registers=fits.registers(launch.registers) if room.bound_by == ("registers",) else None,
        less_local_memory=fits.local_bytes(launch.registers) if room.bound_by == ("local memory",) else None,
    )


@dataclass(frozen=True, slots=True)
class _Fits:
    """What groups may take of a core of which so many are to fit."""

    device: Device
    work_items: int
    local_memory: int
    groups: int

    def registers(self, most: int) -> int | None:
        return next((each for each in range(most - 1, 0, -1) if self._has_room(each, self.local_memory)), None)

    def local_bytes(self, registers: int) -> int | None:
        low, high = 0, self.local_memory
        if not self._has_room(registers, low):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._has_room(registers, middle) else (low, middle)
        return low

    def _has_room(self, registers: int, local_memory: int) -> bool:
        try:
            return occupancy(self.device, self.work_items, registers, local_memory).groups >= self.groups
        except OccupancyError:
            return False


# }}}


# {{{ what each access asks for


@dataclass(frozen=True, slots=True)
class AccessReview:
    """The accesses of an array by a line of the source: what one execution by a warp asks for, on average."""

    line: str
    """of the source"""
    kind: str
    """``"load"`` or ``"store"``"""
    array: str
    """its name"""
    space: str
    """a :class:`~loopyperf.counts.item.MemorySpace`"""
    executions: float
    """by a warp, on average over all warps of the launch"""
    sectors: float
    """of global and local (stack) memory; 0 of a group's memory"""
    fewest_sectors: float
    """that its elements fill"""
    wavefronts: float
    """passes through the banks"""
    fewest_wavefronts: float
    """without bank conflicts"""
    reached: Mapping[str, float]
    """level of memory -> share of the sectors that are moved from there, 1 of the nearest"""

    def hit_rate(self, level: str) -> float | None:
        """Return the hit rate of *level*, 0 to 1; None if no access reaches it or it is the last level."""
        names = list(self.reached)
        if level not in names or not self.reached[level] or level == names[-1]:
            return None
        return 1 - self.reached[names[names.index(level) + 1]] / self.reached[level]


def accesses_of(machine: MachineLaunch, launch: TimedLaunch) -> tuple[AccessReview, ...]:
    """Return what the accesses of *launch* ask for, those that move most first."""
    sources = machine.representative.accesses
    found: dict[tuple[str, str, str, str], list[tuple[float, Request, float, float]]] = {}
    for executions, each, request in launch.requested():
        source = None if each.origin is None else sources.get(each.origin)
        profile = None
        if source is not None and not source.refusal and each.dtype:
            profile = source.wider.get(each.bits, source.profile)
        sectors, wavefronts = _fewest(request, profile)
        key = each.label, each.kind, request.array, each.subsystem
        found.setdefault(key, []).append((executions, request, sectors, wavefronts))
    rows = [_access(*key, every) for key, every in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.executions * max(row.sectors, row.wavefronts)))


def _fewest(request: Request, profile: AccessProfile | None) -> tuple[float, float]:
    """Return the sectors that the elements of an access fill, and its wavefronts without conflicts."""
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
        return sum(share * number for share, number in zip(shares, numbers, strict=True))

    served = next((request.served for _, request, *_ in every if request.served is not None), None)
    sectors = mean(request.sectors for _, request, *_ in every)
    reached = {} if served is None else served.reaching(kind)
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


# {{{ all of it


@dataclass(frozen=True, slots=True)
class LaunchReview:
    """What limits a launch, in numbers."""

    name: str
    """of the device program"""
    seconds: float
    """of all executions, without what launching costs"""
    times: int
    """how often it is executed"""
    groups: int
    """of one execution"""
    work_items: int
    """of a group"""
    warps: float
    """that execute it, in all executions"""
    utilization: Mapping[str, float]
    """pipeline or memory level -> share of the device's peak, the busiest first"""
    pipeline_of_local: str
    """the pipeline of local memory"""
    of_local: float
    """the share of local memory in what that pipeline does; 1 where it does nothing"""
    balance: float
    """share of the time in which the mean core has work: 1 where all cores have as much"""
    waiting: Waiting | None
    """what warps wait for; None where a core cannot be simulated"""
    traffic: Traffic
    """what its executions move"""
    residents: Residents
    """how many groups reside on a core"""
    accesses: tuple[AccessReview, ...]
    """of memory, those that move most first"""
    work: tuple[LineWork, ...]
    """what each line does on each pipeline and memory level"""

    @property
    def busiest(self) -> str:
        """Return the pipeline or memory level that is busiest; empty where nothing is."""
        return next(iter(self.utilization), "")

    def waits_for(self, cause: Wait) -> float:
        """Return which share of all waiting is for *cause*; 0 where that is not known."""
        return 0.0 if self.waiting is None else self.waiting.total.get(cause, 0.0)


def review_of(
    machine: MachineLaunch, launch: TimedLaunch, seconds: float, busy: Mapping[str, float] | None = None
) -> LaunchReview:
    """Return what limits *launch*, which takes so many *seconds* in all its executions.

    *busy* has the share of the peak of each pipeline where a fit tells it; else it is that of the device's parameters.
    """
    cycles = seconds * launch.device.needed("clock") / launch.times
    pipeline = InstructionTimes(launch.device).pipeline_of("local")
    shares = utilization(launch, cycles) if busy is None else busy
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
    )


def of_local(launch: TimedLaunch, pipeline: str) -> float:
    """Return the share of local memory in what *pipeline* does; 1 where it does nothing."""
    every = local = 0.0
    for executions, instruction, times in launch.executed():
        busy = sum(float(time.issue) for time in times if time.pipeline == pipeline) * executions
        every += busy
        local += busy if instruction.subsystem == MemorySpace.LOCAL else 0.0
    return local / every if every else 1.0


# }}}
