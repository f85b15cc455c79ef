"""Test `train`: residual models from rows of kernels and seconds, and their estimates."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import loopy as lp
import numpy as np
import pytest
from msgspec import structs

import loopyperf as lpp
from loopyperf.calibration.residual_model import own_residual_models, save_residual_model
from loopyperf.errors import (
    CalibrationError,
    FitFileError,
    LoopyperfError,
    ParameterError,
    UnknownModelError,
)
from loopyperf.measurement.samples import SampledKernel
from loopyperf.models.residual_regression import CORRECTION
from loopyperf.models.sampling import SampledProgram, Samples
from loopyperf.predict import corrected
from loopyperf.stages.cache import CACHE
from tests.kernels import doubled, outer_product, summed

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="learned models are in the extra learn")
V100 = lpp.load_device("nvidia-v100")
SIZES = (2**14, 2**16, 2**18, 2**20)


@cache
def kernels() -> tuple[lp.TranslationUnit, ...]:
    return (doubled(group=64), *(summed(terms) for terms in (1, 8, 24, 64)))


def slower(knl: lp.TranslationUnit, n: int) -> float:
    """Return the run time on a device that takes 1.33 times the V100's roofline time and another 4 µs per launch."""
    return 1.33 * float(lpp.estimate(knl, n=n, device=V100, model="roofline")) + 4e-6


