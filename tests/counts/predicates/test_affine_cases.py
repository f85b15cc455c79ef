"""Test counts under conditions that are affine in each iteration of a short loop against brute force."""

from collections.abc import Callable

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from pymbolic import evaluate, parse

import loopyperf as lpp
from loopyperf.counts.conditions import points_where
from loopyperf.counts.counted_kernel import count_properties
from loopyperf.errors import UncountableError
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes

SPACE = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j", "k"])


def values(**lengths: int) -> Callable[[str], range | None]:
    return lambda name: range(lengths[name]) if name in lengths else None


def tree(condition: str, levels: str, assumptions: str = "") -> lp.TranslationUnit:
    """Return a kernel whose 64 work-items add in each of *levels* iterations if *condition* holds."""
    code = f"for i,k\nif {condition}\nout[i] = out[i] + 2 {{id=some}}\nend\nend"
    sized = [sizes("m")] if "m" in assumptions else []
    domain = f"{{[i,k]: 0<=i<64 and 0<=k<{levels}}}"
    return lanes(kernel(domain, code, array("out", "64"), *sized, assumptions=assumptions))


CONDITIONS = {
    "i % (2*2**k) == 0": lambda i, k: i % (2 * 2**k) == 0,
    "not (i % (1 << k) == 0)": lambda i, k: i % (1 << k) != 0,
    "2*(1 << k)*i < 64": lambda i, k: 2 * (1 << k) * i < 64,
    "i < 32 >> k": lambda i, k: i < 32 >> k,
    "i < 32 >> k or i*k > 100": lambda i, k: i < 32 >> k or i * k > 100,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_tree_of_constant_depth_equals_brute_force(condition: str) -> None:
    found = count_properties(load_kernel(tree(condition, "6"))).properties()["f32 add"]()
    assert found == sum(CONDITIONS[condition](i, k) for i in range(64) for k in range(6))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_tree_of_bounded_depth_equals_brute_force(condition: str) -> None:
    counted = count_properties(load_kernel(tree(condition, "m", "0 <= m <= 6"))).properties()["f32 add"]
    for depth in range(7):
        holding = sum(CONDITIONS[condition](i, k) for i in range(64) for k in range(depth))
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
        count_properties(load_kernel(tree("i < 32 >> k", "m", "m >= 0")))


def test_condition_on_data_is_not_affine() -> None:
    made = kernel(
        "{[i,k]: 0<=i<64 and 0<=k<6}",
        "for i,k\nif a[i] < 2**k\nout[i] = 2 {id=some}\nend\nend",
        array("a,out", "64", np.float32),
    )
    with pytest.raises(UncountableError, match="how often"):
        count_properties(load_kernel(lanes(made)))
