"""Measurement of ranked variants, on a synthetic device and once on a real one."""

from functools import partial
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.search.measuring import MeasuredRanking
from tests.kernels import doubled, floats, integers, make_kernel, summed
from tests.measurement.synthetic import SyntheticBackend
from tests.small_campaign import seconds as seconds_of_small_kernels
from tests.small_campaign import write_kernel_files

VARIANTS = {f"groups of {group}": partial(doubled, group=group) for group in (16, 32, 64, 128)}
MEASURED = {"groups of 16": 4e-6, "groups of 32": 1e-6, "groups of 64": 2e-6, "groups of 128": 3e-6}


@pytest.fixture
def ranking(make_fit) -> lpp.Ranking:
    return lpp.rank(VARIANTS, n=4096, fit=make_fit(weights={"f32 mul": 0.0, "work-groups": 1e-9, "launches": 1e-6}))


def measured_seconds(case: BenchmarkCase) -> float:
    return MEASURED[case.configuration.label]


def test_fastest_variants_are_measured_and_sorted(ranking):
    found = ranking.measure(SyntheticBackend(measured_seconds), top=3)
    assert list(found.seconds.items()) == [
        ("groups of 32", pytest.approx(1e-6)),
        ("groups of 64", pytest.approx(2e-6)),
        ("groups of 128", pytest.approx(3e-6)),
    ]
    assert found.best == "groups of 32"
    assert found.predicted == {name: ranking.seconds[name] for name in ranking.order[:3]}
    # The predicted order is the reverse.
    assert (found.regret, found.spearman) == (pytest.approx(3), pytest.approx(-1))


def test_named_variants_are_measured(ranking):
    found = ranking.measure(SyntheticBackend(measured_seconds), top=["groups of 16", "groups of 32"])
    assert found.order == ("groups of 32", "groups of 16")


def test_measuring_an_unranked_variant_is_refused(ranking):
    with pytest.raises(ParameterError, match="no estimate of 'groups of 5'"):
        ranking.measure(SyntheticBackend(measured_seconds), top=["groups of 5"])


def test_variant_that_cannot_be_measured_is_listed_as_failure(ranking):
    def failing(case: BenchmarkCase) -> float:
        if case.configuration.label == "groups of 64":
            raise MeasurementError("out of resources")
        return measured_seconds(case)

    found = ranking.measure(SyntheticBackend(failing), top=4)
    assert found.failures == {"groups of 64": "out of resources"}
    assert len(found.seconds) == 3
    assert "  not measured: groups of 64: out of resources" in str(found)
    assert repr(found).startswith("<MeasuredRanking 3 variants (n=")
    assert found.best in found._repr_html_()


def with_statement(statement: str) -> lp.TranslationUnit:
    """Return the kernel ``doubled`` with another statement."""
    knl = make_kernel(
        "{[i]: 0 <= i < n}", statement, floats("a,b", "n"), integers("n"), name="doubled", assumptions="n >= 1"
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_array_bounds_are_checked_before_a_variant_runs(make_fit):
    pytest.importorskip("pyopencl")
    # The ranking does not check them, since Loopy's check takes longer than counting.
    ranking = lpp.rank({"beyond": partial(with_statement, "b[i] = 2*a[i + 1]")}, n=4096, fit=make_fit())
    assert ranking.order == ("beyond",)
    found = ranking.measure("opencl")
    assert "out-of-bounds" in found.failures["beyond"] or "out of bounds" in found.failures["beyond"]


@pytest.mark.parametrize("figure", ["best", "regret", "spearman"])
def test_figures_without_any_measurement_are_refused(figure: str):
    nothing = MeasuredRanking({}, "d", {}, {}, {"a": "out of resources"}, ())
    with pytest.raises(MeasurementError, match="none of 1 variants could be measured: out of resources"):
        getattr(nothing, figure)


def test_measurements_extend_the_calibration_data_of_a_fit(ranking, tmp_path: Path):
    kernels = write_kernel_files(tmp_path / "kernels", "empty kernel", "vectors")
    archive = tmp_path / "archive.jsonl"
    lpp.calibrate(
        SyntheticBackend(seconds_of_small_kernels), kernels=kernels, archive=archive, save=tmp_path / "f.json"
    )
    recorded = lpp.load_measurements(archive, kernels=kernels)
    more = ranking.measure(SyntheticBackend(measured_seconds), top=4).measurements
    fit = lpp.fit([*recorded, *more], device="arithmetic-device-1", model="linear")
    assert len(fit.residuals) == len(recorded) + 4
    assert {row.label for row in fit.residuals} >= VARIANTS.keys()


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_variants_with_wrong_results_are_found_on_a_device(make_fit):
    pytest.importorskip("pyopencl")
    variants = {**VARIANTS, "wrong": partial(with_statement, "b[i] = 3*a[i]"), "other arrays": partial(summed, 1)}
    ranking = lpp.rank(variants, n=2**16, fit=make_fit(weights={"launches": 1e-6, "f32 mul": 1e-9}))
    backend = open_backend("opencl")
    found = ranking.measure(backend, top=[*VARIANTS, "wrong"])
    assert set(found.seconds) == set(VARIANTS)
    assert "array b is wrong" in found.failures["wrong"]
    assert all(0 < seconds < 1 for seconds in found.seconds.values())
    assert not ranking.measure(backend, top=["groups of 16", "wrong"], are_compared=False).failures
    given = ranking.measure(backend, top=["groups of 16", "wrong"], arguments={"a": np.zeros(2**16, np.float32)})
    assert not given.failures  # 2·0 = 3·0
