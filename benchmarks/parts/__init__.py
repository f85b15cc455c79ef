"""Shared code of the benchmark scripts. Importing it disables loopyperf's cache unless LOOPYPERF_CACHE is set."""

import os
from pathlib import Path

os.environ.setdefault("LOOPYPERF_CACHE", "0")

RANKING_SETS = Path(__file__).parents[1] / "ranking_sets"
"""folder of the kernel files with the variants to rank"""
