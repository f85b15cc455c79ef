"""Volkov's model: a roofline over the occupancy; at low occupancy, the latency of one warp hides all others.

    Λapp = Σ(i in I) Λi + Σ(j in J) λj                                    (Lemeire, equation 2)
    WPC = min(1 / max_s Σ(i on s) λi, ω / Λapp)                           (equation 3; CPR = ω / WPC)

I are the instructions that wait for the one before, J those that overlap with others of their warp.

V. Volkov, Understanding Latency Hiding on GPUs, 2016; Lemeire, section 2.2.
"""

from loopyperf.models.workload import (
    Floats,
    Occupancy,
    TwoPipelines,
    WarpDemand,
    Workload,
    busy_or_alone,
    busy_sides,
    on_plain_numbers,
)


def cycles(warp: WarpDemand, occupancy: Floats) -> Floats:
    """Return the cycles of a run of *occupancy* warps."""
    return busy_or_alone(warp, occupancy)


def sides(warp: WarpDemand) -> dict[str, tuple[float, float]]:
    """Return the sides whose maximum is :func:`cycles`: each subsystem, and the latency."""
    return {**busy_sides(warp), "latency": (0.0, warp.latency)}


def cycles_per_run(workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    return on_plain_numbers(cycles, workload, pipelines, occupancy)
