"""An empty kernel on n work-items, which measures the overhead of a launch and of a group."""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "empty kernel"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each group size."""
    return [
        Configuration(
            label=f"groups of {width}",
            build=partial(empty, width),
            sizes=tuple({"n": n} for n in doubling(at_least=2**12, multiple_of=width, at_most=2**16)),
            arguments=arguments,
            reference=nothing,
            steps=3,
        )
        for width in (64, 256)
    ]


def empty(width: int) -> lp.TranslationUnit:
    """Return the kernel with groups of *width* work-items."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "... nop {inames=i}",
        [lp.ValueArg("n", np.int32)],
        name="empty",
        assumptions=f"n mod {width} = 0 and n >= {width}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", width, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return n, the only argument."""
    return {"n": np.int32(sizes["n"])}


def nothing(given: Arguments) -> dict[str, Array]:
    """Return the expected results: the kernel writes nothing."""
    return {}
