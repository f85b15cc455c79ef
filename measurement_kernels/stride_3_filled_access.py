"""Running sums over the columns of a 3 × (n + 255) array: out[i] = Σ_{k<256} (a[0,i+k] + a[1,i+k] + a[2,i+k]), float32.

Stevens and Klöckner, section 4.1, seventh class. The array is column-major, hence a[r,c] stands at 3c + r and
neighbouring lanes read 3 elements apart, the three rows one after the other, so that the accesses together use every
element (amortized stride fraction 3/3). The class is in the set for just this, and because positions in space are
stored so (the n-body test kernel).

"Same as stride-2 filled access" says the paper; what it leaves open is decided as there: work-item i takes the columns
from i to i + 255 into registers, and so the array is 255 columns longer than n.

The ladder doubles the smallest multiple of the group size from 2^10 on; the harness takes every third entry (the
paper's n = 2^(p+3t)).

Counts: 768n loads of stride 3, 768n additions (two for each column, one for each step of the sum), n stores.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

NAME = "stride-3 filled global access"

STRIDE = 3

COLUMNS = 256
"""Triples that each work-item adds up."""

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
