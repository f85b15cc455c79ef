"""Tests of the CUDA backend on a GPU: correct results and consistent clocks. Skipped without a GPU."""

import pytest

from loopyperf.errors import BackendError
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.cuda import CudaBackend

from ..launched_kernels import RELAXATION, REVERSAL
from ..synthetic import configuration
from .bundled import PLANNED


@pytest.fixture(scope="module")
def gpu() -> CudaBackend:
    """Return the backend on the first GPU, or skip the test if there is none."""
    try:
        return CudaBackend()
    except BackendError as error:
        pytest.skip(str(error))


def test_results_match_numpy(subtests: pytest.Subtests, gpu: CudaBackend) -> None:
    for label, (name, form) in PLANNED.items():
        with subtests.test(label=label):
            assert gpu.time(BenchmarkCase(name, form, form.sizes[0]), 1)


@pytest.mark.parametrize(
    ("measured", "sizes"),
    [(configuration(), {"n": 1000}), (REVERSAL, {"n": 1000}), (RELAXATION, {"n": 100, "steps": 5})],
)
def test_results_of_several_launches_match_numpy(gpu: CudaBackend, measured, sizes) -> None:
    samples = gpu.time(BenchmarkCase("test", measured, sizes), 5)
    assert all(seconds > 0 for seconds in (*samples.wall, *samples.device))


def test_device_time_does_not_exceed_the_wall_time(gpu: CudaBackend) -> None:
    # Copying 2**26 floats moves 512 MiB: about 0.2 ms on the fastest GPU, and 100 times as long as a launch.
    samples = gpu.time(BenchmarkCase("test", configuration(), {"n": 2**26}), 10)
    assert 0.5 * min(samples.wall) < min(samples.device) < 1.05 * min(samples.wall)


def test_device_time_excludes_the_launch_overhead(gpu: CudaBackend) -> None:
    samples = gpu.time(BenchmarkCase("test", configuration(), {"n": 16}), 10)
    assert min(samples.device) < 0.7 * min(samples.wall)


def test_more_work_takes_longer_on_both_clocks(gpu: CudaBackend) -> None:
    small, large = (gpu.time(BenchmarkCase("test", configuration(), {"n": n}), 10) for n in (16, 2**26))
    assert min(large.wall) > 5 * min(small.wall)
    assert min(large.device) > 5 * min(small.device)
