"""Copies at every stride fraction: out[r,i] = a[r,i] for r < u and all columns i, both with s rows.

The class measures equal numbers of loads and stores of each width and fraction, the purpose of min(loads, stores).
``_strided_access.py`` describes the common properties of the four classes of strided accesses. With fraction 0, all
lanes of a group copy their common column.

Counts per iteration of a work-item: u loads, u stores.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._strided_access import FRACTIONS, Access, configurations_of_accesses, in_passes, integers

NAME = "strided copies"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    # Without the additional fraction there are too few kernels with loads and stores of fraction 0: updates have none.
    return configurations_of_accesses(limits, build, arguments, copied, {**FRACTIONS, "0, two rows": (2, 0)})


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one kind of loads and stores."""
    return in_passes(
        "strided_copies",
        [f"out[{element}] = a[{element}]" for element in access.elements],
        [lp.GlobalArg("a, out", access.dtype, shape=access.shape, order="F")],
    )


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random a and a random out."""
    return {"a": access.random(rng, sizes), "out": access.random(rng, sizes), **integers(sizes)}


def copied(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return out, whose unused rows are unchanged."""
    out = np.array(arguments["out"])
    out[: access.used] = np.asarray(arguments["a"])[: access.used]
    return {"out": out}
