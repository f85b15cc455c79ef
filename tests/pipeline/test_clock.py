"""Clock ticks represent rational latencies exactly and round others by a negligible amount."""

from fractions import Fraction

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, simulate
from loopyperf.pipeline.scenario import clock_for, rational


def test_tick_is_the_greatest_common_divisor_of_the_latencies() -> None:
    # 3/8, 1/4 and 6: an eighth
    assert clock_for([0.375, 0.25, 6], 1000).ticks_per_cycle == 8
    assert clock_for([Fraction(1, 3), 0.5], 1000).ticks_per_cycle == 6
    assert clock_for([4, 10], 1000).ticks_per_cycle == 1


def test_float_is_converted_as_its_decimal_notation() -> None:
    assert rational(0.1) == Fraction(1, 10)
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=10)
    assert simulate(chain, {"x": Lambdas(0.1, 0.1)}, Execution(1, 1, 1)).exact_cycles == 1


def test_rounding_latencies_to_ticks_has_a_negligible_effect() -> None:
    # Equation 1 of Cornelis, with latencies that are no multiples of a simple fraction of a cycle
    issue, completion, length, warps = 2**0.5, 400 / 7, 50, 64
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=length)
    found = simulate(chain, {"x": Lambdas(issue, completion)}, Execution(1, warps, warps)).cycles
    # Each of 3200 issues is rounded by half a tick at most
    assert completion + (length * warps - 1) * issue == pytest.approx(found, rel=1e-11)
