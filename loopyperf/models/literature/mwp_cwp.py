"""The MWP-CWP model: periods of computation, each with a memory request, in one of three cases.

    MWP = Λmem / λmem                     warps whose requests memory serves at once        (Lemeire, equation 15)
    CWP = Λmem / (CI·λcomp) + 1           warps that compute while one waits, and that one  (equation 16)

    ω ≤ min(MWP, CWP):   CPR = αmem·Λmem + αcomp·λcomp + CI·λcomp·(ω − 1)                   (equation 28)
    else MWP ≤ CWP:      CPR = αmem·λmem·ω + CI·λcomp·MWP                                   (equation 26)
    else:                CPR = αcomp·λcomp·ω + Λmem                                         (equation 27)

with CI = αcomp/αmem. It adds filling and draining of the pipelines to a roofline. The corrected model, MWP-CWP*, starts
equation 28 with Λapp, in which computations have a latency too, and takes the maximum of the three (Lemeire, section
5.1), with MWP ≤ ω as in Hong and Kim: a few warps that use the whole memory are fewer than MWP. Each barrier of each
group adds λmem·(MWP − 1), in which the group's requests drain (Hong and Kim, Fig. 11, with MWP ≤ ω).

S. Hong and H. Kim, An analytical model for a GPU architecture with memory-level and thread-level parallelism awareness,
2009; Lemeire, section 2.3.
"""

from functools import partial

import numpy as np

from loopyperf.models.workload import Floats, Occupancy, TwoPipelines, WarpDemand, Workload, on_plain_numbers


def cycles(warp: WarpDemand, occupancy: Floats, corrected: bool = False) -> Floats:
    """Return the cycles of a run of *occupancy* warps by the original or the *corrected* equations."""
    if not warp.memory.instructions:
        computing = occupancy * warp.compute.issue
        return np.maximum(computing, warp.latency) if corrected else computing
    request = warp.memory.completion / warp.memory.instructions
    period = warp.compute.issue / warp.memory.instructions
    mwp = warp.memory.completion / warp.memory.issue
    cwp = request / period + 1 if period else np.inf
    alone = warp.latency if corrected else warp.memory.completion + warp.compute.issue
    few = alone + period * (occupancy - 1)
    memory_bound = warp.memory.issue * occupancy + period * (np.minimum(mwp, occupancy) if corrected else mwp)
    compute_bound = warp.compute.issue * occupancy + request
    if corrected:
        found = np.maximum(few, np.maximum(memory_bound, compute_bound))
    else:
        enough = memory_bound if mwp <= cwp else compute_bound
        found = np.where(occupancy <= min(mwp, cwp), few, enough)
    return found + _drained(warp, occupancy, mwp)


def cycles_per_run(
    workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy, corrected: bool = False
) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    *corrected* selects the equations of MWP-CWP* instead of the original ones.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    return on_plain_numbers(partial(cycles, corrected=corrected), workload, pipelines, occupancy)


def _drained(warp: WarpDemand, occupancy: Floats, mwp: float) -> Floats:
    """Return the cycles in which memory drains before the barriers of all groups in a run."""
    departure = warp.memory.issue / warp.memory.instructions
    at_once = np.minimum(mwp, occupancy)
    return warp.barriers * occupancy / warp.warps_per_group * departure * np.maximum(at_once - 1, 0.0)
