"""Two, four and eight launches of one kernel: x[i] ← p·x[i] repeatedly, with a global barrier between launches.

Purpose: all other kernels have one launch, so only here is the number of launches not the constant 1. The vectors are
small, so that launch overhead dominates.

Counts: n loads, stores and multiplications, n/256 work-groups and one launch, for each of the launches.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "several launches"

LAUNCHES = (2, 4, 8)
GROUP = 256
LARGEST = 2**20
P = -1.0
"""factor that leaves the values unchanged, because all numbers of launches are even"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each number of launches, if the device supports groups of 256."""
    return [
        Configuration(
            label=f"{launches} launches, group {GROUP}",
            build=partial(several_launches, launches),
            sizes=tuple({"n": n} for n in doubling(at_least=GROUP, multiple_of=GROUP, at_most=LARGEST)),
            arguments=arguments,
            reference=unchanged,
            steps=3,
            stride=3,
        )
        for launches in LAUNCHES
        if limits.group_size >= GROUP
    ]


def several_launches(launches: int) -> lp.TranslationUnit:
    """Return the kernel of *launches* launches, for groups of 256 work-items."""
    loops = [f"i{launch}" for launch in range(launches)]
    bounds = " and ".join(f"0 <= {loop} < n" for loop in loops)
    unit = lp.make_kernel(
        f"{{[{', '.join(loops)}]: {bounds}}}",
        "\n... gbarrier\n".join(f"x[{loop}] = p*x[{loop}]" for loop in loops),
        [lp.GlobalArg("x", np.float32, shape="n"), lp.ValueArg("p", np.float32), lp.ValueArg("n", np.int32)],
        name="several_launches",
        seq_dependencies=True,
        assumptions=f"n mod {GROUP} = 0 and n >= {GROUP}",
        lang_version=(2018, 2),
    )
    for loop in loops:
        unit = lp.split_iname(unit, loop, GROUP, outer_tag="g.0", inner_tag="l.0")
    return unit


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random x, and p."""
    return {"x": rng.random(sizes["n"], dtype=np.float32), "p": np.float32(P), "n": np.int32(sizes["n"])}


def unchanged(arguments: Arguments) -> dict[str, Array]:
    """Return x, whose sign changes an even number of times."""
    return {"x": np.asarray(arguments["x"])}
