"""Occupancy: the number of groups resident on a core, and the resource that limits it.

Four resources limit the groups: warps, groups, registers, local memory. What a group needs is rounded up to the
allocation granularity. NVIDIA, according to the CUDA Toolkit's occupancy calculator and its header ``cuda_occupancy.h``
(``cudaOccMaxBlocksPerSMWarpsLimit``, ``...SmemLimit``, ``...RegsLimit``):

    registers of a warp  R = ⌈registers of a work-item · warp size⌉ to multiples of the register unit
    warps that fit         = ⌊registers of a partition / R⌋ · partitions
    groups that fit        = ⌊warps that fit / warps of the group⌋

since the registers of a warp are in one partition. Compute capability 1.x allocates registers to the group as a whole.
AMD, according to LLVM's ``AMDGPUBaseInfo.cpp`` (``getNumWavesPerEUWithNumVGPRs``, ``getMaxWorkGroupsPerCU``): the same
with other granularities; groups of a single warp, which need no barrier, have a limit of their own.

Not modeled: for eight register counts (21, 22, 29, ...) the header has a granularity of 128 registers on compute
capability 2.x, whereas the calculator has 64, as here; and scalar registers of AMD devices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, given_device
from loopyperf.device.parts import RegisterAllocation
from loopyperf.errors import OccupancyError, SimulationError

Resource = Literal["warps", "groups", "registers", "local memory"]


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of a core for one resource, and the amount that a group needs."""

    resource: Resource
    """name of the resource"""
    available: int
    """capacity of a core, in :attr:`unit`"""
    taken: int
    """amount allocated to a group, in :attr:`unit`"""
    unit: str
    """unit, as displayed"""

    @property
    def groups(self) -> int:
        """Return the number of groups for which the resource suffices."""
        return self.available // self.taken


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Groups and warps resident on one core."""

    warps_per_group: int
    """warps of a group, including a partly filled one"""
    warp_slots: int
    """maximum number of resident warps of a core"""
    rooms: tuple[Room, ...]
    """one entry for each resource that the group needs"""

    @property
    def groups(self) -> int:
        """Return the number of groups resident on a core."""
        return min(room.groups for room in self.rooms)

    @property
    def warps(self) -> int:
        """Return the number of warps resident on a core (ω)."""
        return self.groups * self.warps_per_group

    @property
    def share(self) -> float:
        """Return the occupancy: resident warps divided by warp slots, from 0 to 1."""
        return self.warps / self.warp_slots

    @property
    def bound_by(self) -> tuple[Resource, ...]:
        """Return the resources that limit the number of groups."""
        return tuple(room.resource for room in self.rooms if room.groups == self.groups)


def occupancy(device: DeviceChoice, work_items: int, registers: int | None = None, local_memory: int = 0) -> Occupancy:
    """Return how many groups of *work_items* are resident on a core of *device*, and the limiting resource.

    Parameters
    ----------
    device : Device, str or path
        A device, its name, or the path of a device file.
    work_items : int
        Work-items per group.
    registers : int, optional
        32-bit registers per work-item; None if unknown, assumed not to limit.
    local_memory : int, optional
        Local memory per group, in bytes.

    Returns
    -------
    Occupancy
        ``groups`` and ``warps`` resident on one core, ``share`` (resident warps divided by warp slots, from 0 to 1),
        and ``bound_by``, the limiting resources.

    Raises
    ------
    OccupancyError
        Not even one group fits; the message names the resource.
    MissingNumberError
        The device lacks a limit.
    UnknownDeviceError, DeviceFileError
        See :func:`loopyperf.load_device`.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> resident = lpp.occupancy("nvidia-titan-v", work_items=256, registers=40, local_memory=20_000)
    >>> resident.groups, resident.warps, resident.share, resident.bound_by
    (4, 32, 0.5, ('local memory',))
    """
    group = _Group(given_device(device), work_items, registers or 0, local_memory)
    group.check()
    group.device.limits.check_known(group.needed())
    found = Occupancy(group.warps, group.device.limits.needed("warps"), tuple(group.rooms()))
    if found.groups == 0:
        room = next(room for room in found.rooms if room.groups == 0)
        raise group.too_much(room.resource, room.taken, room.available, room.unit)
    return found


GRAIN = 8
"""granularity of the registers of a work-item"""


def register_steps(device: Device, work_items: int, local_memory: int, most: int) -> tuple[int, ...]:
    """Return the register counts, ascending up to *most*, beyond which fewer groups are resident on a core.

    Fewer registers than such a count do not increase the occupancy.
    """
    found: dict[int, int] = {}
    for registers in (most, *range((most - 1) // GRAIN * GRAIN, 0, -GRAIN)):
        try:
            found.setdefault(occupancy(device, work_items, registers, local_memory).groups, registers)
        except OccupancyError:
            continue
    return tuple(sorted(found.values()))


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, and the device on which it is to be resident."""

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

    # {{{ resources of a core

    def needed(self) -> Iterator[str]:
        """Yield the names of the limits that determine the occupancy."""
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
    def _slots(self) -> str:
        alone = self.warps == 1 and self.device.limits.groups_of_one_warp is not None
        return "groups_of_one_warp" if alone else "groups"

    def rooms(self) -> Iterator[Room]:
        limits = self.device.limits
        yield Room("warps", limits.needed("warps"), self.allocated_warps, "warps")
        yield Room("groups", limits.needed(self._slots), 1, "groups")
        if self.registers:
            registers = limits.needed("registers")
            if self.shares_registers:
                taken = self.allocated_warps * self.device.needed("warp_size") * self.registers
                yield Room("registers", registers, _ceil(taken, limits.needed("register_unit")), "registers")
            else:
                each, partitions = self._registers_of_a_warp, limits.needed("partitions")
                fitting = registers // partitions // each * partitions
                yield Room("registers", fitting, self.warps, f"warps of {each} registers each")
        if self.taken_local_memory:
            yield Room("local memory", limits.needed("local_memory"), self.allocated_local_memory, "B")

    @property
    def _registers_of_a_warp(self) -> int:
        return _ceil(self.registers * self.device.needed("warp_size"), self.device.limits.needed("register_unit"))

    # }}}

    # {{{ limits of a group

    def check(self) -> None:
        """Raise :class:`OccupancyError` if the group exceeds the limits of a single group."""
        if self.work_items < 1 or self.registers < 0 or self.local_memory < 0:
            raise OccupancyError(
                "a group must have at least 1 work-item, and registers and local memory >= 0; got "
                f"{self.work_items} work-items, {self.registers} registers, {self.local_memory} B of local memory"
            )
        for resource, most, needed, unit in self._shares():
            if most is not None and needed > most:
                raise self.too_much(resource, needed, most, unit)

    def _shares(self) -> Iterator[tuple[str, int | None, int, str]]:
        """Yield for each resource its name, its limit per group if known, the amount needed, and the unit."""
        limits = self.device.limits
        yield "work-items", limits.work_items_per_group, self.work_items, "work-items"
        yield "registers", limits.registers_per_work_item, self.registers, "registers of a work-item"
        if self.registers and not self.shares_registers and limits.partitions and limits.register_unit:
            # The hardware's check assumes that warps are spread evenly over all partitions.
            registers = _ceil(self.warps, limits.partitions) * self._registers_of_a_warp
            yield "registers", limits.registers_per_group, registers, "registers of a group"
        yield "local memory", limits.local_memory_per_group, self.local_memory, "B of local memory"

    def too_much(self, resource: str, needed: int, most: int, unit: str) -> OccupancyError:
        remedy = {"registers": " or fewer registers", "local memory": " or less local memory"}.get(resource, "")
        return OccupancyError(
            f"a group of {self} does not fit on a core of {self.device.slug!r}: {needed:,} {unit}, at most {most:,}; "
            f"use smaller groups{remedy}"
        )

    def __str__(self) -> str:
        registers = f"{self.registers} registers each" if self.registers else ""
        local_memory = f"{self.local_memory} B of local memory" if self.local_memory else ""
        taken = " and ".join(filter(None, (registers, local_memory)))
        return f"{self.work_items} work-items{' with ' if taken else ''}{taken}"

    # }}}


