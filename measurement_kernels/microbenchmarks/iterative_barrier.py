"""Lemeire's iterative barrier kernel: multiply-adds of one chain, each followed by a barrier (section 6.2, Fig. 15).

Its time depends on how a core's warps are divided into groups: one large group waits for its last warp at every
barrier, while many small ones fill each other's gaps. It determines no device parameter, but serves to validate the
others.
"""

from functools import partial

import loopy as lp

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds import configuration, halved, halving, in_groups, in_steps, rounds

NAME = "iterative barrier"

GROUPS = {1: (1, 2, 4, 8), 4: (1, 2, 4, 8), 16: (1, 2)}
"""groups on each core by warps of a group"""
BARRIER = "\n... lbarrier {mem_kind=local}\n"
STEPS = 16
"""multiply-adds, and barriers, per round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each group size that the device supports."""
    return [
        configuration(
            f"group {warps * limits.warp_size}",
            partial(iterative_barrier, warps * limits.warp_size),
            tuple(
                rounds({"groups": limits.cores * number, "lanes": warps * limits.warp_size, "steps": STEPS})
                for number in on_each_core
            ),
            halving,
            partial(halved, STEPS),
        )
        for warps, on_each_core in GROUPS.items()
        if warps * limits.warp_size <= limits.group_size
    ]


def iterative_barrier(lanes: int) -> lp.TranslationUnit:
    """Return the kernel for groups of *lanes* work-items."""
    return in_groups(in_steps("iterative_barrier", lanes, ("x = x*p + q" + BARRIER) * STEPS))
