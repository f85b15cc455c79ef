"""Tests of the OpenCL backend in a campaign: alternating kernels, a lost device."""

from pathlib import Path

import pyopencl as cl
import pytest

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends import opencl
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend, OpenCLLaunchSequence, choose_opencl_device
from loopyperf.measurement.drift_monitor import cases

from .synthetic import configuration


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


def test_results_of_a_kernel_are_checked_only_once(backend):
    checked = []

    def reference(arguments):
        checked.append(arguments["n"])
        return {"b": 2 * arguments["a"]}

    measured = configuration(reference=reference)
    for n in (16, 32, 16):
        backend.time(BenchmarkCase("test", measured, {"n": n}), 2)
    assert checked == [16]


def test_buffers_are_freed_for_the_next_size(backend):
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    measured, before = configuration(), 0
    for step in range(40):  # 8 MiB in two buffers each; the first half leaves gaps in memory, of 30 to 75 MiB
        backend.time(BenchmarkCase("test", measured, {"n": 2**20 + 16 * step}), 1)
        before = resident_bytes() if step == 20 else before
    assert resident_bytes() - before < 5 * 2**23


def test_device_time_without_launches_is_zero():
    context = cl.Context([choose_opencl_device()])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    assert OpenCLLaunchSequence((), ()).time(queue, 2).device == (0.0, 0.0)


def test_reference_kernel_is_correct_and_scales_with_its_rounds(backend):
    short, *_, long = (case for case in cases(backend.limits) if case.sizes["rounds"] <= 2**12)
    times = [min(backend.time(case, 5).wall) for case in (short, long)]
    assert long.sizes["rounds"] == 64 * short.sizes["rounds"]
    assert times[1] > 5 * times[0]


class FailingLaunches:
    """Launches that fail, as on a lost device."""

    def time(self, queue, runs):
        raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")


def test_error_on_a_responsive_device_is_a_measurement_error(backend, monkeypatch):
    monkeypatch.setattr(backend, "_bound", lambda case: FailingLaunches())
    with pytest.raises(MeasurementError, match=r'scale, "group 16", n=64: .*OUT_OF_RESOURCES'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2)


def test_error_on_an_unresponsive_device_is_a_backend_error(monkeypatch):
    lost = OpenCLBackend()

    def fails(*_):
        raise cl.RuntimeError("clEnqueueReadBuffer failed: DEVICE_NOT_AVAILABLE")

    monkeypatch.setattr(lost, "_bound", lambda case: FailingLaunches())
    monkeypatch.setattr(opencl.cl, "enqueue_copy", fails)
    with pytest.raises(BackendError, match=r'scale, "group 16", n=64: .* no longer responds .*start again'):
        lost.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2)
