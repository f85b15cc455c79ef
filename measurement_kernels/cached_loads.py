"""The same rows summed by every group, round after round: out[i] = Σ_{r<rounds} Σ_{s<rows} a[s, i mod 256], float32.

A work-item adds up its column of a matrix of 256 columns, from the first row to the last and then again. So what is
loaded in a round, and again in each later round and by every other group, is 1 KiB for each row: footprints of 16 KiB
(within every first-level cache), 256 KiB (beyond most) and 4 MiB (within the last level of most). The paper's classes
stream from memory, or reuse what happens to be in a cache; here loads of stride 1 come from a known level. Eight groups
for each core of a GPU, one for each of a processor.

Counts in each work-item: rounds·rows loads of stride 1 and additions, and rounds additions more; one store.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "cached loads"

GROUP = 256
GROUPS_OF_GPU = 8
"""on each core: 2048 work-items, as many as a core holds"""
ROWS = (16, 256, 4096)
"""of 1 KiB"""
LOADS = 2**16
"""of a work-item, at most"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the kernel on a ladder of rounds for each footprint, if the device can hold groups of 256."""
    if limits.group_size < GROUP:
        return []
    groups = limits.cores * (GROUPS_OF_GPU if limits.warp_size > 1 else 1)
    first, *further = (ladder(groups, rows) for rows in ROWS)
    return [
        Configuration(
            label=f"group {GROUP}",
            build=cached_loads,
            sizes=first,
            arguments=arguments,
            reference=sums,
            steps=2,
            stride=3,
            further=tuple(further),
        )
    ]


def ladder(groups: int, rows: int) -> tuple[Sizes, ...]:
    """Return the sizes at which *groups* groups load *rows* rows, once and more often."""
    most = max(1, LOADS // rows)
    return tuple(
        {"groups": groups, "rows": rows, "rounds": rounds}
        for rounds in doubling(at_least=1, multiple_of=1, at_most=most)
    )


def cached_loads() -> lp.TranslationUnit:
    """Return the kernel, in groups of 256 work-items."""
    unit = lp.make_kernel(
        f"{{[g, l, r, s]: 0 <= g < groups and 0 <= l < {GROUP} and 0 <= r < rounds and 0 <= s < rows}}",
        "out[g, l] = sum(r, sum(s, a[s, l]))",
        [
            lp.GlobalArg("a", np.float32, shape=f"rows, {GROUP}"),
            lp.GlobalArg("out", np.float32, shape=f"groups, {GROUP}"),
            lp.ValueArg("groups, rows, rounds", np.int32),
        ],
        name="cached_loads",
        assumptions="groups >= 1 and rows >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random rows, and an out of zeros."""
    return {
        "a": rng.random((sizes["rows"], GROUP), dtype=np.float32),
        "out": np.zeros((sizes["groups"], GROUP), np.float32),
        **{name: np.int32(sizes[name]) for name in ("groups", "rows", "rounds")},
    }


def sums(arguments: Arguments) -> dict[str, Array]:
    """Return out, whose rows are all equal."""
    total = int(arguments["rounds"]) * np.sum(arguments["a"], axis=0, dtype=np.float64)
    return {"out": np.tile(total.astype(np.float32), (int(arguments["groups"]), 1))}
