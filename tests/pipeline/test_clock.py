"""Ticks: exact where a part of a cycle can be, and close where it cannot."""

from fractions import Fraction

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, simulate
from loopyperf.pipeline.scenario import clock_for, rational


def test_tick_is_the_largest_part_of_which_all_are_multiples() -> None:
    # 3/8, 1/4 and 6: an eighth
    assert clock_for([0.375, 0.25, 6], 1000).ticks_per_cycle == 8
    assert clock_for([Fraction(1, 3), 0.5], 1000).ticks_per_cycle == 6
    assert clock_for([4, 10], 1000).ticks_per_cycle == 1


def test_float_stands_for_the_decimal_that_it_is_written_as() -> None:
    assert rational(0.1) == Fraction(1, 10)
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=10)
    assert simulate(chain, {"x": Lambdas(0.1, 0.1)}, Execution(1, 1, 1)).exact_cycles == 1


def test_computed_latencies_are_rounded_by_less_than_anyone_sees() -> None:
    # Equation 1 of Cornelis with latencies that are no part of a cycle
    issue, completion, length, warps = 2**0.5, 400 / 7, 50, 64
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=length)
    found = simulate(chain, {"x": Lambdas(issue, completion)}, Execution(1, warps, warps)).cycles
    # Each of 3200 issues is rounded by half a tick at most
    assert completion + (length * warps - 1) * issue == pytest.approx(found, rel=1e-11)
