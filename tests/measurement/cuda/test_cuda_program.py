"""Tests of the CUDA source and launches generated from small kernels, and that NVRTC compiles the source."""

from functools import partial

import loopy as lp
import numpy as np
import pytest
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget

from loopyperf.compiler.resources import library, machine_code
from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.backend import written
from loopyperf.measurement.backends.cuda import HOLD, CudaLaunch, CudaProgram
from tests import sample_and_all

from ..launched_kernels import calling, in_groups, make, pairs, pointwise, reduced, relaxation, reversal, table

TYPES = (np.float32, np.float64, np.int32, np.int64)
SOURCES = {
    "two launches": reversal,
    "launches in a loop": relaxation,
    "constants": table,
    "called kernel": calling,
    "dot": pairs,
    **{f"{name} f{bits}": partial(pointwise, f"{name}(a[i])", dtype)
       for name in ("rsqrt", "sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "abs", "fabs", "acos")
       for bits, dtype in ((32, np.float32), (64, np.float64))},
    **{f"{name} of {np.dtype(dtype)}": partial(pointwise, f"{name}(a[i], i)", dtype)
       for name in ("fmin", "fmax", "atan2") for dtype in (np.float32, np.float64)},
    **{f"{name} of {np.dtype(dtype)}": partial(reduced, name, dtype) for name in ("min", "max") for dtype in TYPES},
    "abs of int32": partial(pointwise, "abs(a[i])", np.int32),
    "clamp": partial(pointwise, "clamp(a[i], 0.25, 0.5)"),
    "integer power": partial(pointwise, "a[i]**i", np.int64),
    "power": partial(pointwise, "a[i]**2.5"),
    "floor division": partial(pointwise, "(a[i] - i) // 7 + (a[i] - i) % 7", np.int32),
}  # fmt: skip


@pytest.fixture
def nvrtc() -> None:
    """Skip the test if NVRTC is not installed."""
    if library() is None:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")


@pytest.mark.usefixtures("nvrtc")
@sample_and_all(3)
def test_nvrtc_compiles_the_source(subtests: pytest.Subtests, step: int) -> None:
    for name in sorted(SOURCES)[::step]:
        with subtests.test(name=name):
            assert machine_code(CudaProgram(SOURCES[name]()).source, "sm_90")


@pytest.mark.usefixtures("nvrtc")
def test_nvrtc_compiles_the_hold_kernel() -> None:
    assert machine_code(HOLD, "sm_80")


def test_every_launch_has_its_own_grid_and_arguments() -> None:
    program = CudaProgram(reversal())
    allocated: list[int] = []

    def allocate(nbytes: int) -> str:
        allocated.append(nbytes)
        return "t"

    launches = program.launches({"a": "a", "b": "b", "s": 0.25, "n": 1000}, allocate)
    # 1000 elements of 4 bytes: 63 groups of 16, and 32 groups of 32
    assert launches == (
        CudaLaunch("reversal", (63, 1, 1), (16, 1, 1), ("a", 1000, "t")),
        CudaLaunch("reversal_0", (32, 1, 1), (32, 1, 1), ("b", 0.25, 1000, "t")),
    )
    assert allocated == [4000]
    assert written(program.kernel) == {"b"}


def test_scalars_have_the_types_of_the_parameters() -> None:
    launches = CudaProgram(reversal()).launches({"a": 0, "b": 0, "s": 0.25, "n": 1000}, lambda nbytes: None)
    assert [type(argument) for argument in launches[1].arguments] == [int, np.float32, np.int32, type(None)]


def test_parameters_are_passed_in_the_order_of_the_source() -> None:
    program = CudaProgram(reversal())
    scalars = {0.25: "s", 64: "n"}
    for launch in program.launches({"a": "a", "b": "b", "s": 0.25, "n": 64}, lambda nbytes: "t"):
        signature = program.source.partition(f" {launch.function}(")[2].partition(")")[0]
        declared = [parameter.split()[-1].lstrip("*") for parameter in signature.split(",")]
        passed = [scalars.get(argument, argument) for argument in launch.arguments]
        assert [name.removeprefix("__restrict__") for name in declared] == passed


def test_host_loop_is_unrolled_into_launches() -> None:
    program = CudaProgram(relaxation())
    launches = program.launches({"a": "a", "n": 100, "steps": 5}, lambda nbytes: "t")
    assert [launch.function for launch in launches] == 5 * ["relaxation", "relaxation_0"]
    # The first launch of each step adds the step's number, 0 to 4.
    steps = [argument for launch in launches[::2] for argument in launch.arguments if argument in range(5)]
    assert steps == [0, 1, 2, 3, 4]
    with pytest.raises(MeasurementError, match="more than 1000 launches"):
        program.launches({"a": "a", "n": 100, "steps": 501}, lambda nbytes: "t")


def test_axes_0_1_and_2_are_x_y_and_z() -> None:
    unit = make(
        "{[g, h, i, j, k]: 0 <= g < n and 0 <= h < 2*n and 0 <= i < 2 and 0 <= j < 16 and 0 <= k < 3}",
        "a[g, h, k, i, j] = g + h + i + j + k",
        [lp.GlobalArg("a", np.float32, shape="n, 2*n, 3, 2, 16"), lp.ValueArg("n", np.int32)],
    )
    unit = lp.tag_inames(unit, {"g": "g.1", "h": "g.0", "i": "l.1", "j": "l.0", "k": "l.2"})
    (launch,) = CudaProgram(unit).launches({"a": "a", "n": 3}, lambda nbytes: None)
    assert (launch.grid, launch.group) == ((6, 3, 1), (16, 2, 3))


def test_launch_without_groups_is_omitted() -> None:
    unit = in_groups(
        make(
            "{[i]: 0 <= i < n - 32}",
            "a[i] = i",
            [lp.GlobalArg("a", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
            assumptions="n >= 32",
        )
    )
    counts = [len(CudaProgram(unit).launches({"a": "a", "n": n}, lambda nbytes: None)) for n in (32, 33)]
    assert counts == [0, 1]


def test_grid_larger_than_cuda_allows_is_rejected() -> None:
    unit = make(
        "{[g, i, j]: 0 <= g < 2 and 0 <= i < n and 0 <= j < 32}",
        "a[g, i, j] = i",
        [lp.GlobalArg("a", np.float32, shape="2, n, 32"), lp.ValueArg("n", np.int32)],
    )
    program = CudaProgram(lp.tag_inames(unit, {"g": "g.0", "i": "g.1", "j": "l.0"}))
    assert program.launches({"a": "a", "n": 65535}, lambda nbytes: None)
    with pytest.raises(MeasurementError, match=r"2x65536x1 groups, .*map the longest loop to g\.0"):
        program.launches({"a": "a", "n": 65536}, lambda nbytes: None)


def test_error_names_the_missing_arguments() -> None:
    with pytest.raises(MeasurementError, match="kernel reversal also requires b, s; specify the offset"):
        CudaProgram(reversal()).launches({"a": "a", "n": 16}, lambda nbytes: None)


def test_volatile_accesses_stay_volatile() -> None:
    code = "b[i] = 2*a[i]"
    data = [lp.GlobalArg("a,b", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    plain, volatile = (
        CudaProgram(in_groups(make("{[i]: 0 <= i < n}", code, data, target=target))).source
        for target in (lp.PyOpenCLTarget(), VolatileMemPyOpenCLTarget())
    )
    assert (plain.count("(volatile float *)"), volatile.count("(volatile float *)")) == (0, 2)


def test_kernel_for_another_target_is_rejected() -> None:
    data = [lp.GlobalArg("a", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    with pytest.raises(MeasurementError, match=r"target is CTarget; create it with target=lp\.PyOpenCLTarget"):
        CudaProgram(make("{[i]: 0 <= i < n}", "a[i] = i", data, target=lp.CTarget()))


def test_kernel_without_cuda_code_generation_is_rejected() -> None:
    image = lp.ImageArg("a", np.float32, shape="n, n")
    data = [image, lp.GlobalArg("b", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    with pytest.raises(MeasurementError, match="Loopy cannot generate CUDA code for this kernel: not yet: texture"):
        CudaProgram(make("{[i]: 0 <= i < n}", "b[i] = a[i, i]", data))
