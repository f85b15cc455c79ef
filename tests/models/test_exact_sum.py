"""Rounding of costs so that they add up to their total exactly."""

import math
import random
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.result import adding_up

NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
COSTS = st.lists(NUMBERS, max_size=20)


@given(COSTS, st.randoms(use_true_random=False))
def test_parts_add_up_to_the_total_in_every_order(costs: list[float], order: random.Random):
    total, parts = adding_up(costs)
    order.shuffle(parts)
    assert total == math.fsum(parts) == sum(parts)


@given(COSTS, st.integers(min_value=1, max_value=5))
def test_parts_add_up_to_the_total_in_every_grouping(costs: list[float], groups: int):
    total, parts = adding_up(costs)
    assert total == math.fsum(sum(parts[start::groups]) for start in range(groups))


@given(COSTS)
def test_the_total_is_the_sum_up_to_rounding(costs: list[float]):
    total, _ = adding_up(costs)
    magnitude = sum(map(abs, map(Fraction, costs)))
    # Half a quantum, 2⁻⁵² of the power of two above the magnitude, and the rounding of fsum itself.
    assert abs(Fraction(total) - sum(map(Fraction, costs))) <= magnitude * Fraction(1, 2**51)


@given(COSTS)
def test_no_part_moves_by_more_than_rounding(costs: list[float]):
    _, parts = adding_up(costs)
    magnitude = sum(map(abs, costs))
    # Each part changes by half a quantum, and the largest by what the others leave: half a quantum of each.
    assert all(
        abs(part - cost) <= (len(costs) + 1) * 2**-51 * magnitude for part, cost in zip(parts, costs, strict=True)
    )


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1), st.data())
def test_total_never_decreases_if_a_cost_increases(costs: list[float], data: st.DataObject):
    index = data.draw(st.integers(min_value=0, max_value=len(costs) - 1))
    increased = list(costs)
    increased[index] = data.draw(st.floats(min_value=costs[index], max_value=2e6))
    assert adding_up(costs)[0] <= adding_up(increased)[0]


def test_parts_add_up_where_separate_rounding_fails():
    # 1e10 + 1e-6 is not a float64, so the subtotals of these groups could not add up to 1e-6.
    total, parts = adding_up([1e10, 1e-6, -1e10])
    assert total == math.fsum([parts[0] + parts[1], parts[2]])


def test_no_costs_add_up_to_zero():
    assert adding_up([]) == (0.0, [])


def test_arrays_are_added_in_order():
    costs = [np.array([0.1, 0.2]), np.array([0.3, 0.4]), 1e-9]
    total, parts = adding_up(costs)
    assert list(total) == [0.1 + 0.3 + 1e-9, 0.2 + 0.4 + 1e-9]
    assert parts == costs
