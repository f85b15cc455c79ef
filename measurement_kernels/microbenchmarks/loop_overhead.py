"""Loops around chains of 64, 128 and 256 multiply-adds: what a pass of a loop costs beside its body.

A pass takes c + s·steps cycles, and c is what its counter, comparison and branch add (Cornelis, Table II: "loop"). One
warp on a core tells how long a warp waits for it, many warps how much of the core's time it takes. The bodies are so
long because nvcc writes shorter ones out several times: at these lengths, once (a test says so).
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Configuration, Limits

from ._rounds import configuration, halved, halving, occupied, rounds, written_out

NAME = "loop overhead"

BODIES = (64, 128, 256)
"""multiply-adds of a pass"""


def configurations(limits: Limits) -> list[Configuration]:
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
    unit = lp.make_kernel(
        f"{{[g, l, r, s]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds and 0 <= s < {steps}}}",
        """
        for g, l
            <float32> x = p + l
            for r, s
                x = x*p + q
            end
            out[g, l] = x
        end
        """,
        [
            lp.GlobalArg("out", np.float32, shape=f"groups, {lanes}"),
            lp.ValueArg("p, q", np.float32),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="loop_overhead",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return written_out(unit)
