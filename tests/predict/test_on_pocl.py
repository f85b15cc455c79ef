"""Test calibration, validation and estimates end to end on PoCL, with two small kernel files."""

from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.device.device_library import a_processor
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.protocol import Protocol
from tests.kernels import doubled
from tests.small_campaign import write_kernel_files


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_calibration_validation_and_estimate_work_on_pocl(tmp_path: Path):
    pytest.importorskip("pyopencl")
    backend = open_backend("opencl")
    protocol = Protocol(runs=5, dropped=1, probe_runs=2)
    kernels = write_kernel_files(tmp_path / "kernels", "empty kernel", "vectors")
    linear, overlap = (
        lpp.calibrate(backend, kernels=kernels, protocol=protocol, archive=tmp_path / "archive.jsonl", model=model)
        for model in ("linear", "overlap")
    )
    assert linear.slug == overlap.slug == backend.environment.slug
    assert {"launches", "global store 32-bit stride 1"} <= set(linear.weights) | {
        name for group in linear.undetermined for name in group.properties
    }
    assert overlap.described_as == a_processor().slug
    assert "launches" in overlap.weights
    found = lpp.validate(backend, kernels=write_kernel_files(tmp_path / "tested", "long vectors"), protocol=protocol)
    assert all(row.measured > 0 for row in found)
    assert lpp.estimate(doubled(), n=2**16).device == linear.slug
