"""The toolchain that these tests need, and where they keep what it made."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
