"""Gaussian elimination's update of the trailing matrix and the right-hand side at step t, n × n, row-major, float32.

    a[i,j] ← a[i,j] − m[i,t]·a[t,j],    b[i] ← b[i] − m[i,t]·b[t]      for t < i < n and t ≤ j < n

Fan2 from Lemeire, table 9. The multipliers m[i,t] = a[i,t]/a[t,t] are given. A work-item updates one element; as in
Rodinia, rows are along l.0 and columns along l.1, eight of each, so that a group has two warps. The work-items of
column t also update b. The sizes are those of first steps, t = 0, which are the longest.

The kernel tests accesses that are not coalesced: neighboring lanes are a row apart, and a warp reads eight rows at four
positions each. Only through caches does it benefit from the adjacent reads of the group's other warp. There is one row
less than the groups have room for.

Counts per point, of which there are (n−t−1)·(n−t): 1 multiplication, 1 subtraction, 3 loads, 1 store, and the same once
per row for b.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "Fan2"

GROUP = (8, 8)
"""(extent of l.0, along which the rows are, extent of l.1): two warps"""

LARGEST = 2**13
"""the largest n, with two matrices of 256 MiB"""


def configurations(limits: DeviceLimits, group: Group = GROUP) -> list[Configuration]:
    """Return the kernel for groups of (rows, columns) work-items, if the device supports them."""
    rows, columns = group
    if rows * columns > limits.group_size:
        return []
    return [
        Configuration(
            label=f"group {rows}x{columns}",
            build=partial(trailing_update, group),
            sizes=tuple({"n": n, "t": 0} for n in doubling(at_least=64, multiple_of=lcm(*group), at_most=LARGEST)),
            arguments=arguments,
            reference=eliminated,
        )
    ]


def trailing_update(group: Group = GROUP) -> lp.TranslationUnit:
    """Return the update for groups of (rows, columns) work-items."""
    rows, columns = group
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < n - t - 1 and 0 <= j < n - t}",
        """
        for i, j
            <> row = i + t + 1
            <> factor = m[row, t]
            a[row, j + t] = a[row, j + t] - factor*a[t, j + t]
            if j == 0
                b[row] = b[row] - factor*b[t]
            end
        end
        """,
        [
            lp.GlobalArg("a, m", np.float32, shape="n, n"),
            lp.GlobalArg("b", np.float32, shape="n"),
            lp.ValueArg("n, t", np.int32),
        ],
        name="Fan2",
        seq_dependencies=True,
        assumptions="t >= 0 and n >= t + 2",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", columns, outer_tag="g.1", inner_tag="l.1")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random system of equations, and the multipliers of step t, which are below 1 as with pivoting."""
    n = sizes["n"]
    return {
        "a": rng.random((n, n), dtype=np.float32),
        "m": rng.random((n, n), dtype=np.float32),
        "b": rng.random(n, dtype=np.float32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def eliminated(arguments: Arguments) -> dict[str, Array]:
    """Return a and b after the step."""
    a, m, b = (np.array(arguments[name], dtype=np.float64) for name in "amb")
    t = int(arguments["t"])
    factors = m[t + 1 :, t]
    a[t + 1 :, t:] -= np.outer(factors, a[t, t:])
    b[t + 1 :] -= factors * b[t]
    return {"a": a.astype(np.float32), "b": b.astype(np.float32)}
