"""The measured kernels in ``../shared/data/titan-v.pkl.xz``: einsums under many transformations."""

import lzma
import os
import pickle
from pathlib import Path

from .specimen import Specimen

SHARED_DATA = Path(os.environ.get("LOOPYPERF_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""beside the repository, unless the environment says where"""
ARCHIVE = SHARED_DATA / "titan-v.pkl.xz"


def specimens(every: int = 1) -> list[Specimen]:
    """Return the measured kernels, or only each of them that comes *every* so many."""
    with lzma.open(ARCHIVE) as file:
        rows = pickle.load(file)
    return [Specimen(f"{row['id']} {row['name']}", row["kernel"]) for row in rows[::every]]
