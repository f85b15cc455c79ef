"""Tests of generated kernel arguments."""

import tracemalloc

import loopy as lp
import numpy as np
import pytest

from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.kernel import load_kernel
from loopyperf.measurement.arguments import checked_arguments, generated_indices_note, made_arguments
from tests.kernels import doubled, floats, integers, make_kernel

SIZES = {"n": 5}


def kernel() -> lp.LoopKernel:
    knl = make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = s*a[index[i], i] + z[i]",
        lp.GlobalArg("a", np.float64, shape="n, n", order="F"),
        lp.GlobalArg("b, z", np.complex64, shape="n"),
        lp.GlobalArg("index", np.int32, shape="n"),
        lp.ValueArg("s", np.float32),
        integers("n"),
    )
    return load_kernel(knl).loopy_kernel


def test_generated_arguments_match_types_shapes_and_strides():
    made = made_arguments(kernel(), SIZES, {})
    assert list(checked_arguments(kernel(), made, SIZES)) == ["a", "b", "z", "index", "s", "n"]
    assert made["a"].flags.f_contiguous
    assert 0.5 <= made["a"].min() <= made["a"].max() < 1
    assert made["index"].tolist() == [0] * 5
    assert (made["s"], made["n"]) == (0.5, 5)


def test_large_arrays_are_generated_with_little_extra_memory():
    sizes, unit = {"n": 2**23}, load_kernel(doubled()).loopy_kernel
    tracemalloc.start()
    made = made_arguments(unit, sizes, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * (made["a"].nbytes + made["b"].nbytes)
    assert made["a"][2**20 - 1 : 2**20 + 1].min() >= 0.5
    assert made["a"][0] != made["a"][2**20]


def test_given_arguments_are_used():
    index = np.arange(5, dtype=np.int32)
    assert made_arguments(kernel(), SIZES, {"index": index})["index"] is index
    assert generated_indices_note(kernel(), {"index": index}) == ()
    assert generated_indices_note(kernel(), None) == ("no arguments given for index; assumed 0",)


def test_argument_must_equal_the_given_size():
    assert made_arguments(kernel(), SIZES, {"n": np.int32(5)})["n"] == 5
    with pytest.raises(ParameterError, match="but size 'n' is 5; pass it as a size only"):
        made_arguments(kernel(), SIZES, {"n": np.int32(4)})


@pytest.mark.parametrize("given", [[1], 5, "a"])
def test_arguments_must_be_a_mapping(given: object):
    with pytest.raises(ParameterError, match="arguments must be a mapping by name"):
        made_arguments(kernel(), SIZES, given)


def test_unknown_arguments_are_rejected():
    with pytest.raises(ParameterError, match="has no argument x, y; it takes: a, b, z, index, s, n"):
        made_arguments(kernel(), SIZES, {"x": 1, "y": 2})


def test_an_array_of_unknown_shape_is_refused():
    knl = make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", floats("a, b", None), integers("n"))
    with pytest.raises(MeasurementError, match="the shape of a is unknown"):
        made_arguments(load_kernel(knl).loopy_kernel, SIZES, {})
