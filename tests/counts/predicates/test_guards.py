"""A predicate is evaluated once for what shares it, where those around it hold: as Loopy's generated code does."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.counted_kernel import count_properties
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes


def accesses(code: str, **typical: float) -> dict[str, int]:
    """Return how many loads and stores there are at n = 100, with the shares of time that arrays are positive."""
    arguments = [array("a,b,c", "n"), array("d", "n,8"), array("m,p", "n", np.int32), sizes("n")]
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<8}", code, *arguments))
    keywords = {f"{name}[i_inner + i_outer*16] > 0": share for name, share in typical.items()}
    tallies = count_properties(load_kernel(unit), typical=keywords).tallies
    return {
        "loads": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='load'" in str(t.item))),
        "stores": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='store'" in str(t.item))),
    }


@pytest.mark.parametrize(("target", "tests"), [(lp.PyOpenCLTarget(), 0), (lp.OpenCLTarget(), 100)])
def test_what_the_host_tests_is_not_loaded_by_lanes(target: lp.TargetBase, tests: int) -> None:
    # Half of the time nothing is launched: of 7 groups 3.5, rounded. Else every lane asks.
    code = "if m[0] > 0\na[i] = 2*b[i] {id=some}\nend"
    unit = kernel("{[i]: 0<=i<n}", code, array("a,b", "n"), array("m", "1", np.int32), sizes("n"))
    counts = count_properties(load_kernel(lanes(unit.copy(target=target))), typical={"some": 0.5}).properties()
    numbers = counts.evaluate(n=100)
    assert numbers.get("global load 32-bit stride 0", 0) == tests
    assert (numbers["f32 mul"], numbers["global load 32-bit stride 1"]) == (50, 50)
    assert numbers["work-groups"] == (7 if tests else 4)


def test_a_loop_that_is_not_wholly_guarded_evaluates_in_every_pass() -> None:
    code = "if m[i] > 0\na[i] = 1\nend\nfor j\nif m[i] > 0\nd[i,j] = 1\nend\nb[i] = 2\nend"
    assert accesses(code, m=0.5) == {"loads": 100 + 800, "stores": 50 + 400 + 800}


def test_a_loop_that_is_wholly_guarded_is_guarded_from_outside() -> None:
    code = "if m[i] > 0\na[i] = 1\nend\nfor j\nif m[i] > 0\nd[i,j] = 1\nend\nend"
    assert accesses(code, m=0.5) == {"loads": 100, "stores": 50 + 400}


def test_an_inner_condition_is_evaluated_where_the_outer_one_holds() -> None:
    assert accesses("if i < 5\na[i] = 1\nif m[i] > 0\nb[i] = 2\nend\nend", m=0.2) == {"loads": 5, "stores": 5 + 1}
    code = "if m[i] > 0\na[i] = 1\nif p[i] > 0\nb[i] = 2\nend\nend"
    assert accesses(code, m=0.1, p=0.5) == {"loads": 100 + 10, "stores": 10 + 5}


def test_of_two_conditions_of_one_instruction_the_second_is_evaluated_where_the_first_holds() -> None:
    assert accesses("if m[i] > 0\nif p[i] > 0\nb[i] = 2\nend\nend", m=0.5, p=0.5) == {"loads": 100 + 50, "stores": 25}


def test_a_condition_that_holds_and_does_not_is_never_met() -> None:
    code = "if m[i] > 0\na[i] = if(m[i] > 0, 2*b[i], c[i])\nend"
    # m for the predicate, and again in 25 choices; b in all of these, c in none.
    assert accesses(code, m=0.25) == {"loads": 100 + 25 + 25, "stores": 25}


def test_instructions_of_one_condition_are_told_apart_where_they_are_named() -> None:
    code = "if m[i] > 0\na[i] = 2*b[i] {id=first}\nend\nc[i] = 1\nif m[i] > 0\nc[i] = b[i] + 1 {id=second}\nend"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("a,b,c", "n"), array("m", "n", np.int32), sizes("n")))
    counts = count_properties(load_kernel(unit), typical={"first": 0.1, "second": 0.9}).properties()
    assert (counts["f32 mul"](n=100), counts["f32 add"](n=100)) == (10, 90)


@pytest.mark.parametrize(
    ("condition", "times"),
    [("i < 2.5", None), ("i*0.5 < 3", None), ("i < n*0.5", None), ("i > -0.5", None), ("i < 3.0", 3)],
)
def test_a_number_that_is_no_integer_is_not_cut_off(condition: str, times: int | None) -> None:
    code = f"out[i] = if({condition}, 2*a[i], 0) {{id=some}}"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("a,out", "n"), sizes("n")))
    typical = {"some": 0.4} if times is None else {}
    counts = count_properties(load_kernel(unit), typical=typical).properties()
    assert counts["global load 32-bit stride 1"](n=100) == (40 if times is None else times)


def test_a_call_of_a_kernel_evaluates_its_arguments_once() -> None:
    callee = lp.make_function("{[i]: 0<=i<8}", "y[i] = alpha*x[i] + alpha", name="axpy", lang_version=(2018, 2))
    call = "[j]: y[r,j] = axpy(s[r]*2, [k]: x[r,k])"
    caller = kernel("{[r,j,k]: 0<=r<n and 0<=j,k<8}", call, array("x,y", "n,8"), array("s", "n"), sizes("n"))
    counts = count_properties(load_kernel(lp.merge([lanes(caller, "r"), callee]))).properties()
    assert counts["f32 mul"](n=100) == 100 + 800
    assert counts["global load 32-bit stride 1"](n=100) == 100
