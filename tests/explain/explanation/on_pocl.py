"""Execution of Loopy kernels on PoCL, to compare the results of a kernel before and after a change."""

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
from loopy.kernel.data import ArrayArg
from pymbolic import evaluate


def results(unit: lp.TranslationUnit, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays that *unit* writes, executed with *inputs*, by name; in/out arrays start from the inputs."""
    context = cl.create_some_context(interactive=False)
    names = {each.name: each for each in unit.default_entrypoint.args}
    given = {
        name: names[name].dtype.numpy_dtype.type(value) if np.isscalar(value) and names[name].dtype else value
        for name, value in inputs.items()
        if name in names
    }
    copies = {name: value.copy(order="K") if isinstance(value, np.ndarray) else value for name, value in given.items()}
    _, found = unit(cl.CommandQueue(context), out_host=True, **copies)
    written = [each.name for each in unit.default_entrypoint.args if isinstance(each, ArrayArg) and each.is_output]
    values = found if isinstance(found, dict) else dict(zip(written, found, strict=True))
    return {name: np.asarray(value) for name, value in values.items()}


def inputs_of(unit: lp.TranslationUnit, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Return random arguments of *unit* at *sizes*: inputs between 0 and 1, and zeros for what is only written."""
    typed = lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=True).default_entrypoint
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = dict(sizes)
    for each in typed.args:
        dtype = each.dtype.numpy_dtype
        if isinstance(each, ArrayArg):
            shape = tuple(int(evaluate(length, dict(sizes))) for length in each.shape)
            numbers = rng.random(shape) if dtype.kind == "f" else rng.integers(0, 4, shape)
            values = numbers if each.is_input and not _is_atomic(each) else np.zeros(shape)
            order = "F" if getattr(each.dim_tags[0], "stride", None) == 1 else "C"
            found[each.name] = np.asarray(values, dtype=dtype, order=order)
        elif each.name not in sizes:
            found[each.name] = dtype.type(0.5)
    return found


def _is_atomic(argument: Any) -> bool:
    return type(argument.dtype).__name__ == "AtomicNumpyType"


def assert_same_results(
    before: lp.TranslationUnit, after: lp.TranslationUnit, sizes: Mapping[str, int], tolerance: float = 1e-4
) -> None:
    """Check that both kernels compute the same, up to rounding: sums may be in another order."""
    inputs = inputs_of(before, sizes)
    first, second = results(before, inputs), results(after, inputs)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
