"""Tests that fits of lines and of memory levels recover their parameters."""

import numpy as np
import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.microbenchmarks.instruction_benchmarks import straight_line
from loopyperf.measurement.microbenchmarks.memory_benchmarks import memory_levels

# {{{ straight lines


def test_line_is_recovered() -> None:
    line = straight_line([1, 2, 4, 8], [7, 9, 13, 21])
    assert (line.intercept.value, line.slope.value) == pytest.approx((5, 2))
    assert line.residual < 1e-9


def test_errors_of_a_line_match_the_standard_errors() -> None:
    x, random = np.array([1, 2, 4, 8, 16, 32]), np.random.default_rng(2)
    lines = [straight_line(x, (40 + 2 * x) * (1 + 0.01 * random.standard_normal(6))) for _ in range(200)]
    # Student's t with four degrees of freedom is within 3 standard errors in 96 %.
    assert sum(abs(line.slope.value - 2) <= 3 * line.slope.error for line in lines) > 0.9 * 200
    assert sum(abs(line.intercept.value - 40) <= 3 * line.intercept.error for line in lines) > 0.9 * 200
    assert np.median([line.slope.relative_error for line in lines]) < 0.05


def test_an_outlier_does_not_bend_a_line() -> None:
    line = straight_line([1, 2, 3, 4, 5, 6, 7, 8], [11, 12, 13, 14, 25, 16, 17, 18])
    assert (line.intercept.value, line.slope.value) == pytest.approx((10, 1), rel=0.05)


def test_two_points_are_too_few_for_a_line() -> None:
    with pytest.raises(MeasurementError, match="three or more points"):
        straight_line([1, 2, 2], [1, 2, 2])
    with pytest.raises(MeasurementError, match="above 0"):
        straight_line([1, 2, 3], [1, 0, 2])


# }}}


# {{{ memory levels

FOOTPRINTS = sorted([2**k for k in range(12, 28)] + [3 * 2**k for k in range(11, 26)])


def sharp(nbytes: int) -> float:
    """Return 30 cycles up to 32 KiB, 200 up to 4 MiB, 500 beyond."""
    return 30 if nbytes <= 2**15 else 200 if nbytes <= 2**22 else 500


def by_hit_ratio(nbytes: int) -> float:
    """Return the mean latency if a share of size/footprint of the loads hits a level of that size."""
    first, second = (min(1, size / nbytes) for size in (2**15, 2**22))
    return 30 * first + 200 * (second - first) + 500 * (1 - second)


def test_levels_are_recovered_with_their_sizes() -> None:
    found = memory_levels({nbytes: sharp(nbytes) for nbytes in FOOTPRINTS})
    assert [(level.latency.value, level.holds, level.holds_not) for level in found] == [
        (30, 2**15, 3 * 2**14),
        (200, 2**22, 3 * 2**21),
        (500, 2**27, None),
    ]


def test_levels_are_found_despite_noise() -> None:
    random = np.random.default_rng(3)
    found = memory_levels({n: sharp(n) * (1 + 0.02 * random.standard_normal()) for n in FOOTPRINTS})
    assert [level.holds for level in found[:2]] == [2**15, 2**22]
    assert [level.latency.value for level in found] == pytest.approx([30, 200, 500], rel=0.02)


def test_level_is_found_where_misses_increase_gradually() -> None:
    found = memory_levels({nbytes: by_hit_ratio(nbytes) for nbytes in FOOTPRINTS})
    assert found[0].latency.value == 30
    assert found[0].holds == 2**15
    # At one and a half times its size a third of the loads miss: 30·2/3 + 200/3 = 87 cycles, 200·2/3 + 500/3 = 300.
    assert found[1].holds <= 2**22
    # The median includes points where some loads hit the first level, 1/16 of them at 512 KiB.
    assert found[1].latency.value == pytest.approx(200, rel=0.1)


def test_times_that_always_grow_have_no_levels() -> None:
    assert memory_levels({nbytes: float(nbytes) for nbytes in FOOTPRINTS}) == ()


def test_two_points_are_a_level_only_at_the_smallest_footprints() -> None:
    (first_level,) = memory_levels({1024: 30, 2048: 30, 4096: 300, 8192: 300})
    assert (first_level.latency.value, first_level.holds, first_level.holds_not) == (30, 2048, 4096)


def test_no_levels_without_one_at_the_smallest_footprints() -> None:
    assert memory_levels({1024: 30, 2048: 60, 4096: 300, 8192: 300, 16384: 300}) == ()


def test_similar_latencies_are_one_level() -> None:
    times = dict(zip(FOOTPRINTS, [30] * 8 + [36] * 23, strict=True))
    (level,) = memory_levels(times)
    assert level.latency.value == 36


# }}}
