"""What a compiler makes of a kernel for a device: machine graphs, registers, and how many groups reside at once.

A :class:`MachineProgram` is plain, as the profile is that it is made from. It has all of the profile that later stages
need; latencies are not in it.
"""

import gc
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from loopyperf.compiler import OF_CUDA, OF_GPUS, Placement, PrivateArray, lowered, private_arrays_of
from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.compiler.functions import exponent_of, is_known_function, sequence_of
from loopyperf.compiler.private_arrays import by_another, placed_by_stack
from loopyperf.compiler.registers import (
    NVIDIA,
    RegisterFile,
    Registers,
    registers_of,
    registers_without_waiting,
    with_few_registers,
    with_scheduled_loads,
)
from loopyperf.compiler.resources import Resources
from loopyperf.compiler.spilling import with_spills
from loopyperf.counts.sizes import check_64_bit
from loopyperf.device.description import LATENCY_FIELDS, Device
from loopyperf.device.occupancy import Execution, Occupancy, execution_on, occupancy, register_steps
from loopyperf.device.parts import Lanes, Substitute
from loopyperf.device.substitutes import completed
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.errors import MissingNumberError, OccupancyError, UncountableError
from loopyperf.idg.graph import Idg, distinct
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.launches import SUBJECTS, Assumed, Assumption
from loopyperf.memory.kernel_profile import KernelProfile, LaunchProfile
from loopyperf.units import number_of

VOLTA: Capability = (7, 0)
BYTES = 4
"""of a register"""
PLACES: Mapping[Placement, bool] = {"registers": False, "private memory": True}
"""where all private arrays may live whose place is unsure, and whether that is in memory"""


@dataclass(frozen=True, kw_only=True)
class MachineLaunch(LaunchProfile):
    """What a launch does as the compiler is expected to leave it: the graphs of its warp classes are machine graphs."""

    registers: int
    """of 32 bits, that a work-item has"""
    spilled: int
    """registers of a work-item that it needs beyond them"""
    unsure: Mapping[str, PrivateArray]
    """the private arrays of which it is unsure where they live, by name"""
    room: Occupancy
    """that the core has for groups, and the resources that have no room for another"""
    execution: Execution
    """of the core with most groups"""


@dataclass(frozen=True, repr=False)
class MachineProgram(Shown):
    """What a compiler makes of a kernel for a device: machine graphs, registers, and how many groups reside at once."""

    kernel: str
    """its name"""
    sizes: Mapping[str, int]
    """of the kernel, those that are given"""
    device: str
    """its short name"""
    placement: Placement
    """where private arrays live of which that is unsure"""
    launches: tuple[MachineLaunch, ...]
    """those that execute anything, in the order of the program"""
    launched: tuple[tuple[str, int], ...]
    """name of each launch -> how often it is executed; 0 where it executes nothing"""

    @property
    def unsure(self) -> Mapping[str, PrivateArray]:
        """Return the private arrays of all launches of which it is unsure where they live, by name."""
        return {name: array for launch in self.launches for name, array in launch.unsure.items()}

    @property
    def alternatives(self) -> tuple[Placement, ...]:
        """Return where these arrays may live instead, all in registers or all in memory.

        There are none where it is sure of all arrays; there are two where some likelier are here, and others there.
        """
        here = {array.is_in_memory_by(self.placement) for array in self.unsure.values()}
        return tuple(place for place, has in PLACES.items() if not here <= {has})

    def report_text(self) -> ReportText:
        """Return the registers of each launch, how many groups reside at once, and what limits that."""
        rows = [
            (
                launch.name,
                f"{sum(len(each.graph.instructions) for each in launch.classes):,}",
                str(launch.registers),
                str(launch.spilled),
                str(launch.execution.concurrent_groups),
                " and ".join(launch.room.bound_by),
            )
            for launch in self.launches
        ]
        headings = ("launch", "instructions", "registers", "spilled", "groups at once", "limited by")
        arrays = (f"{each.name} is {each.home}: {each.reason}" for each in self.unsure.values())
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{number_of(len(self.launches), 'launch')}, compiled for {self.device}",
            tables=[Table(headings, rows, last=1)],
            remarks=list(arrays),
        )


