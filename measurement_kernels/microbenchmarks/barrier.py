"""Consecutive barriers in groups of 1 to 32 warps, one group per core.

In the pipeline model, a group continues Λ after the last of its W warps has issued the barrier, and warps issue it λ
apart: a barrier takes Λ + (W − 1)λ cycles, a linear function of W.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import configuration, in_all_groups, in_groups, integers, numbers_in_group, rounds

NAME = "barrier"

WARPS = (1, 2, 4, 8, 16, 32)
"""warps per group"""
BARRIER = "\n... lbarrier {mem_kind=local}\n"
STEPS = 16
"""barriers per round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each group size that the device supports."""
    return [
        configuration(
            f"group {lanes}",
            partial(barriers, lanes),
            (rounds({"groups": limits.cores, "lanes": lanes, "steps": STEPS}),),
            arguments,
            numbers,
        )
        for lanes in (warps * limits.warp_size for warps in WARPS)
        if lanes <= limits.group_size
    ]


def barriers(lanes: int) -> lp.TranslationUnit:
    """Return the barriers for groups of *lanes* work-items."""
    unit = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds}}",
        f"""
        for g, l
            for r
                {BARRIER * STEPS}
            end
            out[g, l] = l
        end
        """,
        [lp.GlobalArg("out", np.float32, shape=f"groups, {lanes}"), lp.ValueArg("groups, rounds", np.int32)],
        name="barriers",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return in_groups(unit)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return zeros for out, and the sizes."""
    out = np.zeros((sizes["groups"], sizes["lanes"]), np.float32)
    return {**integers("groups, rounds", sizes), "out": out}


def numbers(arguments: Arguments) -> dict[str, Array]:
    """Return out, the number of each work-item in its group."""
    out = np.asarray(arguments["out"])
    return in_all_groups(numbers_in_group(out), out)
