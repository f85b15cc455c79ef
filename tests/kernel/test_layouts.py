"""Stride and offset arguments default to those of contiguous arrays and can be given as sizes."""

from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.idg.warps.warp_classes import Warp
from loopyperf.kernel import load_kernel
from loopyperf.predict.sampled import made_case
from tests.idg.patterns import pattern
from tests.kernels import floats, integers, make_kernel

AUTO: dict[str, Any] = {"dim_tags": "stride:auto,stride:auto", "offset": lp.auto}
SIZES: dict[str, Any] = {"n": 64, "m": 512}


def copied(names: str = "", body: str = "y[i,j] = 2*x[i,j]", **layout: Any) -> Any:
    """Return y = 2*x for n times m numbers, where x has *layout*; *names* are additional arguments."""
    unit = make_kernel(
        "{[i,j]: 0 <= i < n and 0 <= j < m}",
        body,
        lp.GlobalArg("x", np.float32, **{"shape": "n, m", **layout}),
        floats("y", "n, m"),
        integers(f"n, m{names}"),
        assumptions="n >= 1 and m >= 1",
    )
    unit = lp.split_iname(unit, "j", 32, inner_tag="l.0", outer_tag="g.0")
    return lp.tag_inames(unit, {"i": "g.1"})


def assumed_layout(unit: Any) -> dict[str, str]:
    contiguous = load_kernel(unit).contiguous
    return {name: str(value) for name, value in contiguous.items()}


# {{{ contiguous strides and offsets


def test_missing_strides_are_those_of_contiguous_rows(subtests: pytest.Subtests) -> None:
    for layout, expected in [
        ({"strides": ("s", "t")}, {"s": "m", "t": "1"}),
        ({"strides": ("s", 1)}, {"s": "m"}),
        ({"strides": ("s", 2)}, {"s": "2*m"}),
        ({"strides": (1, "t")}, {"t": "n"}),
        ({"strides": ("s", "n")}, {"s": "1"}),
        ({"strides": ("s", 1), "shape": (None, "m")}, {"s": "m"}),
        ({"strides": (1, "t"), "shape": (None, "m")}, {}),
        ({"strides": ("s", "t"), "shape": ("n", None)}, {"t": "1"}),
        ({"strides": ("s", "t"), "shape": "n + 2, 3*m"}, {"s": "3*m", "t": "1"}),
        ({"offset": "s"}, {"s": "0"}),
        ({"strides": ("m", 1)}, {}),
        ({"strides": ("3*t", "t")}, {"t": "1"}),
    ]:
        with subtests.test(layout=layout, expected=expected):
            assert assumed_layout(copied(", s, t", **layout)) == expected


def test_axis_order_is_inferred_from_given_strides() -> None:
    array = lp.GlobalArg("x", np.float32, shape="n, m, 4", strides=("s", 1, "t"))
    arguments = [array, lp.ValueArg("n, m, s, t", np.int32), ...]
    domain = "{[i,j,k]: 0 <= i < n and 0 <= j < m and 0 <= k < 4}"
    unit = make_kernel(domain, "x[i,j,k] = 0", *arguments)
    assert assumed_layout(unit) == {"s": "m*4", "t": "m"}


@pytest.mark.parametrize("body", ["y[i,j] = s*x[i,j]", "y[i,j] = x[i,(j+s) % m]", "y[i,j] = x[i,j] {if=s > 7}"])
def test_stride_argument_with_another_use_is_a_size(body: str) -> None:
    assert assumed_layout(copied(", s", body, strides=("s", 1))) == {}


def test_stride_shared_by_arrays_of_different_shapes_is_required() -> None:
    unit = make_kernel(
        "{[i]: 0 <= i < n}",
        "x[i,0] = y[i,0]",
        floats("x", "n, 3", strides=("s", 1)),
        floats("y", "n, 4", strides=("s", 1)),
        integers("n, s"),
    )
    with pytest.raises(ParameterError, match="missing size s of "):
        lpp.estimate(unit, device="nvidia-a100", model="roofline", n=64)


