"""Initial transposition of k-means: from points with f features to features of n points, float32.

    y[l,i] = x[i,l]      for 0 ≤ i < n and 0 ≤ l < f

kmeans_swap from Lemeire, table 9. A work-item moves one point, feature by feature: its loads are f elements away from
those of neighboring lanes, while the stores are coalesced. Rodinia has groups of 256; the table has two warps.

The kernel tests only memory: loads that are not coalesced, and whose sectors are needed again in the following
iterations, if caches keep them that long.

Counts: n·f loads of stride f, n·f coalesced stores.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._groups import in_groups_of

NAME = "kmeans_swap"

GROUP = 64
"""two warps"""

FEATURES = 34
"""value in Rodinia, for its data of network connections"""

LARGEST = 2**21
"""the largest n, with two arrays of 272 MiB"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, transposition, arguments, transposed, LARGEST, f=FEATURES)


def transposition(group: int = GROUP) -> lp.TranslationUnit:
    """Return the transposition for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i, l]: 0 <= i < n and 0 <= l < f}",
        "y[l, i] = x[i, l]",
        [
            lp.GlobalArg("x", np.float32, shape="n, f"),
            lp.GlobalArg("y", np.float32, shape="f, n"),
            lp.ValueArg("n, f", np.int32),
        ],
        name="kmeans_swap",
        assumptions=f"n mod {group} = 0 and n >= {group} and f >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random points x and zeros for y."""
    n, f = sizes["n"], sizes["f"]
    return {
        "x": rng.random((n, f), dtype=np.float32),
        "y": np.zeros((f, n), dtype=np.float32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def transposed(arguments: Arguments) -> dict[str, Array]:
    """Return y."""
    return {"y": np.asarray(arguments["x"]).T.copy()}
