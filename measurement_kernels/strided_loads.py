"""Sums of two arrays at every stride fraction: out[i] = Σ_{r<u} (a[r,i] + b[r,i]), a and b with s rows.

Loads of each width and fraction with as few stores as can be: 2u to one store of stride 1. ``_strided_access.py``
says what the four classes of strided accesses have in common. Fraction 0: out[g] = Σ_{r<8} (a[r,g] + b[r,g]), in all
lanes of group g.

Counts in each work-item: 2u loads, 2u − 1 additions (twice as many of complex numbers), one store.
"""

from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

from ._strided_access import GROUP, Access, configurations_of_accesses, in_groups

NAME = "strided loads"

UNIFORM = 8
"""elements that all lanes of a group load"""


def configurations(limits: Limits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    return configurations_of_accesses(limits, build, arguments, sums)


def loaded(access: Access) -> Access:
    """Return how the inputs are accessed."""
    return access if access.stride else replace(access, used=UNIFORM)


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one sort of loads."""
    at = f"{GROUP}*g + l" if access.stride else "g"
    total = " + ".join(f"a[{element}] + b[{element}]" for element in loaded(access).elements)
    return in_groups(
        "strided_loads",
        [f"out[{at}] = {total}"],
        [
            lp.GlobalArg("a, b", access.dtype, shape=loaded(access).shape, order="F"),
            lp.GlobalArg("out", access.dtype, shape=f"{GROUP}*groups" if access.stride else "groups"),
        ],
    )


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return two random arrays and an out of zeros."""
    groups = sizes["groups"]
    return {
        "a": loaded(access).random(rng, groups),
        "b": loaded(access).random(rng, groups),
        "out": np.zeros(groups * (GROUP if access.stride else 1), access.dtype),
        "groups": np.int32(groups),
    }


def sums(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    used = loaded(access).used
    a, b = (np.asarray(arguments[name])[:used] for name in "ab")
    return {"out": np.sum(a + b, axis=0)}
