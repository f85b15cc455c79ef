"""Whether a kernel computed what NumPy computes: a wrong kernel's time is worth nothing."""

from collections.abc import Mapping

import numpy as np

from loopyperf.errors import MeasurementError
from loopyperf.measurement.configuration import Array


def verify(results: Mapping[str, Array], reference: Mapping[str, Array], tolerance: float) -> None:
    """Raise :class:`MeasurementError` unless each of the *results* agrees with *reference* within *tolerance*.

    *results* are the arrays that the kernel wrote, by name; each needs its reference, of the same shape. The components
    of vectors are an axis more.
    The error is that of :func:`relative_error`; one that is not a number is never within the tolerance.
    """
    missing = sorted(set(results) ^ set(reference))
    if missing:
        raise MeasurementError(
            f"the kernel writes {', '.join(sorted(results)) or 'nothing'} and the reference computes "
            f"{', '.join(sorted(reference)) or 'nothing'}: they must be the same arrays; only one has "
            f"{', '.join(missing)}"
        )
    for name, result in results.items():
        shape, wanted = _components(result).shape, _components(reference[name]).shape
        if shape != wanted:
            raise MeasurementError(f"array {name} has shape {shape}, its reference {wanted}; mend one of them")
        error = relative_error(result, reference[name])
        if not error <= tolerance:
            raise MeasurementError(
                f"array {name} is wrong: its largest error is {error:.3g} of the reference's largest magnitude, "
                f"more than the tolerance {tolerance:.3g}; mend the kernel or its reference"
            )


def relative_error(result: Array, expected: Array) -> float:
    """Return max |result − expected| / max |expected|, over all elements; the divisor is 1 if *expected* is all zero.

    The scale is that of the whole array: cancellation in one small element is not an error of the kernel. Elements that
    are vectors are compared component by component.
    """
    if not expected.size:
        return 0.0
    result, expected = _components(result), _components(expected)
    wide = np.result_type(result, expected, np.float64)
    exact = expected.astype(wide)
    scale = float(np.abs(exact).max()) or 1.0
    with np.errstate(invalid="ignore"):  # infinity minus infinity is not a number, and so is the error
        return float(np.abs(result.astype(wide) - exact).max()) / scale


def _components(array: Array) -> Array:
    """Return *array* with an axis more for the components of vectors; what fills up one of three is none."""
    if array.dtype.names is None:
        return array
    return np.stack([array[name] for name in array.dtype.names if not name.startswith("padding")], axis=-1)
