"""Fixtures: fits that need no device, a small calibration campaign, and a cache folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loopyperf.calibration.fits import Fit
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.predict import on_device
from loopyperf.stages import case, device_choice
from tests.measurement.synthetic import SyntheticBackend
from tests.small_campaign import seconds, write_kernel_files

MakeFit = Callable[..., Fit]


@pytest.fixture
def make_fit() -> MakeFit:
    """Return a function that creates a fit: 1 ns per multiplication and 1 µs per launch, unless overridden."""

    def make(**changes: object) -> Fit:
        fields = {
            "model": "linear",
            "device": "Made Up 1",
            "slug": "made-up-1",
            "counting": "executed",
            "weights": {"f32 mul": 1e-9, "launches": 1e-6},
        }
        return Fit(**fields | changes)

    return make


@pytest.fixture(autouse=True)
def clear_local_device() -> None:
    """Clear the cached local device of earlier tests."""
    device_choice._local_device.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder, which does not exist yet."""
    folder = tmp_path / "counted"
    monkeypatch.setenv("LOOPYPERF_CACHE", str(folder))
    return folder


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes Loopy's preprocessing and the construction of graphs fail from then on."""

    def forbidden() -> None:
        monkeypatch.setattr(case, "load_kernel", lambda *_: pytest.fail("a pass of Loopy's"))
        for owner, name in ((on_device, "kernel_profile"), (KernelStructure, "profile")):
            monkeypatch.setattr(owner, name, lambda *_, **__: pytest.fail("a graph"))

    return forbidden


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """Return a folder with three small kernel files."""
    return write_kernel_files(tmp_path / "kernels")


@pytest.fixture
def backend() -> SyntheticBackend:
    return SyntheticBackend(seconds)
