"""GPUMech: intervals of instructions, each followed by a stall in which other warps issue their instructions.

    CPR = Σi (Ii + Si + nonoverlappedi)                     with the issue rate 1 (docs/errata.md)
    p = ΣI / (ΣI + ΣS)                                      the probability that a warp issues in a cycle

for interval i of Ii instructions and Si stall cycles, by the policy of the scheduler:

    round-robin             nonoverlappedi = p·(Ii − 1)·(ω − 1)                                  (equation 11)
    round-robin, corrected  nonoverlappedi = (ω − 1)·Ii − min(Si, ω − 1)                         (Lemeire, 2.5.1)
    greedy-then-oldest      nonoverlappedi = max(0, min(1, p·Si)·Ii·(ω − 1) − Si)                (12, 14, 16)

Memory instructions end intervals and do not count as their instructions; computations have no latency. An interval
without a stall, such as the last one may be, overlaps with nothing; the equation of greedy-then-oldest would overlap it
completely. If an interval has less than one instruction, as a mean may, negative cycles are set to 0.

J.-C. Huang, J. H. Lee, H. Kim and H.-H. Lee, GPUMech, 2014, with the corrections of Volkov (2016, p. 105); Lemeire,
section 2.5.
"""

from functools import partial
from typing import Literal

import numpy as np

from loopyperf.errors import ModelInputError
from loopyperf.models.workload import Floats, Occupancy, TwoPipelines, WarpDemand, Workload, on_plain_numbers

Policy = Literal["rr", "gto"]


def cycles(warp: WarpDemand, occupancy: Floats, policy: Policy = "rr", corrected: bool = False) -> Floats:
    """Return the cycles of a run of *occupancy* warps under a scheduling *policy*.

    *corrected* selects the corrected equations, which only round-robin (``"rr"``) has.

    :raises ModelInputError: if *policy* is unknown, or is not ``"rr"`` with *corrected*.
    """
    if policy == "gto" and corrected:
        raise ModelInputError(f"corrected=True requires policy='rr', got policy={policy!r}")
    if policy not in ("rr", "gto"):
        raise ModelInputError(f"policy must be 'rr' (round-robin) or 'gto' (greedy-then-oldest), got {policy!r}")
    intervals = [(float(each.instructions), float(each.stall), float(each.number)) for each in warp.intervals]
    issued = sum(instructions * number for instructions, _, number in intervals)
    stalled = sum(stall * number for _, stall, number in intervals)
    probability = issued / (issued + stalled) if issued else 0.0
    others = occupancy - 1
    found = np.zeros_like(occupancy)
    for instructions, stall, number in intervals:
        if policy == "gto" and not stall:
            apart = instructions * others
        elif policy == "gto":
            apart = np.maximum(0.0, min(1.0, probability * stall) * instructions * others - stall)
        elif corrected:
            apart = np.maximum(0.0, instructions * others - np.minimum(stall, others))
        else:
            apart = probability * max(0.0, instructions - 1) * others
        found += number * (instructions + stall + apart)
    return found


def cycles_per_run(
    workload: Workload,
    pipelines: TwoPipelines,
    occupancy: Occupancy,
    policy: Policy = "rr",
    corrected: bool = False,
) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    :raises ModelInputError: if *policy* is neither ``"rr"`` nor ``"gto"``, or if an occupancy is below 1 or above the
        capacity of the core.
    """
    return on_plain_numbers(partial(cycles, policy=policy, corrected=corrected), workload, pipelines, occupancy)
