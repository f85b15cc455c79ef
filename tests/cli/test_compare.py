"""Tests of ``loopyperf compare``: a line for each model, and JSON."""

import json
from pathlib import Path

import loopyperf as lpp
from loopyperf.calibration.fits import Fit, save_fit
from tests.cli.runner import run
from tests.kernels import doubled
from tests.minimal_fit import FREE

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"


def test_compare_prints_a_line_for_each_requested_model():
    options = ("--set", "n=4096", "--device", "nvidia-v100", "--only", "roofline", "--only", "volkov")
    lines = run("compare", DOUBLED, *options).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["doubled(n=4096)", "model", "roofline", "volkov"]
    over = run("compare", DOUBLED, *options, "--occupancy").stdout.splitlines()
    assert [line.split()[0] for line in over[1:]] == ["warps", "roofline", "volkov", "not"]
    assert over[-1].strip() == "not shown: 26 of 32 occupancies"
    printed = json.loads(run("compare", DOUBLED, *options, "--json").stdout)
    expected = lpp.compare(doubled(), n=4096, device="nvidia-v100", models=["roofline", "volkov"])
    assert printed == expected.to_dict()


def test_status_is_1_with_full_reasons_if_there_is_no_estimate(tmp_path: Path):
    (tmp_path / "wide.py").write_text("from tests.kernels import doubled\n\nknl = doubled(group=2048)\n")
    printed = run("compare", tmp_path / "wide.py:knl", "--set", "n=4096", "--device", "nvidia-v100")
    assert (printed.exit_code, printed.stderr) == (1, "")
    assert "2,048 work-items, at most 1,024; use smaller groups" in " ".join(printed.stdout.split())


def test_model_of_a_fit_uses_its_weights(tmp_path: Path):
    fit = Fit(model="linear", device="V", slug="nvidia-v100", counting="executed", weights=FREE | {"launches": 2.0})
    save_fit(fit, tmp_path / "fit.json")
    options = ("--set", "n=4096", "--only", "linear", "--only", "roofline", "--fit", str(tmp_path / "fit.json"))
    result = json.loads(run("compare", DOUBLED, *options, "--json").stdout)
    assert result == lpp.compare(doubled(), n=4096, models=["linear", "roofline"], fit=fit).to_dict()
    assert result["estimates"]["linear"]["seconds"] == 2.0


def test_fit_with_occupancy_option_is_refused():
    refused = run("compare", DOUBLED, "--set", "n=4096", "--device", "nvidia-v100", "--occupancy", "--fit", "fit.json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "drop --fit" in refused.stderr
