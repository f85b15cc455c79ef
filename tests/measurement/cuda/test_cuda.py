"""The CUDA backend on a stand-in for CuPy: what is launched, with what, in which order, and what is refused."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends import cuda_program, open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.cuda import CudaBackend
from loopyperf.measurement.backends.cuda_program import SHORTEST_HOLD, CudaLaunchSequence, CudaProgram

from ..launched_kernels import RELAXATION, REVERSAL, make, reversal
from ..synthetic import configuration, scale_kernel
from .fake_cupy import CUDADriverError, FakeCuPy


def scale(a: Any, b: Any, n: Any) -> None:
    """Do what the device function of the synthetic configuration does."""
    b.viewed(np.float32)[:n] = 2 * a.viewed(np.float32)[:n]


def wrong(a: Any, b: Any, n: Any) -> None:
    b.viewed(np.float32)[:n] = 3


@pytest.fixture
def backend(machine: FakeCuPy) -> CudaBackend:
    machine.effects["scale"] = scale
    return CudaBackend()


# {{{ what is launched


def test_a_right_kernel_is_timed_by_both_clocks(backend: CudaBackend, machine: FakeCuPy) -> None:
    samples = backend.time(BenchmarkCase("test", configuration(), {"n": 1000}), 7)
    assert (len(samples.wall), len(samples.device)) == (7, 7)
    assert samples.wall == pytest.approx([1e-6] * 7)
    assert samples.device == pytest.approx([machine.duration] * 7)
    # once to look at the results, seven times for each clock
    assert machine.kernels() == 15 * ["scale"]


def test_groups_may_take_local_memory_that_nobody_uses(machine: FakeCuPy) -> None:
    machine.effects["scale"] = scale
    CudaBackend(dynamic_local_memory=4096).time(BenchmarkCase("test", configuration(), {"n": 40}), 1)
    assert {launch[4] for launch in machine.launched if launch[0] == "scale"} == {4096}


def test_caches_are_emptied_by_writing_more_than_they_hold(backend: CudaBackend, machine: FakeCuPy) -> None:
    backend.empty_caches()
    (written,) = machine.filled
    assert written >= max(2**26, 2 * (backend.limits.cache or 0))


def test_runs_for_either_clock_find_emptied_caches(backend: CudaBackend, machine: FakeCuPy) -> None:
    backend.empty_caches()
    backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1)
    # once as it was asked for, and before the one run by each clock
    assert len(machine.filled) == 3
    backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1)
    assert len(machine.filled) == 3


def test_two_configurations_stay_compiled(backend: CudaBackend, machine: FakeCuPy) -> None:
    one, other = configuration(), configuration(label="another")
    for each in (one, other, one, other):
        backend.time(BenchmarkCase("test", each, {"n": 16}), 1)
    # each was looked at once, and timed twice by both clocks
    assert machine.kernels() == 10 * ["scale"]


def test_each_run_on_the_devices_clock_is_queued_behind_what_holds_it_up(
    backend: CudaBackend, machine: FakeCuPy
) -> None:
    backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 2)
    kinds = [launch if launch == "event" else launch[0] for launch in machine.launched]
    loading, checked, by_the_wall = ["hold"], ["scale"], 2 * ["scale"]
    assert kinds == [*loading, *checked, *by_the_wall, *2 * ["hold", "event", "scale", "event"]]
    held = [launch[3][0] for launch in machine.launched if launch[0] == "hold"]
    assert held == [0, *2 * [int(SHORTEST_HOLD * 1e9)]]
    assert all(isinstance(nanoseconds, np.uint64) for nanoseconds in held)


def test_arrays_and_scalars_arrive_as_the_kernel_takes_them(backend: CudaBackend, machine: FakeCuPy) -> None:
    backend.time(BenchmarkCase("test", configuration(), {"n": 40}), 1)
    name, grid, group, (a, b, n), dynamic_local_memory = machine.launched[-2]
    assert (name, grid, group, dynamic_local_memory) == ("scale", (3, 1, 1), (16, 1, 1), 0)
    assert (type(n), n) == (np.int32, 40)
    np.testing.assert_array_equal(b.viewed(np.float32), 2 * a.viewed(np.float32))
    assert a.viewed(np.float32).shape == (40,)


def test_a_run_is_all_launches_and_a_temporary_is_memory_of_their_own(machine: FakeCuPy) -> None:
    def double(a: Any, n: Any, t: Any) -> None:
        t.viewed(np.float32)[:n] = 2 * a.viewed(np.float32)[:n]

    def reverse(b: Any, s: Any, n: Any, t: Any) -> None:
        b.viewed(np.float32)[:n] = t.viewed(np.float32)[:n][::-1] + s

    machine.effects |= {"reversal": double, "reversal_0": reverse}
    assert len(CudaBackend().time(BenchmarkCase("test", REVERSAL, {"n": 1000}), 3).wall) == 3
    assert machine.kernels() == 7 * ["reversal", "reversal_0"]
    assert sorted(memory.contents.size for memory in machine.allocated) == [4000, 4000, 4000]


def test_loops_on_the_host_are_repeated_in_each_run(machine: FakeCuPy) -> None:
    def shift(a: Any, t: Any, k: Any, **_: Any) -> None:
        t.viewed(np.float32)[:] = np.roll(a.viewed(np.float32), -1) + k

    def back(a: Any, t: Any, **_: Any) -> None:
        a.viewed(np.float32)[:] = t.viewed(np.float32)

    machine.effects |= {"relaxation": by_name(shift, "relaxation"), "relaxation_0": by_name(back, "relaxation_0")}
    CudaBackend().time(BenchmarkCase("test", RELAXATION, {"n": 64, "steps": 3}), 1)
    assert machine.kernels() == 3 * 3 * ["relaxation", "relaxation_0"]


def by_name(effect: Callable[..., None], function: str) -> Callable[..., None]:
    """Return *effect*, called with the arguments of *function* in the order of the source."""
    signature = CudaProgram(RELAXATION.build()).source.partition(f" {function}(")[2].partition(")")[0]
    names = [parameter.split()[-1].lstrip("*") for parameter in signature.split(",")]
    return lambda *arguments: effect(**dict(zip(names, arguments, strict=True)))


def test_an_array_by_columns_is_passed_as_it_is(machine: FakeCuPy) -> None:
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


def test_a_kernel_is_compiled_once_for_all_its_sizes(backend: CudaBackend, machine: FakeCuPy) -> None:
    built: list[int] = []

    def build() -> lp.TranslationUnit:
        built.append(1)
        return scale_kernel()

    measured = configuration(build=build)
    for n in (16, 32, 16):
        backend.time(BenchmarkCase("test", measured, {"n": n}), 2)
    # what holds the device up is a module, too
    assert (len(built), len(machine.modules)) == (1, 2)
    assert machine.kernels() == 13 * ["scale"]


def test_fewer_groups_reside_where_each_takes_more_local_memory(machine: FakeCuPy) -> None:
    program = CudaProgram(reversal())
    launches = program.launches({"a": 0, "b": 0, "s": 0.25, "n": 64}, machine.empty_bytes)
    module = machine.RawModule(code=program.source)
    CudaLaunchSequence(module, launches, dynamic_local_memory=100_000).enqueue()
    assert [launch[4] for launch in machine.launched] == [100_000, 100_000]
    # without this, CUDA allows 48 KiB
    assert [function.max_dynamic_shared_size_bytes for function in machine.functions.values()] == [100_000, 100_000]


def test_the_kernels_options_reach_the_compiler(backend: CudaBackend, machine: FakeCuPy) -> None:
    unit = lp.set_options(scale_kernel(), build_options=["-use_fast_math"])
    backend.time(BenchmarkCase("test", configuration(build=lambda: unit), {"n": 16}), 1)
    assert machine.modules[-1].options == ("-use_fast_math",)


# }}}


# {{{ the device's clock


class SlowHost:
    """The host's clock where queueing a run takes *seconds*, and another clock never."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)
        self._now = 0.0
        self._is_started = False

    def __call__(self) -> float:
        if self._is_started:
            self._now += self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]
        self._is_started = not self._is_started
        return self._now


