"""A kernel under the roofs of a device: the data of the roofline chart.

    P ≤ min(P_peak, I_m · B_m),        I_m = F / D_m        for each memory m

with the performance P (flop/s), the flop F of a launch, the bytes D_m that it moves by way of the memory m, and its
bandwidth B_m. Each memory so has an intensity of its own; that of device memory is the one of Williams et al., the
others are those of the hierarchical roofline (Yang et al.). All is at the clock under load, that of the latencies.

S. Williams, A. Waterman and D. Patterson, Roofline, 2009; C. Yang, T. Kurth and S. Williams, Hierarchical Roofline
Analysis for GPUs, 2020; Lemeire, section 2.1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.lambdas import level_issue
from loopyperf.device.substitutes import completed
from loopyperf.errors import MissingNumberError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.memory.sectors import SECTOR
from loopyperf.models import roofline
from loopyperf.models.analytic import launch_cycles
from loopyperf.models.on_device.demand import LaunchDemand, once
from loopyperf.models.on_device.timing import WAVEFRONT, Timing, notes_of
from loopyperf.models.workload import ISSUE, busy_sides
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.sheet import Sheet, Shown, Table, called
from loopyperf.units import duration, number_of, prefixed

FLOPS: Mapping[str, int] = {
    Opcode.ADD: 1,
    Opcode.MUL: 1,
    Opcode.FMA: 2,
    Opcode.MUFU: 1,
    Opcode.SPECIAL: 1,
    Opcode.DIV: 1,
    Opcode.POW: 1,
}
"""kind of a machine instruction of a floating-point type -> flop of a lane"""
MULTIPLY_ADD = 2
"""flop"""
OF_ALL_LANES = "flop of lanes that a condition turns off count as well"
TOUCHING = 0.1
"""of the time: a memory that is busy so much less is not what bounds; cores with fewer groups make small differences"""


@dataclass(frozen=True, slots=True)
class LaunchUnderRoofs:
    """What a launch does, in all its executions, and how long that takes at least."""

    name: str
    """of the device program"""
    flops: float
    """flop that its machine instructions do; lanes that a condition turns off count as those that it does not"""
    moved: Mapping[str, float]
    """memory -> bytes that are moved by way of it"""
    seconds: float
    """by the model ``roofline``: the core with most groups is busy so long; without what a launch costs"""
    bound: str
    """the subsystem that is busy longest"""
    has_roof: bool = True
    """whether that is what a roof is of: a memory by its bytes, arithmetic or issues; else it lies below all roofs"""

    @property
    def performance(self) -> float:
        """Return what is attainable, in flop/s; 0 for a launch that takes no time, which does nothing."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def intensities(self) -> dict[str, float]:
        """Return memory -> flop for each byte that is moved by way of it."""
        return {memory: self.flops / moved for memory, moved in self.moved.items() if moved}


@dataclass(frozen=True, slots=True, repr=False)
class Roofline(Shown):
    """The roofs of a device, and the launches of a kernel under them."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    bandwidths: Mapping[str, float]
    """memory -> B/s of the whole device, the nearest to the core first; memories of one pipeline are one"""
    peaks: Mapping[str, float]
    """what is limited -> flop/s of the whole device: multiply-adds by type, special functions, issues"""
    launches: tuple[LaunchUnderRoofs, ...]
    """one for each device program, in the order of the program"""
    notes: tuple[str, ...]
    """roofs that the device's description does not state, and what was assumed, in sentences"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    @property
    def below_all_roofs(self) -> str:
        """Return a sentence on the launches that are bound by what no roof is of; empty where there are none."""
        below = [launch for launch in self.launches if launch.flops and not launch.has_roof]
        if not below:
            return ""
        bounds, names = list(dict.fromkeys(launch.bound for launch in below)), [launch.name for launch in below]
        have, lie = "has" if len(bounds) == 1 else "have", "lies" if len(names) == 1 else "lie"
        return f"{' and '.join(bounds)} {have} no roof: {', '.join(names)} {lie} below all of them"

    def sheet(self) -> Sheet:
        """Return the launches with what bounds them, and the roofs."""
        launches, seconds = number_of(len(self.launches), "launch"), sum(launch.seconds for launch in self.launches)
        roofs = [(name, prefixed(each, "B/s")) for name, each in self.bandwidths.items()]
        roofs += [(name, prefixed(each, "flop/s")) for name, each in self.peaks.items()]
        return Sheet(
            asked=f"{called(self.kernel, self.sizes, self.typical)} under the roofs of {self.device}",
            answer=f"{launches}, {duration(seconds)} at least beside what launching takes",
            tables=[
                self._launches(),
                Table(("roof", "at most"), roofs),
            ],
            remarks=list(filter(None, [self.below_all_roofs])),
            notes=self.notes,
        )

    def _launches(self) -> Table:
        """Return the launches with their intensities, or with what they move where none does any flop."""
        found = [(each.name, each.bound, duration(each.seconds)) for each in self.launches]
        headings, memories = ("launch", "bound", "at least"), tuple(self.bandwidths)
        if not any(each.flops for each in self.launches):
            moved = [(*row, *_moved(each, memories)) for row, each in zip(found, self.launches, strict=True)]
            return Table((*headings, *(f"moved, {name}" for name in memories)), moved, text=2)
        rows = [
            (*row, _attainable(each), *_intensities(each, memories))
            for row, each in zip(found, self.launches, strict=True)
        ]
        return Table((*headings, "attainable", *(f"flop/B, {name}" for name in memories)), rows, text=2)


