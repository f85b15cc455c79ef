"""Tests. Their Loopy cache is separate from the user's: its entries refer to functions of test modules by name."""

import os
from pathlib import Path

os.environ.setdefault("XDG_CACHE_HOME", str(Path(__file__).parents[1] / "build" / "cache"))
