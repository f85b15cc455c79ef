"""Tests of the OpenCL backend: timing, errors and devices."""

import subprocess
import sys

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest

from loopyperf.errors import BackendError, LoopyperfWarning, MeasurementError
from loopyperf.measurement.backends import open_backend, opencl
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import (
    OpenCLBackend,
    OpenCLProgram,
    choose_opencl_device,
    opencl_environment,
    warp_size,
)

from .launched_kernels import RELAXATION, REVERSAL, make, relaxation, reversal
from .synthetic import configuration, scale_kernel


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


def test_error_for_a_driver_that_cannot_compile_has_an_install_hint(monkeypatch):
    def unable(*_: object, **__: object) -> None:
        raise cl.Error("Build on <device>: error: unknown target CPU 'generic' Device x failed to build the program")

    monkeypatch.setattr(cl.Program, "build", unable)
    with pytest.raises(BackendError, match=r"cannot compile \(unknown target CPU 'generic'\); install another one"):
        OpenCLBackend()


# {{{ timing


@pytest.mark.parametrize(
    ("measured", "sizes"),
    [(configuration(), {"n": 1000}), (REVERSAL, {"n": 1000}), (RELAXATION, {"n": 100, "steps": 5})],
)
def test_correct_kernel_is_timed(backend, measured, sizes):
    timing = backend.time(BenchmarkCase("test", measured, sizes), 7)
    assert len(timing.wall) == len(timing.device) == 7
    assert all(0 < inside <= outside for inside, outside in zip(timing.device, timing.wall, strict=True))


def test_more_work_takes_longer(backend):
    # Copying 2**21 floats takes about 1 ms; copying 16 takes no longer than the launch of about 20 µs.
    small, large = (min(backend.time(BenchmarkCase("test", configuration(), {"n": n}), 5).wall) for n in (16, 2**21))
    assert large > 5 * small


def test_a_kernel_is_compiled_once_for_all_its_sizes(backend):
    built = []

    def build():
        built.append(1)
        return scale_kernel()

    measured = configuration(build=build)
    for n in (16, 32, 16):
        backend.time(BenchmarkCase("test", measured, {"n": n}), 2)
    assert len(built) == 1


def test_queue_without_profiling_has_no_device_times():
    context = cl.Context([choose_opencl_device()])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4000)
    bound = OpenCLProgram(context, reversal()).bind({"a": buffer, "b": buffer, "s": 0.25, "n": 1000})
    timing = bound.time(cl.CommandQueue(context), 3)
    assert (len(timing.wall), timing.device) == (3, None)


def test_each_launch_has_its_own_grid():
    context = cl.Context([choose_opencl_device()])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4000)
    bound = OpenCLProgram(context, reversal()).bind({"a": buffer, "b": buffer, "s": 0.25, "n": 1000})
    # 1000 elements are 63 groups of 16 and 32 groups of 32
    assert [launch[1:] for launch in bound.launches] == [((1008,), (16,)), ((1024,), (32,))]
    assert [launch.kernel.function_name for launch in bound.launches] == ["reversal", "reversal_0"]


def test_a_group_may_have_more_axes_than_the_grid():
    context = cl.Context([choose_opencl_device()])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 400)
    unit = make(
        "{[g, i, j]: 0 <= g < n and 0 <= i < 2 and 0 <= j < 16}",
        "a[g, i, j] = g",
        [lp.GlobalArg("a", np.float32, shape="n, 2, 16"), lp.ValueArg("n", np.int32)],
    )
    unit = lp.tag_inames(unit, {"g": "g.0", "i": "l.1", "j": "l.0"})
    bound = OpenCLProgram(context, unit).bind({"a": buffer, "n": 3})
    assert [launch[1:] for launch in bound.launches] == [((48, 2), (16, 2))]


def test_host_loop_is_unrolled_into_launches():
    context = cl.Context([choose_opencl_device()])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 400)
    program = OpenCLProgram(context, relaxation())
    assert len(program.bind({"a": buffer, "n": 100, "steps": 5}).launches) == 10
    with pytest.raises(MeasurementError, match="more than 1000 launches"):
        program.bind({"a": buffer, "n": 100, "steps": 501})


def test_column_major_array_is_passed_without_conversion(backend):
    def build():
        return make(
            "{[i, j]: 0 <= i < n and 0 <= j < 3}",
            "b[i, j] = a[i, j] + i",
            [
                lp.GlobalArg("a", np.float64, shape="n, 3", order="F"),
                lp.GlobalArg("b", np.float64, shape="n, 3", order="C"),
                lp.ValueArg("n", np.int32),
            ],
        )

    def arguments(rng, sizes):
        n = sizes["n"]
        return {"a": np.asfortranarray(rng.random((n, 3))), "b": np.zeros((n, 3)), "n": np.int32(n)}

    measured = configuration(
        build=build,
        arguments=arguments,
        reference=lambda arguments: {"b": arguments["a"] + np.arange(5)[:, None]},
        tolerance=0.0,
    )
    assert len(backend.time(BenchmarkCase("test", measured, {"n": 5}), 2).wall) == 2


# }}}


# {{{ errors


