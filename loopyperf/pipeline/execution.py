"""The execution configuration of a core: how many groups there are, how many reside at once, and how large they are.

Lemeire, section 3.1.2: ω = γ·|γ| concurrent warps, of γ concurrent groups of |γ| warps each. All groups take about the
same time, so that the core with most of them decides: N = ⌈groups / cores⌉ (Cornelis, section III.D).
"""

from dataclasses import dataclass

from loopyperf.device.occupancy import Occupancy
from loopyperf.errors import OccupancyError, SimulationError


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
