"""Running sums over the columns of an s × (n + 255) array: out[i] = Σ_{k<256} Σ_{r<s} a[r,i+k] for i < n, float32.

This is the common part of the classes "stride-2 filled global access" and "stride-3 filled global access", whose files
describe their purposes. The array is column-major: a[r,c] is at offset s·c + r, so lanes read s elements apart, one row
after the other.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

COLUMNS = 256
"""columns that each work-item adds up"""

LARGEST = 2**26
"""the paper's largest n: 2^(p+3t) with p = 17, t = 3"""


def configurations_of_stride(stride: int, limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device supports."""
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
    """Return the running sums over columns of *stride* elements for groups of *group* work-items."""
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
    """Return a random column-major array a and zeros for out; a is non-negative, which avoids cancellation."""
    columns = rng.random((sizes["n"] + COLUMNS - 1, stride), dtype=np.float32)
    return {"a": columns.T, "out": np.zeros(sizes["n"], dtype=np.float32), "n": np.int32(sizes["n"])}


def running_sums(arguments: Arguments) -> dict[str, Array]:
    """Return out, computed as differences of the cumulative sums of columns."""
    before = np.cumsum(np.sum(arguments["a"], axis=0, dtype=np.float64))
    before = np.concatenate(([0.0], before))
    return {"out": (before[COLUMNS:] - before[:-COLUMNS]).astype(np.float32)}