def test_a_run_that_was_not_queued_in_time_is_held_longer(
    backend: CudaBackend, machine: FakeCuPy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run by the wall; then the host takes 1 ms, once, and 10 µs from then on.
    monkeypatch.setattr(cuda_program, "perf_counter", SlowHost(1e-6, 1e-3, 1e-5))
    assert len(backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1).device) == 1
    held = [int(launch[3][0]) for launch in machine.launched if launch[0] == "hold"]
    assert held == [0, 100_000, 4_000_000]


def test_a_host_that_is_always_too_slow_is_refused(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_program, "perf_counter", SlowHost(1e-6, 0.5))
    with pytest.raises(MeasurementError, match=r"n=16: .* queuing one run took the host 0\.5 s"):
        backend.time(BenchmarkCase("test", configuration(), {"n": 16}), 1)


# }}}


# {{{ what is refused


def test_a_wrong_result_is_refused(backend: CudaBackend, machine: FakeCuPy) -> None:
    machine.effects["scale"] = wrong
    with pytest.raises(MeasurementError, match='scale, "group 16", n=64: array b is wrong: maximum error'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2)
    machine.effects["scale"] = scale
    assert len(backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2).wall) == 2


def test_what_is_not_written_is_wrong(backend: CudaBackend, machine: FakeCuPy) -> None:
    machine.effects["scale"] = lambda a, b, n: scale(a, b, n - 1)
    ones = configuration(
        arguments=lambda rng, sizes: {
            "a": np.ones(sizes["n"], np.float32),
            "b": np.full(sizes["n"], 7, np.float32),
            "n": np.int32(sizes["n"]),
        }
    )
    with pytest.raises(MeasurementError, match="array b is wrong"):
        backend.time(BenchmarkCase("scale", ones, {"n": 64}), 2)


def test_a_kernel_that_does_not_compile_is_named(backend: CudaBackend, machine: FakeCuPy) -> None:
    machine.refusal = "kern.cu(3): error: identifier is undefined"
    with pytest.raises(MeasurementError, match=r'scale, "group 16", n=16: kern\.cu\(3\): error'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 16}), 2)


def test_a_kernel_that_loopy_cannot_schedule_is_named(backend: CudaBackend) -> None:
    def build() -> lp.TranslationUnit:
        return make("{[i]: 0 <= i < n}", "b[i] = nowhere[i]", [lp.GlobalArg("b", np.float32, shape="n"), "..."])

    with pytest.raises(MeasurementError, match='untyped, "group 16", n=16: '):
        backend.time(BenchmarkCase("untyped", configuration(build=build), {"n": 16}), 2)


def test_a_launch_that_the_driver_refuses_is_named(backend: CudaBackend, machine: FakeCuPy) -> None:
    def refused(*_: object) -> None:
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    machine.effects["scale"] = refused
    with pytest.raises(MeasurementError, match='scale, "group 16", n=16: CUDA_ERROR_INVALID_VALUE'):
        backend.time(BenchmarkCase("scale", configuration(), {"n": 16}), 2)


def test_where_a_kernel_leaves_the_device_unusable_nothing_more_is_measured(
    backend: CudaBackend, machine: FakeCuPy
) -> None:
    def astray(*_: object) -> None:
        machine.is_lost = True

    machine.effects["scale"] = astray
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
