"""Repeated sums of the same rows in all groups: out[i] = Σ_{r<rounds} Σ_{s<rows} a[s, i mod 256], float32.

A work-item adds up its column of a matrix of 256 columns, from the first row to the last, in each round. All groups and
all rounds load the same data, 1 KiB per row: footprints are 16 KiB (within any first-level cache), 256 KiB (larger than
most) and 4 MiB (within most last-level caches). The paper's classes stream from memory or depend on whatever is in a
cache; here loads of stride 1 are from a known level. There are eight groups per core of a GPU, one per core of a
processor.

Counts per work-item: rounds·rows loads of stride 1 and additions, and rounds additional additions; one store.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "cached loads"

GROUP = 256
GROUPS_OF_GPU = 8
"""groups per core: 2048 work-items, the capacity of a core"""
ROWS = (16, 256, 4096)
"""numbers of rows, of 1 KiB each"""
LOADS = 2**16
"""maximum number of loads of a work-item"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the kernel with a schedule of rounds for each footprint, if the device supports groups of 256."""
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
    """Return the sizes for *groups* groups and *rows* rows, with increasing rounds."""
    most = max(1, LOADS // rows)
    return tuple(
        {"groups": groups, "rows": rows, "rounds": rounds}
        for rounds in doubling(at_least=1, multiple_of=1, at_most=most)
    )


def cached_loads() -> lp.TranslationUnit:
    """Return the kernel for groups of 256 work-items."""
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
    """Return random rows and zeros for out."""
    return {
        "a": rng.random((sizes["rows"], GROUP), dtype=np.float32),
        "out": np.zeros((sizes["groups"], GROUP), np.float32),
        **{name: np.int32(sizes[name]) for name in ("groups", "rows", "rounds")},
    }


def sums(arguments: Arguments) -> dict[str, Array]:
    """Return out, whose rows are equal."""
    total = int(arguments["rounds"]) * np.sum(arguments["a"], axis=0, dtype=np.float64)
    return {"out": np.tile(total.astype(np.float32), (int(arguments["groups"]), 1))}
