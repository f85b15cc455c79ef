"""Search for the fastest tiled matrix multiplication: shapes of tiles, prefetching, unrolling, vectors.

A point of the space is a form of c = a·b: a group of width × height work-items, each of which computes *rows* rows of
one column, or of a vector of columns. The builder is that of the measured set of variants, `ranking_sets`. Numbers in
order are a scale to an optimizer; which operands are fetched into local memory, and whether loops are unrolled, are
categories.

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
ASKED: dict[str, Any] = {"n": 1024, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48
DEPTH = 8
"""of tiles, along the sum"""


def build(width: int, height: int, rows: int, prefetch: str, unroll: bool, vector: int) -> lp.TranslationUnit:
    """Return c = a·b in the form that is chosen."""
    form = Form(width, height, DEPTH, rows=rows, tiles=prefetch, is_unrolled=unroll, members=vector)
    return matrix_multiplication(form)


def main() -> None:
    """Rank all points, then look for one as good among fewer of them."""
    show(build, SPACE, ASKED, TRIALS)


if __name__ == "__main__":
    main()
