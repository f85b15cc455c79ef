"""The Transit model: of ω warps, some compute and the others wait for memory; demand and supply balance the numbers.

    WPCcomp(x) = min(1 / Σλcomp, x / ΣΛcomp)       the demand of memory service by x computing warps (Lemeire, 4 and 6)
    WPCmem(k) = min(1 / Σλmem, k / ΣΛmem)          its supply to k waiting ones (equations 5 and 7)
    WPC = WPCmem(k) = WPCcomp(ω − k)               where the two curves cross (equation 8)

with sums over the instructions of one warp. Without ILP this is Volkov's model (Lemeire, Theorem 1; equations 9 and 10
are misprinted, 11 to 14 are right). With more than two subsystems, the busiest one on each side sets the roof.

A. Li, Y. C. Tay, A. Kumar and H. Corporaal, Transit, 2015; Lemeire, section 2.2.1.
"""

from dataclasses import dataclass

import numpy as np

from loopyperf.models.workload import (
    Floats,
    Occupancy,
    TwoPipelines,
    WarpDemand,
    Workload,
    busy_sides,
    on_plain_numbers,
)


@dataclass(frozen=True, slots=True)
class OccupancyRoofline:
    """Throughput of one side of the core, in warps per cycle, as a function of the number of warps there."""

    busy: float
    """Σλ of one warp on the busiest subsystem of that side, in cycles."""
    latency: float
    """ΣΛ of one warp, in cycles."""

    @property
    def ridge(self) -> float:
        """Return the number of warps that reach the roof."""
        return self.latency / self.busy

    def throughput(self, warps: Floats) -> Floats:
        """Return the throughput of *warps* warps, in warps per cycle."""
        return np.minimum(1 / self.busy, warps / self.latency)


def crossing(demand: OccupancyRoofline, supply: OccupancyRoofline, occupancy: float) -> float:
    """Return the throughput, in warps per cycle, at which the demand of *occupancy* warps meets the supply.

    As functions of the number of waiting warps, both curves are linear between their ends and their ridges, so that
    interpolation is exact.
    """
    ridges = np.array([supply.ridge, occupancy - demand.ridge])
    waiting = np.sort(np.concatenate([[0.0, occupancy], ridges.clip(0.0, occupancy)]))
    served = supply.throughput(waiting)
    return float(np.interp(0.0, served - demand.throughput(occupancy - waiting), served))


def cycles(warp: WarpDemand, occupancy: Floats) -> Floats:
    """Return the cycles of a run of *occupancy* warps."""
    curves = _curves(warp)
    if len(curves) == 1:
        return occupancy / curves[0].throughput(occupancy)
    demand, supply = curves
    throughput = [crossing(demand, supply, float(warps)) for warps in occupancy.flat]
    return occupancy / np.array(throughput).reshape(occupancy.shape)


def sides(warp: WarpDemand) -> dict[str, tuple[float, float]]:
    """Return the sides whose maximum is :func:`cycles`: each subsystem, and ΣΛ (Lemeire, Theorem 1)."""
    return {**busy_sides(warp), "latency": (0.0, sum(curve.latency for curve in _curves(warp)))}


def cycles_per_run(workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    return on_plain_numbers(cycles, workload, pipelines, occupancy)


def _curves(warp: WarpDemand) -> list[OccupancyRoofline]:
    """Return the curves of demand and supply; a single one if the warp does not use the other side."""
    sides = ((False, warp.compute), (True, warp.memory))
    busy = [
        max((cycles for name, cycles in warp.busy.items() if (name in warp.memory_subsystems) is side), default=0.0)
        for side, _ in sides
    ]
    return [
        OccupancyRoofline(found, share.completion)
        for found, (_, share) in zip(busy, sides, strict=True)
        if share.instructions and found
    ]
