"""Test the number of executions in loops against enumeration of all iterations."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from loopyperf.idg import Loop
from loopyperf.idg.graph import number_of_runs
from tests.idg.rolled_graphs import OF_INNER

CLAMPS = ("i - 1 == j", "i < 1 or i >= 29", "i >= 1 and j <= 22", "i*j >= 40", "(i + 3*j) // 5 == 2")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 47), st.sampled_from([0, 1, 3, 25, "i + 1", "i % 3"]))
@pytest.mark.parametrize("text", [*OF_INNER, *CLAMPS])
def test_number_of_runs_matches_enumeration_of_iterations(text: str, trips: int, inner: int | str) -> None:
    condition, inner_trips = parse(text), parse(str(inner))
    loops = [Loop("i", trips, ()), Loop("j", inner_trips, ())]
    points = ((i, j) for i in range(trips) for j in range(evaluate(inner_trips, {"i": i})))
    assert number_of_runs(condition, loops) == sum(bool(evaluate(condition, {"i": i, "j": j})) for i, j in points)


@pytest.mark.parametrize(("text", "runs"), [("i >= 1 and i < 999999999", 10**9 - 2), ("i + j == 7", 8)])
def test_number_of_runs_in_long_loops_is_found_at_once(text: str, runs: int) -> None:
    start = process_time()
    assert number_of_runs(parse(text), [Loop("i", 10**9, ()), Loop("j", 10**9, ())][: 1 + ("j" in text)]) == runs
    assert process_time() - start < 5


def test_runs_with_conditions_on_different_loops_are_multiplied() -> None:
    # Seven axes of ten, each padded by one at both ends, as pytato writes it.
    loops = [Loop(f"i{axis}", 10, ()) for axis in range(7)]
    inside = parse(" and ".join(f"i{axis} >= 1 and i{axis} < 9" for axis in range(7)))
    start = process_time()
    assert number_of_runs(inside, loops) == 8**7
    assert number_of_runs(parse(" or ".join(f"i{axis} == 5" for axis in range(7))), loops) == 10**7 - 9**7
    assert process_time() - start < 5
