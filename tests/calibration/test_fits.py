"""What a fit records of its calibration, and which fits may be compared."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from loopyperf.calibration.accuracy import PLAIN
from loopyperf.calibration.candidates import CANDIDATES
from loopyperf.calibration.fit_files import load_fit, save_fit
from loopyperf.calibration.fits import Fit, require_compatible
from loopyperf.calibration.fitting import make_fit
from loopyperf.calibration.problem import Observation, pose_problem
from loopyperf.calibration.solver import solve, spread
from loopyperf.errors import IncompatibleRunsError
from loopyperf.measurement.protocol import Protocol

PLAIN_FIT = next(each for each in CANDIDATES if each.name == PLAIN)


def test_a_fit_records_the_solution(fit: Fit, observations):
    solution = solve(pose_problem(observations))
    assert fit.weights == solution.weights
    assert fit.undetermined == solution.undetermined
    assert [group.properties for group in fit.undetermined] == [("barriers", "local store 32-bit")]
    assert (fit.rank, fit.condition, fit.at_bound) == (3, solution.condition, ())
    assert fit.options == {"non_negative": True, "ridge": 0.01, "tolerance": 0.01}


def test_a_fit_keeps_its_provenance(fit: Fit, provenance):
    for field in provenance.__struct_fields__:
        assert getattr(fit, field) == getattr(provenance, field)


def test_ranges_leave_out_kernels_that_have_none_of_a_property(fit: Fit):
    assert fit.ranges == {
        "barriers": (10**6, 10**6),
        "f32 add": (10**5, 10**7),
        "launches": (1, 1),
        "local store 32-bit": (10**6, 10**6),
    }


def test_each_observation_keeps_its_residual(fit: Fit, observations):
    assert [(row.kernel_class, row.label, row.sizes, row.seconds) for row in fit.residuals] == [
        (row.kernel_class, row.label, row.sizes, row.seconds) for row in observations
    ]
    for row, recorded in zip(observations, fit.residuals, strict=True):
        predicted = sum(weight * row.properties[name] for name, weight in fit.weights.items())
        assert recorded.residual == pytest.approx(1 - predicted / row.seconds, abs=1e-12)  # rounding only


def test_the_residual_summary_is_of_magnitudes(provenance):
    # One unit in 1 s and in 3 s: the plain fit has α = 1.2 and residuals −0.2 and 0.6.
    problem = pose_problem(Observation("class", "label", {}, {"launches": 1}, seconds) for seconds in (1.0, 3.0))
    summary = make_fit(provenance, problem, PLAIN_FIT, PLAIN_FIT.solve(problem)).residual_summary
    assert summary is not None
    assert summary.geometric_mean == pytest.approx(0.12**0.5, rel=1e-9)
    assert summary.root_mean_square == pytest.approx(0.2**0.5, rel=1e-9)
    assert summary.worst == pytest.approx(0.6, rel=1e-9)


def test_a_fit_of_numpy_numbers_can_be_saved(provenance, tmp_path):
    row = Observation("class", "label", {"n": np.int64(4)}, {"launches": np.int64(1)}, np.float64(2.0))
    problem = pose_problem([row])
    save_fit(make_fit(provenance, problem, PLAIN_FIT, PLAIN_FIT.solve(problem)), tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json").weights == pytest.approx({"launches": 2.0})


def test_two_calibrations_of_one_device_may_be_compared(fit: Fit):
    again = msgspec.structs.replace(
        fit,
        created=datetime(2027, 1, 1, tzinfo=UTC),
        versions={"loopyperf": "0.2.0"},
        weights={**fit.weights, "f32 add": fit.weights["f32 add"] / 2},
    )
    require_compatible([fit, again])
    assert spread([fit, again]) == {"barriers": 0.0, "f32 add": 0.5, "launches": 0.0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "overlap"),
        ("slug", "amd-r9-fury"),
        ("driver", "NVIDIA CUDA 999"),
        ("backend", "cuda"),
        ("basis", "pipelines"),
        ("counting", "paper"),
    ],
)
def test_fits_that_differ_in_one_thing_are_refused_naming_it(fit: Fit, field: str, value: Any):
    other = msgspec.structs.replace(fit, **{field: value})
    with pytest.raises(IncompatibleRunsError, match=rf"differ in {field} \({field}: ") as refusal:
        require_compatible([fit, fit, other])
    assert f"{getattr(fit, field)} / {value}" in str(refusal.value)


PROTOCOL = msgspec.to_builtins(Protocol())
OTHERWISE = {"runs": 31, "dropped": 5, "longest_run": 0.2, "probe_runs": 4, "overhead_factor": 3.0, "caches": "cold"}


@pytest.mark.parametrize("rule", sorted(PROTOCOL))
def test_rules_must_agree_that_say_what_a_sample_is_as_in_archives(fit: Fit, rule: str):
    changed = OTHERWISE[rule] if rule in OTHERWISE else PROTOCOL[rule] + 1
    fits = [msgspec.structs.replace(fit, protocol=rules) for rules in (PROTOCOL, {**PROTOCOL, rule: changed})]
    if Protocol().differences(Protocol(**{rule: changed})):
        assert rule in OTHERWISE
        with pytest.raises(IncompatibleRunsError, match=rf"differ in protocol\.{rule} \(.*{changed}\)"):
            require_compatible(fits)
    else:
        require_compatible(fits)


def test_a_rule_that_one_fit_does_not_state_is_no_agreement(fit: Fit):
    silent = {name: rule for name, rule in PROTOCOL.items() if name != "caches"}
    fits = [msgspec.structs.replace(fit, protocol=rules) for rules in (silent, PROTOCOL)]
    with pytest.raises(IncompatibleRunsError, match=r"protocol\.caches: not stated / warm"):
        require_compatible(fits)
    require_compatible(fits[:1] * 2)


def test_rules_that_nobody_knows_any_more_may_differ(fit: Fit):
    fits = [msgspec.structs.replace(fit, protocol={**PROTOCOL, "events": events}) for events in (True, False)]
    require_compatible(fits)


def test_all_differing_fields_are_named(fit: Fit):
    other = msgspec.structs.replace(fit, driver="another", counting="paper")
    with pytest.raises(IncompatibleRunsError, match="differ in driver, counting "):
        require_compatible([fit, other])
