"""The measured kernels in ``../shared/data/titan-v.pkl.xz``: einsums under many transformations."""

import pytest
from parts.titan_v import ARCHIVE, measured_kernels

from .specimen import Specimen

needs_archive = pytest.mark.skipif(
    not ARCHIVE.exists(), reason=f"no {ARCHIVE.name} in ../shared/data (LOOPYPERF_SHARED_DATA says where it is)"
)


def specimens(every: int = 1) -> list[Specimen]:
    """Return the measured kernels, or only one in *every*."""
    return [Specimen(f"{row['id']} {row['name']}", row["kernel"]) for row in measured_kernels()[::every]]
