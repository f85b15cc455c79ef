"""Tests of ``loopyperf calibrate``, ``fit``, ``train`` and ``validate`` on a synthetic device."""

import json
import lzma
import re
from pathlib import Path

import pytest
from click.testing import Result

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit, ResidualSummary
from loopyperf.cli.console import show_report_text
from loopyperf.cli.measuring import report_text_of
from loopyperf.measurement import backends
from loopyperf.predict.validate import Validation
from tests.cli.runner import run
from tests.small_campaign import write_kernel_files

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
PREDICTION = Prediction("k", {"n": 1}, 1e-6, 1.1e-6)
SYNTHETIC = ("--backend", "opencl")


@pytest.fixture(autouse=True)
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the backend ``opencl`` by a synthetic one, and ``cuda`` by one that executes parts of kernels."""
    others = {"opencl": ("tests.small_campaign", "device"), "cuda": ("tests.parts_backend", "device")}
    monkeypatch.setattr(backends, "BACKENDS", {**backends.BACKENDS, **others})


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    return write_kernel_files(tmp_path / "kernels")


def calibrate(folder: Path, *options: object) -> Result:
    return run("calibrate", *SYNTHETIC, "--kernels", folder, *options)


# {{{ calibrate


def test_calibrate_prints_the_protocol_and_the_noise_floor(kernels: Path):
    printed = calibrate(kernels)
    assert (
        "at most 30 runs, the first 4 dropped, warm caches, order of seed 0; noise floor 0.0 %: variation of repeated"
        in printed.stdout
    )


def test_calibrate_prints_weights_rank_condition_and_errors(kernels: Path):
    printed = calibrate(kernels, "--model", "linear")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert "linear model of Synthetic Device 9000" in printed.stdout
    assert re.search(r"f32 mul +40 ps +\S.* +1,048,576", printed.stdout)  # at most 2 · 2^19 multiplications
    assert re.search(r"from 33 measurements, rank 7, condition \d+\.\d, residuals of [\d.< ]+ %", printed.stdout)
    assert "selected: linear, plain" in printed.stdout
    # each class is held out in turn: empty kernel, long vectors, vectors
    assert re.search(r"^ +vectors +\d+ of 15 +[\d< ]+ % +[\d< ]+ %$", printed.stdout, re.MULTILINE)
    assert re.search(r"^ +geometric mean of \d +[\d< ]+ % +[\d< ]+ %$", printed.stdout, re.MULTILINE)
    assert re.search(r"^calibrated synthetic-device-9000 in \d+ s$", printed.stdout, re.MULTILINE)


def test_calibrate_with_a_time_limit_names_what_is_missing_and_continues_later(kernels: Path, own_data: Path):
    limited = calibrate(kernels, "--model", "linear", "--minutes", "0")
    # the empty kernel is always measured, for its launch time
    assert "calibration needs" in limited.stderr or "no time for" in limited.stderr
    complete = calibrate(kernels, "--model", "linear")
    assert "from 33 measurements" in complete.stdout
    assert [each.name.startswith("unfinished") for each in (own_data / "archives").rglob("*.jsonl")] == [False]


def test_calibrate_writes_to_the_given_paths(kernels: Path, tmp_path: Path, own_data: Path):
    archive, fit = tmp_path / "raw.jsonl", tmp_path / "fit.json"
    calibrate(kernels, "--archive", archive, "--output", fit)
    printed = run("estimate", DOUBLED, "--set", "n=64", "--fit", fit, "--json")
    assert json.loads(printed.stdout)["device"] == "synthetic-device-9000"
    assert archive.is_file()
    assert not own_data.exists()


# }}}


def test_weights_of_pipelines_are_printed_as_factors():
    fit = Fit(
        model="overlap",
        device="D",
        slug="d",
        counting="executed",
        basis="pipelines",
        weights={"DRAM": 0.501, "launches": 48.8e-6},
        ranges={"DRAM": (1e-6, 0.0134), "launches": (1.0, 8.0)},
        rank=2,
        condition=3e17,
        residual_summary=ResidualSummary(geometric_mean=0.2, root_mean_square=0.3, worst=1.0),
    )
    printed = str(fit)
    assert re.search(r"^ +DRAM +0.501 times +13.4 ms$", printed, re.MULTILINE)
    assert re.search(r"^ +launches +48.8 µs each +8 launches$", printed, re.MULTILINE)
    assert "regularized toward 1" in " ".join(printed.split())
    assert "rank" not in printed
    assert "condition" not in printed


# {{{ fit


@pytest.mark.parametrize("model", ["linear", "overlap"])
def test_fit_from_an_archive_needs_no_device(model: str, kernels: Path, tmp_path: Path):
    archive, fit = tmp_path / "raw.jsonl", tmp_path / "fit.json"
    calibrate(kernels, "--archive", archive)
    printed = run("fit", archive, "--kernels", kernels, "--model", model, "--output", fit)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert f"{model} model of Synthetic Device 9000" in printed.stdout
    result = json.loads(run("estimate", DOUBLED, "--set", "n=100000", "--fit", fit, "--json").stdout)
    assert result["model"] == model
    low, high = result["interval"]
    assert low < result["seconds"] < high


def test_fit_refuses_a_missing_archive(tmp_path: Path):
    refused = run("fit", tmp_path / "none.jsonl")
    assert refused.exit_code == 1
    assert re.search(r"cannot read \S*none\.jsonl", " ".join(refused.stderr.split()))


# }}}


# {{{ train


def test_train_from_an_archive_needs_no_device(kernels: Path, tmp_path: Path):
    pytest.importorskip("sklearn", reason="learned models are in the extra learn")
    archive, learned = tmp_path / "raw.jsonl", tmp_path / "learned.json"
    calibrate(kernels, "--archive", archive, "--output", tmp_path / "fit.json")
    printed = run("train", archive, "--kernels", kernels, "--output", learned)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert re.match(
        r"residual model of synthetic-device-9000: svr on overlap of counts, from 33 measurements of \d+ classes "
        r"on held-out classes median error explained base [\d.< ]+ % .* svr [\d.< ]+ % .* source: loopyperf calibrate$",
        " ".join(printed.stdout.split()),
    )
    arguments = ("estimate", DOUBLED, "--set", "n=100000", "--model", "learned")
    result = json.loads(run(*arguments, "--fit", learned, "--json").stdout)
    assert (result["model"], result["device"]) == ("learned", "synthetic-device-9000")
    run("train", archive, "--kernels", kernels)
    assert json.loads(run(*arguments, "--device", "synthetic-device-9000", "--json").stdout) == result
    refused = run(*arguments, "--fit", learned, "--device", "nvidia-v100")
    assert refused.exit_code == 1
    assert "was trained on device 'synthetic-device-9000', not on 'nvidia-v100'" in refused.stderr


@pytest.mark.slow
def test_error_of_the_sampled_model_is_learned_in_three_commands(kernels: Path, tmp_path: Path):
    pytest.importorskip("sklearn", reason="learned models are in the extra learn")
    archive, fit = tmp_path / "raw.jsonl", tmp_path / "fit.json"
    measured = run("calibrate", "--backend", "cuda", "--kernels", kernels, "--archive", archive, "--output", fit)
    refused = run("train", archive, "--kernels", kernels, "--base", "sampled")
    assert (measured.exit_code, refused.exit_code) == (0, 1)
    assert refused.stderr.startswith("Error: base 'sampled' needs samples")
    assert "`loopyperf calibrate --samples`" in " ".join(refused.stderr.split())
    sampled = run(
        "calibrate", "--backend", "cuda", "--kernels", kernels, "--archive", archive, "--output", fit, "--samples"
    )
    assert (sampled.exit_code, sampled.stderr) == (0, "")
    trained = run("train", archive, "--kernels", kernels)
    assert (trained.exit_code, trained.stderr) == (0, "")
    assert "residual model of arithmetic-device-1: svr on sampled, from " in trained.stdout
    assert trained.stdout.endswith("source: loopyperf calibrate\n")
    arguments = ("estimate", DOUBLED, "--set", "n=100000", "--backend", "cuda", "--json")
    result = json.loads(run(*arguments, "--model", "learned", "--device", "arithmetic-device-1").stdout)
    alone = json.loads(run(*arguments, "--model", "sampled").stdout)
    # All groups take a quarter longer than predicted from the sampled ones.
    assert result["seconds"] / alone["seconds"] == pytest.approx(1.25, rel=0.05)


def test_samples_need_a_backend_that_runs_parts_of_kernels(kernels: Path):
    refused = calibrate(kernels, "--samples")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert re.fullmatch(r"Error: samples need a backend .* parts of kernels, got 'synthetic'; .*\n", refused.stderr)


def test_train_refuses_a_missing_archive(tmp_path: Path):
    refused = run("train", tmp_path / "none.jsonl")
    assert refused.exit_code == 1
    assert "none.jsonl" in refused.stderr


# }}}


# {{{ validate


def test_validate_prints_predictions_measurements_and_means(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "120")
    calibrate(kernels, "--model", "linear")
    plot = ("--plot", tmp_path / "errors.svg")
    printed = run("validate", *SYNTHETIC, "--kernels", write_kernel_files(tmp_path / "tested", "long vectors"), *plot)
    assert (tmp_path / "errors.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (printed.exit_code, printed.stderr) == (0, "")
    # fill: 2^19 stores · 90 ps + 2^15 groups · 1 ns + a launch of 2 µs = 81.95 µs
    assert re.search(r"kernel +sizes +measured +predicted +error", printed.stdout)
    assert re.search(r"long vectors +n=524288 +82 µs +82 µs +(?:< 1|0) % +[\d.]+ µs to +[\d.]+ µs", printed.stdout)
    assert re.search(r"all kernels +geometric mean +(?:< 1|0) % +\d+ % inside", printed.stdout)
    assert "noise floor: 0.0 % (0.0 % when the fit was made); no model can be more accurate" in printed.stdout
    assert re.search(r"the fit's own verdict: off by [\d< ]+ %", printed.stdout)
    assert "as long as when the fit was made" not in printed.stdout


def test_validate_without_a_fit_is_refused(kernels: Path):
    refused = run("validate", *SYNTHETIC, "--kernels", kernels)
    assert refused.exit_code == 1
    assert refused.stderr == (
        "Error: no fit for 'synthetic-device-9000', the measured device; make one with `loopyperf calibrate`, or give "
        "the path of a fit file\n"
    )


@pytest.mark.parametrize(("measured", "is_inside"), [(1e-6, True), (3e-6, False)])
def test_times_outside_the_interval_are_marked(
    measured: float, is_inside: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    fit = Fit(model="linear", device="D", slug="d", counting="executed", weights={"launches": 1.0})
    rows = [
        Prediction("finite differences", {"n": 2**20, "m": 2**12}, 1.234e-3, 1.345e-3, (1.034e-3, 1.434e-3)),
        Prediction("skinny matrix multiplication", {"n": 1024, "m": 64}, 1e-6, measured, (0.934e-6, 1.134e-6)),
    ]
    show_report_text(report_text_of(Validation(tuple(rows), (), "d", "linear", fit, None, None)))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert re.search(r" 1.03 ms to 1.43 ms$", printed, re.MULTILINE)
    assert re.search(rf" 934 ns to 1.13 µs{'' if is_inside else ' !'}$", printed, re.MULTILINE)
    assert ("  ! measured time is outside the interval\n" in printed) == (not is_inside)


@pytest.mark.parametrize(("slowdown", "said"), [(1.22, "a part of the errors"), (0.7, "the errors are the fit's")])
def test_change_of_device_speed_is_a_reason_only_for_errors_of_its_sign(slowdown: float, said: str):
    fit = Fit(model="linear", device="D", slug="d", counting="executed", weights={"launches": 1.0}, noise_floor=0.02)
    printed = " ".join(str(Validation((PREDICTION,), (), "d", "linear", fit, None, slowdown)).split())
    assert "noise floor: unknown (2.0 % when the fit was made)" in printed
    assert f"the same work takes {slowdown:.2f} times as long as when the fit was made" in printed
    assert said in printed


def test_validate_from_an_archive_needs_no_device(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calibrate(kernels, "--model", "linear")
    tested, archive = write_kernel_files(tmp_path / "tested", "long vectors"), tmp_path / "samples.jsonl"
    on_device = run("validate", *SYNTHETIC, "--kernels", tested, "--archive", archive)
    packed = tmp_path / "samples.jsonl.xz"
    packed.write_bytes(lzma.compress(archive.read_bytes()))
    archive.unlink()
    monkeypatch.setattr(backends, "BACKENDS", {"opencl": ("not_at_home", "Device")})
    from_archive = run("validate", "--kernels", tested, "--from-archive", packed)
    assert (from_archive.exit_code, from_archive.stderr) == (0, "")
    assert from_archive.stdout == on_device.stdout
    refused = run("validate", "--kernels", kernels, "--from-archive", packed, "--device", "GPU")
    assert refused.exit_code == 2
    assert "--from-archive does not measure" in refused.stderr


def test_validate_refuses_an_archive_of_other_kernels(kernels: Path, tmp_path: Path):
    archive = tmp_path / "samples.jsonl"
    calibrate(kernels, "--archive", archive)
    refused = run("validate", "--from-archive", archive)
    assert refused.exit_code == 1
    assert "has no measurements of these kernels, only of empty kernel, long vectors, vectors" in refused.stderr


# }}}
