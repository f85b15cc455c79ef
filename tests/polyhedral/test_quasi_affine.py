"""Test isl's quasi-affine functions against point-by-point evaluation of the original expressions."""

from itertools import product
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopy.symbolic import get_dependencies
from pymbolic import parse

from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map, simplified_expression
from tests.pointwise import PointwiseEvaluator

i, j = prim.Variable("i"), prim.Variable("j")
LENGTHS = {"i": 24, "j": 6}
POINTS = isl.Set("{ [i, j] : 0 <= i < 24 and 0 <= j < 6 }")


def values(expression: Any) -> np.ndarray:
    """Return the value of *expression* at each of POINTS."""
    columns = np.array(list(product(*map(range, LENGTHS.values())))).T
    found = PointwiseEvaluator(dict(zip(LENGTHS, columns, strict=True)))(expression)
    return np.broadcast_to(found, columns[0].shape)


# {{{ equal at all points


@st.composite
def integer_expressions(draw: Any, depth: int = 3) -> Any:
    """Draw an expression of i and j with any quasi-affine operations."""
    if depth == 0:
        return draw(st.sampled_from([i, j, 3]))
    one, other = (draw(integer_expressions(depth - 1)) for _ in range(2))
    number = draw(st.integers(1, 7))
    condition = prim.Comparison(one, draw(st.sampled_from(["<", "<=", "==", "!=", ">", ">="])), number)
    alternatives = [
        *(one + other, one - other, number * one, -one, one // number, one % number, one // -number, one % -number),
        *(prim.Min((one, other)), prim.Max((one, number)), prim.If(condition, one, other)),
        *(prim.If(prim.LogicalNot(condition), one, number), prim.LeftShift(one, number % 3)),
        *(prim.RightShift(one, number % 3), prim.BitwiseAnd((one, number)), prim.BitwiseAnd((-number, one))),
        *(prim.BitwiseOr((one, number)), prim.BitwiseXor((number, one)), prim.BitwiseNot(one)),
    ]
    return draw(st.sampled_from(alternatives))


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(integer_expressions())
def test_simplified_expression_is_equal_at_all_points(expression: Any) -> None:
    assert (values(simplified_expression(expression, POINTS)) == values(expression)).all()


@settings(max_examples=30, deadline=None, database=None, derandomize=True)
@given(integer_expressions(2), integer_expressions(2))
def test_range_of_a_map_has_the_values_of_its_expressions(one: Any, other: Any) -> None:
    values_of_map: list[tuple[int, ...]] = []
    quasi_affine_map(POINTS, (one, other)).range().foreach_point(
        lambda point: values_of_map.append(
            tuple(point.get_coordinate_val(isl.dim_type.set, at).to_python() for at in (0, 1))
        )
    )
    assert sorted(values_of_map) == sorted(set(zip(values(one).tolist(), values(other).tolist(), strict=True)))


# }}}


# {{{ the fewest floors


def test_floors_that_cancel_or_are_constant_are_removed(subtests: pytest.Subtests) -> None:
    for expression, simplest in [
        # Reshapes: the same elements with other axes, also in two steps.
        ("6*((3*i + j)//6) + (3*i + j) % 6", "3*i + j"),
        ("6*((3*i + j)//6) + 2*((3*i + j) // 2 % 3) + (3*i + j) % 2", "3*i + j"),
        ("12*((3*i + j)//12) + 3*((3*i + j) % 12 // 3) + (3*i + j) % 3", "3*i + j"),
        ("6*(((i*6 + j)//2)//3) + 2*(((i*6 + j)//2) % 3) + (i*6 + j) % 2", "6*i + j"),
        # Simplifications that follow from the loop bounds.
        ("(6*i + j)//6", "i"),
        ("(6*i + j) % 6", "j"),
        ("(i + 5) // 30", "0"),
        ("i % 24", "i"),
        # Bits.
        ("(i << 1) + j", "2*i + j"),
        ("(i & 7) + (i & -8)", "i"),
        ("8*(i >> 3) + (i & 7)", "i"),
        ("(i << 3) | 5", "8*i + 5"),
        ("~(~i)", "i"),
    ]:
        with subtests.test(expression=expression, simplest=simplest):
            difference = simplified_expression(parse(expression) - parse(simplest), POINTS)
            assert difference == 0
            assert not any(floor in str(simplified_expression(parse(expression), POINTS)) for floor in ("//", "%"))


@pytest.mark.parametrize(
    "expression",
    [
        prim.If(prim.Comparison(i, ">=", 0), i, i + 24),  # NumPy's negative indices
        prim.Max((0, prim.Min((i, 23)))),
        prim.If(prim.LogicalOr((prim.Comparison(i, "<", 5), prim.Comparison(i, ">=", 5))), i, j),
        prim.If(prim.Comparison(i, "==", 3), 3, i),
    ],
)
def test_cases_that_never_differ_are_merged(expression: Any) -> None:
    assert simplified_expression(expression, POINTS) == i


def test_unknown_term_may_be_a_summand_if_allowed() -> None:
    unknown = parse("q[k]*j")
    element = 3 * ((2 * i + unknown) // 3) + (2 * i + unknown) % 3 + unknown
    found = simplified_expression(element, POINTS, lambda part: "i" not in get_dependencies(part))
    assert get_dependencies(found) == {"i", "j", "k", "q"}
    assert PointwiseEvaluator({"i": 5, "j": 2, "k": 0, "q": [7]})(found) == 2 * 5 + 2 * 7 * 2
    assert "//" not in str(found)


@pytest.mark.parametrize("expression", ["i*j", "i & j", "i // j", "x[i]", "1 << i", "f(i)", "i**2", "unknown", "i / 2"])
def test_expression_that_is_not_quasi_affine_raises(expression: str) -> None:
    with pytest.raises(NotQuasiAffineError):
        simplified_expression(parse(expression) + 2 * i, POINTS)


# }}}
