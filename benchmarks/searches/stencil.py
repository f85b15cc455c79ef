"""Search for the fastest seven-point stencil over group shapes, with one or several points per work-item.

Some points of the space have more work-items per group than a device supports. The search reports them as failures with
the reason, before any model runs.

    PYTHONPATH=benchmarks .venv/bin/python -m searches.stencil
"""

from typing import Any

import loopy as lp
from ranking_sets.stencil import Form, stencil
from searches.economy import show

SPACE = {"width": (8, 16, 32, 64), "height": (1, 2, 4, 8), "depth": (1, 2, 4, 8, 16), "walks": (False, True)}
ARGUMENTS: dict[str, Any] = {"n": 256, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48


def build(width: int, height: int, depth: int, walks: bool) -> lp.TranslationUnit:
    """Return the stencil with blocks of width × height × depth points per group."""
    return stencil(Form(width, height, depth, walks))


def main() -> None:
    """Rank all points, then search with fewer trials."""
    show(build, SPACE, ARGUMENTS, TRIALS)


if __name__ == "__main__":
    main()
