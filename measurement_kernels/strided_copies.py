"""Copies at every stride fraction: out[r,i] = a[r,i] for r < u and all columns i, both with s rows.

Loads and stores of each width and fraction in equal numbers, which is what min(loads, stores) is for.
``_strided_access.py`` says what the four classes of strided accesses have in common. Fraction 0: all lanes of a group
copy the one column that they have.

Counts in each pass of each work-item: u loads, u stores.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._strided_access import FRACTIONS, Access, configurations_of_accesses, in_passes, integers

NAME = "strided copies"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    # Of stores of fraction 0 with loads of the same there are too few kernels otherwise: updates have none.
    return configurations_of_accesses(limits, build, arguments, copied, {**FRACTIONS, "0, two rows": (2, 0)})


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one sort of loads and stores."""
    return in_passes(
        "strided_copies",
        [f"out[{element}] = a[{element}]" for element in access.elements],
        [lp.GlobalArg("a, out", access.dtype, shape=access.shape, order="F")],
    )


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random a and a random out."""
    return {"a": access.random(rng, sizes), "out": access.random(rng, sizes), **integers(sizes)}


def copied(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return out, which keeps its contents in the rows that are not used."""
    out = np.array(arguments["out"])
    out[: access.used] = np.asarray(arguments["a"])[: access.used]
    return {"out": out}
