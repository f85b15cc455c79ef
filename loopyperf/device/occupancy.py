"""How many groups reside on a core at once, and what keeps more of them out.

Each of four resources limits the groups: warps, groups, registers, local memory. What a group takes of them is rounded
up to what the hardware allocates together. NVIDIA, by the CUDA Toolkit's occupancy calculator and the header
``cuda_occupancy.h`` that it ships (``cudaOccMaxBlocksPerSMWarpsLimit``, ``...SmemLimit``, ``...RegsLimit``):

    registers of a warp  R = ⌈registers of a work-item · warp size⌉ to multiples of the register unit
    warps that fit         = ⌊registers of a partition / R⌋ · partitions
    groups that fit        = ⌊warps that fit / warps of the group⌋

since a warp's registers lie in one of the partitions. Compute capability 1.x allocates registers to the group as a
whole. AMD, by LLVM's ``AMDGPUBaseInfo.cpp`` (``getNumWavesPerEUWithNumVGPRs``, ``getMaxWorkGroupsPerCU``): the same in
other units, and groups of a single warp, which need no barrier, have a limit of their own.

Not modelled: for eight counts of registers (21, 22, 29, ...) the header allocates 128 registers at a time on compute
capability 2.x, where the calculator has 64, as here; and scalar registers of AMD devices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from loopyperf.device.description import Device, Limit
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.device.parts import RegisterAllocation
from loopyperf.errors import MissingNumberError, OccupancyError, SimulationError
from loopyperf.kernel.kernel import Group

Resource = Literal["warps", "groups", "registers", "local memory"]


@dataclass(frozen=True, slots=True)
class Room:
    """What a core has of a resource, and what a group takes of it."""

    resource: Resource
    """of what"""
    available: int
    """how much a core has, in :attr:`unit`"""
    taken: int
    """how much of it a group is allocated, in :attr:`unit`"""
    unit: str
    """in words"""

    @property
    def groups(self) -> int:
        """Return for how many groups there is room."""
        return self.available // self.taken


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What resides on one core at once."""

    warps_per_group: int
    """warps of a group; work-items that fill none take a whole one"""
    warp_slots: int
    """warps that a core has room for"""
    rooms: tuple[Room, ...]
    """one for each resource that the group takes of"""

    @property
    def groups(self) -> int:
        """Return how many groups reside on a core."""
        return min(room.groups for room in self.rooms)

    @property
    def warps(self) -> int:
        """Return how many warps reside on a core (ω)."""
        return self.groups * self.warps_per_group

    @property
    def share(self) -> float:
        """Return the occupancy: warps that reside on a core over those that it has room for."""
        return self.warps / self.warp_slots

    @property
    def bound_by(self) -> tuple[Resource, ...]:
        """Return the resources that have no room for another group."""
        return tuple(room.resource for room in self.rooms if room.groups == self.groups)


def occupancy(device: DeviceChoice, work_items: int, registers: int | None = None, local_memory: int = 0) -> Occupancy:
    """Return how many groups of *work_items* reside on a core of *device* at once, and which resource binds.

    The answer's ``groups`` and ``warps`` are numbers on one core, ``share`` is the share of the core's warp slots that
    these warps take, from 0 to 1, and ``bound_by`` names the resources that leave no room for another group.
    *registers* are the 32-bit registers of a work-item; None where they are not known, and taken not to limit.
    *local_memory* is that of a group, in bytes.

    Raises :class:`OccupancyError` where not one group fits, which says of what there is too much and how much,
    :class:`MissingNumberError` for the limits that are not described, and what :func:`loopyperf.load_device` raises.
    """
    group = _Group(given_device(device), work_items, registers or 0, local_memory)
    group.check()
    group.device.limits.check_known(tuple(group.needed()))
    found = Occupancy(group.warps, group.device.limits.needed("warps"), tuple(group.rooms()))
    if found.groups == 0:
        room = next(room for room in found.rooms if room.groups == 0)
        raise group.too_much(room.resource, room.taken, room.available, room.unit)
    return found


GRAIN = 8
"""registers that are allocated together, of a work-item"""


