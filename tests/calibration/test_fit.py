"""Test `loopyperf.fit`: fits from tables of kernels, sizes and measured seconds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration import fit as fit_module
from loopyperf.calibration.fits import save_fit
from loopyperf.calibration.overlap_fit import SHARPNESS
from loopyperf.errors import CalibrationError, LoopyperfError, ParameterError, UnknownDeviceError, UnknownModelError
from loopyperf.kernel import Program
from tests.kernels import doubled, outer_product, summed

V100 = lpp.load_device("nvidia-v100")
PUBLISHED = lpp.Fit(
    model="overlap",
    basis="pipelines",
    device="a V100",
    slug="nvidia-v100",
    counting="executed",
    sharpness=SHARPNESS,
    weights={"launches": 0.0},
)
SIZES = (2**14, 2**16, 2**18, 2**20)


def table() -> list[lpp.Measured]:
    """Return timings of a device that is 20 % slower than the published parameters of the V100."""
    kernels = [doubled(group=64), *(summed(terms) for terms in (1, 24, 64))]
    return [lpp.Measured(knl, {"n": n}, seconds(knl, n)) for knl in kernels for n in SIZES]


def seconds(knl: Program, n: int) -> float:
    """Return the run time of *knl* on that device, with the default overlap of pipelines."""
    return 1.2 * float(lpp.estimate(knl, n=n, fit=PUBLISHED)) + 4e-6


@pytest.fixture(scope="module")
def rows() -> list[lpp.Measured]:
    return table()


@pytest.fixture(scope="module")
def fit(rows: list[lpp.Measured]) -> lpp.Fit:
    return lpp.fit(rows, device="nvidia-v100")


def test_pipeline_fits_are_compared_for_a_known_device(fit: lpp.Fit, rows: list[lpp.Measured]):
    assert fit.cross_validation is not None
    assert set(fit.cross_validation.errors) == {
        "linear, non-negative",
        "linear, plain",
        "overlap of counts",
        "overlap of pipelines",
    }
    assert (fit.candidate, fit.basis, fit.slug) == ("overlap of pipelines", "pipelines", "nvidia-v100")
    assert fit.cross_validation.errors["overlap of pipelines"] < 0.1
    assert len(fit.residuals) == len(rows)
    assert {row.kernel_class for row in fit.residuals} == {"doubled", "summed_1", "summed_24", "summed_64"}


def test_estimate_with_a_pipeline_fit_has_an_interval(fit: lpp.Fit, rows: list[lpp.Measured]):
    unseen = summed(40)
    found = lpp.estimate(unseen, n=2**19, fit=fit)
    assert found.seconds == pytest.approx(seconds(unseen, 2**19), rel=0.1)
    assert (found.model, found.device, found.counting) == ("overlap", "nvidia-v100", "executed")
    assert found.breakdown.seconds == found.seconds
    assert found.interval is not None
    low, high = found.interval
    assert low < found.seconds < high
    assert high / found.seconds == pytest.approx(found.seconds / low)


def test_batch_has_an_interval_for_each_size(fit: lpp.Fit):
    together = lpp.estimate(doubled(group=64), n=np.array([2**15, 2**19]), fit=fit)
    alone = [lpp.estimate(doubled(group=64), n=n, fit=fit) for n in (2**15, 2**19)]
    assert together.seconds == pytest.approx([each.seconds for each in alone])
    assert together.interval is not None
    for end in (0, 1):
        assert together.interval[end] == pytest.approx([each.interval[end] for each in alone if each.interval])


def test_extrapolation_is_reported_in_a_note(fit: lpp.Fit):
    notes = " ".join(lpp.estimate(doubled(group=64), n=2**26, fit=fit).notes)
    assert "extrapolated: more than in any measured kernel: " in notes


def test_fit_of_one_row_stays_near_the_device_parameters(rows: list[lpp.Measured]):
    found = lpp.fit(rows[:1], device="nvidia-v100")
    assert found.candidate == "overlap of pipelines"
    assert lpp.estimate(summed(40), n=2**19, fit=found).seconds == pytest.approx(seconds(summed(40), 2**19), rel=0.4)


@pytest.fixture
def prior() -> lpp.Fit:
    return msgspec.structs.replace(PUBLISHED, weights={"DRAM": 3.0, "launches": 9e-6}, sharpness=1.2)


def test_fit_of_few_rows_stays_near_the_prior(rows: list[lpp.Measured], prior: lpp.Fit, tmp_path: Path):
    given = lpp.Measured(rows[0].kernel, rows[0].sizes, float(lpp.estimate(rows[0].kernel, **rows[0].sizes, fit=prior)))
    found = lpp.fit([given], device="nvidia-v100", prior=prior)
    assert found.weights["DRAM"] == pytest.approx(3.0, rel=0.02)
    assert found.sharpness == pytest.approx(1.2, rel=0.02)
    assert "regularized toward the fit of nvidia-v100" in " ".join(str(found).split())
    save_fit(prior, tmp_path / "prior.json")
    assert lpp.fit([given], device="nvidia-v100", prior=tmp_path / "prior.json").weights == found.weights


def test_prior_may_be_given_by_device_name(rows: list[lpp.Measured], tmp_path: Path):
    found = lpp.fit(rows, device="nvidia-v100", prior="nvidia-h200", save=tmp_path / "drawn.json")
    assert "regularized toward the fit of nvidia-h200" in found.source
    assert lpp.load_fit(tmp_path / "drawn.json") == found
    assert "barrier" in found.weights  # no row has barriers


def test_invalid_priors_are_refused(rows: list[lpp.Measured], prior: lpp.Fit):
    of_counts = msgspec.structs.replace(prior, model="linear", basis="counts")
    with pytest.raises(ParameterError, match="a fit of model 'overlap' to pipelines, got one of 'linear'"):
        lpp.fit(rows, device="nvidia-v100", prior=of_counts)
    with pytest.raises(ParameterError, match="got model='linear'; omit one of them"):
        lpp.fit(rows, device="nvidia-v100", model="linear", prior=prior)
    with pytest.raises(ParameterError, match="a prior needs a device with complete parameters"):
        lpp.fit(rows[:3], device="mine", prior=prior)
    with pytest.raises(UnknownDeviceError, match="'no-such-gpu'"):
        lpp.fit(rows, device="nvidia-v100", prior="no-such-gpu")


def test_model_can_be_selected(rows: list[lpp.Measured]):
    fit = lpp.fit(rows, device="a machine of mine", model="linear")
    assert (fit.model, fit.basis, fit.device, fit.slug) == (
        "linear",
        "counts",
        "a machine of mine",
        "a-machine-of-mine",
    )
    assert fit.cross_validation is not None
    assert all(name.startswith("linear") for name in fit.cross_validation.errors)


def test_rows_may_be_tuples_mappings_or_measured(rows: list[lpp.Measured]):
    tuples = [(row.kernel, row.sizes, row.seconds) for row in rows]
    mappings = [{"kernel": row.kernel, "sizes": row.sizes, "seconds": row.seconds} for row in rows]
    found = [lpp.fit(each, device="mine", model="linear").weights for each in (rows, tuples, mappings)]
    assert found[0] == found[1] == found[2]


def test_executor_gives_the_same_fit(rows: list[lpp.Measured]):
    with ThreadPoolExecutor(2) as executor:
        parallel = lpp.fit(rows, device="mine", model="linear", executor=executor)
    assert parallel.weights == lpp.fit(rows, device="mine", model="linear").weights


def test_fit_of_one_class_has_no_intervals(rows: list[lpp.Measured]):
    fit = lpp.fit(rows[: len(SIZES)], device="mine")
    assert (fit.cross_validation, fit.uncertainty) == (None, None)
    assert lpp.estimate(doubled(group=64), n=2**17, fit=fit).interval is None


def test_invalid_rows_and_models_are_refused(rows: list[lpp.Measured]):
    with pytest.raises(CalibrationError, match=r"row 1 must be a measurement: kernel, sizes, seconds"):
        lpp.fit([rows[0], (rows[0].kernel,)], device="mine")
    with pytest.raises(CalibrationError, match="no observations to fit"):
        lpp.fit([], device="mine")
    with pytest.raises(UnknownModelError, match="no weights to fit"):
        lpp.fit(rows, device="mine", model="roofline")


def test_fit_and_train_refuse_invalid_rows_with_a_reason(subtests: pytest.Subtests):
    for measurements, words in [
        (5, "measurements must be rows of kernel, sizes, seconds"),
        ("rows", "measurements must be rows of"),
        (["abc"], "row 0 must be a measurement: kernel, sizes, seconds"),
        ([None], "row 0 must be a measurement"),
        ([{"kernel": doubled()}], "row 0 must be a measurement"),
        ([(doubled(), None, 1.0)], "row 0: sizes must be a mapping by name"),
        ([(doubled(), 16, 1.0)], "row 0: sizes must be a mapping by name"),
        *(
            ([(doubled(), {"n": 16}, seconds)], "row 0: seconds must be a positive number")
            for seconds in (-1.0, 0.0, float("nan"), float("inf"), "fast", None)
        ),
    ]:
        with subtests.test(measurements=measurements, words=words):
            for learn in (lpp.fit, lpp.train):
                with pytest.raises(CalibrationError, match=words):
                    learn(measurements, device="mine")  # pyright: ignore[reportArgumentType]


def test_invalid_time_limits_and_executors_are_refused(rows: list[lpp.Measured]):
    for limit in (0, -1, "5", True):
        with pytest.raises(ParameterError, match="the time limit must be above 0"):
            lpp.fit(rows, device="mine", time_limit=limit)  # pyright: ignore[reportArgumentType]
    for learn in (lpp.fit, lpp.train):
        with pytest.raises(ParameterError, match=r"executor must be a concurrent\.futures executor"):
            learn(rows, device="mine", executor=4)  # pyright: ignore[reportArgumentType]


def test_device_is_optional_or_from_the_environment_variable(rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LOOPYPERF_DEVICE", raising=False)
    assert lpp.fit(rows, model="linear").slug == "unnamed-device"
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    assert lpp.fit(rows).slug == "nvidia-v100"
    for device in (5, "", "?"):
        with pytest.raises(ParameterError, match="or the parameters of the measured device; got"):
            lpp.fit(rows, device=device)  # pyright: ignore[reportArgumentType]


def test_row_that_exceeds_the_time_limit_is_skipped(rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch):
    def observe_forever_if_slow(program: object, *given: object, **more: object) -> object:
        while program is slow.kernel:
            pass
        return observe(program, *given, **more)

    slow = lpp.Measured(doubled(), {"n": 2**14}, 1.0, label="slow")
    observe = fit_module.observe
    monkeypatch.setattr(fit_module, "observe", observe_forever_if_slow)
    failed: list[str] = []
    fit = lpp.fit([*rows, slow], time_limit=0.5, on_failure=lambda row, error: failed.append(str(error)))
    assert failed == [f"analyzing slow at {{'n': {2**14}}} took more than 0.5 s"]
    assert len(fit.residuals) == len(rows)
    with pytest.raises(CalibrationError, match="took more than"):
        lpp.fit([slow], time_limit=0.5)


def test_row_that_cannot_be_analyzed_raises_or_is_skipped(rows: list[lpp.Measured]):
    bad = lpp.Measured(outer_product(), {"n": 16}, 1.0)
    with pytest.raises(LoopyperfError, match="m"):
        lpp.fit([*rows, bad], device="mine")
    failed: list[lpp.Measured] = []
    fit = lpp.fit([*rows, bad], device="mine", on_failure=lambda row, error: failed.append(row))
    assert failed == [bad]
    assert len(fit.residuals) == len(rows)
