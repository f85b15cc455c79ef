"""Sums of two arrays at every stride fraction: b[0,i,0] ← Σₖ Σ_{r<u} (a[r,i,k] + b[r,i,k]), a and b with s rows.

The class measures loads of each width and fraction with a minimum of stores: 16 iterations of 2u loads for one store,
to the first element that the work-item itself has loaded. ``_strided_access.py`` describes the common properties of the
four classes of strided accesses. With fraction 0, all lanes of a group load the same two rows of a and of b, and store
the sum to another array.

Counts per iteration of a work-item: 2u loads and 2u additions (twice as many for complex numbers); one store in total.
"""

from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._strided_access import Access, configurations_of_accesses, in_passes, integers

NAME = "strided loads"

UNIFORM = 2
"""rows of an array with one column for all lanes of a group"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each width and fraction."""
    return configurations_of_accesses(limits, build, arguments, sums)


def loaded(access: Access) -> Access:
    """Return the access to the inputs."""
    return access if access.stride else replace(access, used=UNIFORM)


def build(access: Access) -> lp.TranslationUnit:
    """Return the kernel with one kind of loads."""
    total = " + ".join(f"a[{element}] + b[{element}]" for element in loaded(access).elements)
    place = "b[0, l, 0, g]" if access.stride else "out[g]"
    data = [lp.GlobalArg("a, b", access.dtype, shape=loaded(access).shape, order="F")]
    if not access.stride:
        data.append(lp.GlobalArg("out", access.dtype, shape="groups"))
    return in_passes("strided_loads", [f"{place} = sum(k, {total})"], data)


def arguments(access: Access, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return two random arrays, and zeros for out if the sums are stored there."""
    inputs: Arguments = {name: loaded(access).random(rng, sizes) for name in "ab"}
    out: Arguments = {} if access.stride else {"out": np.zeros(sizes["groups"], access.dtype)}
    return {**inputs, **out, **integers(sizes)}


def sums(access: Access, arguments: Arguments) -> dict[str, Array]:
    """Return b with the sums in its first row and iteration, or out."""
    used = loaded(access).used
    a: Array = np.asarray(arguments["a"])
    b: Array = np.array(arguments["b"])
    # Over rows and iterations; lanes and groups remain.
    total = np.sum(a[:used] + b[:used], axis=(0, -2))
    if not access.stride:
        return {"out": total}
    b[0, :, 0, :] = total
    return {"b": b}
