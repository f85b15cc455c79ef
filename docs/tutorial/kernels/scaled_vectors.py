"""b ← 2·a for vectors of n numbers. This kernel measures the cost of memory accesses.

Counts in float32: n loads and n stores at stride 1, n multiplications.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "scaled vectors"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each group size."""
    return [
        Configuration(
            label=f"groups of {width}",
            build=partial(scaled, width),
            sizes=tuple({"n": n} for n in doubling(at_least=2**16, multiple_of=width, at_most=2**24)),
            arguments=arguments,
            reference=expected,
            steps=3,
        )
        for width in (64, 256)
    ]


def scaled(width: int) -> lp.TranslationUnit:
    """Return the kernel with groups of *width* work-items."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="scaled",
        assumptions=f"n mod {width} = 0 and n >= {width}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", width, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a vector of random numbers, and a vector for the result."""
    n = sizes["n"]
    return {"a": rng.random(n, dtype=np.float32), "b": np.zeros(n, np.float32), "n": np.int32(n)}


def expected(given: Arguments) -> dict[str, Array]:
    """Return the expected results, computed with NumPy."""
    return {"b": 2 * np.asarray(given["a"])}
