"""Intervals judged on classes that neither the fit nor they have seen; candidates that not all rows can be told to."""

import warnings

import numpy as np
import pytest

from loopyperf.calibration.fitting import interval_coverage
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import CANDIDATES, possible
from loopyperf.errors import CalibrationError, LoopyperfWarning

LINEAR = [each for each in CANDIDATES if each.name == "linear, non-negative"]


def observations(classes: int, habit: float = 0.15, noise: float = 0.05) -> list[Observation]:
    """Return kernels whose times are a sum, off by a class's *habit* and by *noise*, standard deviations of ln T."""
    rng = np.random.default_rng(1)
    rows: list[Observation] = []
    for number in range(classes):
        own = rng.normal(0, habit)
        for _ in range(4):
            adds, loads = (int(each) for each in 10.0 ** rng.uniform(5, 8, 2))
            seconds = (1e-11 * adds + 3e-11 * loads + 1e-5) * np.exp(own + rng.normal(0, noise))
            counts = {"f32 add": adds, "global load 32-bit stride 1": loads, "launches": 1}
            rows.append(Observation(f"class {number}", "x", {}, counts, float(seconds)))
    return rows


def test_four_of_five_kernels_of_classes_left_out_lie_in_their_interval():
    found = interval_coverage(observations(40), LINEAR, seeds=2)
    assert 0.75 <= found.inside <= 0.85
    assert found.chosen == ("linear, non-negative",)


def test_an_interval_reaches_to_the_quantile_of_the_errors():
    found = interval_coverage(observations(40, habit=0.0, noise=0.15), LINEAR, seeds=1)
    # Four of five normal errors are below 1.28 standard deviations: exp(0.192) = 1.21. 160 tell that to some 7 %.
    assert np.log(found.factor) == pytest.approx(0.192, rel=0.2)


def test_intervals_that_state_less_hold_less_and_reach_less_far():
    rows = observations(20)
    half, most = (interval_coverage(rows, LINEAR, seeds=1, level=level) for level in (0.5, 0.9))
    assert half.inside < most.inside
    assert half.factor < most.factor


def test_a_class_unlike_all_others_is_not_in_its_interval():
    rows = observations(20, habit=0.0)
    slow = [Observation(row.kernel_class, "x", {}, row.properties, row.seconds * 100) for row in rows[:4]]
    found = interval_coverage([*slow, *rows[4:]], LINEAR, seeds=1)
    assert found.inside <= 0.95  # 4 of 80 are never inside, though others reach further for their sake


def test_kernels_that_do_what_nobody_was_measured_doing_have_no_interval():
    rows = observations(20)
    alone = [
        Observation(row.kernel_class, "x", {}, {**row.properties, "f64 div": 10**7}, row.seconds) for row in rows[:4]
    ]
    found = interval_coverage([*alone, *rows[4:]], LINEAR, seeds=2)
    assert found.without == 4 * 2
    assert found.inside >= 0.7


def test_of_several_candidates_each_fit_takes_one():
    found = interval_coverage(observations(10), [each for each in CANDIDATES if each.model == "linear"], seeds=1)
    assert set(found.chosen) <= {"linear, non-negative", "linear, plain"}


def test_too_few_classes_are_refused():
    with pytest.raises(CalibrationError, match="got 4 classes and 5 folds"):
        interval_coverage(observations(4), LINEAR)
    with pytest.raises(CalibrationError, match=r"at least three .* got 2 classes and 2 folds"):
        interval_coverage(observations(2), LINEAR, folds=2)


# {{{ rows without the columns of a candidate


def described(number: int, *, pipelines: bool) -> Observation:
    busy = {"DRAM": 1e-3} if pipelines else {}
    return Observation(f"class {number}", "x", {}, {"launches": 1}, 1.0, busy)


def test_a_row_without_pipelines_takes_that_way_to_fit_away_and_is_named():
    rows = [described(number, pipelines=number != 2) for number in range(5)]
    with pytest.warns(
        LoopyperfWarning,
        match=r"no fit of pipelines: 1 of 5 measurements have none: 'class 2' \(x\); add the missing",
    ):
        found = possible(rows)
    assert {each.basis for each in found} == {"counts"}


def test_of_many_rows_without_pipelines_three_are_named():
    rows = [described(number, pipelines=number == 0) for number in range(6)]
    with pytest.warns(LoopyperfWarning, match=r"'class 3' \(x\) and 2 more;"):
        possible(rows)


@pytest.mark.parametrize("pipelines", [False, True])
def test_where_all_rows_are_alike_nothing_is_warned_of(pipelines: bool):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = possible([described(number, pipelines=pipelines) for number in range(3)])
        possible([described(0, pipelines=True), described(1, pipelines=False)], "linear")
    assert ("pipelines" in {each.basis for each in found}) == pipelines


# }}}
