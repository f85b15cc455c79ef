"""The roofline model: the busiest subsystem sets the time, and everything else overlaps with it.

    CPR = ω · max_s Σ(i on s) λi                       (cycles of a run of ω warps; WPC = ω / CPR)

Subsystems s are all pipelines of the core, each memory level and the issue limit. With two of them it is the minimum of
the computational throughput and of bandwidth times compute intensity (Lemeire, equation 1).

S. Williams, A. Waterman and D. Patterson, Roofline, 2009; Lemeire, section 2.1.
"""

from loopyperf.models.workload import Floats, Occupancy, TwoPipelines, WarpDemand, Workload, busiest, on_plain_numbers


def cycles(warp: WarpDemand, occupancy: Floats) -> Floats:
    """Return the cycles of a run of *occupancy* warps."""
    return occupancy * busiest(warp)


def cycles_per_run(workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    return on_plain_numbers(cycles, workload, pipelines, occupancy)
