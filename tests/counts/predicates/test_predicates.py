"""Test that predicates are evaluated as in the generated code; those on data hold with probability 1/3."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from pymbolic import evaluate, parse

import loopyperf as lpp
from loopyperf.counts.conditions import points_where
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.errors import UncountableError
from loopyperf.kernel import load_kernel
from tests.brute_force import COUNTINGS, brute_force
from tests.counts.small_kernels import array, kernel, lanes, sizes
from tests.counts_with_share import settled

THIRD = Fraction(1, 3)
FLAT = "{[i]: 0<=i<n}"
NESTED = "{[i,j,k]: 0<=i<n and 0<=j,k<4}"
LOADS = "global load 32-bit stride 1"


def conditional(domain: str, code: str) -> lp.TranslationUnit:
    """Return a kernel with conditions on the integer arrays m and q."""
    arrays = (array("a,x,y,z", "n"), array("b,d", "n,4"), array("m,q", "n", np.int32))
    named = [lp.GlobalArg(name, arg.dtype, shape=arg.shape) for arg in arrays for name in arg.name.split(",")]
    return kernel(domain, code, *(arg for arg in named if f"{arg.name}[" in code), sizes("n"))


CONDITIONS = {
    "shared by neighbours": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\ny[i] = 3*a[i]\nend"),
    "inside of another": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend"),
    "right inside of another": (FLAT, "if m[i] > 0\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend"),
    "inside of an affine one": (FLAT, "if i < 7\nif m[i] > 0\nx[i] = 2*a[i]\nend\nend"),
    "with an else": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\nelse\nx[i] = 3*a[i]\nend"),
    "inside and after another": (
        FLAT,
        "if m[i] > 0\nx[i] = 2*a[i]\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend\nif q[i] > 1\nz[i] = a[i]/3\nend",
    ),
    "of several parts": (FLAT, "if i < 7 and m[i] > 0 or q[i] > 1 and not (i < 3)\nx[i] = 2*a[i]\nend"),
    "in an expression": (FLAT, "x[i] = if(m[i] > 0 or i < 5, 2*a[i], if(q[i] > 1, a[i]/3, 1))"),
    "around a reduction": (NESTED, "if m[i] > 0\nx[i] = sum(j, a[i]*j)\nend"),
    "around a loop": (NESTED, "if m[i] > 0\nx[i] = 1\nfor j\nb[i,j] = 2*a[i]\nend\nend"),
    "around two loops": (NESTED, "if m[i] > 0\nfor j\nb[i,j] = 2*a[i]\nend\nfor k\nd[i,k] = 1\nend\nend"),
    "in a part of a loop": (NESTED, "for j\nif m[i] > 0\nb[i,j] = 2*a[i]\nend\nd[i,j] = 1\nend"),
}


def conditional_kernels() -> Iterator[Any]:
    """Yield each condition in a sequential loop and in lanes, with inner loops also unrolled and interleaved."""
    for name, (domain, code) in CONDITIONS.items():
        unit = conditional(domain, code)
        yield name, unit
        yield f"{name}, in lanes", lanes(unit)
        for tag in ("ilp", "unr") if "for j" in code else ():
            yield f"{name}, {tag}", lp.tag_inames(lanes(unit), {"j": tag})


def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests) -> None:
    for name, unit in conditional_kernels():
        with subtests.test(name):
            loaded = load_kernel(unit)
            for n in (0, 1, 27):
                enumerated = brute_force(loaded, {"n": n}, {"n": 320}, share=THIRD)
                for counting in COUNTINGS:
                    counts = settled(loaded, counting, THIRD).properties().evaluate(n=n)
                    assert enumerated[counting] == {name: count for name, count in counts.items() if count}, (
                        counting,
                        n,
                    )


def test_nested_condition_is_evaluated_where_the_outer_one_holds() -> None:
    # m is loaded 27 times and holds 9 times, where a and q are loaded; q holds 3 times, where a is loaded again.
    unit = lanes(conditional(*CONDITIONS["inside of another"]))
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=27)
    assert counts[LOADS] == 27 + 9 + 9 + 3


def test_condition_nested_only_once_is_evaluated_again() -> None:
    # As before; then q is loaded 27 times, and a where it holds.
    unit = lanes(conditional(*CONDITIONS["inside and after another"]))
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=27)
    assert counts[LOADS] == 27 + 9 + 9 + 3 + 27 + 9


def test_barrier_separates_code_that_shares_a_condition() -> None:
    # Before and after it, the 16 work-items of each of 6 groups load m; a third fill c, and load and store.
    code = "if m[g] > 0\n<float32> c[l] = a[g]\nw[g,l] = c[15-l]\nend"
    arrays = (array("a", "n"), array("m", "n", np.int32), array("w", "n,16"), sizes("n"))
    unit = kernel("{[g,l]: 0<=g<n and 0<=l<16}", code, *arrays)
    unit = lp.tag_inames(lp.set_temporary_address_space(unit, "c", "local"), {"g": "g.0", "l": "l.0"})
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=6)
    assert counts["global load 32-bit stride 0"] == 2 * 96 + 32
    assert counts["local load 32-bit"] == 32


# {{{ conditions with too many parts


def disjunctions(number: int, left: str) -> lp.TranslationUnit:
    """Return a kernel that executes where *left* or a > q holds for each q below *number*."""
    tests = "".join(f"if {left.format(q)} or a[i] > {q}\n" for q in range(number))
    code = f"{tests}out[i] = 2 {{id=some}}\n" + "end\n" * number
    return lanes(kernel("{[i]: 0<=i<n}", code, array("m", "n", np.int32), array("a,out", "n"), sizes("n")))


def test_too_many_conditions_on_data_and_on_loops_are_rejected() -> None:
    typical = {f"a[i_inner + i_outer*16] > {q}": 0.5 for q in range(9)}
    with pytest.raises(UncountableError, match=r"512 alternatives exceed the limit of 256; simplify \(.* or "):
        count_kernel(load_kernel(disjunctions(9, "i < {} + 5")), typical=typical)


# }}}


# {{{ where predicates are evaluated: once for all code that shares them, and only if outer predicates hold


def accesses(code: str, **typical: float) -> dict[str, int]:
    """Return the numbers of loads and stores at n = 100; *typical* has the share of positive elements of arrays."""
    arguments = [array("a,b,c", "n"), array("d", "n,8"), array("m,p", "n", np.int32), sizes("n")]
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<8}", code, *arguments))
    keywords = {f"{name}[i_inner + i_outer*16] > 0": share for name, share in typical.items()}
    tallies = count_kernel(load_kernel(unit), typical=keywords).tallies
    return {
        "loads": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='load'" in str(t.item))),
        "stores": int(sum(t.number * t.executions(n=100) for t in tallies if "direction='store'" in str(t.item))),
    }


@pytest.mark.parametrize(("target", "tests"), [(lp.PyOpenCLTarget(), 0), (lp.OpenCLTarget(), 100)])
def test_lanes_do_not_load_conditions_tested_by_the_host(target: lp.TargetBase, tests: int) -> None:
    # The host skips half of the launches: 3.5 of 7 groups, rounded. Without a host program, every lane loads m.
    code = "if m[0] > 0\na[i] = 2*b[i] {id=some}\nend"
    unit = kernel("{[i]: 0<=i<n}", code, array("a,b", "n"), array("m", "1", np.int32), sizes("n"))
    counts = count_kernel(load_kernel(lanes(unit.copy(target=target))), typical={"some": 0.5}).properties()
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
    counts = count_kernel(load_kernel(unit), typical={"first": 0.1, "second": 0.9}).properties()
    assert (counts["f32 mul"](n=100), counts["f32 add"](n=100)) == (10, 90)


@pytest.mark.parametrize(
    ("condition", "times"),
    [("i < 2.5", None), ("i*0.5 < 3", None), ("i < n*0.5", None), ("i > -0.5", None), ("i < 3.0", 3)],
)
def test_non_integer_bounds_are_not_truncated(condition: str, times: int | None) -> None:
    code = f"out[i] = if({condition}, 2*a[i], 0) {{id=some}}"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("a,out", "n"), sizes("n")))
    typical = {"some": 0.4} if times is None else {}
    counts = count_kernel(load_kernel(unit), typical=typical).properties()
    assert counts["global load 32-bit stride 1"](n=100) == (40 if times is None else times)


def test_kernel_call_evaluates_its_arguments_once() -> None:
    callee = lp.make_function("{[i]: 0<=i<8}", "y[i] = alpha*x[i] + alpha", name="axpy", lang_version=(2018, 2))
    call = "[j]: y[r,j] = axpy(s[r]*2, [k]: x[r,k])"
    caller = kernel("{[r,j,k]: 0<=r<n and 0<=j,k<8}", call, array("x,y", "n,8"), array("s", "n"), sizes("n"))
    counts = count_kernel(load_kernel(lp.merge([lanes(caller, "r"), callee]))).properties()
    assert counts["f32 mul"](n=100) == 100 + 800
    assert counts["global load 32-bit stride 1"](n=100) == 100


# }}}


# {{{ counts under conditions that are affine in each iteration of a short loop against brute force

SPACE = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j", "k"])


def values(**lengths: int) -> Callable[[str], range | None]:
    return lambda name: range(lengths[name]) if name in lengths else None


def tree(condition: str, levels: str, assumptions: str = "") -> lp.TranslationUnit:
    """Return a kernel whose 64 work-items add in each of *levels* iterations if *condition* holds."""
    code = f"for i,k\nif {condition}\nout[i] = out[i] + 2 {{id=some}}\nend\nend"
    sized = [sizes("m")] if "m" in assumptions else []
    domain = f"{{[i,k]: 0<=i<64 and 0<=k<{levels}}}"
    return lanes(kernel(domain, code, array("out", "64"), *sized, assumptions=assumptions))


AFFINE_CASES_CONDITIONS = {
    "i % (2*2**k) == 0": lambda i, k: i % (2 * 2**k) == 0,
    "not (i % (1 << k) == 0)": lambda i, k: i % (1 << k) != 0,
    "2*(1 << k)*i < 64": lambda i, k: 2 * (1 << k) * i < 64,
    "i < 32 >> k": lambda i, k: i < 32 >> k,
    "i < 32 >> k or i*k > 100": lambda i, k: i < 32 >> k or i * k > 100,
}


@pytest.mark.parametrize("condition", AFFINE_CASES_CONDITIONS)
def test_tree_of_constant_depth_equals_brute_force(condition: str) -> None:
    found = count_kernel(load_kernel(tree(condition, "6"))).properties()["f32 add"]()
    assert found == sum(AFFINE_CASES_CONDITIONS[condition](i, k) for i in range(64) for k in range(6))


@pytest.mark.parametrize("condition", AFFINE_CASES_CONDITIONS)
def test_tree_of_bounded_depth_equals_brute_force(condition: str) -> None:
    counted = count_kernel(load_kernel(tree(condition, "m", "0 <= m <= 6"))).properties()["f32 add"]
    for depth in range(7):
        holding = sum(AFFINE_CASES_CONDITIONS[condition](i, k) for i in range(64) for k in range(depth))
        assert counted(m=depth) == holding, depth


QUOTIENTS = ["i / 2 == j", "not (i / 3 < j)", "i / -2 >= j - 4", "i / 3 > j / 2", "(i + 1) / 4 + j <= 7/2 + j / 2"]
QUOTIENTS += ["1/2*i != 4*j", "i // 2 == i / 2", "-(i / 4) < -j", "(5*i - 7) / 49 == j"]


@pytest.mark.parametrize("condition", QUOTIENTS)
def test_comparisons_of_quotients_agree_with_double_precision(condition: str) -> None:
    found = points_where(SPACE, parse(condition), values())
    assert found is not None
    every = [(i, j) for i in range(-30, 70) for j in range(5)]
    expected = [at for at in every if evaluate(parse(condition), dict(zip("ij", at, strict=True)))]
    assert [at for at in every if found & isl.Set(f"{{ [{at[0]}, {at[1]}, 0] }}")] == expected
    assert 0 < len(expected) < len(every)


@pytest.mark.parametrize("condition", ["i/3 + j/3 == 1", "49*(i/49) == i", "i/j == 2", "i/0 == 2", "not (i/2 - j)"])
def test_rounded_quotients_select_no_points(condition: str) -> None:
    # Loopy generates integer division if a number is used as a condition: !(i / 2 + -1 * j).
    assert points_where(SPACE, parse(condition), values()) is None


def test_work_under_a_condition_on_a_quotient_is_counted_and_timed() -> None:
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = out[i] + 2 {if=i / 4 == i // 4}", array("out", "n"), sizes("n")))
    counted = lpp.count(unit).properties()["f32 add"]
    assert [counted(n=n) for n in (1, 4, 5, 100)] == [1, 1, 2, 25]
    assert lpp.estimate(unit, device="nvidia-a100", model="pipeline", n=1000).seconds > 0


BITS = ["(i & 1) != 0", "((i - 20) & 6) == 2", "i >> 2 < 5", "(i ^ 5) < (i | 8)", "((3*i + j) >> 1 & 3) == j"]
BITS += ["(i & ~3) > 16 or (j & 1) == 0", "not ((((-i) >> 1) & 1) == 1)", "i & 4", "i % 8 & 3"]


@pytest.mark.parametrize("condition", BITS)
def test_bits_of_affine_functions_select_points(condition: str) -> None:
    found = points_where(SPACE, parse(condition), values())
    box = isl.Set("{ [i,j,k]: 0 <= i < 70 and 0 <= j < 5 and k = 0 }")
    assert found is not None
    expected = sum(bool(evaluate(parse(condition), {"i": i, "j": j})) for i in range(70) for j in range(5))
    assert (found & box).count_val().to_python() == expected
    assert 0 < expected < 350


@pytest.mark.parametrize("condition", ["(i & j) != 0", "i >> j < 3", "i*j & 1"])
def test_bits_of_products_and_of_two_variables_select_no_points(condition: str) -> None:
    assert points_where(SPACE, parse(condition), values()) is None


def test_work_under_conditions_on_bits_is_counted_and_timed() -> None:
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = out[i] + 2 {if=(i & 7) == 3}", array("out", "n"), sizes("n")))
    counted = lpp.count(unit).properties()["f32 add"]
    assert [counted(n=n) for n in (3, 4, 100)] == [0, 1, 13]
    assert lpp.estimate(unit, device="nvidia-a100", model="pipeline", n=1000).seconds > 0


def test_cases_combine_several_variables() -> None:
    found = points_where(SPACE, parse("i < 2**(j + k)"), values(j=4, k=4))
    box = isl.Set("{ [i,j,k]: 0 <= i < 200 and 0 <= j,k < 4 }")
    assert found is not None
    assert (found & box).count_val().to_python() == sum(2 ** (j + k) for j in range(4) for k in range(4))


@pytest.mark.parametrize("condition", ["i < 2**(j + k)", "i < 2**(k - 4)", "i < 1 << (k - 4)", "i*j < n"])
def test_too_many_cases_or_fractions_are_not_affine(condition: str) -> None:
    # The limit is 64 cases, and 9 times 8 exceeds it. Negative exponents give fractions; negative shifts are undefined.
    assert points_where(SPACE, parse(condition), values(j=9, k=8)) is None


def test_loop_bounded_only_by_sizes_has_no_cases() -> None:
    with pytest.raises(UncountableError, match="how often"):
        count_kernel(load_kernel(tree("i < 32 >> k", "m", "m >= 0")))


def test_condition_on_data_is_not_affine() -> None:
    made = kernel(
        "{[i,k]: 0<=i<64 and 0<=k<6}",
        "for i,k\nif a[i] < 2**k\nout[i] = 2 {id=some}\nend\nend",
        array("a,out", "64", np.float32),
    )
    with pytest.raises(UncountableError, match="how often"):
        count_kernel(load_kernel(lanes(made)))


# }}}
