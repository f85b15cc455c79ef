"""Tests of the CUDA backend with a fake CuPy: launches with their arguments and order, and errors."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends import cuda, open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.cuda import SHORTEST_HOLD, CudaBackend, CudaLaunchSequence, CudaProgram

from ..launched_kernels import RELAXATION, REVERSAL, make, reversal
from ..synthetic import configuration, scale_kernel
from .fake_cupy import CUDADriverError, FakeCuPy


def scale(a: Any, b: Any, n: Any) -> None:
    """Compute the result of the synthetic configuration's device function."""
    b.viewed(np.float32)[:n] = 2 * a.viewed(np.float32)[:n]


def wrong(a: Any, b: Any, n: Any) -> None:
    b.viewed(np.float32)[:n] = 3


@pytest.fixture
def backend(machine: FakeCuPy) -> CudaBackend:
    machine.effects["scale"] = scale
    return CudaBackend()


# {{{ launches


def test_correct_kernel_is_timed_by_both_clocks(backend: CudaBackend, machine: FakeCuPy) -> None:
    samples = backend.time(BenchmarkCase("test", configuration(), {"n": 1000}), 7)
    assert (len(samples.wall), len(samples.device)) == (7, 7)
    assert samples.wall == pytest.approx([1e-6] * 7)
    assert samples.device == pytest.approx([machine.duration] * 7)
    # once to check the results, and seven times for each clock
    assert machine.kernels() == 15 * ["scale"]


def test_each_run_on_the_device_clock_is_queued_after_a_hold_kernel(backend: CudaBackend, machine: FakeCuPy) -> None:
    backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 2)
    kinds = [launch if launch == "event" else launch[0] for launch in machine.launched]
    loading, checked, timed_on_the_host = ["hold"], ["scale"], 2 * ["scale"]
    assert kinds == [*loading, *checked, *timed_on_the_host, *2 * ["hold", "event", "scale", "event"]]
    held = [launch[3][0] for launch in machine.launched if launch[0] == "hold"]
    assert held == [0, *2 * [int(SHORTEST_HOLD * 1e9)]]
    assert all(isinstance(nanoseconds, np.uint64) for nanoseconds in held)


def test_arrays_and_scalars_match_the_kernels_parameters(backend: CudaBackend, machine: FakeCuPy) -> None:
    backend.time(BenchmarkCase("test", configuration(), {"n": 40}), 1)
    name, grid, group, (a, b, n), dynamic_local_memory = machine.launched[-2]
    assert (name, grid, group, dynamic_local_memory) == ("scale", (3, 1, 1), (16, 1, 1), 0)
    assert (type(n), n) == (np.int32, 40)
    np.testing.assert_array_equal(b.viewed(np.float32), 2 * a.viewed(np.float32))
    assert a.viewed(np.float32).shape == (40,)


def test_run_has_all_launches_and_memory_for_temporaries(machine: FakeCuPy) -> None:
    def double(a: Any, n: Any, t: Any) -> None:
        t.viewed(np.float32)[:n] = 2 * a.viewed(np.float32)[:n]

    def reverse(b: Any, s: Any, n: Any, t: Any) -> None:
        b.viewed(np.float32)[:n] = t.viewed(np.float32)[:n][::-1] + s

    machine.effects |= {"reversal": double, "reversal_0": reverse}
    assert len(CudaBackend().time(BenchmarkCase("test", REVERSAL, {"n": 1000}), 3).wall) == 3
    assert machine.kernels() == 7 * ["reversal", "reversal_0"]
    assert sorted(memory.contents.size for memory in machine.allocated) == [4000, 4000, 4000]


def test_host_loops_are_repeated_in_each_run(machine: FakeCuPy) -> None:
    def shift(a: Any, t: Any, k: Any, **_: Any) -> None:
        t.viewed(np.float32)[:] = np.roll(a.viewed(np.float32), -1) + k

    def back(a: Any, t: Any, **_: Any) -> None:
        a.viewed(np.float32)[:] = t.viewed(np.float32)

    machine.effects |= {"relaxation": by_name(shift, "relaxation"), "relaxation_0": by_name(back, "relaxation_0")}
    CudaBackend().time(BenchmarkCase("test", RELAXATION, {"n": 64, "steps": 3}), 1)
    assert machine.kernels() == 3 * 3 * ["relaxation", "relaxation_0"]


def by_name(effect: Callable[..., None], function: str) -> Callable[..., None]:
    """Return *effect* as a function of positional arguments, in the order of *function*'s parameters in the source."""
    signature = CudaProgram(RELAXATION.build()).source.partition(f" {function}(")[2].partition(")")[0]
    names = [parameter.split()[-1].lstrip("*") for parameter in signature.split(",")]
    return lambda *arguments: effect(**dict(zip(names, arguments, strict=True)))


