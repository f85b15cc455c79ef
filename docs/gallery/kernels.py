"""The kernels of the gallery. The examples predict their run times without executing them."""

import loopy as lp
import numpy as np


def stencil(is_tiled: bool = False, tile: int = 16) -> lp.TranslationUnit:
    """Return a five-point stencil on n × n points. If tiled, the work-items of a group share a tile of u."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "v[i, j] = u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]",
        [
            lp.GlobalArg("u", np.float32, shape="n + 2, n + 2"),
            lp.GlobalArg("v", np.float32, shape="n, n"),
            lp.ValueArg("n", np.int32),
        ],
        assumptions=f"n >= {tile} and n mod {tile} = 0",
        name="tiled_stencil" if is_tiled else "stencil",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    if not is_tiled:
        return knl
    axes, outer = ["i_inner", "j_inner"], "i_outer, j_outer"
    return lp.add_prefetch(knl, "u", axes, fetch_outer_inames=outer, default_tag="l.auto")


def element_product(nodes: int = 20, elements: int = 16) -> lp.TranslationUnit:
    """Return a kernel that multiplies d by the nodal values of each element, as in discontinuous Galerkin methods.

    A group processes *elements* elements, with one work-item per node.
    """
    knl = lp.make_kernel(
        f"{{[e, i, j]: 0 <= e < n and 0 <= i, j < {nodes}}}",
        "du[e, i] = sum(j, d[i, j]*u[e, j])",
        [
            lp.GlobalArg("d", np.float32, shape=(nodes, nodes)),
            lp.GlobalArg("u, du", np.float32, shape=f"n, {nodes}"),
            lp.ValueArg("n", np.int32),
        ],
        assumptions=f"n >= {elements} and n mod {elements} = 0",
        name="element_product",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "e", elements, outer_tag="g.0", inner_tag="l.1")
    return lp.tag_inames(knl, {"i": "l.0"})
