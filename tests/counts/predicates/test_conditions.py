"""Test conditions with many parts: counted if that is fast, rejected if it would take too long."""

from fractions import Fraction
from itertools import product

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest

from loopyperf.counts.conditions import Condition, alternatives, disjoint_conditions, parts, probability
from loopyperf.counts.counted_kernel import count_properties
from loopyperf.errors import UncountableError
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes

X, Y, Z = (prim.Variable(name) for name in "xyz")
SHARES = {X: Fraction(1, 2), Y: Fraction(1, 3), Z: Fraction(1, 5)}


def never_known(_: object) -> bool:
    """Return False: every expression depends on data."""
    return False


def share(*conditions: Condition) -> Fraction:
    """Return the probability that all *conditions* hold."""
    of_conditions = {each: frozenset(parts(each.expression, never_known)) for each in conditions}
    return probability(of_conditions, SHARES)


def test_probabilities_of_independent_conditions_multiply() -> None:
    assert share() == 1
    assert share(Condition(X), Condition(Y, holds=False)) == Fraction(1, 2) * Fraction(2, 3)
    # One of y and z fails: 1 - 1/15.
    assert share(Condition(X), Condition(prim.LogicalAnd((Y, Z)), holds=False)) == Fraction(1, 2) * Fraction(14, 15)


def test_common_part_has_the_same_value_in_all_conditions() -> None:
    # (x or y) and (x or z) is x or (y and z): 1/2 + 1/2 of 1/15.
    both = Condition(prim.LogicalOr((X, Y))), Condition(prim.LogicalOr((X, Z)))
    assert share(*both) == Fraction(1, 2) + Fraction(1, 30)
    assert share(*both, Condition(X, holds=False)) == Fraction(1, 30)


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    "expression",
    [
        X,
        prim.LogicalNot(X),
        prim.LogicalOr((X, Y, Z)),
        prim.LogicalAnd((prim.LogicalOr((X, Y)), prim.LogicalOr((prim.LogicalNot(X), Z)))),
        prim.LogicalOr((prim.LogicalAnd((X, Y)), prim.LogicalAnd((prim.LogicalNot(Y), Z)))),
    ],
)
def test_probability_is_the_sum_over_the_alternatives(expression: object, holds: bool) -> None:
    whole = share(Condition(expression, holds))
    ways = alternatives(expression, never_known, holds)
    consistent = [way for way in ways if len({each.expression for each in way}) == len(way)]
    assert whole == sum(share(*way) for way in consistent)


def disjunctions(number: int, left: str) -> lp.TranslationUnit:
    """Return a kernel that executes where *left* or a > q holds for each q below *number*."""
    tests = "".join(f"if {left.format(q)} or a[i] > {q}\n" for q in range(number))
    code = f"{tests}out[i] = 2 {{id=some}}\n" + "end\n" * number
    return lanes(kernel("{[i]: 0<=i<n}", code, array("m", "n", np.int32), array("a,out", "n"), sizes("n")))


def test_probabilities_of_many_conditions_on_data_multiply() -> None:
    # Each holds with probability 1 - 1/2·1/2.
    loaded = load_kernel(disjunctions(9, "m[i] > {}"))
    at = "[i_inner + i_outer*16] > "
    typical = {f"{name}{at}{q}": 0.5 for name, q in product("ma", range(9))}
    counts = count_properties(loaded, typical=typical).properties()
    assert counts["global store 32-bit stride 1"](n=10**6) == round(10**6 * Fraction(3, 4) ** 9)


def test_too_many_conditions_on_data_and_on_loops_are_rejected() -> None:
    typical = {f"a[i_inner + i_outer*16] > {q}": 0.5 for q in range(9)}
    with pytest.raises(UncountableError, match=r"512 alternatives exceed the limit of 256; simplify \(.* or "):
        count_properties(load_kernel(disjunctions(9, "i < {} + 5")), typical=typical)


def test_too_many_dependent_parts_are_rejected() -> None:
    typical = {f"a[i_inner + i_outer*16] > {q}": 0.5 for q in range(14)} | {"m[i_inner + i_outer*16] > 0": 0.5}
    with pytest.raises(
        UncountableError, match=r"conditions on data that share operands have \d+ operands, more than 12"
    ):
        count_properties(load_kernel(disjunctions(14, "m[i] > 0")), typical=typical)


def test_alternatives_are_listed_if_they_are_few() -> None:
    each = [prim.LogicalOr((prim.Variable(f"x{place}"), prim.Variable(f"y{place}"))) for place in range(5)]
    assert len(list(disjoint_conditions(each[:4], never_known))) == 2**4
    assert [len(way) for way in disjoint_conditions(each, never_known)] == [5]
