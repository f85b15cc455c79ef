"""Tiled product of an n × 8n and an 8n × n matrix: c[i,j] = Σₖ a[i,k]·b[k,j], row-major, float32.

Stevens and Klöckner, section 5, second test kernel: "n = l = m/8". A work-item computes one element of c, with j along
l.0; a group of gx × gy work-items shares a tile of a, gy × d, and one of b, d × gx, with d = min(gx, gy).

The kernel tests whether weights fitted to other shapes of the same product (the measurement class "matrix
multiplication") apply to long sums and few work-groups.

Sizes: m = 8n doubles up to 2^(p+t) with the paper's p = 10, t = 3. As a size of n, this would be 2⁴² multiplications,
which no time in the paper's Table 1 allows.

Counts: n·m·l additions and as many multiplications, 2·n·m·l local loads, n·m·l/gx loads of a, n·m·l/gy of b, n·l
stores, 2·m/d barriers in each of the n·l work-items.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "skinny matrix multiplication"

GROUP = (16, 16)
"""the paper's only group size: 256 work-items, as (extent of l.0, extent of l.1)"""

LARGEST = 2**13
"""the paper's largest m: 2^(p+t) with p = 10, t = 3"""


def configurations(limits: DeviceLimits, group: Group = GROUP) -> list[Configuration]:
    """Return the kernel for groups of (extent of l.0, extent of l.1) work-items, if the device supports them."""
    columns, rows = group
    if columns * rows > limits.group_size or 4 * min(group) * (rows + columns) > limits.local_memory:
        return []
    sides = doubling(at_least=1, multiple_of=lcm(*group), at_most=LARGEST // 8)
    return [
        Configuration(
            label=f"group {columns}x{rows}",
            build=partial(skinny_matrix_multiplication, group),
            sizes=tuple({"n": n, "m": 8 * n, "l": n} for n in sides),
            arguments=arguments,
            reference=product,
        )
    ]


def skinny_matrix_multiplication(group: Group = GROUP) -> lp.TranslationUnit:
    """Return the tiled product for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < l and 0 <= k < m}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            lp.GlobalArg("a", np.float32, shape="n, m"),
            lp.GlobalArg("b", np.float32, shape="m, l"),
            lp.GlobalArg("c", np.float32, shape="n, l"),
            lp.ValueArg("n, m, l", np.int32),
        ],
        name="skinny_matrix_multiplication",
        assumptions=f"n mod {rows} = 0 and m mod {min(group)} = 0 and l mod {columns} = 0"
        f" and n >= {rows} and m >= {min(group)} and l >= {columns}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", min(group))
    for array, swept in ("a", "i_inner, k_inner"), ("b", "k_inner, j_inner"):
        axes = {f"{array}_row": "l.1", f"{array}_column": "l.0"}
        knl = with_local_tile(knl, array, swept=swept, outer="i_outer, j_outer, k_outer", axes=axes)
    return lp.prioritize_loops(knl, "k_outer, k_inner")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random matrices a and b, and zeros for c; a and b are non-negative, which avoids cancellation."""
    n, m = sizes["n"], sizes["m"]
    return {
        "a": rng.random((n, m), dtype=np.float32),
        "b": rng.random((m, n), dtype=np.float32),
        "c": np.zeros((n, n), dtype=np.float32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def product(arguments: Arguments) -> dict[str, Array]:
    """Return c = a·b."""
    return {"c": np.matmul(arguments["a"], arguments["b"])}
