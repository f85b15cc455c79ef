"""Where a person's own data lie: fits, measurement archives, device descriptions."""

import os
from pathlib import Path

import platformdirs

DATA_VARIABLE = "LOOPYPERF_DATA"
"""Environment variable that names another folder for a person's own data, for tests and clusters."""


def user_data() -> Path:
    """Return the folder of a person's own data; it need not exist."""
    return Path(user_data_name())


def user_data_name() -> str:
    """Return :func:`user_data` as a string, which takes less time to make than a path."""
    return os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("loopyperf")
