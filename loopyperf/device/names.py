"""What devices are called: by their drivers, and in the names of files and folders."""

import re
from functools import lru_cache

SUFFIX = ".toml"
"""of the names of descriptions"""
OF_FILES = (SUFFIX, ".json", ".py")
"""what no device's name ends with, but a file's"""


@lru_cache(maxsize=1024)
def device_slug(name: str) -> str:
    """Return the device *name* as a folder name, e.g. ``"nvidia-titan-v"`` for ``"NVIDIA TITAN V"``.

    PoCL prefixes a processor's name with ``pthread-`` (``cpu-`` from version 4 on), which becomes ``pocl-``.
    """
    plain = re.sub(r"\((r|tm|c)\)", " ", name.strip().lower())
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return re.sub(r"^(pthread|cpu)-", "pocl-", words)


def is_path(name: str) -> bool:
    """Return whether *name* is the path of a file, and not what a device is called: ``./mine.toml``, ``mine.toml``."""
    return name.startswith((".", "~", "/")) or name.endswith(OF_FILES)


def is_processor(slug: str) -> bool:
    """Return whether the device with this short name is a machine's processor, by way of PoCL."""
    return slug.startswith("pocl-")