def test_stride_over_axis_of_unknown_length_is_required() -> None:
    unit = copied(", s", strides=("s", 1), shape=("n", None))
    with pytest.raises(ParameterError, match="missing size s of "):
        lpp.estimate(unit, device="nvidia-a100", model="pipeline", **SIZES)


def test_assumptions_on_a_stride_apply_to_its_value() -> None:
    unit = copied(", s", strides=("s", 1))
    unit = lp.assume(unit, isl.BasicSet("[m, s] -> { : s >= m and s mod 32 = 0 }"))
    assert load_kernel(unit).parameters == {"n", "m"}
    assert lpp.count(unit).properties().evaluate(**SIZES)["f32 mul"] == 64 * 512
    with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
        lpp.count(unit).properties().evaluate(n=64, m=500)


# }}}


# {{{ counts and times


def test_counts_are_those_of_the_contiguous_kernel() -> None:
    reference, by_parameters = lpp.count(copied()), lpp.count(copied(**AUTO))
    assert by_parameters.properties().evaluate(**SIZES) == reference.properties().evaluate(**SIZES)
    assert "x_stride0 = m, x_stride1 = 1, x_offset = 0" in " ".join(by_parameters.assumed)
    assert reference.assumed == ()


@pytest.mark.parametrize(("model", "device"), [("linear", "nvidia-h200"), ("roofline", "a100"), ("pipeline", "a100")])
def test_times_are_those_of_the_contiguous_kernel(model: str, device: str) -> None:
    device = device if "-" in device else f"nvidia-{device}"
    reference = lpp.estimate(copied(), device=device, model=model, **SIZES)
    by_parameters = lpp.estimate(copied(**AUTO), device=device, model=model, **SIZES)
    assert by_parameters.seconds == reference.seconds
    (note,) = set(by_parameters.notes) - set(reference.notes)
    assert "assumed contiguous" in note


def test_a_given_stride_overrides_the_contiguous_one() -> None:
    sizes = {"n": 2048, "m": 2048}
    reference = copied(strides=("1", "2048"))
    by_parameters, given = copied(**AUTO), {"x_stride0": 1, "x_stride1": 2048, "x_offset": 0}
    for model, device in (("linear", "nvidia-h200"), ("pipeline", "nvidia-a100")):
        expected = lpp.estimate(reference, device=device, model=model, **sizes)
        found = lpp.estimate(by_parameters, device=device, model=model, **sizes, **given)
        assert (found.seconds, found.notes) == (expected.seconds, expected.notes)
        assert found.seconds != lpp.estimate(by_parameters, device=device, model=model, **sizes).seconds


def test_strides_may_be_arrays_of_sizes() -> None:
    strides = np.array([512, 1024])
    found = lpp.estimate(
        copied(", s", strides=("s", 1)), device="nvidia-h200", model="linear", parameters={"s": strides, **SIZES}
    )
    assert np.shape(found.seconds) == (2,)


@pytest.mark.parametrize(("strides", "offset"), [((40, 1), 0), ((40, 1), 1), ((401, 3), 0), ((1, 44), 0)])
def test_sectors_of_given_strides_equal_brute_force(strides: tuple[int, int], offset: int) -> None:
    given = {"x_stride0": strides[0], "x_stride1": strides[1], "x_offset": offset}
    kernel, sizes = load_kernel(copied(**AUTO)).laid_out(given), {"n": 40, "m": 64} | given
    for row, half in ((0, 0), (3, 1)):
        lanes = range(32 * half, 32 * half + 32)
        touched = {4 * (offset + row * strides[0] + lane * strides[1]) // 32 for lane in lanes}
        assert pattern(kernel, "x", Warp(groups={0: half, 1: row}), sizes).at({}).sectors == len(touched)


def test_executed_kernel_gets_contiguous_strides() -> None:
    case = made_case(copied(**AUTO), SIZES)
    arguments = case.configuration.arguments(np.random.default_rng(0), case.sizes)
    assert (arguments["x_stride0"], arguments["x_stride1"], arguments["x_offset"]) == (512, 1, 0)
    assert arguments["x"].strides == (512 * 4, 4)


# }}}
