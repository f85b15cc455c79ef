"""Search for the fastest batched product of discontinuous Galerkin elements, out[e,i] = Σⱼ D[i,j]·u[e,j].

What is along the lanes has no order, and neither have tiles and layouts: an optimizer takes them for categories, and
the elements of a group for a scale.

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
ASKED: dict[str, Any] = {"n": 2**16, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48


def build(lanes: Lanes, elements: int, prefetch: str, layout: str) -> lp.TranslationUnit:
    """Return the product with so many elements in a group."""
    return element_product(Form(lanes, elements, prefetch, "F" if layout == "F" else "C"))


def main() -> None:
    """Rank all points, then look for one as good among fewer of them."""
    show(build, SPACE, ASKED, TRIALS)


if __name__ == "__main__":
    main()
