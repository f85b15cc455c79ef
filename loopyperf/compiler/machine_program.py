"""Compiler output for a kernel on a device: machine graphs, registers, and resident groups.

A :class:`MachineProgram` is a plain value, like the profile from which it is made. It contains everything of the
profile that later stages need, but no latencies.
"""

import gc
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from loopyperf.compiler import OF_CUDA, OF_GPUS, OF_NVIDIA, Placement, PrivateArray, lowered, private_arrays_of
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
from loopyperf.compiler.spilling import with_spills
from loopyperf.counts.item import MemorySpace
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

if TYPE_CHECKING:
    from loopyperf.compiler.resources import Resources

VOLTA: Capability = (7, 0)
BYTES = 4
"""bytes per register"""
PLACES: Mapping[Placement, bool] = {"registers": False, "stack memory": True}
"""place for all private arrays whose place is uncertain -> whether that is memory"""


@dataclass(frozen=True, kw_only=True)
class MachineLaunch(LaunchProfile):
    """A launch after compilation; the graphs of its warp classes are machine graphs."""

    registers: int
    """32-bit registers per work-item"""
    spilled: int
    """registers per work-item that do not fit and are spilled"""
    unsure: Mapping[str, PrivateArray]
    """private arrays, by name, that may be in registers or in memory"""
    room: Occupancy
    """groups that fit on a core, and the resources that limit them"""
    execution: Execution
    """work of the core with the most groups"""


@dataclass(frozen=True, repr=False)
class MachineProgram(Shown):
    """Compiler output for a kernel on a device.

    Each launch has machine graphs for its warp classes, registers and spills per work-item, and the number of groups
    that reside on a core at once.
    """

    kernel: str
    """kernel name"""
    sizes: Mapping[str, int]
    """given problem sizes"""
    device: str
    """short name of the device"""
    placement: Placement
    """assumed place of private arrays whose place is uncertain"""
    launches: tuple[MachineLaunch, ...]
    """launches that execute instructions, in program order"""
    launched: tuple[tuple[str, int], ...]
    """(name of launch, number of executions); 0 executions for a launch without instructions"""
    compiled: "Mapping[str, Resources] | None" = None
    """resources that a real compiler reported for launches, by name; None for the compiler model"""
    notes: tuple[str, ...] = ()
    """notes on the compilation"""

    @property
    def unsure(self) -> Mapping[str, PrivateArray]:
        """Return the private arrays of all launches that may be in registers or in memory, by name."""
        return {name: array for launch in self.launches for name, array in launch.unsure.items()}

    @property
    def alternatives(self) -> tuple[Placement, ...]:
        """Return the other places for uncertain arrays: all in registers or all in memory.

        The result is empty if no array is uncertain. It has two places if this program has some of the arrays in
        registers and others in memory.
        """
        here = {array.is_in_memory_by(self.placement) for array in self.unsure.values()}
        return tuple(place for place, has in PLACES.items() if not here <= {has})

    def report_text(self) -> ReportText:
        """Return registers, resident groups and their limit for each launch."""
        rows = [
            (
                launch.name,
                f"{sum(len(warp_class.graph.instructions) for warp_class in launch.classes):,}",
                str(launch.registers),
                str(launch.spilled),
                str(launch.execution.concurrent_groups),
                " and ".join(launch.room.bound_by),
            )
            for launch in self.launches
        ]
        headings = ("launch", "instructions", "registers", "spilled", "resident groups", "limited by")
        arrays = (f"{each.name} is {each.home}: {each.reason}" for each in self.unsure.values())
        return ReportText(
            question=called(self.kernel, self.sizes),
            answer=f"{number_of(len(self.launches), 'launch')}, compiled for {self.device}",
            tables=[Table(headings, rows, last=1)],
            remarks=list(arrays),
        )


