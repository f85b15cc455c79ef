"""Changes of sign in place at every stride fraction: x[r,i] = α·x[r,i] for r < u and all columns i, α = −1.

The class measures loads and stores of each width and fraction of the same elements: half the footprint of a copy, no
second array, and a multiplication for each. ``_strided_access.py`` describes the common properties of the four classes
of strided accesses. With fraction 0, it computes x[i] = b·x[i] with one element b for all lanes of a group, so that no
lane reads what another one stores.

Counts per iteration of a work-item: u loads, u stores, u multiplications (twice as many for complex numbers); with
fraction 0 a load of stride 0, a load and a store of stride 1, a multiplication.
"""

from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._strided_access import Access, configurations_of_accesses, in_passes, integers

NAME = "strided updates"

ALPHA = -1.0
"""factor that keeps the magnitude of the values from run to run"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    return configurations_of_accesses(limits, build, arguments, scaled)


def updated(access: Access) -> Access:
    """Return the access to x: each work-item has its own column."""
    return access if access.stride else replace(access, stride=1)


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one kind of loads and stores."""
    factor, of_factor = ("alpha", lp.ValueArg("alpha", np.float64 if access.bits > 32 else np.float32))
    if not access.stride:
        factor, of_factor = "b[0, k, g]", lp.GlobalArg("b", access.dtype, shape=access.shape, order="F")
    x = lp.GlobalArg("x", access.dtype, shape=updated(access).shape, order="F")
    updates = [f"x[{element}] = {factor}*x[{element}]" for element in updated(access).elements]
    return in_passes("strided_updates", updates, [x, of_factor])


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random x and the factor."""
    factor: Arguments = {"alpha": (np.float64 if access.bits > 32 else np.float32)(ALPHA)}
    if not access.stride:
        factor = {"b": np.full((1, sizes["passes"], sizes["groups"]), ALPHA, access.dtype, order="F")}
    return {"x": updated(access).random(rng, sizes), **factor, **integers(sizes)}


def scaled(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return x, whose unused rows are unchanged."""
    x: Array = np.array(arguments["x"])
    x[: access.used] *= ALPHA
    return {"x": x}
