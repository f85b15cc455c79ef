"""Fits from timings that were taken elsewhere: tables of kernel, sizes, seconds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration import fit as oracle_fit
from loopyperf.calibration.fits import save_fit
from loopyperf.calibration.overlap_fit import SHARPNESS
from loopyperf.errors import CalibrationError, LoopyperfError, ParameterError, UnknownDeviceError, UnknownModelError
from loopyperf.kernel import Program
from tests.kernels import doubled, outer_product, summed

V100 = lpp.load_device("nvidia-v100")
AS_DESCRIBED = lpp.Fit(
    model="overlap",
    basis="pipelines",
    device="a V100",
    slug="nvidia-v100",
    counting="executed",
    sharpness=SHARPNESS,
    weights={"launches": 0.0},
)
SIZES = (2**14, 2**16, 2**18, 2**20)
WORK = {"launches": 3e-6, "global load 32-bit stride 1": 4e-12, "global store 32-bit stride 1": 5e-12}


def table() -> list[lpp.Measured]:
    """Return timings of a device that is as the V100 is described, but for 20 % more."""
    kernels = [doubled(group=64), *(summed(terms) for terms in (1, 24, 64))]
    return [lpp.Measured(knl, {"n": n}, seconds(knl, n)) for knl in kernels for n in SIZES]


def seconds(knl: Program, n: int) -> float:
    """Return how long *knl* takes on that device, where pipelines overlap as they do by default."""
    return 1.2 * float(lpp.estimate(knl, n=n, fit=AS_DESCRIBED)) + 4e-6


@pytest.fixture(scope="module")
def rows() -> list[lpp.Measured]:
    return table()


@pytest.fixture(scope="module")
def fit(rows: list[lpp.Measured]) -> lpp.Fit:
    return lpp.fit(rows, device="nvidia-v100")


def test_where_the_device_is_described_its_pipelines_are_tried(fit: lpp.Fit, rows: list[lpp.Measured]):
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


def test_a_fit_of_pipelines_answers_with_an_interval(fit: lpp.Fit, rows: list[lpp.Measured]):
    unseen = summed(40)
    found = lpp.estimate(unseen, n=2**19, fit=fit)
    assert found.seconds == pytest.approx(seconds(unseen, 2**19), rel=0.1)
    assert (found.model, found.device, found.counting) == ("overlap", "nvidia-v100", "executed")
    assert sum(found.breakdown.by_property().values()) == found.seconds
    assert found.interval is not None
    low, high = found.interval
    assert low < found.seconds < high
    assert high / found.seconds == pytest.approx(found.seconds / low)


def test_in_a_batch_there_is_an_interval_for_each_size(fit: lpp.Fit):
    together = lpp.estimate(doubled(group=64), n=np.array([2**15, 2**19]), fit=fit)
    alone = [lpp.estimate(doubled(group=64), n=n, fit=fit) for n in (2**15, 2**19)]
    assert together.seconds == pytest.approx([each.seconds for each in alone])
    assert together.interval is not None
    for end in (0, 1):
        assert together.interval[end] == pytest.approx([each.interval[end] for each in alone if each.interval])


def test_what_was_never_measured_is_said(fit: lpp.Fit):
    notes = " ".join(lpp.estimate(doubled(group=64), n=2**26, fit=fit).notes)
    assert "extrapolated: more than in any measured kernel: " in notes


def test_a_fit_of_one_row_is_near_the_description(rows: list[lpp.Measured]):
    found = lpp.fit(rows[:1], device="nvidia-v100")
    assert found.candidate == "overlap of pipelines"
    assert lpp.estimate(summed(40), n=2**19, fit=found).seconds == pytest.approx(seconds(summed(40), 2**19), rel=0.4)


@pytest.fixture
def prior() -> lpp.Fit:
    return msgspec.structs.replace(AS_DESCRIBED, weights={"DRAM": 3.0, "launches": 9e-6}, sharpness=1.2)


def test_a_prior_of_another_device_stands_where_little_is_measured(
    rows: list[lpp.Measured], prior: lpp.Fit, tmp_path: Path
):
    asked = lpp.Measured(rows[0].kernel, rows[0].sizes, float(lpp.estimate(rows[0].kernel, **rows[0].sizes, fit=prior)))
    found = lpp.fit([asked], device="nvidia-v100", prior=prior)
    assert found.weights["DRAM"] == pytest.approx(3.0, rel=0.02)
    assert found.sharpness == pytest.approx(1.2, rel=0.02)
    assert "regularized toward the fit of nvidia-v100" in " ".join(str(found).split())
    save_fit(prior, tmp_path / "prior.json")
    assert lpp.fit([asked], device="nvidia-v100", prior=tmp_path / "prior.json").weights == found.weights


def test_a_prior_is_the_fit_of_pipelines_of_a_named_device(rows: list[lpp.Measured], tmp_path: Path):
    found = lpp.fit(rows, device="nvidia-v100", prior="nvidia-h200", save=tmp_path / "drawn.json")
    assert "regularized toward the fit of nvidia-h200" in found.source
    assert lpp.load_fit(tmp_path / "drawn.json") == found
    assert "barrier" in found.weights  # which no row has


def test_what_is_no_prior_is_refused_in_words(rows: list[lpp.Measured], prior: lpp.Fit):
    of_counts = msgspec.structs.replace(prior, model="linear", basis="counts")
    with pytest.raises(ParameterError, match="a fit of model 'overlap' to pipelines, got one of 'linear'"):
        lpp.fit(rows, device="nvidia-v100", prior=of_counts)
    with pytest.raises(ParameterError, match="got model='linear'; omit one of them"):
        lpp.fit(rows, device="nvidia-v100", model="linear", prior=prior)
    with pytest.raises(ParameterError, match="a prior needs a device with complete parameters"):
        lpp.fit(rows[:3], device="mine", prior=prior)
    with pytest.raises(UnknownDeviceError, match="'no-such-gpu'"):
        lpp.fit(rows, device="nvidia-v100", prior="no-such-gpu")


def test_a_model_may_be_named(rows: list[lpp.Measured]):
    fit = lpp.fit(rows, device="a machine of mine", model="linear")
    assert (fit.model, fit.basis, fit.device, fit.slug) == (
        "linear",
        "counts",
        "a machine of mine",
        "a-machine-of-mine",
    )
    assert fit.cross_validation is not None
    assert all(name.startswith("linear") for name in fit.cross_validation.errors)


def test_rows_are_tuples_or_mappings_or_measured(rows: list[lpp.Measured]):
    tuples = [(row.kernel, row.sizes, row.seconds) for row in rows]
    mappings = [{"kernel": row.kernel, "sizes": row.sizes, "seconds": row.seconds} for row in rows]
    found = [lpp.fit(each, device="mine", model="linear").weights for each in (rows, tuples, mappings)]
    assert found[0] == found[1] == found[2]


def test_an_executor_changes_nothing(rows: list[lpp.Measured]):
    with ThreadPoolExecutor(2) as executor:
        parallel = lpp.fit(rows, device="mine", model="linear", executor=executor)
    assert parallel.weights == lpp.fit(rows, device="mine", model="linear").weights


def test_the_fit_is_saved(rows: list[lpp.Measured], tmp_path: Path):
    fit = lpp.fit(rows, device="mine", save=tmp_path / "mine.json")
    assert lpp.load_fit(tmp_path / "mine.json") == fit


def test_of_one_class_there_is_a_fit_without_intervals(rows: list[lpp.Measured]):
    fit = lpp.fit(rows[: len(SIZES)], device="mine")
    assert (fit.cross_validation, fit.uncertainty) == (None, None)
    assert lpp.estimate(doubled(group=64), n=2**17, fit=fit).interval is None


def test_what_is_no_row_is_refused(rows: list[lpp.Measured]):
    with pytest.raises(CalibrationError, match=r"row 1 must be a measurement: kernel, sizes, seconds"):
        lpp.fit([rows[0], (rows[0].kernel,)], device="mine")
    with pytest.raises(CalibrationError, match="no observations to fit"):
        lpp.fit([], device="mine")
    with pytest.raises(UnknownModelError, match="no weights to fit"):
        lpp.fit(rows, device="mine", model="roofline")


def test_bad_rows_are_refused_in_words_by_fit_and_train(subtests: pytest.Subtests):
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


def test_what_is_no_time_limit_and_no_executor_is_refused(rows: list[lpp.Measured]):
    for limit in (0, -1, "5", True):
        with pytest.raises(ParameterError, match="the time limit must be above 0"):
            lpp.fit(rows, device="mine", time_limit=limit)  # pyright: ignore[reportArgumentType]
    for learn in (lpp.fit, lpp.train):
        with pytest.raises(ParameterError, match=r"executor must be a concurrent\.futures executor"):
            learn(rows, device="mine", executor=4)  # pyright: ignore[reportArgumentType]


def test_the_device_may_be_left_out_or_be_named_by_the_environment(
    rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LOOPYPERF_DEVICE", raising=False)
    assert lpp.fit(rows, model="linear").slug == "unnamed-device"
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    assert lpp.fit(rows).slug == "nvidia-v100"
    for device in (5, "", "?"):
        with pytest.raises(ParameterError, match="or the parameters of the measured device; got"):
            lpp.fit(rows, device=device)  # pyright: ignore[reportArgumentType]


def test_a_row_that_takes_too_long_is_left_out(rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch):
    def endless(program: object, *asked: object, **more: object) -> object:
        while program is slow.kernel:
            pass
        return observe(program, *asked, **more)

    slow = lpp.Measured(doubled(), {"n": 2**14}, 1.0, label="slow")
    observe = oracle_fit.observe
    monkeypatch.setattr(oracle_fit, "observe", endless)
    failed: list[str] = []
    fit = lpp.fit([*rows, slow], time_limit=0.5, on_failure=lambda row, error: failed.append(str(error)))
    assert failed == [f"analyzing slow at {{'n': {2**14}}} took more than 0.5 s"]
    assert len(fit.residuals) == len(rows)
    with pytest.raises(CalibrationError, match="took more than"):
        lpp.fit([slow], time_limit=0.5)


def test_a_row_that_cannot_be_analysed_is_named_or_left_out(rows: list[lpp.Measured]):
    bad = lpp.Measured(outer_product(), {"n": 16}, 1.0)
    with pytest.raises(LoopyperfError, match="m"):
        lpp.fit([*rows, bad], device="mine")
    failed: list[lpp.Measured] = []
    fit = lpp.fit([*rows, bad], device="mine", on_failure=lambda row, error: failed.append(row))
    assert failed == [bad]
    assert len(fit.residuals) == len(rows)
