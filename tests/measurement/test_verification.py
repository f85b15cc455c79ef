"""Tests of the comparison of results with reference arrays."""

import numpy as np
import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.arguments import relative_error, verify


def test_error_is_relative_to_the_largest_magnitude():
    expected = np.array([1e-6, -4.0, 2.0], np.float32)
    result = np.array([1.0, -4.0, 2.0], np.float32)  # off by 1 - 1e-6, against a scale of 4
    assert relative_error(result, expected) == pytest.approx(0.25, rel=1e-5)


def test_error_of_zeros_is_absolute():
    assert relative_error(np.array([0.0, 0.5]), np.zeros(2)) == 0.5


def test_unsigned_integers_do_not_wrap_around():
    assert relative_error(np.array([1], np.uint8), np.array([2], np.uint8)) == 0.5


def test_error_of_complex_numbers_is_their_distance():
    assert relative_error(np.array([3 + 4j]), np.array([5 + 0j])) == pytest.approx(abs(-2 + 4j) / 5)


def test_error_of_vectors_ignores_padding_components():
    four = np.dtype([(name, np.float32) for name in "xyzw"])
    expected, result = np.ones(3, four), np.ones(3, four)
    expected["z"] = 4
    result["w"][1] = 2
    assert relative_error(result, result) == 0
    assert relative_error(result, expected) == 3 / 4
    three = np.dtype([*[(name, np.float32) for name in "xyz"], ("padding0", np.float32)])
    padded = np.ones(3, three)
    padded["padding0"] = np.nan
    assert relative_error(padded, np.ones(3, three)) == 0


@pytest.mark.parametrize("reference", [np.ones(3), np.ones(4), np.ones(3, np.dtype([("x", np.float32)]))])
def test_vector_reference_of_another_type_is_rejected(reference):
    four = np.ones(3, np.dtype([(name, np.float32) for name in "xyzw"]))
    with pytest.raises(MeasurementError, match=r"array b has shape \(3, 4\) but its reference has \("):
        verify({"b": four}, {"b": reference}, 1.0)
    verify({"b": four}, {"b": four}, 0.0)


def test_arrays_without_elements_agree():
    assert relative_error(np.zeros((0, 3)), np.zeros((0, 3))) == 0.0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_exceed_any_tolerance(wrong):
    with pytest.raises(MeasurementError, match="array b is wrong"):
        verify({"b": np.array([1.0, wrong])}, {"b": np.array([1.0, 2.0])}, tolerance=1e9)
    with pytest.raises(MeasurementError, match="array b is wrong"):
        verify({"b": np.array([1.0, wrong])}, {"b": np.array([1.0, wrong])}, tolerance=1e9)


def test_message_names_the_wrong_array_and_its_error():
    with pytest.raises(MeasurementError, match=r"array c is wrong: maximum error 0\.1 .* tolerance 0\.0001"):
        verify({"b": np.ones(2), "c": np.array([0.9, 1])}, {"b": np.ones(2), "c": np.ones(2)}, tolerance=1e-4)


def test_a_reference_of_another_shape_is_not_broadcast():
    with pytest.raises(MeasurementError, match="shape"):
        verify({"b": np.ones((3, 3))}, {"b": np.ones(3)}, tolerance=1e-4)


@pytest.mark.parametrize(("results", "reference"), [(["b"], []), ([], ["b"]), (["b"], ["c"])])
def test_arrays_and_references_must_have_the_same_names(results, reference):
    with pytest.raises(MeasurementError, match="mismatch: "):
        verify({name: np.ones(1) for name in results}, {name: np.ones(1) for name in reference}, tolerance=1.0)
