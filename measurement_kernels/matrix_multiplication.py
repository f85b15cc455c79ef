"""Tiled product of an n × m and an m × l matrix: c[i,j] = Σₖ a[i,k]·b[k,j], row-major, float32.

Stevens and Klöckner, section 4.1, first class. A work-item computes one element of c, with j along l.0; a group of
gx × gy work-items shares a tile of a and one of b in local memory. Purpose: the components of tiled kernels, which are
local loads, barriers, stride-1 loads and stores, and equal numbers of additions and multiplications.

Tiles: the paper's "gsize × gsize" does not define the tiles of a group that is not square. Here both tiles have the
depth d = min(gx, gy) along k: gy × d of a and d × gx of b. So every work-item fetches at most one element of each, and
those beyond d along l.0 are idle during the fetch of a.

Sizes: the paper's 2^(p+t) is not a multiple of 12, 14 or 24. The schedule doubles 2·lcm(gx, gy), a power of two where
the paper's sizes fit, so that tiles always divide the matrices and every count is a single polynomial.

Counts: n·m·l additions and as many multiplications, 2·n·m·l local loads, n·m·l/gx loads of a, n·m·l/gy of b, n·l
stores, 2·m/d barriers in each of the n·l work-items.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "matrix multiplication"

SIDES = {
    "n=m=l": {"n": 2, "m": 2, "l": 2},
    "n=m, l=n/2": {"n": 2, "m": 2, "l": 1},
    "n=l, m=n/2": {"n": 2, "m": 1, "l": 2},
    "m=l, n=m/2": {"n": 1, "m": 2, "l": 2},
}
"""shapes in the paper, in units of half the longest side"""

LARGEST = 2**12
"""the paper's longest side: 2^(p+t) with p = 9, t = 3"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the paper's shapes for each 2-D group size, as far as the device supports them."""
    groups = [group for group in limits.groups_2d() if bytes_of_tiles(group) <= limits.local_memory]
    return [configuration(case, group) for case in SIDES for group in groups]


def configuration(case: str, group: Group) -> Configuration:
    """Return one shape for groups of (extent of l.0, extent of l.1) work-items."""
    halves = doubling(at_least=1, multiple_of=lcm(*group), at_most=LARGEST // 2)
    return Configuration(
        label=f"{case}, group {group[0]}x{group[1]}",
        build=partial(matrix_multiplication, group),
        sizes=tuple({name: side * half for name, side in SIDES[case].items()} for half in halves),
        arguments=arguments,
        reference=product,
    )


def bytes_of_tiles(group: Group) -> int:
    """Return the total bytes of a group's two tiles."""
    return 4 * min(group) * sum(group)


def shapes(sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Return the shapes of the three matrices by name."""
    return {"a": (sizes["n"], sizes["m"]), "b": (sizes["m"], sizes["l"]), "c": (sizes["n"], sizes["l"])}


def matrix_multiplication(group: Group) -> lp.TranslationUnit:
    """Return the tiled product for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    depth = min(group)
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < l and 0 <= k < m}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            lp.GlobalArg("a", np.float32, shape="n, m"),
            lp.GlobalArg("b", np.float32, shape="m, l"),
            lp.GlobalArg("c", np.float32, shape="n, l"),
            lp.ValueArg("n, m, l", np.int32),
        ],
        name="matrix_multiplication",
        assumptions=f"n mod {rows} = 0 and m mod {depth} = 0 and l mod {columns} = 0"
        f" and n >= {rows} and m >= {depth} and l >= {columns}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", depth)
    for array, swept in ("a", "i_inner, k_inner"), ("b", "k_inner, j_inner"):
        axes = {f"{array}_row": "l.1", f"{array}_column": "l.0"}
        knl = with_local_tile(knl, array, swept=swept, outer="i_outer, j_outer, k_outer", axes=axes)
    return lp.prioritize_loops(knl, "k_outer, k_inner")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random matrices a and b, and zeros for c; a and b are non-negative, which avoids cancellation."""
    shape = shapes(sizes)
    return {
        "a": rng.random(shape["a"], dtype=np.float32),
        "b": rng.random(shape["b"], dtype=np.float32),
        "c": np.zeros(shape["c"], dtype=np.float32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def product(arguments: Arguments) -> dict[str, Array]:
    """Return c = a·b."""
    return {"c": np.matmul(arguments["a"], arguments["b"])}