def _ceil(number: int, unit: int) -> int:
    """Return *number* rounded up to a multiple of *unit*."""
    return -(-number // unit) * unit


# {{{ workload of one core


@dataclass(frozen=True, slots=True)
class Execution:
    """Workload of one core."""

    warps_per_group: int
    """|γ|"""
    concurrent_groups: int
    """γ: groups resident on the core at once"""
    total_groups: int
    """N: groups that the core executes in total"""

    def __post_init__(self) -> None:
        if self.concurrent_groups < 1:
            raise OccupancyError(
                f"at least 1 group must be resident on a core, got {self.concurrent_groups}; "
                "use smaller groups, fewer registers or less local memory"
            )
        if self.warps_per_group < 1 or self.total_groups < 1:
            raise SimulationError(
                "a core must execute at least 1 group of at least 1 warp; got "
                f"warps_per_group={self.warps_per_group}, total_groups={self.total_groups}"
            )

    @property
    def concurrent_warps(self) -> int:
        """Return ω, the warps resident on the core at once, while enough groups are left."""
        return self.warps_per_group * min(self.concurrent_groups, self.total_groups)

    @property
    def total_warps(self) -> int:
        """Return Ω, the warps that the core executes in total."""
        return self.warps_per_group * self.total_groups


def execution_on(occupancy: Occupancy, groups: int, cores: int) -> Execution:
    """Return the workload of the core with most groups, N = ⌈groups / cores⌉ of *groups* on *cores*.

    Raises :class:`SimulationError` if there are no groups or no cores.
    """
    if groups < 1 or cores < 1:
        raise SimulationError(f"groups and cores must be at least 1; got {groups=}, {cores=}")
    return Execution(occupancy.warps_per_group, occupancy.groups, -(-groups // cores))


# }}}
