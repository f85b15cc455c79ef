"""Sums of two arrays at every stride fraction: out[i] = Σₖ Σ_{r<u} (a[r,i,k] + b[r,i,k]), a and b with s rows.

Loads of each width and fraction with as few stores as can be. ``_strided_access.py`` says what the four classes of
strided accesses have in common. Fraction 0: out[g] = Σₖ Σ_{r<2} (a[r,k,g] + b[r,k,g]), in all lanes of group g.

Counts in each pass of each work-item: 2u loads and 2u additions (of complex numbers twice as many); one store in all.
"""

from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

from ._strided_access import GROUP, Access, configurations_of_accesses, in_passes, integers

NAME = "strided loads"

UNIFORM = 2
"""rows of an array with one column for all lanes of a group"""


def configurations(limits: Limits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    return configurations_of_accesses(limits, build, arguments, sums)


def loaded(access: Access) -> Access:
    """Return how the inputs are accessed."""
    return access if access.stride else replace(access, used=UNIFORM)


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one sort of loads."""
    total = " + ".join(f"a[{element}] + b[{element}]" for element in loaded(access).elements)
    return in_passes(
        "strided_loads",
        [f"out[{'l, g' if access.stride else 'g'}] = sum(k, {total})"],
        [
            lp.GlobalArg("a, b", access.dtype, shape=loaded(access).shape, order="F"),
            lp.GlobalArg("out", access.dtype, shape=f"{GROUP}, groups" if access.stride else "groups", order="F"),
        ],
    )


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return two random arrays and an out of zeros."""
    columns = (GROUP, sizes["groups"]) if access.stride else (sizes["groups"],)
    return {
        "a": loaded(access).random(rng, sizes),
        "b": loaded(access).random(rng, sizes),
        "out": np.zeros(columns, access.dtype, order="F"),
        **integers(sizes),
    }


def sums(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    used = loaded(access).used
    a, b = (np.asarray(arguments[name])[:used] for name in "ab")
    # Over rows and passes; lanes and groups are left.
    return {"out": np.sum(a + b, axis=(0, -2))}
