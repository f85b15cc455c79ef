"""Test `compare` and `compare_occupancies`: estimates of several models, and reasons of those without one."""

from dataclasses import replace

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import Fit
from loopyperf.device.description import Throughput
from loopyperf.errors import (
    KernelError,
    OccupancyError,
    ParameterError,
    UnknownDeviceError,
    UnknownModelError,
)
from loopyperf.models.catalog import MODELS
from loopyperf.models.model_interface import DeviceModel
from tests.kernels import doubled

V100 = lpp.load_device("nvidia-v100")
N = 2**20
FIT = Fit(
    model="linear",
    device="NVIDIA Tesla V100",
    slug="nvidia-v100",
    counting="executed",
    weights={"f32 mul": 1e-12, "global load 32-bit stride 1": 3e-12, "global store 32-bit stride 1": 7e-12},
)


@pytest.fixture(scope="module")
def comparison() -> lpp.Comparison:
    return lpp.compare(doubled(), n=N, device=V100, fit=FIT)


@pytest.fixture(scope="module")
def curves() -> lpp.OccupancyComparison:
    return lpp.compare_occupancies(doubled(), n=N, device=V100)


def test_comparison_contains_every_model(comparison: lpp.Comparison):
    assert {*comparison.estimates, "overlap", "sampled", "learned"} == set(MODELS)
    assert set(comparison.refusals) == {"overlap", "sampled", "learned"}
    assert "executes part of the kernel" in comparison.refusals["sampled"]
    assert "no fit for device" in comparison.refusals["overlap"]


def test_each_estimate_equals_that_of_the_model_alone(comparison: lpp.Comparison):
    for name, found in comparison.estimates.items():
        which = {"device": V100} if isinstance(MODELS[name], DeviceModel) else {"fit": FIT}
        assert found == lpp.estimate(doubled(), n=N, model=name, **which), name


def test_cycles_use_the_core_clock(comparison: lpp.Comparison):
    for name, seconds in comparison.seconds.items():
        assert comparison.cycles[name] == seconds * V100.clock
        assert comparison.bounds[name] == comparison.estimates[name].bound


@pytest.mark.parametrize("models", ["volkov", 3])
def test_models_must_be_a_list_of_names(models: object):
    with pytest.raises(ParameterError, match="models must be a list of model names, got"):
        lpp.compare(doubled(), n=N, device=V100, models=models)


def test_missing_device_parameters_are_reported():
    without = tuple(each for each in V100.memory if each.name != "L2")
    found = lpp.compare(doubled(), n=N, device=replace(V100, memory=without), models=["volkov", "pipeline"])
    assert set(found.estimates) == {"volkov", "pipeline"}  # unknown memory levels are ignored
    # Without any throughput, only models with a fit predict a time.
    bare = replace(V100, instructions=(), throughput=Throughput(slug=V100.slug, place="throughput"))
    found = lpp.compare(doubled(), n=N, device=bare, fit=FIT, models=["linear", "roofline", "pipeline"])
    assert set(found.estimates) == {"linear"}
    assert set(found.refusals) == {"roofline", "pipeline"}
    assert "lacks throughput" in found.refusals["roofline"]


def test_text_has_a_line_for_each_model(comparison: lpp.Comparison):
    report = comparison.report_text()
    assert report.head.startswith(f"doubled(n={N}) on nvidia-v100: ")
    assert report.head.endswith("13 models, 3 without a prediction")
    (table,) = report.tables
    assert list(table.headings)[-2:] == ["time", "cycles"]
    assert [row[0] for row in table.rows] == list(comparison.estimates)
    reasons = " ".join(str(comparison).split()).split("no prediction: ")[1:]
    assert [sentence.partition(":")[0] for sentence in reasons] == list(comparison.refusals)


# {{{ over the occupancy


def test_curves_end_at_full_occupancy(curves: lpp.OccupancyComparison, comparison: lpp.Comparison):
    # Groups have one warp, and a core has at most 32 groups.
    assert curves.concurrent_groups == curves.warps == tuple(range(1, 33))
    for name, times in curves.seconds.items():
        assert times[-1] == comparison.seconds[name], name
        assert times.shape == (32,)


def test_times_of_saturating_models_do_not_increase_with_occupancy(curves: lpp.OccupancyComparison):
    # An increase is possible by one partial wave. It takes as long as one warp, which is 1/410 of the time at an
    # occupancy of one group (2^20/32 groups on 80 cores).
    for name in ("roofline", "volkov", "transit"):
        assert (np.diff(curves.seconds[name]) <= curves.seconds[name][0] / 410).all(), name
        assert curves.seconds[name][-1] < 0.4 * curves.seconds[name][0] or name == "roofline"


