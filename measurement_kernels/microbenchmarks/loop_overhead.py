"""Loops around chains of 64, 128 and 256 multiply-adds: what a pass of a loop costs beside its body.

A pass takes c + s·steps cycles, and c is what its counter, comparison and branch add (Cornelis, Table II: "loop"). One
warp on a core tells how long a warp waits for it, many warps how much of the core's time it takes. The bodies are so
long because nvcc writes shorter ones out several times: at these lengths, once (a test says so).
"""

from functools import partial

import loopy as lp

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds import configuration, halved, halving, in_steps, occupied, rounds, written_out

NAME = "loop overhead"

BODIES = (64, 128, 256)
"""multiply-adds of a pass"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each body, with the fewest and the most warps on a core."""
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
    """Return the loop around *steps* multiply-adds, in groups of *lanes* work-items."""
    return written_out(in_steps("loop_overhead", lanes, "x = x*p + q", f"0 <= s < {steps}"))
