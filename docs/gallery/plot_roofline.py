"""
Roofline of a kernel
====================

:func:`~loopyperf.explain.plots.plot_roofline` shows the memory level or pipeline that limits a kernel, and how far the
predicted performance is below this limit.
"""

# %%
# The kernel is a tiled matrix multiplication. Each group keeps a tile of each factor in local memory.
import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.explain import plots


def matmul(tile: int = 16) -> lp.TranslationUnit:
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
    for matrix, axes in {"a": ["i_inner", "k_inner"], "b": ["k_inner", "j_inner"]}.items():
        outer = "i_outer, j_outer, k_outer"
        knl = lp.add_prefetch(knl, matrix, axes, fetch_outer_inames=outer, default_tag="l.auto")
    return knl


# %%
# Each sloped line is the bandwidth of a memory level. The kernel has one marker for each level, at its arithmetic
# intensity for this level. The filled marker belongs to the limiting level. The line leads from the predicted to the
# attainable performance: for a small matrix, there are too few warps to hide latencies.
plots.plot_roofline(lpp.roofline(matmul(), n=128, device="nvidia-v100"))
