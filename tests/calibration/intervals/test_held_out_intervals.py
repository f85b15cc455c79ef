"""Test the coverage of prediction intervals on held-out kernel classes, and the choice of possible candidates."""

import warnings

import numpy as np
import pytest
from parts.held_out_intervals import interval_coverage

from loopyperf.calibration.fitting import CANDIDATES, possible
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError, LoopyperfWarning
from tests.calibration.intervals.biased_classes import observations

LINEAR = [each for each in CANDIDATES if each.name == "linear, non-negative"]


def test_four_of_five_held_out_kernels_lie_in_their_interval():
    found = interval_coverage(observations(40), LINEAR, seeds=2)
    assert 0.75 <= found.inside <= 0.85
    assert found.chosen == ("linear, non-negative",)


def test_interval_width_is_the_quantile_of_the_errors():
    found = interval_coverage(observations(40, bias=0.0, noise=0.15), LINEAR, seeds=1)
    # Four of five normal errors are below 1.28 standard deviations: exp(0.192) = 1.21. With 160 errors, the
    # quantile is known to about 7 %.
    assert np.log(found.factor) == pytest.approx(0.192, rel=0.2)


def test_lower_levels_give_narrower_intervals_and_less_coverage():
    rows = observations(20)
    narrow, wide = (interval_coverage(rows, LINEAR, seeds=1, level=level) for level in (0.5, 0.9))
    assert narrow.inside < wide.inside
    assert narrow.factor < wide.factor


def test_outlier_class_lies_outside_its_interval():
    rows = observations(20, bias=0.0)
    slow = [Observation(row.kernel_class, "x", {}, row.properties, row.seconds * 100) for row in rows[:4]]
    found = interval_coverage([*slow, *rows[4:]], LINEAR, seeds=1)
    assert found.inside <= 0.95  # 4 of 80 are never inside, although their errors widen the other intervals


def test_kernels_with_an_unmeasured_property_have_no_interval():
    rows = observations(20)
    with_division = [
        Observation(row.kernel_class, "x", {}, {**row.properties, "f64 div": 10**7}, row.seconds) for row in rows[:4]
    ]
    found = interval_coverage([*with_division, *rows[4:]], LINEAR, seeds=2)
    assert found.without == 4 * 2
    assert found.inside >= 0.7


def test_each_fit_uses_one_of_several_candidates():
    found = interval_coverage(observations(10), [each for each in CANDIDATES if each.model == "linear"], seeds=1)
    assert set(found.chosen) <= {"linear, non-negative", "linear, plain"}


def test_too_few_classes_are_refused():
    with pytest.raises(CalibrationError, match="got 4 classes and 5 folds"):
        interval_coverage(observations(4), LINEAR)
    with pytest.raises(CalibrationError, match=r"at least three .* got 2 classes and 2 folds"):
        interval_coverage(observations(2), LINEAR, folds=2)


# {{{ rows without the columns of a candidate


def observation_of(number: int, *, pipelines: bool) -> Observation:
    busy = {"DRAM": 1e-3} if pipelines else {}
    return Observation(f"class {number}", "x", {}, {"launches": 1}, 1.0, busy)


def test_row_without_pipelines_excludes_pipeline_fits_and_is_named():
    rows = [observation_of(number, pipelines=number != 2) for number in range(5)]
    with pytest.warns(
        LoopyperfWarning,
        match=r"no fit of pipelines: 1 of 5 measurements have none: 'class 2' \(x\); add the missing",
    ):
        found = possible(rows)
    assert {each.basis for each in found} == {"counts"}


def test_warning_names_three_of_many_rows_without_pipelines():
    rows = [observation_of(number, pipelines=number == 0) for number in range(6)]
    with pytest.warns(LoopyperfWarning, match=r"'class 3' \(x\) and 2 more;"):
        possible(rows)


@pytest.mark.parametrize("pipelines", [False, True])
def test_no_warning_if_all_or_no_rows_have_pipelines(pipelines: bool):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = possible([observation_of(number, pipelines=pipelines) for number in range(3)])
        possible([observation_of(0, pipelines=True), observation_of(1, pipelines=False)], "linear")
    assert ("pipelines" in {each.basis for each in found}) == pipelines


# }}}