def test_performance_of_all_models_has_one_reference_time(curves: lpp.OccupancyComparison):
    # As in Lemeire, Fig. 17, a model that predicts a shorter time has a higher curve.
    assert curves.performance()["pipeline"][0] == 100
    for standard, seconds in (("pipeline", curves.seconds["pipeline"][0]), ("roofline", curves.seconds["roofline"][0])):
        for name, found in curves.performance(standard).items():
            assert found == pytest.approx(100 * seconds / curves.seconds[name])
    assert curves.performance(1e-3)["volkov"] == pytest.approx(0.1 / curves.seconds["volkov"])
    with pytest.raises(ParameterError, match="no prediction of model 'linear'; choose from: roofline, "):
        curves.performance("linear")


def test_points_are_runs_per_second_over_warps(curves: lpp.OccupancyComparison):
    points = dict(curves.points["pipeline"])
    assert list(points) == list(curves.warps)
    assert list(points.values()) == pytest.approx(1 / curves.seconds["pipeline"])


def test_fitted_models_do_not_depend_on_occupancy(curves: lpp.OccupancyComparison):
    assert curves.refusals == dict.fromkeys(
        ("linear", "overlap", "sampled", "learned"), "does not depend on the number of resident groups"
    )


def test_text_of_curves_has_a_line_for_each_model(curves: lpp.OccupancyComparison):
    lines = str(curves).splitlines()[2:]
    assert lines[0].split() == ["warps", "1", "7", "13", "20", "26", "32"]
    assert [line.split()[0] for line in lines[1:13]] == list(curves.seconds)
    assert lines[13].strip() == "not shown: 26 of 32 occupancies"
    assert lines[14].strip().startswith("no prediction: linear, overlap, sampled, learned: does not depend on the")
    assert max(map(len, lines)) <= 80


# }}}


# {{{ bad input


def test_more_groups_than_fit_on_a_core_are_refused():
    with pytest.raises(OccupancyError, match=r"concurrent_groups must be 1 to 32 for .* \(limited by groups\), got 33"):
        lpp.compare_occupancies(doubled(), n=N, device=V100, concurrent_groups=[1, 33])
    with pytest.raises(OccupancyError, match=r"concurrent_groups must be 1 to 32 for .*, got 0"):
        lpp.compare_occupancies(doubled(), n=N, device=V100, concurrent_groups=[0])


@pytest.mark.parametrize("groups", [[], [1.5], ["a"], [None]])
def test_non_integer_groups_are_refused(groups):
    with pytest.raises(OccupancyError, match="concurrent_groups must be one or more integers"):
        lpp.compare_occupancies(doubled(), n=N, device=V100, concurrent_groups=groups)


def test_launch_without_groups_has_no_occupancy():
    unit = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [lp.GlobalArg("a,b", np.float32, shape="n"), ...])
    unit = lp.split_iname(lp.assume(unit, "n >= 0"), "i", 32, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(ParameterError, match="launches no groups"):
        lpp.compare_occupancies(unit, n=0, device=V100)


def test_invalid_arguments_of_estimate_are_refused():
    with pytest.raises(UnknownModelError, match="volkow"):
        lpp.compare(doubled(), n=N, device=V100, models=["volkow"])
    with pytest.raises(UnknownDeviceError, match="nvidia-v1000"):
        lpp.compare(doubled(), n=N, device="nvidia-v1000")
    with pytest.raises(ParameterError, match="n"):
        lpp.compare(doubled(), device=V100)
    with pytest.raises(ParameterError, match="got an array for size 'n'; pass one size at a time"):
        lpp.compare(doubled(), n=np.array([1, 2]), device=V100)
    with pytest.raises(KernelError):
        lpp.compare("no kernel", n=N, device=V100)


# }}}


def test_device_without_parameters_uses_its_fit(make_fit):
    weights = dict.fromkeys(lpp.count(doubled()).properties(), 1e-9)
    fit = make_fit(weights=weights, device="Nobody's GPU", slug="nobody-s-gpu")
    found = lpp.compare(doubled(), n=N, fit=fit)
    assert (found.device, list(found.estimates), found.clock, found.cycles) == ("nobody-s-gpu", ["linear"], None, {})
    assert found.estimates["linear"] == lpp.estimate(doubled(), n=N, fit=fit)
    assert "nobody-s-gpu" in found.refusals["roofline"]
    with pytest.raises(ParameterError, match="one size at a time"):
        lpp.compare(doubled(), n=np.array([N, 2 * N]), fit=fit)
