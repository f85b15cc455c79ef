"""The default transformation of sequential programs: results stay, and loops that depend on each other are refused."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.applications.parallel import NotParallelError, parallelized
from loopyperf.applications.projection import is_sequential
from tests.applications.programs import axpy, in_groups

FLOATS = [lp.GlobalArg("a, b", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)]


def kernel(domain, statements, arguments=FLOATS):
    return lp.make_kernel(domain, statements, [*arguments, ...], assumptions="n >= 2", lang_version=(2018, 2))


PARALLEL = {
    "two axes": kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = 2*a[i, j]"),
    "transposed": kernel("{[i, j]: 0 <= i, j < n}", "b[j, i] = 2*a[i, j]"),
    "reduction": kernel("{[i, j, k]: 0 <= i, j, k < n}", "b[i, j] = sum(k, a[i, k]*a[k, j])"),
    "two nests": kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        "a[i, j] = 2*a[i, j] {id=first}\nb[k, l] = a[l, k] {dep=first}",
    ),
    "in place": kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = b[i, j] + a[i, j]"),
}
SEQUENTIAL = {
    "recurrence": kernel("{[i, j]: 1 <= i < n and j = 0}", "b[i, 0] = b[i - 1, 0] + a[i, 0] {inames=i}"),
    "sum into one element": kernel("{[i]: 0 <= i < n}", "b[0, 0] = b[0, 0] + a[i, 0] {inames=i}"),
}


@pytest.mark.parametrize("name", PARALLEL)
def test_results_stay_the_same(name):
    cl = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    unit = lp.set_options(PARALLEL[name], return_dict=True)
    parallel = parallelized(unit)
    assert is_sequential(unit)
    assert not is_sequential(parallel)
    rng = np.random.default_rng(0)
    given = {each: rng.random((37, 37), np.float32) for each in "ab"}
    results = []
    for each in (unit, parallel):
        arrays = {key: value.copy() for key, value in given.items()}
        each.executor(queue.context)(queue, **arrays)
        results.append(arrays)
    for each in "ab":
        np.testing.assert_allclose(results[1][each], results[0][each], rtol=1e-5)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_dependent_iterations_are_refused(name):
    with pytest.raises(NotParallelError):
        parallelized(SEQUENTIAL[name])


def test_tagged_programs_are_not_sequential():
    assert is_sequential(axpy())
    assert not is_sequential(in_groups(axpy()))
