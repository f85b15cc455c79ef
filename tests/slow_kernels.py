"""Five kernels with one known performance problem each, and the same kernels with the problem fixed by hand."""

import loopy as lp
import numpy as np

from tests.kernels import make_kernel

LANG = (2018, 2)


def copy(*, mended=False):
    """out = a, uncoalesced: neighboring work-items access different rows."""
    knl = make_kernel(
        "{[i, j]: 0 <= i, j < n}", "out[i, j] = a[i, j]", assumptions="n >= 256 and n mod 256 = 0", name="copy"
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    if mended:
        knl = lp.split_iname(knl, "j", 256, outer_tag="g.0", inner_tag="l.0")
        return lp.tag_inames(knl, {"i": "g.1"})
    knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"j": "g.1"})


def product(*, mended=False):
    """c = a·bᵀ, with bank conflicts: the columns of the tile of b lie in few banks."""
    knl = make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[j, k])",
        assumptions="n >= 16 and n mod 16 = 0",
        name="product",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    outer = "i_outer, j_outer, k_outer"
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    knl = lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    if mended:
        knl = lp.tag_array_axes(knl, "b_fetch", "stride:17, stride:1")
    return knl


def contraction(*, mended=False):
    """c = a·b, with low occupancy or spills: each work-item has accumulators for many columns."""
    width = 60 if mended else 120
    knl = make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < 240 and 0 <= k < m}",
        "c[j, i] = sum(k, a[k, i]*b[k, j])",
        assumptions="n >= 128 and n mod 128 = 0 and m >= 1",
        name="contraction",
    )
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", width, outer_tag="g.1", inner_tag="ilp")


STAGES = range(1, 9)
"""of a tree that sums one value of each of 256 work-items"""


def reduction(*, mended=False):
    """Sums of rows by a tree of work-items, with barriers, in each iteration of k or, mended, once after the loop."""
    within = "" if mended else "inames=g:k:i{each}, "
    tree = "\n".join(
        f"t{each}[i{each}] = t{each - 1}[i{each}] + t{each - 1}[i{each} + {256 >> each}]"
        f" {{{within.format(each=each)}id=stage{each}, dep=stage{each - 1}}}"
        for each in STAGES
    )
    each_time = f"""
        t0[l] = a[g, k, l] {{id=stage0, inames=g:k:l}}
        {tree}
        acc = acc + t8[0] {{id=update, dep=stage8:init, inames=g:k:w}}
        out[g, w] = acc {{dep=update}}"""
    once = f"""
        acc = acc + a[g, k, w] {{id=update, dep=init}}
        t0[w] = acc {{id=stage0, dep=update}}
        {tree}
        out[g, w] = t8[0] {{dep=stage8}}"""
    lengths = {f"i{each}": 256 >> each for each in STAGES} | ({} if mended else {"l": 256})
    tiles = [
        lp.TemporaryVariable(f"t{each}", shape=(256 >> each,), dtype=np.float32, address_space=lp.AddressSpace.LOCAL)
        for each in (0, *STAGES)
    ]
    knl = make_kernel(
        [
            "{[g, k, w]: 0 <= g < n and 0 <= k < m and 0 <= w < 256}",
            *(f"{{[{name}]: 0 <= {name} < {length}}}" for name, length in lengths.items()),
        ],
        f"<> acc = 0 {{id=init, inames=g:w}}{once if mended else each_time}",
        *tiles,
        ...,
        assumptions="n >= 1 and m >= 1",
        name="reduction",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    return lp.tag_inames(knl, dict.fromkeys([*lengths, "w"], "l.0") | {"g": "g.0"})


def tail(*, mended=False):
    """Sums of sines in 84 large groups: most cores of a V100 execute one, and some execute two."""
    size = 128 if mended else 1024
    knl = make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "out[i] = sum(k, sin(a[i]*k))",
        assumptions="n >= 1024 and n mod 1024 = 0 and m >= 1",
        name="tail",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    return lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")


PLANTED = {
    "copy": (copy, {"n": 4096}),
    "product": (product, {"n": 1024}),
    "contraction": (contraction, {"n": 20480, "m": 512}),
    "reduction": (reduction, {"n": 2048, "m": 64}),
    "tail": (tail, {"n": 1024 * 84, "m": 1000}),
}
