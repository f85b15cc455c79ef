"""Tests. Loopy's files of cached results name functions by module: what tests leave there is kept from a user's own."""

import os
from pathlib import Path

os.environ.setdefault("XDG_CACHE_HOME", str(Path(__file__).parents[1] / "build" / "cache"))
