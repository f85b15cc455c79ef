"""Features of a kernel that are known without its device: from machine graphs, addresses, and property counts.

Ratios and shares are as they are; what spans orders of magnitude is ln(1 + x). Of several launches each counts by its
share of all instructions that are executed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log, log1p

from loopyperf.compiler import lowered
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics import ilp, mlp
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.memory.kernel_profile import KernelProfile, LaunchProfile
from loopyperf.memory.sectors import SECTOR
from loopyperf.models.features import Features
from loopyperf.models.on_device.demand import MEMORY, is_floating_point, is_memory
from loopyperf.models.on_device.timed_launch import TimedLaunch
from loopyperf.models.on_device.warp_accesses import WarpAccesses
from loopyperf.models.pipeline_names import LAUNCHES

ALONE = (LAUNCHES, "work-groups")
"""properties that are of no group"""


@dataclass(frozen=True)
class WarpProgram:
    """The machine graph of one kind of warps."""

    graph: Idg
    accesses: WarpAccesses
    share: float
    """of all warps of the launch"""


@dataclass(frozen=True)
class LaunchPrograms:
    """A launch with a program for each kind of its warps."""

    launch: LaunchProfile
    programs: tuple[WarpProgram, ...]

    @classmethod
    def lowered(cls, launch: LaunchProfile) -> "LaunchPrograms":
        """Return the programs of *launch* as the compiler makes them for no device in particular."""
        warps = sum(kind.warps for kind in launch.classes)
        graphs = [(kind, lowered(kind.graph)) for kind in launch.classes]
        return cls(
            launch, tuple(WarpProgram(graph, WarpAccesses(kind, graph), kind.warps / warps) for kind, graph in graphs)
        )

    @classmethod
    def timed(cls, timed: TimedLaunch) -> "LaunchPrograms":
        """Return the programs of a launch on its device."""
        programs = (
            WarpProgram(timed.machine[kind], timed.accesses[kind], share) for kind, share in timed.shares.items()
        )
        return cls(timed.launch, tuple(programs))

    def executed(self) -> Iterator[tuple[float, WarpProgram, int, Instruction]]:
        """Yield how often a warp executes each instruction on average, and its program, place and self."""
        for program in self.programs:
            for place, each in enumerate(program.graph.instructions):
                yield program.share * float(each.executions), program, place, each

    @property
    def instructions(self) -> float:
        """Return how many instructions all warps execute."""
        warps = self.launch.groups * self.launch.warps_per_group * self.launch.times
        return warps * sum(executions for executions, _, _, _ in self.executed())


def graph_features(launches: Iterable[LaunchPrograms]) -> Features:
    """Return what the graphs of a kernel's *launches* tell; nothing where there are none."""
    every = tuple(launches)
    whole = sum(each.instructions for each in every)
    told: dict[str, float] = {}
    amounts: dict[str, float] = {}
    for each in every:
        weight = each.instructions / whole
        for sums, found in ((told, _told(each)), (amounts, _mix(each))):
            for name, value in found:
                sums[name] = sums.get(name, 0.0) + weight * value
    return Features(told, amounts)


def launches_of(profile: KernelProfile) -> tuple[LaunchPrograms, ...]:
    """Return the launches of *graphs* that execute anything, lowered for no device in particular."""
    return tuple(LaunchPrograms.lowered(launch) for launch in profile.launches if launch.classes)


def counted_features(counts: Mapping[str, float], groups: int) -> Features:
    """Return how much of each property one of so many work-groups has, given the *counts* of all of them."""
    each = {name: count / max(groups, 1) for name, count in counts.items() if name not in ALONE}
    return Features({"groups": log1p(groups)}, {f"{name} in a group": log1p(count) for name, count in each.items()})


def _told(launch: LaunchPrograms) -> Iterator[tuple[str, float]]:
    warps = launch.launch.warps_per_group
    yield "warps of a group", log1p(warps)
    yield "work-items of a group", log1p(launch.launch.work_items)
    yield "local memory", log1p((launch.launch.local_memory or 0) / 1024)
    yield "kinds of warps", log1p(len(launch.programs))
    yield "machine code", log1p(max(len(each.graph.instructions) for each in launch.programs))
    number = sum(executions for executions, _, _, _ in launch.executed())
    in_memory = sum(executions for executions, _, _, each in launch.executed() if is_memory(each))
    arithmetic = sum(executions for executions, _, _, each in launch.executed() if is_floating_point(each))
    yield "instructions", log1p(number)
    yield "compute intensity", log1p((number - in_memory) / in_memory) if in_memory else log1p(number)
    yield "floating-point intensity", log1p(arithmetic / in_memory) if in_memory else log1p(arithmetic)
    yield "ILP", log(_mean((each.share, float(ilp(each.graph))) for each in launch.programs))
    yield "MLP", log(_mean((each.share, float(mlp(each.graph, MEMORY))) for each in launch.programs))
    for name, quantity in REQUESTS.items():
        requests = (
            (executions, quantity(program.accesses, place, each))
            for executions, program, place, each in launch.executed()
            if is_memory(each)
        )
        yield name, log1p(_mean(requests))


def _mix(launch: LaunchPrograms) -> Iterator[tuple[str, float]]:
    """Yield the share of each sort of instructions."""
    sorts: dict[str, float] = {}
    for executions, _, _, each in launch.executed():
        sorts[_sort(each)] = sorts.get(_sort(each), 0.0) + executions
    whole = sum(sorts.values())
    yield from ((f"share of {sort}", number / whole) for sort, number in sorts.items())


def _sort(instruction: Instruction) -> str:
    """Return what sort of instruction it is: an access by its memory, arithmetic by its kind and type."""
    if instruction.is_idle:
        return "predicated off"
    if instruction.kind in (Opcode.LOAD, Opcode.STORE):
        return f"{instruction.subsystem} {instruction.kind}"
    return f"{instruction.dtype} {instruction.kind}" if instruction.dtype.startswith("f") else instruction.kind


# {{{ requests


def _sectors(accesses: WarpAccesses, place: int, _: Instruction) -> float:
    return accesses.asked(place).sectors


def _over_fewest(accesses: WarpAccesses, place: int, instruction: Instruction) -> float:
    """Return the sectors over those of a full warp for neighbouring elements."""
    lanes = accesses.warps.example.size
    return _sectors(accesses, place, instruction) / (lanes * instruction.bits / 8 / SECTOR)


def _lines(accesses: WarpAccesses, place: int, _: Instruction) -> float:
    return accesses.asked(place).lines


REQUESTS: Mapping[str, Callable[[WarpAccesses, int, Instruction], float]] = {
    "sectors of a request": _sectors,
    "sectors over fewest": _over_fewest,
    "lines of a request": _lines,
}
"""what a request for memory beyond the core asks for, on average"""


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values by their weights, 0 where there are none."""
    every = list(values)
    whole = sum(weight for weight, _ in every)
    return sum(weight * value for weight, value in every) / whole if whole else 0.0


# }}}
