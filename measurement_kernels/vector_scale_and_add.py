"""Weighted sum of two vectors at every s-th element: z[s·i] = α·x[s·i] + β·y[s·i] for i < n and s = 1, 2, 3, float32.

Stevens and Klöckner, section 4.1, third class. A work-item computes one value of the result. Purpose: loads and stores
that stream from and to memory, of stride 1, and of strides 2 and 3 that leave gaps (amortized stride fractions 1/2 and
1/3), with two loads per store, hence also min(loads, stores).

Here n is the number of computed values, and the vectors have s·n elements: the paper does not specify whether its n
counts values or elements, and with this choice all three strides launch the same groups. α and β are arguments, so that
compilers cannot fold them. The schedule doubles the smallest multiple of the group size that is at least 2^10; every
other entry is measured (the paper's n = 2^(p+2t)). The groups are the paper's: 1-D Large on all devices except those of
the small set.

Counts: 2n multiplications, n additions, 2n loads and n stores of stride s.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "vector scale and add"

STRIDES = (1, 2, 3)

LARGEST = 2**27
"""the paper's largest n: 2^(p+2t) with p = 21, t = 3"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the paper's three strides for each 1-D group size, as far as the device supports them."""
    return [configuration(stride, group) for stride in STRIDES for group in limits.groups_1d(unless_small="large")]


def configuration(stride: int, group: int) -> Configuration:
    """Return the sum at every *stride*-th element for groups of *group* work-items."""
    return Configuration(
        label=f"stride {stride}, group {group}",
        build=partial(scale_and_add, stride, group),
        sizes=tuple({"n": n} for n in doubling(at_least=2**10, multiple_of=group, at_most=LARGEST)),
        arguments=partial(arguments, stride),
        reference=partial(weighted_sum, stride),
        stride=2,
    )


def scale_and_add(stride: int, group: int) -> lp.TranslationUnit:
    """Return the kernel for one stride and groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"z[{stride}*i] = alpha*x[{stride}*i] + beta*y[{stride}*i]",
        [
            lp.GlobalArg("x, y, z", np.float32, shape=f"{stride}*n"),
            lp.ValueArg("alpha, beta", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="vector_scale_and_add",
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(stride: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random vectors x and y, zeros for z, and the two weights."""
    elements = stride * sizes["n"]
    return {
        "x": rng.random(elements, dtype=np.float32),
        "y": rng.random(elements, dtype=np.float32),
        "z": np.zeros(elements, dtype=np.float32),
        "alpha": np.float32(1.25),
        "beta": np.float32(0.75),
        "n": np.int32(sizes["n"]),
    }


def weighted_sum(stride: int, arguments: Arguments) -> dict[str, Array]:
    """Return z, whose gaps are unchanged."""
    names = ("alpha", "beta", "x", "y", "z")
    alpha, beta, x, y, z = (np.array(arguments[name], dtype=np.float32) for name in names)
    z[::stride] = alpha * x[::stride] + beta * y[::stride]
    return {"z": z}
