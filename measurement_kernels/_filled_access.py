"""Running sums over the columns of an s × (n + 255) array: out[i] = Σ_{k<256} Σ_{r<s} a[r,i+k] for i < n, float32.

What the classes "stride-2 filled global access" and "stride-3 filled global access" share; their files say why they are
there. The array is column-major, hence a[r,c] stands at s·c + r: lanes read s elements apart, one row after the other.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

COLUMNS = 256
"""Columns that each work-item adds up."""

LARGEST = 2**26
"""The paper's largest n: 2^(p+3t) with p = 17, t = 3."""


def configurations_of_stride(stride: int, limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device can hold."""
    return [
        Configuration(
            label=f"group {group}",
            build=partial(filled_access, stride, group),
            sizes=tuple({"n": n} for n in doubling(at_least=2**10, multiple_of=group, at_most=LARGEST)),
            arguments=partial(arguments, stride),
            reference=running_sums,
            stride=3,
        )
        for group in limits.groups_1d()
    ]


def filled_access(stride: int, group: int) -> lp.TranslationUnit:
    """Return the running sums over columns of ``stride`` elements for groups of ``group`` work-items."""
    column = " + ".join(f"a[{row}, i + k]" for row in range(stride))
    knl = lp.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {COLUMNS}}}",
        f"out[i] = sum(k, {column})",
        [
            lp.GlobalArg("a", np.float32, shape=f"{stride}, n + {COLUMNS - 1}", order="F"),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name=f"stride_{stride}_filled_access",
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(stride: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random column-major array a and an out of zeros. No element is negative, so that sums lose no digits."""
    columns = rng.random((sizes["n"] + COLUMNS - 1, stride), dtype=np.float32)
    return {"a": columns.T, "out": np.zeros(sizes["n"], dtype=np.float32), "n": np.int32(sizes["n"])}


def running_sums(arguments: Arguments) -> dict[str, Array]:
    """Return out, as differences of the sums of all columns before each."""
    before = np.cumsum(np.sum(arguments["a"], axis=0, dtype=np.float64))
    before = np.concatenate(([0.0], before))
    return {"out": (before[COLUMNS:] - before[:-COLUMNS]).astype(np.float32)}
