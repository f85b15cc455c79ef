"""d_i ← Σ_k (a_i − x_k)² for n numbers and 256 points. This kernel measures local memory and barriers.

The work-items of a group fetch one point each into local memory, and then each of them reads all of these points.

Counts in float32: 2·256·n additions, 256·n multiplications, 256·n loads from local memory.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "squared distances"
POINTS = 256


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each group size."""
    return [
        Configuration(
            label=f"groups of {width}",
            build=partial(distances, width),
            sizes=tuple({"n": n} for n in doubling(at_least=2**10, multiple_of=width, at_most=2**16)),
            arguments=arguments,
            reference=expected,
            steps=3,
        )
        for width in (64, 256)
    ]


def distances(width: int) -> lp.TranslationUnit:
    """Return the kernel with groups of *width* work-items."""
    knl = lp.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {POINTS}}}",
        "d[i] = sum(k, (a[i] - x[k])*(a[i] - x[k]))",
        [
            lp.GlobalArg("a, d", np.float32, shape="n"),
            lp.GlobalArg("x", np.float32, shape=str(POINTS)),
            lp.ValueArg("n", np.int32),
        ],
        name="distances",
        assumptions=f"n mod {width} = 0 and n >= {width}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", width, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", width)
    return lp.add_prefetch(knl, "x", ["k_inner"], fetch_outer_inames="i_outer, k_outer", default_tag="l.auto")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return two vectors of random numbers, and a vector for the result."""
    n = sizes["n"]
    return {
        "a": rng.random(n, dtype=np.float32),
        "x": rng.random(POINTS, dtype=np.float32),
        "d": np.zeros(n, np.float32),
        "n": np.int32(n),
    }


def expected(given: Arguments) -> dict[str, Array]:
    """Return the expected results, computed with NumPy."""
    return {"d": ((np.asarray(given["a"])[:, None] - np.asarray(given["x"])) ** 2).sum(axis=1)}