def register_steps(device: Device, work_items: int, local_memory: int, most: int) -> tuple[int, ...]:
    """Return the numbers of registers, in ascending order and up to *most*, beyond which fewer groups reside on a core.

    A work-item may as well have so many as less.
    """
    found: dict[int, int] = {}
    for registers in (most, *range((most - 1) // GRAIN * GRAIN, 0, -GRAIN)):
        try:
            found.setdefault(occupancy(device, work_items, registers, local_memory).groups, registers)
        except OccupancyError:
            continue
    return tuple(sorted(found.values()))


def check_fits(group: Group, device: Device) -> None:
    """Raise :class:`OccupancyError` for a *group* that fits on no core of *device*."""
    try:
        occupancy(device, group.work_items, local_memory=group.local_memory)
    except MissingNumberError:  # what is not described limits nobody
        return


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, and the device that it is to reside on."""

    device: Device
    work_items: int
    registers: int
    local_memory: int

    @property
    def warps(self) -> int:
        return -(-self.work_items // self.device.needed("warp_size"))

    @property
    def allocated_warps(self) -> int:
        return _ceil(self.warps, self.device.limits.needed("warp_unit")) if self.shares_registers else self.warps

    @property
    def shares_registers(self) -> bool:
        return self.device.register_allocation == RegisterAllocation.GROUP

    @property
    def taken_local_memory(self) -> int:
        return self.local_memory + (self.device.limits.local_memory_reserved or 0)

    @property
    def allocated_local_memory(self) -> int:
        return _ceil(self.taken_local_memory, self.device.limits.needed("local_memory_unit"))

    # {{{ what a core has room for

    def needed(self) -> Iterator[Limit]:
        """Yield the names of the limits that say what a core has room for."""
        yield from ("warps", self._slots)
        if self.shares_registers:
            yield "warp_unit"
        if self.registers:
            yield from ("registers", "register_unit")
            if not self.shares_registers:
                yield "partitions"
        if self.taken_local_memory:
            yield from ("local_memory", "local_memory_unit")

    @property
    def _slots(self) -> Limit:
        alone = self.warps == 1 and self.device.limits.groups_of_one_warp is not None
        return "groups_of_one_warp" if alone else "groups"

    def rooms(self) -> Iterator[Room]:
        limits = self.device.limits
        yield Room("warps", limits.needed("warps"), self.allocated_warps, "warps")
        yield Room("groups", limits.needed(self._slots), 1, "groups")
        if self.registers:
            yield self._registers_as_a_whole() if self.shares_registers else self._registers_by_warp()
        if self.taken_local_memory:
            yield Room("local memory", limits.needed("local_memory"), self.allocated_local_memory, "B")

    def _registers_as_a_whole(self) -> Room:
        limits = self.device.limits
        taken = _ceil(
            self.allocated_warps * self.device.needed("warp_size") * self.registers, limits.needed("register_unit")
        )
        return Room("registers", limits.needed("registers"), taken, "registers")

    def _registers_by_warp(self) -> Room:
        partitions, registers = (self.device.limits.needed(name) for name in ("partitions", "registers"))
        fitting = registers // partitions // self._registers_of_a_warp * partitions
        return Room("registers", fitting, self.warps, f"warps of {self._registers_of_a_warp} registers each")

    @property
    def _registers_of_a_warp(self) -> int:
        return _ceil(self.registers * self.device.needed("warp_size"), self.device.limits.needed("register_unit"))

    # }}}

    # {{{ what a group may have

    def check(self) -> None:
        """Raise :class:`OccupancyError` for a group that no core of the device would take, however empty."""
        if self.work_items < 1 or self.registers < 0 or self.local_memory < 0:
            raise OccupancyError(
                "a group has 1 work-item or more, and no negative registers or local memory; received "
                f"{self.work_items} work-items, {self.registers} registers, {self.local_memory} B of local memory"
            )
        for what, most, has, unit in self._shares():
            if most is not None and has > most:
                raise self.too_much(what, has, most, unit)

    def _shares(self) -> Iterator[tuple[str, int | None, int, str]]:
        """Yield of what a group has a share, its limit if that is known, how much it has, and in which unit."""
        limits = self.device.limits
        yield "work-items", limits.work_items_per_group, self.work_items, "work-items"
        yield "registers", limits.registers_per_work_item, self.registers, "registers of a work-item"
        if self.registers and not self.shares_registers and limits.partitions and limits.register_unit:
            # The hardware checks as if warps were spread evenly over all partitions.
            registers = _ceil(self.warps, limits.partitions) * self._registers_of_a_warp
            yield "registers", limits.registers_per_group, registers, "registers of a group"
        yield "local memory", limits.local_memory_per_group, self.local_memory, "B of local memory"

    def too_much(self, what: str, has: int, most: int, unit: str) -> OccupancyError:
        return OccupancyError(
            f"a group of {self} fits on no core of {self.device.slug!r}: {has:,} {unit} where there may "
            f"be {most:,}; take smaller groups{'' if what in ('work-items', 'warps') else ', or less of it'}"
        )

    def __str__(self) -> str:
        registers = f"{self.registers} registers each" if self.registers else ""
        local_memory = f"{self.local_memory} B of local memory" if self.local_memory else ""
        taken = " and ".join(filter(None, (registers, local_memory)))
        return f"{self.work_items} work-items{' with ' if taken else ''}{taken}"

    # }}}


def _ceil(number: int, unit: int) -> int:
    """Return the least multiple of *unit* that is not below *number*."""
    return -(-number // unit) * unit


# {{{ what one core executes


@dataclass(frozen=True, slots=True)
class Execution:
    """What one core executes."""

    warps_per_group: int
    """|γ|"""
    concurrent_groups: int
    """γ: groups that reside on the core at once"""
    total_groups: int
    """N: groups that the core executes, one after the other where there is no room"""

    def __post_init__(self) -> None:
        if self.concurrent_groups < 1:
            raise OccupancyError(
                f"the occupancy is {self.concurrent_groups} groups: none would ever run; let at least 1 group reside "
                "on the core, by smaller groups or fewer registers or less local memory of each"
            )
        if self.warps_per_group < 1 or self.total_groups < 1:
            raise SimulationError(
                "a core executes at least 1 group of at least 1 warp; received "
                f"warps_per_group={self.warps_per_group}, total_groups={self.total_groups}"
            )

    @property
    def concurrent_warps(self) -> int:
        """Return ω, the warps that reside on the core at once while there are groups enough."""
        return self.warps_per_group * min(self.concurrent_groups, self.total_groups)

    @property
    def total_warps(self) -> int:
        """Return Ω, the warps that the core executes."""
        return self.warps_per_group * self.total_groups


def execution_on(occupancy: Occupancy, groups: int, cores: int) -> Execution:
    """Return what the core with most groups executes, of *groups* dealt out to *cores*, N = ⌈groups / cores⌉ of them.

    Raises :class:`SimulationError` where there are no groups or no cores.
    """
    if groups < 1 or cores < 1:
        raise SimulationError(f"groups are dealt out to cores, at least 1 of each; received {groups=}, {cores=}")
    return Execution(occupancy.warps_per_group, occupancy.groups, -(-groups // cores))


# }}}
