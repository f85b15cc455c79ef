"""Tests of running parts of a kernel on a fake GPU."""

from typing import Any

import pytest

from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.cuda import CudaBackend

from ..synthetic import configuration
from .fake_cupy import FakeCuPy

CASE = BenchmarkCase("scale", configuration(), {"n": 16 * 10_000})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    fake = FakeCuPy("NVIDIA H100 80GB HBM3")
    fake.seconds_of_group = 1e-9
    monkeypatch.setattr("loopyperf.measurement.backends.cuda.load_cupy", lambda: fake)
    monkeypatch.setattr("loopyperf.measurement.backends.cuda.perf_counter", fake.host_clock)
    return fake


@pytest.fixture
def backend(machine: FakeCuPy) -> Any:
    return CudaBackend()


def test_psat_is_the_occupancy_times_the_cores(backend: Any):
    (program,) = backend.bound(CASE, {}).programs
    # Groups of 16 work-items: the maximum of 32 on each of 132 cores
    assert (program.name, program.grids, program.saturation) == ("scale", ((10_000, 1, 1),), 32 * 132)


def test_a_part_is_launched_with_fewer_groups_and_less_memory(machine: FakeCuPy, backend: Any):
    bound = backend.bound(CASE, {"a": 64, "b": 64})
    assert [len(each.contents) for each in machine.allocated[-2:]] == [64, 64]
    timing = bound.time("scale", [(300, 1, 1)], 1)
    launched = [launch for launch in machine.launched if launch != "event" and launch[0] == "scale"]
    assert {launch[1] for launch in launched} == {(300, 1, 1)}
    assert timing.device == pytest.approx([machine.duration + 300e-9], rel=1e-6)


def test_memory_is_evicted_before_each_run_outside_of_the_timing(machine: FakeCuPy, backend: Any):
    bound = backend.bound(CASE, {})
    bound.time("scale", [(300, 1, 1)], 2, evicted=2**20)
    assert machine.filled == [2**20] * 4  # before each of two runs for each clock
