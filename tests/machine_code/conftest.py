"""The toolchain that these tests need, where they keep what it made, and measured kernels to try it on."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from parts.titan_v import Row, measured_kernels

from . import toolchain
from .cuda_source import CudaSource
from .launch import Launch, build, built

Build = Callable[..., Launch]
"""builds a program with a single launch"""


@pytest.fixture(scope="session")
def listings(pytestconfig: pytest.Config) -> Path:
    """Return the folder of listings; skip where the toolchain is not there."""
    if reason := toolchain.missing():
        pytest.skip(reason)
    return Path(pytestconfig.cache.mkdir("machine-code"))


@pytest.fixture(scope="session")
def launch(listings: Path) -> Build:
    """Return what builds a Loopy program or CUDA code with one launch."""

    def single(program: object, architecture: str = "sm_90", options: tuple[str, ...] = ()) -> Launch:
        builder = built if isinstance(program, CudaSource) else build
        (only,) = builder(program, architecture, options, listings)
        return only

    return single


@pytest.fixture(scope="session")
def rows() -> Mapping[int, Row]:
    """Return the kernels measured on a TITAN V, by their numbers in the archive."""
    return {row["id"]: row for row in measured_kernels()}
