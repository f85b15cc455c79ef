"""Tests of the checks of kernel arguments and of allocated memory."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.arguments import allocated_bytes, checked_arguments

SIZES = {"n": 4, "m": 3}


@pytest.fixture(scope="module")
def kernel():
    """A column-major 4 x 3 float32 array, a float64 vector, an int32 global temporary, scalars of two types."""
    unit = lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        """
        for i
            t[i] = 1  {id=t}
            for j
                a[i, j] = x[i] + t[i] + s  {dep=t}
            end
        end
        """,
        [
            lp.GlobalArg("a", np.float32, shape="n, m", order="F"),
            lp.GlobalArg("x", np.float64, shape="n"),
            lp.TemporaryVariable("t", np.int32, shape="n", address_space=lp.AddressSpace.GLOBAL),
            lp.ValueArg("s", np.float32),
            lp.ValueArg("n, m", np.int32),
        ],
        lang_version=(2018, 2),
    )
    return unit.default_entrypoint


def arguments(**changes):
    good = {
        "a": np.zeros((4, 3), np.float32, order="F"),
        "x": np.ones(4),
        "s": np.float32(0.5),
        "n": np.int32(4),
        "m": np.int32(3),
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def test_scalars_get_the_types_of_the_kernel(kernel):
    checked = checked_arguments(kernel, arguments(s=0.1, n=np.int64(4), m=3), SIZES)
    assert [np.float32, np.int32, np.int32] == [type(checked[name]) for name in ("s", "n", "m")]
    assert checked["s"] == np.float32(0.1)


def test_arguments_are_in_the_order_of_the_kernel(kernel):
    assert list(checked_arguments(kernel, arguments(), SIZES)) == ["a", "x", "s", "n", "m"]


def test_invalid_arguments_are_rejected(subtests: pytest.Subtests, kernel):
    for changes, message in [
        ({"x": None}, "requires the arguments a, x, s, n, m; got a, s, n, m"),
        ({"y": np.ones(3)}, "got a, x, s, n, m, y"),
        ({"x": np.ones(4, np.float32)}, "argument x must have type"),
        ({"x": np.ones(5)}, r"argument x must have shape \(4,\) at .* got \(5,\)"),
        ({"x": 3.0}, "argument x must be an array; got float"),
        ({"a": np.zeros((4, 3), np.float32)}, r"argument a must have strides \(1, 4\) .* got \(3, 1\)"),
        ({"x": np.ones(8)[::2]}, r"argument x must have strides \(1,\) .* got \(2,\)"),
        ({"n": 4.5}, "argument n must be a scalar"),
        ({"n": np.int64(2**40)}, "argument n must be a scalar"),
        ({"n": 2**40}, "argument n must be a scalar"),
        ({"s": np.ones(1)}, "argument s must be a scalar"),
        ({"s": "half"}, "argument s must be a scalar"),
    ]:
        with subtests.test(changes=changes, message=message), pytest.raises(MeasurementError, match=message):
            checked_arguments(kernel, arguments(**changes), SIZES)


def test_allocated_bytes_include_arguments_and_global_temporaries(kernel):
    assert allocated_bytes(kernel, SIZES) == 4 * 3 * 4 + 4 * 8 + 4 * 4
    assert allocated_bytes(kernel, {"n": 10**6, "m": 10**6}) == 4 * 10**12 + 12 * 10**6


def test_error_names_the_missing_size(kernel):
    with pytest.raises(MeasurementError, match="m"):
        allocated_bytes(kernel, {"n": 4})
