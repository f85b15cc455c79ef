"""The folder of measurements by others, by default ``../shared/data``."""

import os
from pathlib import Path

SHARED_DATA = Path(os.environ.get("LOOPYPERF_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""beside the repository, unless the environment variable is set"""
