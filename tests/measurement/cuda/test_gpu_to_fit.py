"""Test of the path from a GPU to a fit: archive, replay and fit of CUDA measurements."""

from pathlib import Path
from typing import Any

import pytest

from loopyperf.calibration.archived import observations, provenance
from loopyperf.calibration.overlap_fit import solve
from loopyperf.calibration.problem import pose_problem
from loopyperf.measurement.archive import Archive, Recording, read_archive
from loopyperf.measurement.backends import cuda, open_backend
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.backends.cuda import CudaBackend
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Run
from loopyperf.predict.validate import with_empty_kernel

from ..synthetic import configuration, kernel_file
from .fake_cupy import FakeCuPy
from .test_cuda import scale

FILES = with_empty_kernel((kernel_file("scale", configuration(ladder=(2**18, 2**19, 2**20, 2**21))),))
LAUNCH, GROUP = 2e-6, 1e-9
"""seconds of the fake GPU for a launch, and for each of its groups"""


@pytest.fixture
def gpu(machine: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """Return a GPU whose times grow linearly with the number of groups, on the host's clock, too."""
    machine.effects["scale"] = scale
    machine.duration, machine.seconds_of_group = LAUNCH, GROUP
    monkeypatch.setattr(cuda, "perf_counter", lambda: machine.seconds)
    return CudaBackend(device="h100")


def recorded(machine: Backend, path: Path) -> Recording:
    protocol = Protocol(overhead_factor=1.0)
    with Archive(path, Run.start(machine.environment, machine.limits, protocol)) as archive:
        run_campaign(machine, FILES, archive)
    return read_archive(path)


def test_replay_has_both_clocks_and_gives_the_same_fit(gpu: CudaBackend, tmp_path: Path) -> None:
    measured = recorded(gpu, tmp_path / "gpu.jsonl")
    replayed = recorded(open_backend("replay", archive=tmp_path / "gpu.jsonl"), tmp_path / "replayed.jsonl")
    assert [each.environment.backend for each in measured.runs + replayed.runs] == ["cuda", "cuda"]
    assert [samples(each) for each in replayed.standing] == [samples(each) for each in measured.standing]
    assert all(each.device_samples == pytest.approx(each.samples) for each in measured.standing)
    origin = provenance(measured, "executed")
    assert (origin.slug, origin.backend) == ("nvidia-h100-80gb-hbm3", "cuda")
    problems = (pose_problem(observations(each, FILES, "executed")) for each in (measured, replayed))
    one, other = (solve(each, non_negative=False) for each in problems)
    assert one.weights == other.weights
    # Only the launch and the groups take time, and the linear model has both properties; the clock's rounding remains.
    assert max(map(abs, one.residuals)) < 1e-6


def samples(measurement: Any) -> tuple[object, ...]:
    return measurement.key, measurement.samples, measurement.device_samples