def compiled_program(
    profile: KernelProfile,
    device: Device,
    placement: Placement = "likelier",
    concurrent_groups: int | None = None,
    compiled: Mapping[str, Resources] | None = None,
) -> MachineProgram:
    """Return what the compiler makes of a kernel for *device*.

    *placement* is where private arrays live of which that is unsure. *concurrent_groups* reside on a core at once, as
    if something else took the rest of the room; all that fit where it is None. *compiled* is what a compiler has made
    of launches, by name: it tells registers, spills and local memory, and as far as it can where private arrays live.

    Raises :class:`MissingNumberError` for a number that the device's description does not state,
    :class:`OccupancyError` for a group that fits on no core, and for more *concurrent_groups* than do, and
    :class:`UncountableError` where local memory depends on a parameter.
    """
    known, executed = completed(device), [launch for launch in profile.launches if launch.classes]
    with check_64_bit(profile.sizes), _uncollected():
        launches = tuple(
            machine_launch(
                each, known, placement, concurrent_groups, _left_out(profile, known), (compiled or {}).get(each.name)
            )
            for each in executed
        )
    launched = tuple((each.name, each.times) for each in profile.launches)
    return MachineProgram(profile.kernel, profile.sizes, device.slug, placement, launches, launched)


def _left_out(profile: KernelProfile, device: Device) -> frozenset[str]:
    """Return the passes that the compiler of the kernel's language for *device* does not do."""
    if device.lanes == Lanes.IN_TURN:
        return OF_GPUS
    return OF_CUDA if profile.is_opencl and device.vendor == "NVIDIA" else frozenset()


@contextmanager
def _uncollected() -> Generator[None]:
    """Let no garbage be collected: graphs have no cycles, and looking for some takes up to half of the time.

    Where several threads do so at once, collection goes on when the first of them is done.
    """
    is_collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collected:
            gc.enable()


def machine_launch(
    launch: LaunchProfile,
    device: Device,
    placement: Placement,
    concurrent_groups: int | None,
    leave_out: frozenset[str] = frozenset(),
    compiled: Resources | None = None,
) -> MachineLaunch:
    """Return what a compiler that does not do *leave_out* makes of *launch*; see :func:`compiled_program`."""
    local_memory = launch.local_memory if compiled is None else compiled.local_memory
    if local_memory is None:
        raise UncountableError(f"how much local memory {launch.name} takes depends on a parameter")
    capability, file = _capability(device), _register_file(device, launch.work_items, local_memory, compiled)
    arrays = private_arrays_of((kind.graph for kind in launch.classes), capability, file.most)
    if compiled is not None:
        placed = placed_by_stack(arrays, compiled.stack_frame, compiled.spill_stores)
        arrays = tuple(map(by_another, arrays, placed)) if compiled.is_by_another else placed
    in_memory = frozenset(each.name for each in arrays if each.is_in_memory_by(placement))
    unsure = {each.name: each for each in arrays if each.is_unsure}
    described = _described(device)
    low = partial(lowered, leave_out=leave_out, capability=capability, in_memory=in_memory, described=described)
    graphs, places = distinct([each.graph for each in launch.classes])
    ordered = [_ordered(low(each), launch.work_items, file) for each in graphs]
    spills = compiled is None or compiled.spill_stores > 0
    with_stacks = [with_spills(lives, each.room) if spills else (lives.graph, 0) for lives, each, _ in ordered]
    registers, spilled = _taken([each for _, each, _ in ordered], compiled)
    room = occupancy(device, launch.work_items, registers, local_memory)
    pairs = zip(with_stacks, ordered, strict=True)
    machine = [with_scheduled_loads(graph, registers=left) for (graph, _), (_, _, left) in pairs]
    assumed = [*launch.assumed, *_assumed(unsure, in_memory, max(nbytes for _, nbytes in with_stacks))]
    instructions = [each for graph in graphs for each in graph.instructions]
    if "function sequences" not in leave_out:
        made = [each for each in instructions if not is_known_function(each, described)]
        assumed += _of_sequences(device, made, capability)
    return MachineLaunch(
        name=launch.name,
        classes=tuple(replace(each, graph=machine[at]) for each, at in zip(launch.classes, places, strict=True)),
        grid=launch.grid,
        local_memory=local_memory,
        dispatch=launch.dispatch,
        footprints=launch.footprints,
        assumed=tuple(assumed),
        registers=registers,
        spilled=spilled,
        unsure=unsure,
        room=room,
        execution=_execution(launch, device, room, concurrent_groups),
    )


