"""A machine with a GPU that is none."""

import sys

import pytest

from loopyperf.measurement.backends import cuda_program

from .fake_cupy import FakeCuPy


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    """Return what stands in for CuPy from now on, with two GPUs."""
    fake = FakeCuPy("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(cuda_program, "perf_counter", fake.host_clock)
    return fake
