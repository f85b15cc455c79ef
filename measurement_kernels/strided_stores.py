"""One value stored at every stride fraction: out[r,i] = α for r < u and all columns i, out with s rows.

The class measures stores of each width and fraction without loads. ``_strided_access.py`` describes the common
properties of the four classes of strided accesses. With fraction 0, all lanes of a group store α to their common
column.

Counts per iteration of a work-item: u stores.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._strided_access import Access, configurations_of_accesses, in_passes, integers

NAME = "strided stores"

ALPHA = 0.75


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    return configurations_of_accesses(limits, build, arguments, filled)


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one kind of stores."""
    return in_passes(
        "strided_stores",
        [f"out[{element}] = alpha" for element in access.elements],
        [
            lp.GlobalArg("out", access.dtype, shape=access.shape, order="F"),
            lp.ValueArg("alpha", access.dtype),
        ],
    )


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random out and α."""
    return {"out": access.random(rng, sizes), "alpha": access.dtype(ALPHA), **integers(sizes)}


def filled(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return out, whose unused rows are unchanged."""
    out = np.array(arguments["out"])
    out[: access.used] = ALPHA
    return {"out": out}