def _taken(estimated: Collection[Registers], compiled: Resources | None) -> tuple[int, int]:
    """Return the registers of a work-item, and how many it needs beyond them."""
    if compiled is not None:
        return compiled.registers, -(-compiled.spill_stores // BYTES)
    return max(each.allocated for each in estimated), max(each.spilled for each in estimated)


def _ordered(graph: Idg, work_items: int, file: RegisterFile) -> tuple[Lives, Registers, int]:
    """Return values in the order of execution of *graph*, the registers they take, and those left for early loads.

    Instructions are moved where they do not fit otherwise; where fewer registers let more groups in, about as well.
    """
    lives, without_waiting = Lives(graph), registers_without_waiting(graph)
    reordered = with_few_registers(lives)
    found, own = (registers_of(each, without_waiting, work_items, file) for each in (reordered, lives))
    return (reordered, found, found.left) if own.spilled else (lives, found, min(own.left, found.left))


def _assumed(unsure: Collection[str], in_memory: Collection[str], spilled: int) -> Iterator[Assumed]:
    for name in unsure:
        home = "memory" if name in in_memory else "registers"
        yield Assumption(f"where the private array {SUBJECTS} is, is not sure: taken as in {home}", name, name)
    if spilled:
        yield f"registers do not suffice: a work-item spills {spilled} bytes to local (stack) memory"


def _of_sequences(device: Device, instructions: Collection[Instruction], capability: Capability) -> Iterator[str]:
    """Yield what is assumed of functions and divisions, which are sequences of instructions."""
    is_measured = device.vendor == "NVIDIA" and capability >= VOLTA
    if not is_measured and any(sequence_of(each, capability) for each in instructions):
        yield f"functions and divisions on {device.slug} are assumed to be the instructions that they are on Volta"
    if any(each.kind == Opcode.POWI and exponent_of(each) is None for each in instructions):
        yield "integer powers whose exponents are data are timed as with the exponent 5"


def _described(device: Device) -> frozenset[str]:
    """Return the instructions of whose latencies the description of *device* tells both, e.g. ``"div f64"``.

    What takes less than a reciprocal, as a division with fast math may, is none of what nvcc makes without.
    """
    try:
        least = device.issue_latency("special", "f32")
    except MissingNumberError:
        least = 0.0
    return frozenset(
        each.name
        for each in device.instructions
        if each.issue is not None and each.completion is not None and each.issue >= least
        if not any(isinstance(each.source(field), Substitute) for field in LATENCY_FIELDS)
    )


def _execution(launch: LaunchProfile, device: Device, room: Occupancy, concurrent_groups: int | None) -> Execution:
    """Return what the core with most groups executes, of which *concurrent_groups* reside at once."""
    found = execution_on(room, launch.groups, device.needed("cores"))
    if concurrent_groups is None:
        return found
    if not 1 <= concurrent_groups <= room.groups:
        raise OccupancyError(
            f"concurrent_groups is {concurrent_groups}: from 1 to {room.groups} groups of {launch.name} "
            f"reside on a core of {device.slug!r} at once, limited by {' and '.join(room.bound_by)}"
        )
    return replace(found, concurrent_groups=concurrent_groups)


def _register_file(device: Device, work_items: int, local_memory: int, compiled: Resources | None) -> RegisterFile:
    """Return what the description says of the registers of a core; where it says nothing, as NVIDIA's.

    Where a compiler has spilled, a work-item has no more than it then has.
    """
    limits = device.limits
    most = limits.registers_per_work_item or NVIDIA.most
    if compiled is not None and compiled.spill_stores:
        most = compiled.registers
    steps = register_steps(device, work_items, local_memory, most)
    return RegisterFile(limits.registers or NVIDIA.size, most, steps)


def _capability(device: Device) -> Capability:
    """Return the compute capability of *device*; of others than NVIDIA's, that of Hopper."""
    major, dot, minor = device.target.partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else HOPPER
