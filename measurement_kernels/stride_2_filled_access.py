"""Running sums over the columns of a 2 × (n + 255) array: out[i] = Σ_{k<256} (a[0,i+k] + a[1,i+k]) for i < n, float32.

Stevens and Klöckner, section 4.1, sixth class. The array is column-major, hence a[r,c] stands at 2c + r, and lanes read
2 elements apart: first the even ones, then the odd ones, so that the accesses together use every element (amortized
stride fraction 2/2). The class is in the set for just this: strided loads whose gaps other loads fill.

The paper gives the array (2 × n, column-major), the work (each of n work-items adds up 256 pairs) and the order of the
fetches, not which pairs. Here work-item i takes the columns from i to i + 255, into registers, and so the array is 255
columns longer. Pairs that the work-items of a group share through local memory would be 512 local loads to 2 global
ones, and the paper's own weights (Table 2, a negative one for local loads) would give such a kernel a negative time;
with 512 global loads they give about the rate of the R9 Fury's first-level cache.

The ladder doubles the smallest multiple of the group size from 2^10 on; the harness takes every third entry (the
paper's n = 2^(p+3t)).

Counts: 512n loads of stride 2, 512n additions (one for each pair, one for each step of the sum), n stores of stride 1.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

NAME = "stride-2 filled global access"

STRIDE = 2

COLUMNS = 256
"""Pairs that each work-item adds up."""

LARGEST = 2**26
"""The paper's largest n: 2^(p+3t) with p = 17, t = 3."""


def configurations(limits: Limits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device can hold."""
    return [
        Configuration(
            label=f"group {group}",
            build=partial(filled_access, group),
            sizes=tuple(sizes),
            arguments=arguments,
            reference=running_sums,
            stride=3,
        )
        for group in limits.groups_1d()
        if group <= limits.group_size and (sizes := ladder(group, limits))
    ]


def ladder(group: int, limits: Limits) -> list[Sizes]:
    """Return the sizes from about 2^10 on, doubling up to the paper's largest or the device's memory."""
    smallest = -(-(2**10) // group) * group
    lengths = (smallest << t for t in range(LARGEST.bit_length()))
    return [{"n": n} for n in lengths if n <= LARGEST and 4 * (STRIDE * (n + COLUMNS - 1) + n) <= limits.global_memory]


def filled_access(group: int) -> lp.TranslationUnit:
    """Return the running sums for groups of ``group`` work-items."""
    column = " + ".join(f"a[{row}, i + k]" for row in range(STRIDE))
    knl = lp.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {COLUMNS}}}",
        f"out[i] = sum(k, {column})",
        [
            lp.GlobalArg("a", np.float32, shape=f"{STRIDE}, n + {COLUMNS - 1}", order="F"),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name=f"stride_{STRIDE}_filled_access",
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random column-major array a and an out of zeros. No element is negative, so that sums lose no digits."""
    columns = rng.random((sizes["n"] + COLUMNS - 1, STRIDE), dtype=np.float32)
    return {"a": columns.T, "out": np.zeros(sizes["n"], dtype=np.float32), "n": np.int32(sizes["n"])}


def running_sums(arguments: Arguments) -> dict[str, Array]:
    """Return out, as differences of the sums of all columns before each."""
    before = np.cumsum(np.sum(arguments["a"], axis=0, dtype=np.float64))
    before = np.concatenate(([0.0], before))
    return {"out": (before[COLUMNS:] - before[:-COLUMNS]).astype(np.float32)}
