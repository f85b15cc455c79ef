"""Test the contents of a fit: solution, provenance, ranges, errors and residuals."""

import msgspec
import numpy as np
import pytest

from loopyperf.calibration.accuracy import PLAIN, ClassErrors, CrossValidation, Uncertainty
from loopyperf.calibration.fits import Fit, load_fit, save_fit
from loopyperf.calibration.fitting import CANDIDATES, make_fit
from loopyperf.calibration.overlap_fit import solve
from loopyperf.calibration.problem import Observation, pose_problem

PLAIN_FIT = next(each for each in CANDIDATES if each.name == PLAIN)


def test_fit_records_the_solution(fit: Fit, observations):
    solution = solve(pose_problem(observations))
    assert fit.weights == solution.weights
    assert fit.undetermined == solution.undetermined
    assert [group.properties for group in fit.undetermined] == [("barriers", "local store 32-bit")]
    assert (fit.rank, fit.condition, fit.at_bound) == (3, solution.condition, ())
    assert fit.options == {"non_negative": True, "ridge": 0.01, "tolerance": 0.01}


def test_fit_contains_its_provenance(fit: Fit, provenance):
    for field in provenance.__struct_fields__:
        assert getattr(fit, field) == getattr(provenance, field)


def test_ranges_exclude_kernels_without_the_property(fit: Fit):
    assert fit.ranges == {
        "barriers": (10**6, 10**6),
        "f32 add": (10**5, 10**7),
        "launches": (1, 1),
        "local store 32-bit": (10**6, 10**6),
    }


def test_weights_are_printed_with_their_errors(fit: Fit):
    assert "error:" not in str(fit)
    names = tuple(fit.weights)
    first, *others = (fit.weights[name] for name in names)
    # The quantile of these scores is 1, so the error of a weight is the square root of its variance.
    spread = np.diag([(0.25 * first) ** 2, *((3 * weight) ** 2 for weight in others), 0.0])
    known = Uncertainty((1.0,) * 9, names, tuple(map(tuple, spread.tolist())))
    rows = {row[0]: row for row in msgspec.structs.replace(fit, uncertainty=known).report_text().tables[0].rows}
    assert "25 %" in rows[names[0]]
    assert all("100 % or more" in rows[name] for name in names[1:])


def test_verdict_names_the_classes_with_large_errors(fit: Fit):
    errors = {"dense": 0.01, "strided": 1.2, "stencil": 0.04}
    classes = tuple(ClassErrors(name, 3, 3, {PLAIN: error}) for name, error in errors.items())
    validated = CrossValidation(classes, tuple(errors), {PLAIN: 0.078})
    judged = msgspec.structs.replace(fit, candidate=PLAIN, cross_validation=validated)
    assert judged.verdict.startswith("verdict: off by 8 % (geometric mean) on 3 held-out classes")
    assert "'strided' (120 %)" in str(judged)
    assert "stencil" not in judged.verdict
    assert msgspec.structs.replace(fit, cross_validation=None).verdict == ""


def test_each_observation_has_its_residual(fit: Fit, observations):
    assert [(row.kernel_class, row.label, row.sizes, row.seconds) for row in fit.residuals] == [
        (row.kernel_class, row.label, row.sizes, row.seconds) for row in observations
    ]
    for row, recorded in zip(observations, fit.residuals, strict=True):
        predicted = sum(weight * row.properties[name] for name, weight in fit.weights.items())
        assert recorded.residual == pytest.approx(1 - predicted / row.seconds, abs=1e-12)  # rounding only


def test_residual_summary_uses_absolute_values(provenance):
    # One launch takes 1 s or 3 s: the plain fit has α = 1.2 and residuals −0.2 and 0.6.
    problem = pose_problem(Observation("class", "label", {}, {"launches": 1}, seconds) for seconds in (1.0, 3.0))
    summary = make_fit(provenance, problem, PLAIN_FIT, PLAIN_FIT.solve(problem)).residual_summary
    assert summary is not None
    assert summary.geometric_mean == pytest.approx(0.12**0.5, rel=1e-9)
    assert summary.root_mean_square == pytest.approx(0.2**0.5, rel=1e-9)
    assert summary.worst == pytest.approx(0.6, rel=1e-9)


def test_fit_of_numpy_scalars_can_be_saved(provenance, tmp_path):
    row = Observation("class", "label", {"n": np.int64(4)}, {"launches": np.int64(1)}, np.float64(2.0))
    problem = pose_problem([row])
    save_fit(make_fit(provenance, problem, PLAIN_FIT, PLAIN_FIT.solve(problem)), tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json").weights == pytest.approx({"launches": 2.0})
