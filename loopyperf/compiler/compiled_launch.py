"""What a compiler makes of a launch for a device: machine graphs, registers, and how many groups reside at once."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from loopyperf.compiler import OF_GPUS, Placement, PrivateArray, lowered, private_arrays_of
from loopyperf.compiler.early_loads import with_early_loads
from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.compiler.functions import exponent_of, is_described, sequence_of
from loopyperf.compiler.register_pressure import with_few_registers
from loopyperf.compiler.registers import NVIDIA, RegisterFile, Registers, estimated_registers
from loopyperf.compiler.spilling import with_spills
from loopyperf.device.description import LATENCY_FIELDS, Device
from loopyperf.device.occupancy import Execution, Occupancy, execution_on, occupancy
from loopyperf.device.parts import Lanes, Substitute
from loopyperf.errors import MissingNumberError, OccupancyError, UncountableError
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.launches import SUBJECTS, Assumed, Assumption
from loopyperf.memory.kernel_profile import LaunchProfile

VOLTA: Capability = (7, 0)


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A launch as the compiler is expected to leave it."""

    machine: Mapping[int, Idg]
    """kind of warps -> what the compiler makes of its graph"""
    registers: int
    """of 32 bits, that a work-item is expected to have"""
    spilled: int
    """registers of a work-item that it is expected to need beyond them"""
    unsure: Mapping[str, PrivateArray]
    """the private arrays of which it is unsure where they live, by name"""
    room: Occupancy
    """that the core has for groups, and the resources that have no room for another"""
    execution: Execution
    assumed: tuple[Assumed, ...]


def compiled(
    launch: LaunchProfile, device: Device, placement: Placement, concurrent_groups: int | None = None
) -> CompiledLaunch:
    """Return what the compiler makes of *launch* for *device*.

    Raises :class:`OccupancyError` for a group that fits on no core, and for more *concurrent_groups* than do,
    :class:`UncountableError` where its local memory depends on a parameter.
    """
    if launch.local_memory is None:
        raise UncountableError(f"how much local memory {launch.name} takes depends on a parameter")
    capability, file = _capability(device), _register_file(device)
    arrays = private_arrays_of((kind.graph for kind in launch.classes), capability, file.most)
    in_memory = frozenset(each.name for each in arrays if each.is_in_memory_by(placement))
    unsure = {each.name: each for each in arrays if each.is_unsure}

    def estimated(graph: Idg) -> Registers:
        return estimated_registers(graph, launch.work_items, file)

    described = _described(device)
    leave_out = OF_GPUS if device.lanes == Lanes.IN_TURN else frozenset[str]()
    graphs = [
        lowered(each.graph, leave_out, capability, in_memory=in_memory, described=described) for each in launch.classes
    ]
    ordered = [_ordered(graph, estimated) for graph in graphs]
    found = [each for _, each, _ in ordered]
    with_stacks = [with_spills(graph, each.room) for graph, each, _ in ordered]
    registers = max(each.allocated for each in found)
    spilled = max(each.spilled for each in found)
    room = occupancy(device, launch.work_items, registers, launch.local_memory)
    execution = execution_on(room, launch.groups, device.needed("cores"))
    if concurrent_groups is not None:
        _check_room(room, concurrent_groups, launch.name, device)
        execution = replace(execution, concurrent_groups=concurrent_groups)
    pairs = enumerate(zip(with_stacks, ordered, strict=True))
    machine = {kind: with_early_loads(graph, registers=left) for kind, ((graph, _), (_, _, left)) in pairs}
    assumed = list(_assumed(unsure, in_memory, max(nbytes for _, nbytes in with_stacks)))
    instructions = [each for kind in launch.classes for each in kind.graph.instructions]
    if not leave_out:
        made = [each for each in instructions if not is_described(each, described)]
        assumed += _of_sequences(device, made, capability)
    return CompiledLaunch(machine, registers, spilled, unsure, room, execution, tuple(assumed))


def _ordered(graph: Idg, estimated: Callable[[Idg], Registers]) -> tuple[Idg, Registers, int]:
    """Return *graph* in the order of its execution, the registers that it takes, and those left for early loads.

    Instructions are moved where they do not fit otherwise; where fewer registers let more groups in, about as well.
    """
    reordered = with_few_registers(graph)
    found = estimated(reordered)
    own = found if reordered is graph else estimated(graph)
    return (reordered, found, found.left) if own.spilled else (graph, found, min(own.left, found.left))


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


def _check_room(room: Occupancy, concurrent_groups: int, name: str, device: Device) -> None:
    if not 1 <= concurrent_groups <= room.groups:
        raise OccupancyError(
            f"concurrent_groups is {concurrent_groups}: from 1 to {room.groups} groups of {name} "
            f"reside on a core of {device.slug!r} at once, limited by {' and '.join(room.bound_by)}"
        )


def _register_file(device: Device) -> RegisterFile:
    """Return what the description says of the registers of a core; where it says nothing, as NVIDIA's."""
    limits = device.limits
    return RegisterFile(limits.registers or NVIDIA.size, limits.registers_per_work_item or NVIDIA.most)


def _capability(device: Device) -> Capability:
    """Return the compute capability of *device*; of others than NVIDIA's, that of Hopper."""
    major, dot, minor = device.target.partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else HOPPER
