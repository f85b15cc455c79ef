"""Test the distinct elements that a kernel touches against enumeration of its loops."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.sizes import Typical, admitted_values
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.predict.throughput import TouchedCells, touched_cells


def kernel(domains: str | list[str], code: str, *arguments: lp.GlobalArg, assumptions: str = "n >= 1") -> Kernel:
    unit = lp.make_kernel(
        domains, code, [*arguments, ...], assumptions=assumptions, lang_version=(2018, 2), target=lp.PyOpenCLTarget()
    )
    return load_kernel(unit)


def touched(program: Kernel) -> dict[str, TouchedCells]:
    return touched_cells(program, Typical({}))


def array(names: str, bits: int = 64) -> lp.GlobalArg:
    return lp.GlobalArg(names, {32: np.float32, 64: np.float64}[bits], shape=None)


@pytest.mark.parametrize("n", [1, 2, 5, 16, 33])
def test_overlapping_accesses_count_once(n: int):
    found = touched(kernel("{[i]: 0<=i<n}", "b[2*i] = a[i] + a[i+3] + a[3*i]", array("a,b")))
    expected = set(range(n)) | {i + 3 for i in range(n)} | {3 * i for i in range(n)}
    assert found["a"].cells(n=n) == len(expected)
    assert found["b"].cells(n=n) == n
    assert found["a"].bits == 64
    assert found["a"].is_complete


@pytest.mark.parametrize("n", [1, 4, 17])
def test_triangle_and_its_diagonal(n: int):
    found = touched(kernel("{[i,j]: 0<=j<=i<n}", "b[i] = sum(j, a[i, j]*a[j, j])", array("a", 32), array("b", 32)))
    assert found["a"].cells(n=n) == n * (n + 1) // 2
    assert found["a"].bits == 32


@pytest.mark.parametrize("n", [3, 8, 21])
def test_conditions_on_loop_variables_select_elements(n: int):
    code = "if i % 3 == 1\n b[i] = a[i]\n end"
    found = touched(kernel("{[i]: 0<=i<n}", code, array("a,b")))
    assert found["a"].cells(n=n) == found["b"].cells(n=n) == len([i for i in range(n) if i % 3 == 1])


def test_indirectly_accessed_elements_are_unknown():
    index = lp.GlobalArg("m", np.int32, shape=None)
    found = touched(kernel("{[i]: 0<=i<n}", "b[i] = a[m[i]] + a[i]", array("a,b"), index))
    assert not found["a"].is_complete
    assert found["a"].cells(n=10) == 10
    assert found["m"].is_complete


@pytest.mark.parametrize(
    ("code", "twice"),
    [
        ("y[i] = 2*y[i]", True),
        ("y[i] = a*y[i] + x[i]", True),
        ("<> t = y[i] {id=load,dep=*}\ny[i] = 2*t {dep=load}", True),
        ("if i % 3 == 1\n y[i] = 2*y[i]\n end", True),
        ("y[i] = 2*y[i+1]", False),
        ("y[i] = x[i] {id=set}\ny[i] = 2*y[i] {dep=set}", False),
        ("y[i] = x[i] {id=set}\nz[i] = y[i] {dep=set}", False),
        ("z[i] = y[i]", False),
        ("y[i] = 2*y[i] + y[m[i]]", False),
    ],
)
def test_elements_loaded_then_stored_move_twice(code: str, twice: bool):
    arguments = [array("x,y,z"), lp.GlobalArg("m", np.int32, shape=None), lp.ValueArg("a", np.float64)]
    unit = kernel("{[i]: 0<=i<n}", code, *arguments)
    found = touched(unit)["y"]
    stored = {i for i in range(20) if "%" not in code or i % 3 == 1}
    assert found.stored_after_loads(n=20) == (len(stored) if twice else 0)


# {{{ admitted values


def test_admitted_values_satisfy_the_assumptions():
    program = kernel("{[i]: 0<=i<n}", "b[i] = a[i]", array("a,b"), assumptions="n mod 16 = 3 and n >= 20 and n <= 100")
    assert list(admitted_values(program.assumptions, "n", 1, 1000, {})) == [35, 51, 67, 83, 99]
    assert list(admitted_values(program.assumptions, "n", 40, 60, {})) == [51]


def test_admitted_values_depend_on_the_other_sizes():
    program = kernel("{[i]: m<=i<n}", "b[i] = a[i]", array("a,b"), assumptions="m >= 0 and n >= m + 2")
    assert list(admitted_values(program.assumptions, "n", 0, 12, {"m": 8})) == [10, 11, 12]


def test_invalid_sizes_are_rejected():
    program = kernel("{[i]: m<=i<n}", "b[i] = a[i]", array("a,b"), assumptions="m >= 0 and n >= m + 2")
    with pytest.raises(ParameterError, match="no size k; its sizes are: m, n"):
        admitted_values(program.assumptions, "k", 0, 12, {"m": 8})
    with pytest.raises(ParameterError, match="missing size m"):
        admitted_values(program.assumptions, "n", 0, 12, {})
    with pytest.raises(ParameterError, match="admit no n from 0 to 5"):
        admitted_values(program.assumptions, "n", 0, 5, {"m": 8})


# }}}
