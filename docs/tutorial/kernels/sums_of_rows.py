"""s_i ← Σ_k a_ik·x_k for n rows of 256 numbers. This kernel measures arithmetic, and loops in work-items.

Counts in float32: 256·n additions, 256·n multiplications, 256·n loads of the matrix, which is stored by columns, and
256·n loads of x, with the same address for all work-items of a group.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "sums of rows"
COLUMNS = 256


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each group size."""
    return [
        Configuration(
            label=f"groups of {width}",
            build=partial(summed, width),
            sizes=tuple({"n": n} for n in doubling(at_least=2**10, multiple_of=width, at_most=2**16)),
            arguments=arguments,
            reference=expected,
            steps=3,
        )
        for width in (64, 256)
    ]


def summed(width: int) -> lp.TranslationUnit:
    """Return the kernel with groups of *width* work-items."""
    knl = lp.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {COLUMNS}}}",
        "s[i] = sum(k, a[k, i]*x[k])",
        [
            lp.GlobalArg("a", np.float32, shape=f"{COLUMNS}, n"),
            lp.GlobalArg("x", np.float32, shape=str(COLUMNS)),
            lp.GlobalArg("s", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="summed",
        assumptions=f"n mod {width} = 0 and n >= {width}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", width, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a matrix and a vector of random numbers, and a vector for the result."""
    n = sizes["n"]
    return {
        "a": rng.random((COLUMNS, n), dtype=np.float32),
        "x": rng.random(COLUMNS, dtype=np.float32),
        "s": np.zeros(n, np.float32),
        "n": np.int32(n),
    }


def expected(given: Arguments) -> dict[str, Array]:
    """Return the expected results, computed with NumPy."""
    return {"s": np.asarray(given["x"]) @ np.asarray(given["a"])}
