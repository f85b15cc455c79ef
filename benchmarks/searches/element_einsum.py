"""Search for the fastest batched product of discontinuous Galerkin elements, out[e,i] = Σⱼ D[i,j]·u[e,j].

For the optimizer, the index along the lanes, the prefetched operands and the layout are categorical parameters, and the
number of elements of a group is an ordered parameter.

    PYTHONPATH=benchmarks .venv/bin/python -m searches.element_einsum
"""

from typing import Any

import loopy as lp
from ranking_sets.element_einsum import Form, Lanes, element_product
from searches.economy import show

SPACE = {
    "lanes": ("elements", "nodes", "elements alone"),
    "elements": (2, 4, 8, 16, 32, 64),
    "prefetch": ("", "D", "u", "Du"),
    "layout": ("C", "F"),
}
ARGUMENTS: dict[str, Any] = {"n": 2**16, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48


def build(lanes: Lanes, elements: int, prefetch: str, layout: str) -> lp.TranslationUnit:
    """Return the product with *elements* elements per group."""
    return element_product(Form(lanes, elements, prefetch, "F" if layout == "F" else "C"))


def main() -> None:
    """Rank all points, then search with fewer trials."""
    show(build, SPACE, ARGUMENTS, TRIALS)


if __name__ == "__main__":
    main()
