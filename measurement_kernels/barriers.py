"""Barriers with minimal work between them: in each of 64 rounds v ← p·v + q, then a barrier.

Purpose: in the paper's kernels a barrier always accompanies local loads and stores, so that its weight and theirs are
correlated. There are three group sizes: a barrier counts once per work-item, and on a GPU its time increases with the
number of warps in the group.

Counts per work-item: 64 barriers, multiplications and additions, and one store of stride 1.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "barriers"

ROUNDS = 64
P, Q = 0.5, 1.0
LARGEST = 2**15
"""maximum number of groups"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device supports."""
    sizes = tuple({"groups": n, "rounds": ROUNDS} for n in doubling(at_least=1, multiple_of=1, at_most=LARGEST))
    return [
        Configuration(
            label=f"group {group}",
            build=partial(barriers, group),
            sizes=sizes,
            arguments=partial(arguments, group),
            reference=halved,
            steps=3,
            stride=2,
        )
        for group in limits.groups_1d()
    ]


def barriers(group: int) -> lp.TranslationUnit:
    """Return the kernel for groups of *group* work-items."""
    unit = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {group} and 0 <= r < rounds}}",
        """
        for g, l
            <float32> v = l
            for r
                v = p*v + q
                ... lbarrier {mem_kind=local}
            end
            out[g, l] = v
        end
        """,
        [
            lp.GlobalArg("out", np.float32, shape=f"groups, {group}"),
            lp.ValueArg("p, q", np.float32),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="barriers",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def arguments(group: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return p, q and zeros for out; nothing is random."""
    return {
        "out": np.zeros((sizes["groups"], group), np.float32),
        "p": np.float32(P),
        "q": np.float32(Q),
        **{name: np.int32(sizes[name]) for name in ("groups", "rounds")},
    }


def halved(arguments: Arguments) -> dict[str, Array]:
    """Return out: l/2ⁿ + 2·(1 − 1/2ⁿ) after n rounds."""
    out: Array = np.asarray(arguments["out"])
    left: float = P ** int(arguments["rounds"])
    row = np.arange(out.shape[1], dtype=np.float64) * left + 2 * (1 - left)
    return {"out": np.tile(row.astype(np.float32), (out.shape[0], 1))}