def compile_profile(
    profile: KernelProfile,
    device: Device,
    placement: Placement = "likelier",
    concurrent_groups: int | None = None,
    compiled: "Mapping[str, Resources] | None" = None,
) -> MachineProgram:
    """Return the compiler's output for a kernel on *device*.

    *placement* is the assumed place of private arrays whose place is uncertain. *concurrent_groups* groups reside on a
    core at once; None stands for as many as fit. *compiled* has the resources that a real compiler reported for
    launches, by name: registers, spills and local memory, and the place of private arrays as far as the report
    determines it.

    Raises :class:`MissingNumberError` for a missing device parameter, :class:`OccupancyError` if a group does not fit
    on a core or *concurrent_groups* is out of range, and :class:`UncountableError` if local memory depends on a
    parameter.
    """
    known, executed = completed(device), [launch for launch in profile.launches if launch.classes]
    with check_64_bit(profile.sizes), _uncollected():
        launches = tuple(
            _compile_launch(
                each, known, placement, concurrent_groups, _left_out(profile, known), (compiled or {}).get(each.name)
            )
            for each in executed
        )
    launched = tuple((each.name, each.times) for each in profile.launches)
    return MachineProgram(profile.kernel, profile.sizes, device.slug, placement, launches, launched, compiled)


def _left_out(profile: KernelProfile, device: Device) -> frozenset[str]:
    """Return the passes that the compiler for this language and *device* does not have."""
    if device.lanes == Lanes.IN_TURN:
        return OF_GPUS | OF_NVIDIA
    if device.vendor != "NVIDIA":
        return OF_NVIDIA
    return OF_CUDA if profile.is_opencl else frozenset()


@contextmanager
def _uncollected() -> Generator[None]:
    """Disable garbage collection: graphs have no cycles, and the search for cycles takes up to half of the time.

    If several threads use this at once, the first to finish enables collection again.
    """
    is_collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collected:
            gc.enable()


def _compile_launch(
    launch: LaunchProfile,
    device: Device,
    placement: Placement,
    concurrent_groups: int | None,
    leave_out: frozenset[str] = frozenset(),
    compiled: "Resources | None" = None,
) -> MachineLaunch:
    """Return *launch* as compiled without the passes in *leave_out*; see :func:`compile_profile`."""
    local_memory = launch.local_memory if compiled is None else compiled.local_memory
    if local_memory is None:
        raise UncountableError(f"local memory of {launch.name} depends on a parameter; use loopy.fix_parameters")
    capability, file = device.capability or HOPPER, _register_file(device, launch.work_items, local_memory, compiled)
    arrays = private_arrays_of((kind.graph for kind in launch.classes), capability, file.most)
    if compiled is not None:
        placed = placed_by_stack(arrays, compiled.stack_frame, compiled.spill_stores)
        arrays = tuple(map(by_another, arrays, placed)) if compiled.is_by_another else placed
    in_memory = frozenset(array.name for array in arrays if array.is_in_memory_by(placement))
    unsure = {array.name: array for array in arrays if array.is_unsure}
    described = _described(device)
    low = partial(lowered, leave_out=leave_out, capability=capability, in_memory=in_memory, described=described)
    graphs, places = distinct([warp_class.graph for warp_class in launch.classes])
    ordered = [_ordered(low(each), launch.work_items, file) for each in graphs]
    spills = compiled is None or compiled.spill_stores > 0
    with_stacks = [with_spills(lives, each.room) if spills else (lives.graph, 0) for lives, each, _ in ordered]
    registers, spilled = _taken([each for _, each, _ in ordered], compiled)
    room = occupancy(device, launch.work_items, registers, local_memory)
    pairs = zip(with_stacks, ordered, strict=True)
    machine = [with_scheduled_loads(graph, registers=left) for (graph, _), (_, _, left) in pairs]
    assumed = [*launch.assumed, *_assumed(unsure, in_memory, max(nbytes for _, nbytes in with_stacks))]
    assumed += _of_constant_memory([instruction for graph in machine for instruction in graph.instructions])
    instructions = [instruction for graph in graphs for instruction in graph.instructions]
    if "function sequences" not in leave_out:
        made = [instruction for instruction in instructions if not is_known_function(instruction, described)]
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


