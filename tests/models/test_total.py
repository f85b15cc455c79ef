"""Sums of costs."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.result import total

COSTS = st.lists(st.floats(min_value=-1e6, max_value=1e6), max_size=20)


@given(COSTS, st.randoms(use_true_random=False))
def test_total_does_not_depend_on_the_order(costs: list[float], order: random.Random):
    shuffled = list(costs)
    order.shuffle(shuffled)
    assert total(costs) == total(shuffled)


def test_small_costs_beside_large_ones_count():
    assert total([1e10, 1e-6, -1e10]) == 1e-6


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1), st.data())
def test_total_never_decreases_if_a_cost_increases(costs: list[float], data: st.DataObject):
    index = data.draw(st.integers(min_value=0, max_value=len(costs) - 1))
    increased = list(costs)
    increased[index] = data.draw(st.floats(min_value=costs[index], max_value=2e6))
    assert total(costs) <= total(increased)


def test_no_costs_add_up_to_zero():
    assert total([]) == 0


def test_arrays_and_numbers_are_added_for_each_size():
    assert total([np.array([0.1, 0.2]), np.array([0.3, 0.4]), 1e-9]) == pytest.approx([0.4 + 1e-9, 0.6 + 1e-9])
