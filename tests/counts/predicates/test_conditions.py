"""Conditions of many parts: counted where that takes little time, refused where it takes too much."""

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


def nothing_is_known(_: object) -> bool:
    """Tell that every expression is data."""
    return False


def share(*conditions: Condition) -> Fraction:
    """Return how often all *conditions* hold."""
    of_conditions = {each: frozenset(parts(each.expression, nothing_is_known)) for each in conditions}
    return probability(of_conditions, SHARES)


def test_shares_of_conditions_without_common_parts_multiply() -> None:
    assert share() == 1
    assert share(Condition(X), Condition(Y, holds=False)) == Fraction(1, 2) * Fraction(2, 3)
    # One of y and z fails: 1 - 1/15.
    assert share(Condition(X), Condition(prim.LogicalAnd((Y, Z)), holds=False)) == Fraction(1, 2) * Fraction(14, 15)


def test_a_common_part_is_true_in_all_conditions_or_in_none() -> None:
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
def test_a_condition_as_a_whole_holds_as_often_as_its_alternatives(expression: object, holds: bool) -> None:
    whole = share(Condition(expression, holds))
    ways = alternatives(expression, nothing_is_known, holds)
    consistent = [way for way in ways if len({each.expression for each in way}) == len(way)]
    assert whole == sum(share(*way) for way in consistent)


def disjunctions(number: int, left: str) -> lp.TranslationUnit:
    """Return a kernel that runs where, for each of *number* q, *left* or a > q holds."""
    tests = "".join(f"if {left.format(q)} or a[i] > {q}\n" for q in range(number))
    code = f"{tests}out[i] = 2 {{id=some}}\n" + "end\n" * number
    return lanes(kernel("{[i]: 0<=i<n}", code, array("m", "n", np.int32), array("a,out", "n"), sizes("n")))


def test_many_conditions_on_data_hold_together_as_often_as_their_shares_multiply() -> None:
    # Each holds for 1 - 1/2·1/2 of the runs.
    loaded = load_kernel(disjunctions(9, "m[i] > {}"))
    at = "[i_inner + i_outer*16] > "
    typical = {f"{name}{at}{q}": 0.5 for name, q in product("ma", range(9))}
    counts = count_properties(loaded, typical=typical).properties()
    assert counts["global store 32-bit stride 1"](n=10**6) == round(10**6 * Fraction(3, 4) ** 9)


def test_too_many_conditions_on_data_and_on_loops_are_refused() -> None:
    typical = {f"a[i_inner + i_outer*16] > {q}": 0.5 for q in range(9)}
    with pytest.raises(UncountableError, match=r"512 alternatives exceed the limit of 256; simplify \(.* or "):
        count_properties(load_kernel(disjunctions(9, "i < {} + 5")), typical=typical)


def test_too_many_parts_that_depend_on_each_other_are_refused() -> None:
    typical = {f"a[i_inner + i_outer*16] > {q}": 0.5 for q in range(14)} | {"m[i_inner + i_outer*16] > 0": 0.5}
    with pytest.raises(
        UncountableError, match=r"conditions on data that share operands have \d+ operands, more than 12"
    ):
        count_properties(load_kernel(disjunctions(14, "m[i] > 0")), typical=typical)


def test_ways_to_hold_are_written_down_while_they_are_few() -> None:
    each = [prim.LogicalOr((prim.Variable(f"x{place}"), prim.Variable(f"y{place}"))) for place in range(5)]
    assert len(list(disjoint_conditions(each[:4], nothing_is_known))) == 2**4
    assert [len(way) for way in disjoint_conditions(each, nothing_is_known)] == [5]
