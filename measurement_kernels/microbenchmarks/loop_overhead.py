"""Loops around chains of 64, 128 and 256 multiply-adds: the overhead of an iteration.

An iteration takes c + s·steps cycles, where c is due to its counter, comparison and branch (Cornelis, Table II:
"loop"). One warp on a core shows the latency of the overhead, many warps its share of the core's time. The bodies are
this long because nvcc unrolls shorter ones: at these lengths it does not, as a test checks.
"""

from functools import partial

import loopy as lp

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds import configuration, halved, halving, in_steps, occupied, rounds, written_out

NAME = "loop overhead"

BODIES = (64, 128, 256)
"""multiply-adds per iteration"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each body, with the minimum and the maximum number of warps on a core."""
    few, *_, many = ((lanes, groups) for lanes, groups in occupied(limits))
    return [
        configuration(
            f"{steps} steps, group {lanes}",
            partial(loop_overhead, steps, lanes),
            (rounds({"groups": groups, "lanes": lanes, "steps": steps}),),
            halving,
            partial(halved, steps),
        )
        for steps in BODIES
        for lanes, groups in ((few[0], few[1][0]), (many[0], many[1][-1]))
    ]


def loop_overhead(steps: int, lanes: int) -> lp.TranslationUnit:
    """Return the loop around *steps* multiply-adds for groups of *lanes* work-items."""
    return written_out(in_steps("loop_overhead", lanes, "x = x*p + q", f"0 <= s < {steps}"))
