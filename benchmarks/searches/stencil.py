"""Search for the fastest seven-point stencil: the shape of groups, and whether a work-item walks along an axis.

Blocks of more work-items than a group may have are among the points: they are failures with their reason, found before
any model looks at them.

    PYTHONPATH=benchmarks .venv/bin/python -m searches.stencil
"""

from typing import Any

import loopy as lp
from ranking_sets.stencil import Form, stencil
from searches.economy import show

SPACE = {"width": (8, 16, 32, 64), "height": (1, 2, 4, 8), "depth": (1, 2, 4, 8, 16), "walks": (False, True)}
ASKED: dict[str, Any] = {"n": 256, "device": "nvidia-titan-v", "model": "roofline"}
TRIALS = 48


def build(width: int, height: int, depth: int, walks: bool) -> lp.TranslationUnit:
    """Return the stencil in blocks of width × height × depth points, of a group, or walked through by it."""
    return stencil(Form(width, height, depth, walks))


def main() -> None:
    """Rank all points, then look for one as good among fewer of them."""
    show(build, SPACE, ASKED, TRIALS)


if __name__ == "__main__":
    main()
