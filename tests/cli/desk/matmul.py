"""The kernel that the examples of the commands speak of."""

import loopy as lp
import numpy as np


def tiled(tile: int = 16) -> lp.TranslationUnit:
    """c = a·b for n × n matrices; the work-items of a group share a tile of a and one of b in local memory."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions=f"n >= {tile} and n mod {tile} = 0",
        name="matmul",
        lang_version=(2018, 2),
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", tile)
    outer = "i_outer, j_outer, k_outer"
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["k_inner", "j_inner"], fetch_outer_inames=outer, default_tag="l.auto")