def _taken(estimated: Collection[Registers], compiled: "Resources | None") -> tuple[int, int]:
    """Return registers and spilled registers per work-item."""
    if compiled is not None:
        return compiled.registers, -(-compiled.spill_stores // BYTES)
    return max(each.allocated for each in estimated), max(each.spilled for each in estimated)


def _ordered(graph: Idg, work_items: int, file: RegisterFile) -> tuple[Lives, Registers, int]:
    """Return live values in execution order, the registers they need, and the registers left for load scheduling.

    The new order is used only if values would spill in program order. Its register count is used in any case, because
    ptxas also reorders, about as well, where fewer registers let more groups reside.
    """
    lives, without_waiting = Lives(graph), registers_without_waiting(graph)
    reordered = with_few_registers(lives)
    found, own = (registers_of(each, without_waiting, work_items, file) for each in (reordered, lives))
    return (reordered, found, found.left) if own.spilled else (lives, found, min(own.left, found.left))


def _assumed(unsure: Collection[str], in_memory: Collection[str], spilled: int) -> Iterator[Assumed]:
    for name in unsure:
        home = "memory" if name in in_memory else "registers"
        yield Assumption(f"private array {SUBJECTS} may be in registers or memory; assumed in {home}", name, name)
    if spilled:
        yield f"too few registers; each work-item spills {spilled} bytes to local (stack) memory"


def _of_constant_memory(instructions: Collection[Instruction]) -> Iterator[Assumed]:
    """Yield the assumptions about loads through the constant cache, whose size and times are not published."""
    for name in dict.fromkeys(each.reference.array for each in instructions if each.subsystem == MemorySpace.CONSTANT):
        sentence = f"loads of {SUBJECTS} from constant memory assumed to hit its cache, as fast as local memory"
        yield Assumption(sentence, name, name)


def _of_sequences(device: Device, instructions: Collection[Instruction], capability: Capability) -> Iterator[str]:
    """Yield the assumptions about sequences for functions and divisions."""
    is_measured = device.vendor == "NVIDIA" and capability >= VOLTA
    if not is_measured and any(sequence_of(instruction, capability) for instruction in instructions):
        yield f"functions and divisions on {device.slug} are assumed to compile to the same instructions as on Volta"
    if any(instruction.kind == Opcode.POWI and exponent_of(instruction) is None for instruction in instructions):
        yield "integer powers with exponents read from data are timed with exponent 5"


def _described(device: Device) -> frozenset[str]:
    """Return the instructions, e.g. ``"div f64"``, with both latencies among the parameters of *device*.

    Instructions faster than a reciprocal, such as a division with fast math, are excluded: nvcc does not generate them
    by default.
    """
    try:
        least = device.issue_latency("special", "f32")
    except MissingNumberError:
        least = 0.0
    return frozenset(
        instruction.name
        for instruction in device.instructions
        if instruction.issue is not None and instruction.completion is not None and instruction.issue >= least
        if not any(isinstance(instruction.source(field), Substitute) for field in LATENCY_FIELDS)
    )


def _execution(launch: LaunchProfile, device: Device, room: Occupancy, concurrent_groups: int | None) -> Execution:
    """Return the work of the core with the most groups, of which *concurrent_groups* reside at once."""
    found = execution_on(room, launch.groups, device.needed("cores"))
    if concurrent_groups is None:
        return found
    if not 1 <= concurrent_groups <= room.groups:
        raise OccupancyError(
            f"concurrent_groups must be 1 to {room.groups} for {launch.name} on {device.slug!r} "
            f"(limited by {' and '.join(room.bound_by)}), got {concurrent_groups}"
        )
    return replace(found, concurrent_groups=concurrent_groups)


def _register_file(device: Device, work_items: int, local_memory: int, compiled: "Resources | None") -> RegisterFile:
    """Return the register file of a core; unknown numbers are those of NVIDIA GPUs.

    If a compiler reported spills, its register count is the limit.
    """
    limits = device.limits
    most = limits.registers_per_work_item or NVIDIA.most
    if compiled is not None and compiled.spill_stores:
        most = compiled.registers
    steps = register_steps(device, work_items, local_memory, most)
    may_be_scarce = compiled is None and device.vendor == "NVIDIA"
    return RegisterFile(limits.registers or NVIDIA.size, most, steps, may_be_scarce)
