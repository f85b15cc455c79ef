"""Tiled product of an n × m and an m × l matrix: c[i,j] = Σₖ a[i,k]·b[k,j], row-major, float32.

Stevens and Klöckner, section 4.1, first class. A work-item computes one element of c, with j along l.0; a group of
gx × gy work-items shares a tile of a and one of b in local memory. The class is in the set for what tiled kernels are
made of: local loads, barriers, stride-1 loads and stores, additions and multiplications in equal numbers.

The tiles: the paper's "gsize × gsize" does not say what a group that is not square fetches. Here both tiles are
d = min(gx, gy) deep along k: gy × d of a and d × gx of b. So every work-item fetches at most one element of each, and
those beyond d along l.0 sit out the fetch of a.

The sizes: the paper's 2^(p+t) is no multiple of 12, 14 or 24. The ladder doubles 2·lcm(gx, gy), which is a power of two
where the paper's sizes fit, so that tiles always divide the matrices and every count is one polynomial.

Counts: n·m·l additions and as many multiplications, 2·n·m·l local loads, n·m·l/gx loads of a, n·m·l/gy of b, n·l
stores, 2·m/d barriers in each of the n·l work-items.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

NAME = "matrix multiplication"

Group = tuple[int, int]

SIDES = {"n=m=l": (2, 2, 2), "n=m, l=n/2": (2, 2, 1), "n=l, m=n/2": (2, 1, 2), "m=l, n=m/2": (1, 2, 2)}
"""The paper's shape cases: n, m and l in units of half the longest side."""

LARGEST = 2**12
"""The paper's longest side: 2^(p+t) with p = 9, t = 3."""


def configurations(limits: Limits) -> list[Configuration]:
    """Return the paper's shape cases for each 2-D group size, as far as the device can hold them."""
    groups = [group for group in limits.groups_2d() if fits(group, limits)]
    candidates = [configuration(case, group, limits) for case in SIDES for group in groups]
    return [candidate for candidate in candidates if candidate.sizes]


def configuration(case: str, group: Group, limits: Limits) -> Configuration:
    """Return one shape case for groups of (extent of l.0, extent of l.1) work-items."""
    return Configuration(
        label=f"{case}, group {group[0]}x{group[1]}",
        build=partial(matrix_multiplication, group),
        sizes=tuple(ladder(case, group, limits)),
        arguments=arguments,
        reference=product,
    )


def fits(group: Group, limits: Limits) -> bool:
    """Return whether the device can hold such a group and its two tiles."""
    columns, rows = group
    tiles = 4 * min(group) * (rows + columns)
    return columns * rows <= limits.group_size and tiles <= limits.local_memory


def ladder(case: str, group: Group, limits: Limits) -> list[Sizes]:
    """Return the sizes from two tiles a side, doubling up to the paper's largest or the device's memory."""
    halves = (lcm(*group) << t for t in range(LARGEST.bit_length()))
    sizes = [{name: side * half for name, side in zip("nml", SIDES[case], strict=True)} for half in halves]
    return [s for s in sizes if max(s.values()) <= LARGEST and bytes_of_matrices(s) <= limits.global_memory]


def shapes(sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Return the shapes of the three matrices by name."""
    return {"a": (sizes["n"], sizes["m"]), "b": (sizes["m"], sizes["l"]), "c": (sizes["n"], sizes["l"])}


def bytes_of_matrices(sizes: Sizes) -> int:
    """Return the bytes of the three matrices together."""
    return 4 * sum(rows * columns for rows, columns in shapes(sizes).values())


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
    knl = with_tile(knl, "a", ["i_inner", "k_inner"])
    knl = with_tile(knl, "b", ["k_inner", "j_inner"])
    return lp.prioritize_loops(knl, "k_outer, k_inner")


def with_tile(knl: lp.TranslationUnit, array: str, swept: list[str]) -> lp.TranslationUnit:
    """Return the kernel with the group fetching what it reads of an array over the swept inames, columns along l.0."""
    row, column = f"{array}_row", f"{array}_column"
    knl = lp.add_prefetch(
        knl,
        array,
        swept,
        dim_arg_names=[row, column],
        default_tag=None,
        temporary_name=f"{array}_tile",
        temporary_address_space=lp.AddressSpace.LOCAL,
        fetch_outer_inames="i_outer, j_outer, k_outer",
    )
    return lp.tag_inames(knl, {row: "l.1", column: "l.0"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random matrices a and b, and a c of zeros. No element is negative, so that sums lose no digits."""
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
