"""Five-point stencil with a quadratic source term on n × n points, row-major, float32.

    out[i,j] = u[i,j]² − 1 − 4·u[i+1,j+1] + u[i+2,j+1] + u[i,j+1] + u[i+1,j+2] + u[i+1,j]      for 0 ≤ i, j < n

Stevens and Klöckner, section 5, first test kernel. u is (n+2) × (n+2): the points and their halo. A work-item computes
one point, with j along l.0; the group of gx × gy work-items fetches its gy × gx points and their halo, a tile of
(gy+2) × (gx+2), into local memory, in up to four rounds, all but the first nearly empty.

The source term reads u at the tile's corner rather than at the stencil's center: it is a sixth local load per point, as
the paper's printed predictions require, and the corners of the halo are used.

The kernel tests halos: loads that are not a multiple of the group size, and a fetch in which most work-items are idle.

Counts per point: 6 additions, 1 multiplication, 1 exponentiation (``u**2``, which is ``u*u`` in Loopy's C code and
reads u[i,j] twice unless the compiler merges both), 6 local loads, 1 store, 1 barrier. Per group: (gx+2)·(gy+2) loads
and local stores.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "finite difference"

GROUP = (16, 16)
"""the paper's only group size: 256 work-items, as (extent of l.0, extent of l.1)"""

LARGEST = 2**14
"""the paper's largest n: 2^(p+t) with p = 11, t = 3"""


def configurations(limits: DeviceLimits, group: Group = GROUP) -> list[Configuration]:
    """Return the kernel for groups of (extent of l.0, extent of l.1) work-items, if the device supports them."""
    columns, rows = group
    if columns * rows > limits.group_size or 4 * (rows + 2) * (columns + 2) > limits.local_memory:
        return []
    return [
        Configuration(
            label=f"group {columns}x{rows}",
            build=partial(finite_difference, group),
            sizes=tuple({"n": n} for n in doubling(at_least=64, multiple_of=lcm(*group), at_most=LARGEST)),
            arguments=arguments,
            reference=stencil,
        )
    ]


def finite_difference(group: Group = GROUP) -> lp.TranslationUnit:
    """Return the stencil for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "out[i, j] = u[i, j]**2 - 1 - 4*u[i+1, j+1] + u[i+2, j+1] + u[i, j+1] + u[i+1, j+2] + u[i+1, j]",
        [
            lp.GlobalArg("u", np.float32, shape="n + 2, n + 2"),
            lp.GlobalArg("out", np.float32, shape="n, n"),
            lp.ValueArg("n", np.int32),
        ],
        name="finite_difference",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")
    axes = {"u_row": "l.1", "u_column": "l.0"}
    knl = with_local_tile(knl, "u", swept="i_inner, j_inner", outer="i_outer, j_outer", axes=axes)
    return lp.prioritize_loops(knl, "u_row_outer, u_column_outer")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random u between 4 and 5, which keeps out far from zero and avoids cancellation, and zeros for out."""
    n = sizes["n"]
    u = 4 + rng.random((n + 2, n + 2), dtype=np.float32)
    return {"u": u, "out": np.zeros((n, n), dtype=np.float32), "n": np.int32(n)}


def stencil(arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    u = np.asarray(arguments["u"], dtype=np.float64)
    source = u[:-2, :-2] ** 2 - 1
    laplacian = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return {"out": (source + laplacian).astype(np.float32)}
