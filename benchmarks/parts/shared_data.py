"""Where measurements of others are: in ``../shared/data``."""

import os
from pathlib import Path

SHARED_DATA = Path(os.environ.get("LOOPYPERF_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""beside the repository, unless the environment says where"""
