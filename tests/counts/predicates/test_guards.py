"""Test where predicates are evaluated: once for all code that shares them, and only if outer predicates hold."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.counted_kernel import count_properties
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes


def accesses(code: str, **typical: float) -> dict[str, int]:
    """Return the numbers of loads and stores at n = 100; *typical* has the share of positive elements of arrays."""
    arguments = [array("a,b,c", "n"), array("d", "n,8"), array("m,p", "n", np.int32), sizes("n")]
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<8}", code, *arguments))
    keywords = {f"{name}[i_inner + i_outer*16] > 0": share for name, share in typical.items()}
    tallies = count_properties(load_kernel(unit), typical=keywords).tallies
    return {
        "loads": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='load'" in str(t.item))),
        "stores": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='store'" in str(t.item))),
    }


@pytest.mark.parametrize(("target", "tests"), [(lp.PyOpenCLTarget(), 0), (lp.OpenCLTarget(), 100)])
def test_lanes_do_not_load_conditions_tested_by_the_host(target: lp.TargetBase, tests: int) -> None:
    # The host skips half of the launches: 3.5 of 7 groups, rounded. Without a host program, every lane loads m.
    code = "if m[0] > 0\na[i] = 2*b[i] {id=some}\nend"
    unit = kernel("{[i]: 0<=i<n}", code, array("a,b", "n"), array("m", "1", np.int32), sizes("n"))
    counts = count_properties(load_kernel(lanes(unit.copy(target=target))), typical={"some": 0.5}).properties()
    numbers = counts.evaluate(n=100)
    assert numbers.get("global load 32-bit stride 0", 0) == tests
    assert (numbers["f32 mul"], numbers["global load 32-bit stride 1"]) == (50, 50)
    assert numbers["work-groups"] == (7 if tests else 4)


def test_partly_guarded_loop_evaluates_in_every_iteration() -> None:
    code = "if m[i] > 0\na[i] = 1\nend\nfor j\nif m[i] > 0\nd[i,j] = 1\nend\nb[i] = 2\nend"
    assert accesses(code, m=0.5) == {"loads": 100 + 800, "stores": 50 + 400 + 800}


def test_fully_guarded_loop_is_guarded_from_outside() -> None:
    code = "if m[i] > 0\na[i] = 1\nend\nfor j\nif m[i] > 0\nd[i,j] = 1\nend\nend"
    assert accesses(code, m=0.5) == {"loads": 100, "stores": 50 + 400}


def test_inner_condition_is_evaluated_where_the_outer_one_holds() -> None:
    assert accesses("if i < 5\na[i] = 1\nif m[i] > 0\nb[i] = 2\nend\nend", m=0.2) == {"loads": 5, "stores": 5 + 1}
    code = "if m[i] > 0\na[i] = 1\nif p[i] > 0\nb[i] = 2\nend\nend"
    assert accesses(code, m=0.1, p=0.5) == {"loads": 100 + 10, "stores": 10 + 5}


def test_second_condition_is_evaluated_where_the_first_holds() -> None:
    assert accesses("if m[i] > 0\nif p[i] > 0\nb[i] = 2\nend\nend", m=0.5, p=0.5) == {"loads": 100 + 50, "stores": 25}


def test_contradictory_conditions_never_hold() -> None:
    code = "if m[i] > 0\na[i] = if(m[i] > 0, 2*b[i], c[i])\nend"
    # m for the predicate, and again in 25 conditional expressions; b in all of these, c in none.
    assert accesses(code, m=0.25) == {"loads": 100 + 25 + 25, "stores": 25}


def test_typical_values_by_id_distinguish_equal_conditions() -> None:
    code = "if m[i] > 0\na[i] = 2*b[i] {id=first}\nend\nc[i] = 1\nif m[i] > 0\nc[i] = b[i] + 1 {id=second}\nend"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("a,b,c", "n"), array("m", "n", np.int32), sizes("n")))
    counts = count_properties(load_kernel(unit), typical={"first": 0.1, "second": 0.9}).properties()
    assert (counts["f32 mul"](n=100), counts["f32 add"](n=100)) == (10, 90)


@pytest.mark.parametrize(
    ("condition", "times"),
    [("i < 2.5", None), ("i*0.5 < 3", None), ("i < n*0.5", None), ("i > -0.5", None), ("i < 3.0", 3)],
)
def test_non_integer_bounds_are_not_truncated(condition: str, times: int | None) -> None:
    code = f"out[i] = if({condition}, 2*a[i], 0) {{id=some}}"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("a,out", "n"), sizes("n")))
    typical = {"some": 0.4} if times is None else {}
    counts = count_properties(load_kernel(unit), typical=typical).properties()
    assert counts["global load 32-bit stride 1"](n=100) == (40 if times is None else times)


def test_kernel_call_evaluates_its_arguments_once() -> None:
    callee = lp.make_function("{[i]: 0<=i<8}", "y[i] = alpha*x[i] + alpha", name="axpy", lang_version=(2018, 2))
    call = "[j]: y[r,j] = axpy(s[r]*2, [k]: x[r,k])"
    caller = kernel("{[r,j,k]: 0<=r<n and 0<=j,k<8}", call, array("x,y", "n,8"), array("s", "n"), sizes("n"))
    counts = count_properties(load_kernel(lp.merge([lanes(caller, "r"), callee]))).properties()
    assert counts["f32 mul"](n=100) == 100 + 800
    assert counts["global load 32-bit stride 1"](n=100) == 100
