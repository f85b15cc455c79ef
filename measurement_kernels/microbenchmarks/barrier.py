"""Barriers, one after the other, in groups of 1 to 32 warps, of which each core has one.

The pipeline model lets a group go on Λ after the last of its W warps has issued the barrier, and they issue λ apart: a
barrier takes Λ + (W − 1)λ cycles, a straight line over W.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import configuration, in_all_groups, in_groups, integers, numbers_in_group, rounds

NAME = "barrier"

WARPS = (1, 2, 4, 8, 16, 32)
"""of a group"""
BARRIER = "\n... lbarrier {mem_kind=local}\n"
STEPS = 16
"""barriers of a round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each size of groups that the device can hold."""
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
    """Return the barriers, in groups of *lanes* work-items."""
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
    """Return an out of zeros."""
    out = np.zeros((sizes["groups"], sizes["lanes"]), np.float32)
    return {**integers("groups, rounds", sizes), "out": out}


def numbers(arguments: Arguments) -> dict[str, Array]:
    """Return out, the number of each work-item in its group."""
    out = np.asarray(arguments["out"])
    return in_all_groups(numbers_in_group(out), out)
