"""Fixtures: compiled launches, a cache of listings, and the kernels measured on a TITAN V."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from parts.titan_v import Row, measured_kernels

from . import toolchain
from .cuda_source import CudaSource
from .launch import Launch, build, built

Build = Callable[..., Launch]
"""compiles a program that has a single launch"""


@pytest.fixture(scope="session")
def listings(pytestconfig: pytest.Config) -> Path:
    """Return the folder that caches listings; skip if the toolchain is missing."""
    if reason := toolchain.missing():
        pytest.skip(reason)
    return Path(pytestconfig.cache.mkdir("machine-code"))


@pytest.fixture(scope="session")
def launch(listings: Path) -> Build:
    """Return a function that compiles a Loopy program or CUDA code with one launch."""

    def single(program: object, architecture: str = "sm_90", options: tuple[str, ...] = ()) -> Launch:
        builder = built if isinstance(program, CudaSource) else build
        (only,) = builder(program, architecture, options, listings)
        return only

    return single


@pytest.fixture(scope="session")
def rows() -> Mapping[int, Row]:
    """Return the kernels measured on a TITAN V by their number in the archive."""
    return {row["id"]: row for row in measured_kernels()}
