"""Transpose of an n × n matrix: b[i,j] = a[j,i], row-major, float32.

Stevens and Klöckner, section 4.1, fourth class. Each work-item stores one element. Three forms:

- "tile": the group fetches a tile into local memory, so that loads and stores both have stride 1;
- "stride-1 stores": without a tile, j along l.0, hence loads of stride n;
- "stride-1 loads": without a tile, i along l.0, hence stores of stride n.

The class is in the set for loads and stores that are not coalesced (fraction 4/>4: every element of a line is used, by
another group of lanes), and, against them, for what a tile costs and saves: a local load, a local store, two barriers.

The tile of a group of gx × gy work-items is gx rows by gy columns of a. Where gx > gy it is fetched in ⌈gx/gy⌉ rounds,
the last one perhaps by part of the rows, in each round by gy of the gx lanes along l.0: one element a work-item on
average, as loopy's automatic distribution ("l.auto") does it. In square groups each work-item fetches one element.

The sizes: the ladder doubles the smallest multiple of lcm(gx, gy) from 64 on, which is a power of two where the paper's
2^(p+t) is a multiple of the group's sides, so that tiles always divide the matrix.

Counts: n² loads, n² stores; with a tile also n² local loads, n² local stores and one barrier in each work-item.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

NAME = "transpose"

Group = tuple[int, int]

FORMS = ("tile", "stride-1 stores", "stride-1 loads")

LARGEST = 2**14
"""The paper's largest n: 2^(p+t) with p = 11, t = 3."""


def configurations(limits: Limits) -> list[Configuration]:
    """Return the three forms for each 2-D group size, as far as the device can hold them."""
    groups = [(x, y) for x, y in limits.groups_2d() if x * y <= limits.group_size and 4 * x * y <= limits.local_memory]
    candidates = [configuration(form, group, limits) for form in FORMS for group in groups]
    return [candidate for candidate in candidates if candidate.sizes]


def configuration(form: str, group: Group, limits: Limits) -> Configuration:
    """Return one form for groups of (extent of l.0, extent of l.1) work-items."""
    return Configuration(
        label=f"{form}, group {group[0]}x{group[1]}",
        build=partial(transpose, form, group),
        sizes=tuple(ladder(group, limits)),
        arguments=arguments,
        reference=transposed,
    )


def ladder(group: Group, limits: Limits) -> list[Sizes]:
    """Return the sizes from about 64 on, doubling up to the paper's largest or the device's memory."""
    smallest = -(-64 // lcm(*group)) * lcm(*group)
    sides = (smallest << t for t in range(LARGEST.bit_length()))
    return [{"n": n} for n in sides if n <= LARGEST and 2 * 4 * n * n <= limits.global_memory]


def transpose(form: str, group: Group) -> lp.TranslationUnit:
    """Return one form of the transpose for groups of (extent of l.0, extent of l.1) work-items."""
    lane, row = ("i", "j") if form == "stride-1 loads" else ("j", "i")
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [lp.GlobalArg("a, b", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
        name="transpose",
        assumptions=f"n mod {lcm(*group)} = 0 and n >= {lcm(*group)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, lane, group[0], outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, row, group[1], outer_tag="g.1", inner_tag="l.1")
    return with_tile(knl, group) if form == "tile" else knl


def with_tile(knl: lp.TranslationUnit, group: Group) -> lp.TranslationUnit:
    """Return the kernel with the group's tile of a fetched into local memory, its columns along l.0."""
    knl = lp.add_prefetch(
        knl,
        "a",
        ["j_inner", "i_inner"],
        dim_arg_names=["a_row", "a_column"],
        default_tag=None,
        temporary_name="a_tile",
        temporary_address_space=lp.AddressSpace.LOCAL,
        fetch_outer_inames="i_outer, j_outer",
    )
    knl = over_lanes(knl, "a_row", group[0], "l.1", group[1])
    return over_lanes(knl, "a_column", group[1], "l.0", group[0])


def over_lanes(knl: lp.TranslationUnit, iname: str, extent: int, axis: str, lanes: int) -> lp.TranslationUnit:
    """Return the kernel with an iname spread over the lanes of a local axis, in rounds where they are too few."""
    if extent <= lanes:
        return lp.tag_inames(knl, {iname: axis})
    return lp.split_iname(knl, iname, lanes, inner_tag=axis)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random matrix a and a b of zeros."""
    n = sizes["n"]
    return {"a": rng.random((n, n), dtype=np.float32), "b": np.zeros((n, n), dtype=np.float32), "n": np.int32(n)}


def transposed(arguments: Arguments) -> dict[str, Array]:
    """Return b = aᵀ."""
    return {"b": np.transpose(arguments["a"])}