def _moved(launch: LaunchUnderRoofs, memories: Iterable[str]) -> Iterator[str]:
    return (prefixed(launch.moved[memory], "B") if memory in launch.moved else "" for memory in memories)


def _attainable(launch: LaunchUnderRoofs) -> str:
    return prefixed(launch.performance, "flop/s") if launch.seconds else ""


def _intensities(launch: LaunchUnderRoofs, memories: Iterable[str]) -> Iterator[str]:
    found = launch.intensities
    return (f"{found[memory]:.3g}" if memory in found else "" for memory in memories)


def roofline_of(kernel: TimedProgram, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> Roofline:
    """Return the data of the chart of *kernel*, at *sizes* and with *typical* values as they were asked for.

    Raises :class:`MissingNumberError` for a number that the description of the device lacks.
    """
    roofs = _Roofs(kernel.device)
    bandwidths, peaks = roofs.bandwidths(), roofs.peaks()
    launches = tuple(_under_roofs(launch, roofs, bandwidths) for launch in kernel.launches)
    missing = (f"{name} is not described: there is no such roof" for name in roofs.missing)
    notes = [*missing, *notes_of(kernel, ())]
    stated, name, slug = dict(typical or {}), kernel.kernel, kernel.device.slug
    return Roofline(name, dict(sizes), slug, bandwidths, peaks, launches, tuple(notes), stated)


# {{{ the device


class _Roofs:
    """What a device can do, as far as its description states it."""

    def __init__(self, device: Device) -> None:
        self.device, self.timing = completed(device), Timing(device)
        self.missing: dict[str, None] = {}
        self.cycles = device.needed("cores") * device.needed("clock")
        """of all cores in a second"""
        self.levels: dict[str, list[str]] = {}
        """pipeline -> the memories that it serves, the nearest to the core first"""
        for level in self.device.memory:
            self.levels.setdefault(self.timing.pipeline_of(level.name), []).append(level.name)

    def memory(self, level: str) -> str:
        """Return what the memory is called that *level* is, with those whose pipeline it shares."""
        return " and ".join(self.levels[self.timing.pipeline_of(level)])

    def bandwidths(self) -> dict[str, float]:
        """Return memory -> B/s."""
        found: dict[str, float] = {}
        for level in (level for levels in self.levels.values() for level in levels):
            bandwidth = self._stated(f"the bandwidth of {level}", lambda level=level: self._bandwidth(level))
            if bandwidth is not None:
                found[self.memory(level)] = max(bandwidth, found.get(self.memory(level), 0.0))
        return found

    def _bandwidth(self, level: str) -> float:
        if level == "local":
            return WAVEFRONT / self.timing.local_pass * self.cycles
        return self.cycles / float(level_issue(self.device, level, 1))

    def peaks(self) -> dict[str, float]:
        """Return what is limited -> flop/s."""
        lanes, device = self.device.needed("warp_size") * self.cycles, self.device
        asked: dict[str, Callable[[], float]] = {
            "f32 multiply-adds": lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f32"),
            "f64 multiply-adds": lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f64"),
            "special functions": lambda: lanes / device.issue_latency("special", "f32"),
            "issue limit": lambda: MULTIPLY_ADD * lanes * device.needed("issue_limit"),
        }
        found = {name: self._stated(f"the throughput of {name}", peak) for name, peak in asked.items()}
        return {name: peak for name, peak in found.items() if peak is not None}

    def _stated(self, name: str, number: Callable[[], float]) -> float | None:
        try:
            return number()
        except MissingNumberError:
            self.missing[name] = None
            return None


# }}}


# {{{ launches


def _under_roofs(launch: TimedLaunch, roofs: _Roofs, bandwidths: Mapping[str, float]) -> LaunchUnderRoofs:
    groups = launch.all_groups * launch.times
    warps = groups * launch.warps_per_group
    work_items = groups * launch.work_items
    executed = list(launch.executed())
    flops = sum(executions * _flops(each) for executions, each, _ in executed) * work_items
    arithmetic = {each.subsystem for _, each, _ in executed if _flops(each)}
    moved: dict[str, float] = {}
    for level, of_warp in _moved_by_warp(launch):
        memory = roofs.memory(level)
        moved[memory] = moved.get(memory, 0.0) + of_warp * warps
    busy = once(launch, LaunchDemand).busy
    bound = max(busy, key=lambda name: busy[name])
    seconds = launch_cycles(roofline.cycles, launch, busy_sides) * launch.times / launch.device.needed("clock")
    slopes = [moved[memory] / bandwidth for memory, bandwidth in bandwidths.items() if memory in moved]
    return LaunchUnderRoofs(
        name=launch.name,
        flops=flops,
        moved={memory: moved[memory] for memory in map(" and ".join, roofs.levels.values()) if memory in moved},
        seconds=seconds,
        bound=bound,
        has_roof=bound in arithmetic or bound == ISSUE or max(slopes, default=0.0) > (1 - TOUCHING) * seconds,
    )


def _flops(instruction: Instruction) -> int:
    is_counted = instruction.dtype.startswith("f") and not instruction.is_idle
    return FLOPS.get(instruction.kind, 0) if is_counted else 0


def _moved_by_warp(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    """Yield levels of memory, each with bytes that an access of the mean warp moves by way of it."""
    for executions, each, request in launch.requested():
        if request.served is None:
            yield "local", executions * request.wavefronts * WAVEFRONT
        reached = request.reaching(each.kind).items()
        yield from ((level, executions * sectors * SECTOR) for level, sectors in reached if sectors > 0)


# }}}
