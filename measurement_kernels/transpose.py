"""Transpose of an n × n matrix: b[i,j] = a[j,i], row-major, float32.

Stevens and Klöckner, section 4.1, fourth class. Each work-item stores one element. Three forms:

- "tile": the group fetches a tile into local memory, so that loads and stores both have stride 1;
- "stride-1 stores": without a tile, j along l.0, hence loads of stride n;
- "stride-1 loads": without a tile, i along l.0, hence stores of stride n.

Purpose: loads and stores that are not coalesced (fraction 4/>4: every element of a line is used, by another group of
lanes), and, in comparison, the costs and benefits of a tile: a local load, a local store, two barriers.

The tile of a group of gx × gy work-items is gx rows by gy columns of a. Where gx > gy it is fetched in ⌈gx/gy⌉ rounds,
each by gy of the gx lanes along l.0, the last one possibly by only part of the rows: one element per work-item on
average, as in Loopy's automatic distribution ("l.auto"). In square groups each work-item fetches one element.

Sizes: the schedule doubles the smallest multiple of lcm(gx, gy) that is at least 64, a power of two where the paper's
2^(p+t) is a multiple of the group's sides, so that tiles always divide the matrix. The groups are the paper's: 2-D Med
on all devices except those of the small set, including the Titan X.

Counts: n² loads, n² stores; with a tile also n² local loads, n² local stores and one barrier per work-item.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "transpose"

FORMS = ("tile", "stride-1 stores", "stride-1 loads")

LARGEST = 2**14
"""the paper's largest n: 2^(p+t) with p = 11, t = 3"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the three forms for each 2-D group size, as far as the device supports them."""
    groups = [(x, y) for x, y in limits.groups_2d(unless_small="medium") if 4 * x * y <= limits.local_memory]
    return [configuration(form, group) for form in FORMS for group in groups]


def configuration(form: str, group: Group) -> Configuration:
    """Return one form for groups of (extent of l.0, extent of l.1) work-items."""
    return Configuration(
        label=f"{form}, group {group[0]}x{group[1]}",
        build=partial(transpose, form, group),
        sizes=tuple({"n": n} for n in doubling(at_least=64, multiple_of=lcm(*group), at_most=LARGEST)),
        arguments=arguments,
        reference=transposed,
    )


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
    if form != "tile":
        return knl
    axes = {"a_row": "l.1", "a_column": "l.0"}
    return with_local_tile(knl, "a", swept="j_inner, i_inner", outer="i_outer, j_outer", axes=axes)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random matrix a and zeros for b."""
    n = sizes["n"]
    return {"a": rng.random((n, n), dtype=np.float32), "b": np.zeros((n, n), dtype=np.float32), "n": np.int32(n)}


def transposed(arguments: Arguments) -> dict[str, Array]:
    """Return b = aᵀ."""
    return {"b": np.transpose(arguments["a"])}
