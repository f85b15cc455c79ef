"""Tests of the OpenCL backend in a campaign: alternating kernels, empty caches, a lost device."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends import opencl
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend, choose_opencl_device
from loopyperf.measurement.backends.opencl_program import OpenCLLaunchSequence
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


def chain_of_loads() -> lp.TranslationUnit:
    """A pointer chase over n lines of 64 bytes: each load depends on the previous one, so no latency is hidden."""
    unit = lp.make_kernel(
        "{[i, one]: 0 <= one < 1 and 0 <= i < n}",
        """
        for one
            <> at = 0 {id=begin}
            for i
                at = follows[at] {id=step, dep=begin}
            end
            last[one] = at {dep=step}
        end
        """,
        [
            lp.GlobalArg("follows", np.int32, shape="16*n"),
            lp.GlobalArg("last", np.int32, shape="1"),
            lp.ValueArg("n", np.int32),
        ],
        name="chain_of_loads",
        assumptions="n >= 1",
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"one": "g.0"})


def lines_in_a_circle(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Any]:
    lines = 16 * np.concatenate([[0], 1 + rng.permutation(sizes["n"] - 1)]).astype(np.int32)
    follows = np.zeros(16 * sizes["n"], np.int32)
    follows[lines] = np.roll(lines, -1)
    return {"follows": follows, "last": np.zeros(1, np.int32), "n": sizes["n"]}


def test_runs_with_cold_caches_take_longer(backend):
    # 64 KiB fit in a cache, and emptying it touches 64 MiB or more. Warm and cold runs alternate, so that other load on
    # the machine slows down both.
    chain = {"build": chain_of_loads, "arguments": lines_in_a_circle, "reference": lambda _: {"last": np.zeros(1)}}
    case = BenchmarkCase("test", configuration(**chain), {"n": 2**10})
    backend.time(case, 2)
    warm, cold = [], []
    for _ in range(15):
        warm.append(min(backend.time(case, 2).device))
        backend.empty_caches()
        cold += backend.time(case, 1).device
    assert median(cold) > 1.5 * median(warm)


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
