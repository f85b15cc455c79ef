"""Tune a batched product of discontinuous Galerkin elements, out[e,i] = Σⱼ D[i,j]·u[e,j], in float64.

The space has 4,096 points, of which 2,688 meet the restrictions. The options are the index along the lanes, the
elements of a group and of a work-item, unrolling of the sum, the operands in local memory, and the memory layouts. No
GPU is needed to predict the fastest point on an H200:

    python examples/element_einsum.py

With an OpenCL device, for example PoCL on a processor, it also measures there:

    python examples/element_einsum.py opencl
"""

import sys
from typing import Any

import loopy as lp
import numpy as np

import loopyperf as lpp

NODES = 35
SPACE = {
    "lanes": ("elements", "nodes"),
    "elements": (2, 4, 6, 8, 12, 16, 24, 32),
    "per_item": (1, 2, 4, 8),
    "unroll": (1, 5, 7, 35),
    "prefetch": ("", "D", "u", "Du"),
    "operator": ("C", "F"),
    "layout": ("C", "F"),
}
RESTRICTIONS = ("elements*35 <= 1024", "per_item*unroll <= 40")


def build(
    lanes: str = "nodes",
    elements: int = 8,
    per_item: int = 1,
    unroll: int = 1,
    prefetch: str = "",
    operator: str = "C",
    layout: str = "C",
) -> lp.TranslationUnit:
    """Return the product with *elements* × *per_item* elements per group."""
    knl = lp.make_kernel(
        f"{{[e, i, j]: 0 <= e < n and 0 <= i, j < {NODES}}}",
        "out[e, i] = sum(j, D[i, j]*u[e, j])",
        [
            lp.GlobalArg("D", np.float64, shape=(NODES, NODES), order=operator),
            lp.GlobalArg("u, out", np.float64, shape=f"n, {NODES}", order=layout),
            lp.ValueArg("n", np.int32),
        ],
        name="element_einsum",
        assumptions="n >= 384 and n mod 384 = 0",
        lang_version=(2018, 2),
        silenced_warnings=["v1_scheduler_fallback"],  # of inames tagged "ilp"
    )
    element, node = ("l.0", "l.1") if lanes == "elements" else ("l.1", "l.0")
    knl = lp.tag_inames(lp.split_iname(knl, "e", elements * per_item, outer_tag="g.0"), {"i": node})
    knl = lp.split_iname(knl, "e_inner", elements, outer_iname="copy", inner_iname="element", inner_tag=element)
    knl = lp.tag_inames(knl, {"copy": "ilp"})
    for array, swept in (("D", ["i", "j"]), ("u", ["element", "copy", "j"])):
        if array in prefetch:
            knl = lp.add_prefetch(knl, array, swept, fetch_outer_inames="e_outer", default_tag="l.auto")
    return lp.split_iname(knl, "j", unroll, inner_tag="unr") if unroll > 1 else knl


def main(backend: str | None = None, n: int = 3 * 2**16, **options: Any) -> lpp.Tuning:
    """Return the tuning for an H200 by prediction or, with a *backend*, of what is measured there."""
    options |= {"backend": backend} if backend else {"device": "nvidia-h200", "model": "pipeline"}
    return lpp.tune(build, SPACE, n=n, restrictions=RESTRICTIONS, **options)


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
