"""Nearest of k centers to each of n points with f features: the assignment of k-means, float32.

    nearest[i] = argmin_c Σ_l (x[l,i] − centre[c,l])²      for 0 ≤ i < n, the first of those that are equally near

kmeans_kernel_c from Lemeire, table 9. A work-item finds the nearest center to one point. Features are the rows of x, so
that its loads are coalesced; those of the centers are the same for all lanes. The nearest center so far is kept by
selection, without a branch.

The kernel tests a reduction over data that neighboring lanes share, caches that keep x across the loop over centers,
and loops whose lengths are parameters, unknown to the compiler.

Counts per step, of which there are n·k·f: 1 subtraction, 1 multiplication, 1 addition, 2 loads; per distance, of which
there are n·k: 1 comparison, 2 selections; one store per work-item.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._groups import in_groups_of

NAME = "kmeans_kernel_c"

GROUP = 256
"""eight warps"""

CENTRES, FEATURES = 5, 34
"""values in Rodinia, for its data of network connections"""

LARGEST = 2**21
"""the largest n, with features of 272 MiB"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, nearest_centre, arguments, nearest, LARGEST, k=CENTRES, f=FEATURES)


def nearest_centre(group: int = GROUP) -> lp.TranslationUnit:
    """Return the assignment for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i, c, l]: 0 <= i < n and 0 <= c < k and 0 <= l < f}",
        """
        for i
            <float32> least = 3.4e38
            <int32> best = 0
            for c
                <float32> distance = 0
                for l
                    <> apart = x[l, i] - centre[c, l]
                    distance = distance + apart*apart
                end
                best = if(distance < least, c, best)
                least = if(distance < least, distance, least)
            end
            nearest[i] = best
        end
        """,
        [
            lp.GlobalArg("x", np.float32, shape="f, n"),
            lp.GlobalArg("centre", np.float32, shape="k, f"),
            lp.GlobalArg("nearest", np.int32, shape="n"),
            lp.ValueArg("n, k, f", np.int32),
        ],
        name="kmeans_kernel_c",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group} and k >= 1 and f >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random points and centers with coordinates that are multiples of 1/8, so that distances are exact."""
    n, k, f = (sizes[name] for name in "nkf")
    return {
        "x": rng.integers(9, size=(f, n)).astype(np.float32) / 8,
        "centre": rng.integers(9, size=(k, f)).astype(np.float32) / 8,
        "nearest": np.zeros(n, dtype=np.int32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def nearest(arguments: Arguments) -> dict[str, Array]:
    """Return the number of the nearest center for each point."""
    x, centres = np.asarray(arguments["x"]), np.asarray(arguments["centre"])
    distances = [np.sum((x - centre[:, None]) ** 2, axis=0) for centre in centres]
    return {"nearest": np.argmin(distances, axis=0).astype(np.int32)}