def sampled(n: int) -> tuple[SampledProgram, ...]:
    """Return samples in which each group takes 2 ns, with a constant overhead of 3 µs."""
    groups = n // 64
    some = (groups // 8, groups // 4)
    return (SampledProgram("f", Samples(some, tuple(3e-6 + 2e-9 * each for each in some), 4, groups)),)


@pytest.fixture(scope="module")
def rows() -> list[lpp.Measured]:
    return [lpp.Measured(knl, {"n": n}, slower(knl, n)) for knl in kernels() for n in SIZES]


@pytest.fixture(scope="module")
def learned(rows: list[lpp.Measured]) -> lpp.ResidualModel:
    return lpp.train(rows, device=V100, base="roofline")


def test_corrected_estimate_keeps_the_unweighted_properties_of_its_base(rows: list[lpp.Measured]):
    learned = lpp.train(rows[:12], device="some-unknown-gpu", base="overlap")
    knl = lp.make_kernel("{[i]: 0<=i<n}", "b[i] = exp(a[i])*exp(a[i]+1)", assumptions="n >= 64 and n mod 64 = 0")
    knl = lp.split_iname(lp.add_and_infer_dtypes(knl, {"a": np.float32}), "i", 64, outer_tag="g.0", inner_tag="l.0")
    for n in (4096, np.array([4096, 8192])):
        base = lpp.estimate(knl, n=n, fit=learned.record.fit)
        found = lpp.estimate(knl, n=n, model="learned", fit=learned)
        assert found.left_out == base.left_out == ("f32 special",)
        assert found.interval is None
        assert "at least" in str(found)


def test_residual_model_can_be_compared_with_other_models(learned: lpp.ResidualModel, tmp_path: Path):
    save_residual_model(learned, tmp_path / "learned.json")
    expected = lpp.estimate(doubled(), n=4096, model="learned", fit=learned)
    for fit in (learned, tmp_path / "learned.json"):
        compared = lpp.compare(doubled(), n=4096, fit=fit, models=["roofline", "linear", "learned"])
        assert list(compared.estimates) == ["learned", "roofline"]
        assert compared.estimates["learned"] == expected


def test_scores_are_those_of_held_out_kernels(learned: lpp.ResidualModel, rows: list[lpp.Measured]):
    record = learned.record
    assert (record.slug, record.model, record.base, record.fit) == ("nvidia-v100", "learned", "roofline", None)
    assert set(record.scores) == {"base", "svr"}
    assert record.scores["svr"].median_log_error < record.scores["base"].median_log_error
    assert len(record.rows) == len(rows)
    assert {row.kernel_class for row in record.rows} == {"doubled", *(f"summed_{n}" for n in (1, 8, 24, 64))}


def test_features_contain_no_names_of_kernels_or_arrays(learned: lpp.ResidualModel):
    names = " ".join([*learned.record.told, *learned.record.amounts])
    assert "ILP" in names
    assert not any(word in names for word in ("doubled", "summed", "insn", "a[", "b["))


def test_estimate_is_the_base_plus_a_correction(learned: lpp.ResidualModel):
    unseen = summed(40)
    found = lpp.estimate(unseen, n=2**19, model="learned", fit=learned)
    base = lpp.estimate(unseen, n=2**19, model="roofline", device=V100)
    assert abs(np.log(found.seconds / slower(unseen, 2**19))) < abs(np.log(base.seconds / slower(unseen, 2**19)))
    assert (found.model, found.device) == ("learned", "nvidia-v100")
    costs = found.breakdown.by_property()
    assert sum(costs.values()) == found.seconds
    assert float(base.seconds) + costs.pop(CORRECTION) == pytest.approx(float(found.seconds))
    assert found.interval is not None
    low, high = found.interval
    assert np.log(high / found.seconds) == pytest.approx(learned.half_width)
    assert np.log(found.seconds / low) == pytest.approx(learned.half_width)


def test_repeated_estimate_uses_the_cache_file_without_graphs(learned: lpp.ResidualModel, folder, forbid):
    first = lpp.estimate(doubled(group=64), n=2**19, fit=learned)
    without_date = lpp.ResidualModel(structs.replace(learned.record, created=None))
    other = lpp.ResidualModel(structs.replace(learned.record, errors=learned.record.errors[1:]))
    forbid()
    CACHE.clear()
    for equal in (learned, without_date):
        found = lpp.estimate(doubled(group=64), n=2**19, fit=equal)
        assert (found, found.to_dict()) == (first, first.to_dict())
    with pytest.raises(pytest.fail.Exception):
        lpp.estimate(doubled(group=64), n=2**19, fit=other)


def test_array_of_sizes_gives_the_same_times_and_intervals(learned: lpp.ResidualModel):
    together = lpp.estimate(kernels()[0], n=np.array([2**15, 2**19]), fit=learned)
    alone = [lpp.estimate(kernels()[0], n=n, fit=learned) for n in (2**15, 2**19)]
    assert together.seconds == pytest.approx([each.seconds for each in alone])
    assert together.interval is not None
    assert together.interval[1] == pytest.approx([each.interval[1] for each in alone if each.interval])


@pytest.mark.slow
def test_default_base_is_the_overlap_model(rows: list[lpp.Measured], tmp_path: Path):
    learned = lpp.train(rows, device=V100, save=tmp_path / "learned.json")
    assert (learned.record.base, learned.record.fit is not None) == ("overlap of pipelines", True)
    assert lpp.load_residual_model(tmp_path / "learned.json") == learned
    found = lpp.estimate(kernels()[2], n=2**18, model="learned", fit=tmp_path / "learned.json")
    assert found == lpp.estimate(kernels()[2], n=2**18, fit=learned)
    assert float(found) == pytest.approx(slower(kernels()[2], 2**18), rel=0.2)


@pytest.mark.slow
def test_features_without_device_parameters_are_graphs_and_counts(rows: list[lpp.Measured]):
    learned = lpp.train(rows, device="a machine of mine")
    assert (learned.record.base, learned.record.slug) == ("overlap of counts", "a-machine-of-mine")
    assert {"ILP", "MLP", "compute intensity", "sectors of a request"} <= set(learned.record.told)
    assert "occupancy" not in learned.record.told
    assert lpp.estimate(kernels()[0], n=2**18, fit=learned).seconds > 0


def sampled_kernel(programs: tuple[SampledProgram, ...]) -> SampledKernel:
    return SampledKernel(programs, launching=0.0, seconds=1e-6, spent=1e-3)


def with_samples(learned: lpp.ResidualModel, samples_at, monkeypatch: pytest.MonkeyPatch) -> lpp.Predictor:
    """Return the predictor of *learned* on a machine for which *samples_at* returns the samples of given sizes."""
    monkeypatch.setattr(corrected, "samples_of", lambda case, *_: sampled_kernel(samples_at(case.sizes)))
    machine = SimpleNamespace(environment=SimpleNamespace(slug=learned.record.slug))
    return corrected.CorrectedPredictor("learned", learned.record.slug, learned=learned, machine=machine)


@pytest.mark.slow
def test_default_base_with_samples_is_the_sampled_model(rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch):
    # The complete run takes 10 % more time than the samples predict.
    told = [
        lpp.Measured(
            row.kernel, row.sizes, 1.1 * (3e-6 + 2e-9 * (row.sizes["n"] // 64)), samples=sampled(row.sizes["n"])
        )
        for row in rows
    ]
    learned = lpp.train(told, device="a machine of mine")
    assert learned.record.base == "sampled"
    assert {"growth", "saturation", "throughput of the linear model"} <= set(learned.record.told)
    found = with_samples(learned, lambda at: sampled(at["n"]), monkeypatch)(summed(40), n=2**19)
    assert float(found) == pytest.approx(1.1 * (3e-6 + 2e-9 * 2**13), rel=0.03)
    with pytest.raises(ParameterError, match="executes part of the kernel; pass a backend"):
        lpp.estimate(summed(40), n=2**19, fit=learned)
    mixed = lpp.train([*told, *rows], device="a machine of mine", source="mine")
    assert mixed.record.rows == learned.record.rows
    assert (learned.record.source, mixed.record.source) == (
        "timings taken elsewhere",
        f"mine, the {len(rows)} of {2 * len(rows)} rows that have samples",
    )
    assert lpp.train([*told, *rows], device="mine", base="overlap").record.source == "timings taken elsewhere"


def test_samples_of_too_few_kernels_are_refused(rows: list[lpp.Measured]):
    told = [replace(row, samples=sampled(row.sizes["n"])) for row in rows]
    with pytest.raises(CalibrationError, match="base 'sampled' needs samples, but none of the 20 rows has any; record"):
        lpp.train(rows, device="mine", base="sampled")
    for base in ("sampled", None):
        with pytest.raises(
            CalibrationError, match=r"only 8 of 20 rows have samples, of 2 kernel classes \('doubled', 'su"
        ):
            lpp.train([*told[:8], *rows[8:]], device="mine", base=base)
    with pytest.raises(CalibrationError, match="needs 3 kernel classes or more for cross-validation, got 2"):
        lpp.train(told[:8], device="mine")
    with pytest.raises(CalibrationError, match="needs 3 kernel classes or more for cross-validation, got 0: none"):
        lpp.train([], device="mine", base="sampled")


def test_complete_run_is_not_corrected(rows: list[lpp.Measured], monkeypatch: pytest.MonkeyPatch):
    whole = (SampledProgram("f", Samples((16,), (1e-4,), 32, 16)),)
    told = [lpp.Measured(row.kernel, row.sizes, 2e-4, samples=whole) for row in rows[:12]]
    learned = lpp.train(told, device="a machine of mine")
    assert float(with_samples(learned, lambda _: whole, monkeypatch)(kernels()[0], n=1024)) == 1e-4


def test_residual_model_of_another_device_is_refused(learned: lpp.ResidualModel, rows: list[lpp.Measured]):
    with pytest.raises(FitFileError, match="was trained on device 'nvidia-v100', not on 'nvidia-a100'"):
        lpp.estimate(kernels()[0], n=1024, fit=learned, device="nvidia-a100")
    with pytest.raises(FitFileError, match="no residual model for device 'nvidia-a100'"):
        lpp.estimate(kernels()[0], n=1024, model="learned", device="nvidia-a100")
    assert lpp.estimate(kernels()[0], n=1024, fit=learned, device=V100).device == "nvidia-v100"


def test_user_model_is_found_by_its_device(learned: lpp.ResidualModel, monkeypatch: pytest.MonkeyPatch):
    lpp.save_residual_model(learned, own_residual_models("nvidia-v100"))
    found = lpp.estimate(kernels()[0], n=1024, model="learned", device="nvidia-v100")
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    assert (
        found == lpp.estimate(kernels()[0], n=1024, model="learned") == lpp.estimate(kernels()[0], n=1024, fit=learned)
    )


def test_device_can_be_given_by_its_drivers_name(learned: lpp.ResidualModel):
    record = learned.record
    fields = {name: getattr(record, name) for name in record.__struct_fields__} | {"slug": "tesla-v100-pcie-16gb"}
    by_driver = lpp.ResidualModel(type(record)(**fields))
    estimate_by_driver = lpp.estimate(kernels()[0], n=1024, fit=by_driver, device="nvidia-v100")
    assert float(estimate_by_driver) == float(lpp.estimate(kernels()[0], n=1024, fit=learned))
    lpp.save_residual_model(by_driver, own_residual_models("tesla-v100-pcie-16gb"))
    assert float(lpp.estimate(kernels()[0], n=1024, model="learned", device="nvidia-v100")) == float(estimate_by_driver)


def test_residual_model_requires_model_learned(learned: lpp.ResidualModel):
    with pytest.raises(ParameterError, match="a residual model needs model='learned', got model='linear'"):
        lpp.estimate(kernels()[0], n=1024, model="linear", fit=learned)
    made_up = lpp.Fit(model="linear", device="x", slug="x", counting="executed", weights={"launches": 1.0})
    with pytest.raises(ParameterError, match="needs a residual model, got a fit of 'linear'"):
        lpp.estimate(kernels()[0], n=1024, model="learned", fit=made_up)
    with pytest.raises(ParameterError, match="a residual model always uses 'executed' counts"):
        lpp.estimate(kernels()[0], n=1024, fit=learned, counting="paper")


def test_missing_device_file_is_refused(learned: lpp.ResidualModel):
    record = learned.record
    fields = {name: getattr(record, name) for name in record.__struct_fields__} | {"slug": "nobody-knows"}
    with pytest.raises(ParameterError, match="needs the device file of 'nobody-knows'"):
        lpp.estimate(kernels()[0], n=1024, fit=lpp.ResidualModel(type(record)(**fields)))


def test_invalid_training_data_and_bases_are_refused(rows: list[lpp.Measured]):
    with pytest.raises(CalibrationError, match="needs 3 kernel classes or more for cross-validation, got 1: 'doubled'"):
        lpp.train(rows[:4], device=V100)
    with pytest.raises(CalibrationError, match="needs 3 kernel classes or more for cross-validation, got 0: none"):
        lpp.train([], device=V100)
    with pytest.raises(UnknownModelError, match="base 'learned' cannot be corrected; choose one of: sampled, overlap"):
        lpp.train(rows, device=V100, base="learned")
    with pytest.raises(CalibrationError, match="needs device parameters"):
        lpp.train(rows, device="mine", base="pipeline")
    with pytest.raises(LoopyperfError, match="m"):
        lpp.train([*rows, (outer_product(), {"n": 16}, 1.0)], device=V100)


@pytest.mark.slow
def test_executor_skips_unanalyzable_rows_and_gives_the_same_model(
    rows: list[lpp.Measured], learned: lpp.ResidualModel
):
    bad = lpp.Measured(outer_product(), {"n": 16}, 1.0)
    failed: list[lpp.Measured] = []
    with ThreadPoolExecutor(2) as executor:
        found = lpp.train(
            [*rows, bad],
            device=V100,
            base="roofline",
            executor=executor,
            on_failure=lambda row, error: failed.append(row),
        )
    assert failed == [bad]
    assert found.record.rows == learned.record.rows


@pytest.mark.slow
def test_notes_of_the_base_are_kept(rows: list[lpp.Measured]):
    learned_from_linear = lpp.train(rows, device="mine", base="linear")
    notes = lpp.estimate(outer_product(), n=64, m=64, fit=learned_from_linear).notes
    assert "no weight for 'global load 32-bit stride 0' in the fit; assumed 0" in notes
    assert sum(note.startswith("no prediction interval: ") for note in notes) <= 1