def test_wrong_result_raises(backend):
    wrong = configuration("group 16", reference=lambda arguments: {"b": 2 * arguments["a"] + 1})
    with pytest.raises(MeasurementError, match='scale, "group 16", n=64: array b is wrong: maximum error'):
        backend.time(BenchmarkCase("scale", wrong, {"n": 64}), 2)


def test_compile_error_names_the_kernel(backend):
    def build():
        broken = lp.CInstruction("i", "not C at all;", read_variables=frozenset(), assignees=("b[i]",))
        return make(
            "{[i]: 0 <= i < n}", [broken], [lp.GlobalArg("b", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
        )

    with pytest.raises(MeasurementError, match=r'broken, "group 16", n=16: (.|\n)*undeclared identifier'):
        backend.time(BenchmarkCase("broken", configuration(build=build), {"n": 16}), 2)


def test_scheduling_error_names_the_kernel(backend):
    def build():
        return make("{[i]: 0 <= i < n}", "b[i] = nowhere[i]", [lp.GlobalArg("b", np.float32, shape="n"), "..."])

    with pytest.raises(MeasurementError, match='untyped, "group 16", n=16: '):
        backend.time(BenchmarkCase("untyped", configuration(build=build), {"n": 16}), 2)


def test_kernel_for_another_target_is_rejected(backend):
    def build():
        return make(
            "{[i]: 0 <= i < n}",
            "b[i] = 1",
            [lp.GlobalArg("b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
            target=lp.CudaTarget(),
        )

    with pytest.raises(MeasurementError, match="target is CudaTarget; create it with"):
        backend.time(BenchmarkCase("test", configuration(build=build), {"n": 16}), 2)


def test_backend_is_usable_after_a_failure(backend):
    test_wrong_result_raises(backend)
    assert len(backend.time(BenchmarkCase("scale", configuration(), {"n": 64}), 2).wall) == 2


# }}}


# {{{ devices


def test_a_device_is_found_by_part_of_its_name_or_platform():
    device = choose_opencl_device()
    assert device == choose_opencl_device(device.name.strip().upper())
    assert device.platform == choose_opencl_device(device.platform.name[:5].lower()).platform


def test_error_for_a_missing_device_lists_the_available_ones():
    with pytest.raises(BackendError, match=rf"'Voodoo 2'.*{choose_opencl_device().platform.name}"):
        open_backend("opencl", device="Voodoo 2")


def test_error_without_devices_has_an_install_hint(monkeypatch):
    monkeypatch.setattr(opencl.cl, "get_platforms", list)
    with pytest.raises(BackendError, match=r"no OpenCL device .* pip install 'loopyperf\[opencl\]'"):
        OpenCLBackend()


def test_limits_are_those_of_the_device(backend):
    device = choose_opencl_device()
    assert backend.limits.group_size == device.max_work_group_size
    assert backend.limits.global_memory <= device.max_mem_alloc_size


def test_limits_include_values_reported_by_the_driver(backend):
    device = choose_opencl_device()
    limits = backend.limits
    assert (limits.cores, limits.clock) == (device.max_compute_units, device.max_clock_frequency * 1e6)
    assert (limits.memory, limits.cache) == (device.global_mem_size, device.global_mem_cache_size)
    assert limits.cache_line == device.global_mem_cacheline_size


class FakeDevice:
    """A device that reports its warp size if it has the extension of NVIDIA or AMD."""

    def __init__(self, extensions: str) -> None:
        self.extensions = extensions

    def get_info(self, field: int) -> int:
        return {cl.device_info.WARP_SIZE_NV: 32, cl.device_info.WAVEFRONT_WIDTH_AMD: 64}[field]


@pytest.mark.parametrize(
    ("extensions", "lanes"),
    [
        ("cl_khr_fp64 cl_nv_device_attribute_query", 32),
        ("cl_amd_device_attribute_query cl_khr_fp64", 64),
        ("cl_khr_fp64", 1),
    ],
)
def test_warp_size_is_reported_by_the_driver_or_one(extensions, lanes):
    assert warp_size(FakeDevice(extensions)) == lanes


def test_unset_pocl_thread_count_is_recorded_with_a_warning(monkeypatch):
    device = next(device for device in opencl.available_devices() if opencl.pocl_threads(device))
    monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "3")
    assert opencl_environment(device).threads == 3
    monkeypatch.delenv("POCL_MAX_PTHREAD_COUNT")
    with pytest.warns(LoopyperfWarning, match="POCL_MAX_PTHREAD_COUNT=1"):
        assert opencl_environment(device).threads == "unset"


def test_everything_but_the_opencl_backend_works_without_pyopencl():
    script = (
        "import sys; sys.modules['pyopencl'] = None\n"
        "import loopyperf.measurement.campaign, loopyperf.measurement.archive\n"
        "from loopyperf.measurement.backends import open_backend\n"
        "from loopyperf.errors import BackendError\n"
        "try: open_backend('opencl')\n"
        "except BackendError as error: print(error)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'loopyperf[opencl]'" in finished.stdout


def test_error_for_an_unknown_backend_lists_the_known_ones():
    with pytest.raises(BackendError, match="unknown backend 'metal'; choose from cuda, opencl and replay"):
        open_backend("metal")


def test_error_for_replay_without_archive_names_the_option():
    with pytest.raises(BackendError, match=r"cannot open backend 'replay' with nothing: .* --from-archive PATH"):
        open_backend("replay")


# }}}