def test_column_major_array_is_passed_without_conversion(machine: FakeCuPy) -> None:
    def build() -> lp.TranslationUnit:
        return make(
            "{[i, j]: 0 <= i < n and 0 <= j < 3}",
            "b[i, j] = a[i, j]",
            [
                lp.GlobalArg("a", np.float64, shape="n, 3", order="F"),
                lp.GlobalArg("b", np.float64, shape="n, 3", order="F"),
                lp.ValueArg("n", np.int32),
            ],
            name="columns",
        )

    def arguments(rng: np.random.Generator, sizes: Any) -> dict[str, Any]:
        n = sizes["n"]
        return {"a": np.asfortranarray(rng.random((n, 3))), "b": np.zeros((n, 3), order="F"), "n": np.int32(n)}

    def copy(a: Any, b: Any, n: Any) -> None:
        b.contents[:] = a.contents

    machine.effects["columns"] = copy
    columns = configuration(build=build, arguments=arguments, reference=lambda arguments: {"b": arguments["a"]})
    CudaBackend().time(BenchmarkCase("test", columns, {"n": 5}), 1)
    a = machine.launched[-2][3][0].viewed(np.float64)
    np.testing.assert_array_equal(a, columns.arguments(np.random.default_rng(0), {"n": 5})["a"].T.ravel())


def test_each_launch_requests_the_dynamic_local_memory(machine: FakeCuPy) -> None:
    program = CudaProgram(reversal())
    launches = program.launches({"a": 0, "b": 0, "s": 0.25, "n": 64}, machine.empty_bytes)
    module = machine.RawModule(code=program.source)
    CudaLaunchSequence(module, launches, dynamic_local_memory=100_000).enqueue()
    assert [launch[4] for launch in machine.launched] == [100_000, 100_000]
    # CUDA's default limit is 48 KiB
    assert [function.max_dynamic_shared_size_bytes for function in machine.functions.values()] == [100_000, 100_000]


def test_build_options_are_passed_to_the_compiler(backend: CudaBackend, machine: FakeCuPy) -> None:
    unit = lp.set_options(scale_kernel(), build_options=["-use_fast_math"])
    backend.time(BenchmarkCase("test", configuration(build=lambda: unit), {"n": 16}), 1)
    assert machine.modules[-1].options == ("-use_fast_math",)


# }}}


# {{{ the device clock


class SlowHost:
    """A host clock on which queuing each run takes the next of *seconds*; the last one repeats."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)
        self._now = 0.0
        self._is_started = False

    def __call__(self) -> float:
        if self._is_started:
            self._now += self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]
        self._is_started = not self._is_started
        return self._now


def test_hold_is_extended_if_a_run_is_not_queued_in_time(
    backend: CudaBackend, machine: FakeCuPy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run on the host's clock; then queuing takes 1 ms once, and 10 µs after that.
    monkeypatch.setattr(cuda, "perf_counter", SlowHost(1e-6, 1e-3, 1e-5))
    assert len(backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1).device) == 1
    held = [int(launch[3][0]) for launch in machine.launched if launch[0] == "hold"]
    assert held == [0, 100_000, 4_000_000]


def test_host_that_is_always_too_slow_raises(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "perf_counter", SlowHost(1e-6, 0.5))
    with pytest.raises(MeasurementError, match=r"n=16: .* queuing one run took the host 0\.5 s"):
        backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1)


# }}}


# {{{ errors


def test_wrong_result_raises(backend: CudaBackend, machine: FakeCuPy) -> None:
    machine.effects["scale"] = wrong
    with pytest.raises(MeasurementError, match='scale, "group 16", n=64: array b is wrong: maximum error'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2)
    machine.effects["scale"] = scale
    assert len(backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2).wall) == 2


def test_compile_error_names_the_kernel(backend: CudaBackend, machine: FakeCuPy) -> None:
    machine.refusal = "kern.cu(3): error: identifier is undefined"
    with pytest.raises(MeasurementError, match=r'scale, "group 16", n=16: kern\.cu\(3\): error'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 16}), 2)


def test_launch_error_names_the_kernel(backend: CudaBackend, machine: FakeCuPy) -> None:
    def refused(*_: object) -> None:
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    machine.effects["scale"] = refused
    with pytest.raises(MeasurementError, match='scale, "group 16", n=16: CUDA_ERROR_INVALID_VALUE'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 16}), 2)


def test_unusable_device_raises_a_backend_error(backend: CudaBackend, machine: FakeCuPy) -> None:
    def lose_device(*_: object) -> None:
        machine.is_lost = True

    machine.effects["scale"] = lose_device
    with pytest.raises(BackendError, match=r"n=16: CUDA_ERROR_ILLEGAL_ADDRESS.* the archive is resumed"):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 16}), 2)


# }}}


# {{{ without CuPy


def test_everything_but_the_cuda_backend_works_without_cupy() -> None:
    script = (
        "import sys; sys.modules['cupy'] = None\n"
        "import loopyperf.measurement.campaign, loopyperf.measurement.backends.cuda\n"
        "from loopyperf.measurement.backends import open_backend\n"
        "from loopyperf.errors import BackendError\n"
        "try: open_backend('cuda')\n"
        "except BackendError as error: print(error)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'loopyperf[cuda]'" in finished.stdout


@pytest.mark.usefixtures("machine")
def test_the_backend_is_opened_by_its_name() -> None:
    assert isinstance(open_backend("cuda", device="h100"), CudaBackend)


# }}}
