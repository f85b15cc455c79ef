"""What scripts of benchmarks have in common: none reads answers from the user's cache, or fills it."""

import os
from pathlib import Path

os.environ.setdefault("LOOPYPERF_CACHE", "0")

RANKING_SETS = Path(__file__).parents[1] / "ranking_sets"
"""folder of the kernel files whose configurations are ranked"""
