"""Fixture that emulates a machine with GPUs."""

import sys

import pytest

from loopyperf.measurement.backends import cuda

from .fake_cupy import FakeCuPy


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    """Replace CuPy by a fake with two GPUs, and return the fake."""
    fake = FakeCuPy("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(cuda, "perf_counter", fake.host_clock)
    return fake
