"""Search for the fastest tiled matrix multiplication over tile shapes, prefetching, unrolling and vectors.

A point of the space is a variant of c = a·b: a group has width × height work-items, and a work-item computes *rows*
rows of one column, or of a vector of columns. The builder is that of the measured variants in `ranking_sets`. Numbers
are ordered parameters for an optimizer; the prefetched operands and unrolling are categorical parameters.

    PYTHONPATH=benchmarks .venv/bin/python -m searches.matrix_multiplication
"""

from typing import Any

import loopy as lp
from ranking_sets.matrix_multiplication import Form, matrix_multiplication
from searches.economy import show

SPACE = {
    "width": (8, 16, 32),
    "height": (4, 8),
    "rows": (1, 4, 8),
    "prefetch": ("", "ab"),
    "unroll": (False, True),
    "vector": (1, 4),
}
ARGUMENTS: dict[str, Any] = {"n": 1024, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48
DEPTH = 8
"""elements of a tile along the summation index"""


def build(width: int, height: int, rows: int, prefetch: str, unroll: bool, vector: int) -> lp.TranslationUnit:
    """Return the variant of c = a·b at a point of the space."""
    form = Form(width, height, DEPTH, rows=rows, tiles=prefetch, is_unrolled=unroll, members=vector)
    return matrix_multiplication(form)


def main() -> None:
    """Rank all points, then search with fewer trials."""
    show(build, SPACE, ARGUMENTS, TRIALS)


if __name__ == "__main__":
    main()
