"""What a compiler makes of a launch for a device: machine graphs, registers, and how many groups reside at once."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from loopyperf.device.description import Device
from loopyperf.device.occupancy import Occupancy, occupancy
from loopyperf.errors import OccupancyError, UncountableError
from loopyperf.idg.construction.kernel_graphs import LaunchGraphs
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering import OF_GPUS, Placement, PrivateArray, lowered, private_arrays_of
from loopyperf.idg.lowering.early_loads import with_early_loads
from loopyperf.idg.lowering.entry import HOPPER, Capability
from loopyperf.idg.lowering.reloading import with_reloads
from loopyperf.idg.metrics.registers import NVIDIA, RegisterFile, Registers, estimated_registers
from loopyperf.models.on_device.batches import Batches
from loopyperf.pipeline.execution import Execution, execution_on


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A launch as the compiler is expected to leave it."""

    machine: Mapping[int, Idg]
    """program (:class:`Batches`) -> what the compiler makes of its graph"""
    registers: int
    """of 32 bits, that a work-item is expected to have"""
    spilled: int
    """registers of a work-item that it is expected to need beyond them"""
    unsure: Mapping[str, PrivateArray]
    """the private arrays of which it is unsure where they live, by name"""
    room: Occupancy
    """that the core has for groups, and the resources that have no room for another"""
    execution: Execution
    notes: tuple[str, ...]
    """what was assumed, in sentences"""


def compiled(
    launch: LaunchGraphs, device: Device, placement: Placement, concurrent_groups: int | None = None
) -> CompiledLaunch:
    """Return what the compiler makes of *launch* for *device*.

    Raises :class:`OccupancyError` for a group that fits on no core, and for more *concurrent_groups* than do,
    :class:`UncountableError` where its local memory depends on a parameter.
    """
    if launch.local_memory is None:
        raise UncountableError(f"how much local memory {launch.name} takes depends on a parameter")
    capability, file = _capability(device), _register_file(device)
    arrays = private_arrays_of((kind.graph for kind in launch.kinds), capability, file.most)
    in_memory = frozenset(each.name for each in arrays if each.is_in_memory_by(placement))
    unsure = {each.name: each for each in arrays if each.is_unsure}

    def estimated(graph: Idg) -> Registers:
        return estimated_registers(graph, launch.work_items, file)

    leave_out = OF_GPUS if device.lanes == "in turn" else frozenset[str]()
    programs: dict[int, Idg] = {}
    for kind, each in enumerate(Batches(launch).programs):
        graph = lowered(each.graph, leave_out, capability, in_memory=in_memory)
        programs[kind] = _with_spills(graph, estimated)
    found = {kind: estimated(graph) for kind, graph in programs.items()}
    of_classes = [found[kind] for kind in range(len(launch.kinds))]
    registers = max(each.allocated for each in of_classes)
    spilled = max(0, max(each.needed for each in of_classes) - registers)
    room = occupancy(device, launch.work_items, registers, launch.local_memory)
    execution = execution_on(room, launch.groups, device.cores)
    if concurrent_groups is not None:
        _check_room(room, concurrent_groups, launch.name, device)
        execution = replace(execution, concurrent_groups=concurrent_groups)
    machine = {kind: with_early_loads(graph, registers=found[kind].left) for kind, graph in programs.items()}
    notes = tuple(_assumed(unsure, in_memory, spilled))
    return CompiledLaunch(machine, registers, spilled, unsure, room, execution, notes)


def _with_spills(graph: Idg, estimated: Callable[[Idg], Registers]) -> Idg:
    """Return *graph* so that what it has no registers to keep, it loads again."""
    registers = estimated(graph)
    return with_reloads(graph, registers.room) if registers.spilled else graph


def _assumed(unsure: Collection[str], in_memory: Collection[str], spilled: int) -> Iterator[str]:
    for name in unsure:
        home = "memory" if name in in_memory else "registers"
        yield f"where the private array {name} is, is not sure: taken as in {home}"
    if spilled:
        yield f"{spilled} registers of a work-item may not fit: what they spill is not timed"


def _check_room(room: Occupancy, concurrent_groups: int, name: str, device: Device) -> None:
    if not 1 <= concurrent_groups <= room.groups:
        raise OccupancyError(
            f"concurrent_groups is {concurrent_groups}: from 1 to {room.groups} groups of {name} "
            f"reside on a core of {device.slug!r} at once, limited by {' and '.join(room.bound_by)}"
        )


def _register_file(device: Device) -> RegisterFile:
    """Return what the description says of the registers of a core; where it says nothing, as NVIDIA's."""
    limits = device.limits
    size = limits.registers if limits.stated("registers") else NVIDIA.size
    most = limits.registers_per_work_item if limits.stated("registers_per_work_item") else NVIDIA.most
    return RegisterFile(size, most)


def _capability(device: Device) -> Capability:
    """Return the compute capability of *device*; of others than NVIDIA's, that of Hopper."""
    major, dot, minor = device.target.partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else HOPPER
