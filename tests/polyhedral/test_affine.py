"""Expressions of passes in terms of others: sums of multiples, and conditions on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from loopyperf.idg.unrolling import in_terms_of
from loopyperf.polyhedral.affine import Affine


@given(st.tuples(*[st.integers(-9, 9)] * 5))
def test_a_sum_of_multiples_is_worth_the_same_in_other_terms(numbers: tuple[int, ...]) -> None:
    first, second, constant, i, j = numbers
    expression = parse("3*i + (j + c)*2 - 4*(i - 1)")
    passes = {"i": first * parse("i") + constant, "j": second}
    expected = evaluate(expression, {"i": first * i + constant, "j": second, "c": j})
    assert evaluate(in_terms_of(expression, passes), {"i": i, "c": j}) == expected


def test_sums_are_written_in_one_way() -> None:
    assert str(in_terms_of(parse("2*(j + 1) + i"), {})) == str(in_terms_of(parse("i + 1 + j*2 + 1"), {}))


@pytest.mark.parametrize("text", ["i*j", "i // 2", "i % 2", "2.0*i"])
def test_what_is_no_sum_of_multiples_is_refused(text: str) -> None:
    assert Affine.of_plain(parse(text)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i == 2", True),
        ("i == 3", False),
        ("i == 2 and j == 3", "j == 3"),
        ("i == 3 and j == 3", False),
        ("i == 2 and i > 1", True),
    ],
)
def test_a_condition_is_what_is_left_of_it_where_i_is_2(text: str, expected: bool | str) -> None:
    found = in_terms_of(parse(text), {"i": 2})
    assert found is expected or str(found) == expected
