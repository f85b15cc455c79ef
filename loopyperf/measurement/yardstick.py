"""The yardstick: a kernel that always does the same, so that its time tells how fast the device is just now.

Each work-item does x ← x/2 + 1 again and again. That is arithmetic alone, whose time repeats to a percent or two where
nothing disturbs the device; what slows its cores down (a lower clock, a neighbour on the same core) shows in full.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.backends.interface import BenchmarkCase
from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes, doubling

YARDSTICK = "yardstick"
"""what its records have as class of kernels"""
LANES = 64
"""work-items of a group, if the device holds so many"""
GROUPS_ON_CORE = 16
LEAST, MOST = 2**6, 2**20
"""rounds"""
LONG_ENOUGH = 2e-4
"""seconds"""
LAUNCHES = 4
"""times the duration of a launch that a run of it takes at least"""


def yardstick(limits: Limits) -> Configuration:
    """Return the yardstick for a device with *limits*, on a ladder of rounds that double."""
    lanes = min(LANES, limits.group_size)
    groups = GROUPS_ON_CORE * limits.cores
    return Configuration(
        label=f"group {lanes}",
        build=partial(repeated_halving, lanes),
        sizes=tuple({"groups": groups, "rounds": rounds} for rounds in doubling(LEAST, 1, MOST)),
        arguments=partial(arguments, lanes),
        reference=halved,
    )


def cases(limits: Limits) -> tuple[BenchmarkCase, ...]:
    """Return the yardstick at each of its sizes, shortest first."""
    configuration = yardstick(limits)
    return tuple(BenchmarkCase(YARDSTICK, configuration, sizes) for sizes in configuration.sizes)


def repeated_halving(lanes: int) -> lp.TranslationUnit:
    """Return the kernel: out[g, l] begins at 1/2 + l and goes ``rounds`` times half way to 2."""
    knl = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds}}",
        """
        for g, l
            <float32> x = 0.5f + l  {id=first}
            for r
                x = x*p + q         {id=step, dep=first}
            end
            out[g, l] = x           {id=last, dep=step}
        end
        """,
        [
            lp.ValueArg("p, q", np.float32),
            lp.GlobalArg("out", np.float32, shape=("groups", lanes)),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="yardstick",
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"g": "g.0", "l": "l.0"})


def arguments(lanes: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return p = 1/2, q = 1, the sizes, and an out of zeros; nothing is random."""
    return {
        "p": np.float32(0.5),
        "q": np.float32(1),
        "out": np.zeros((sizes["groups"], lanes), np.float32),
        "groups": np.int32(sizes["groups"]),
        "rounds": np.int32(sizes["rounds"]),
    }


def halved(arguments: Arguments) -> dict[str, Array]:
    """Return out after its rounds: x₀/2ⁿ + 2·(1 − 1/2ⁿ) of x₀ = 1/2 + l."""
    out = np.asarray(arguments["out"])
    left = 0.5 ** min(1000, int(arguments["rounds"]))
    row = (0.5 + np.arange(out.shape[1], dtype=np.float64)) * left + 2 * (1 - left)
    return {"out": np.tile(row.astype(out.dtype), (out.shape[0], 1))}
