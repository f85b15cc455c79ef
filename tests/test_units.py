"""Formatting of times, amounts and shares."""

from fractions import Fraction

import numpy as np
import pytest

from loopyperf.units import amount, duration, in_percent, prefixed, printable, ratio_in_words, unit_cost


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.0, "1 s"),
        (12.34e-6, "12.3 µs"),
        (1e-3, "1 ms"),
        (129e-6, "129 µs"),
        (0.9996e-12, "1 ps"),
        (0.999e-12, "< 1 ps"),
        (-2.74e-14, "> -1 ps"),
        (-241.893e-3, "-242 ms"),
    ],
)
def test_duration_has_three_digits_and_a_suitable_unit(seconds: float, text: str):
    assert text == duration(seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (6.81e-13, "0.681 ps"),
        (-6.63e-12, "-6.63 ps"),
        (2.74e-14, "0.0274 ps"),
        (1e-15, "0.001 ps"),
        (9e-16, "< 0.001 ps"),
        (-1e-17, "> -0.001 ps"),
        (3.75e-9, "3.75 ns"),
    ],
)
def test_unit_cost_may_be_less_than_a_picosecond(seconds: float, text: str):
    assert text == unit_cost(seconds)


@pytest.mark.parametrize(("seconds", "text"), [(999.9e-6, "1 ms"), (0.99951, "1 s"), (999.4e-6, "999 µs")])
def test_a_time_is_rounded_before_its_unit_is_chosen(seconds: float, text: str):
    assert text == duration(seconds)


def test_an_amount_is_rounded_before_its_prefix_is_chosen():
    assert [prefixed(number, "B/s") for number in (999.9e9, 998e9, 0.0)] == ["1 TB/s", "998 GB/s", "0 B/s"]


def test_long_times_are_written_without_an_exponent():
    assert duration(4096.0) == "1.14 h"


def test_infinite_and_nan_durations_are_printed():
    assert [duration(float("inf")), duration(float("nan"))] == ["inf s", "nan s"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.8265, "83 %"), (0.004, "< 1 %"), (-0.0037, "-0.4 %"), (-0.8599, "-86 %"), (1.3, "130 %")],
)
def test_small_share_differs_from_zero_percent(share: float, text: str):
    assert text == in_percent(share)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (10**18 + 1, "1,000,000,000,000,000,001"),
        (np.int64(65536), "65,536"),
        (65536.0, "65,536"),
        (Fraction(7, 2), "3.5"),
        (0.00031240533333333335, "0.0003124"),
        (76030.4, "76,030"),
        (float("inf"), "inf"),
    ],
)
def test_amounts_are_rounded_to_four_digits_or_to_integers(number: float, text: str):
    assert amount(number) == text


def test_ratio_has_no_exponent():
    ratios = (1.04, 1.25, 1.96, 64.2, 99.4, 99.5, 122.4, 4321.0)
    assert [*map(ratio_in_words, ratios)] == ["1.04", "1.25", "2", "64", "99", "100", "122", "4321"]


def test_control_characters_are_printed_as_escapes():
    assert printable("a\x1b]0;x\x07\u202eb\x9bc") == "a\\x1b]0;x\\x07\\u202eb\\x9bc"
    assert printable("12 µs\tof\nNVIDIA\N{NO-BREAK SPACE}™") == "12 µs\tof\nNVIDIA\N{NO-BREAK SPACE}™"
