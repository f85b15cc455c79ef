"""Tests of ``loopyperf explain`` and ``loopyperf report``."""

import json
import sys
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import Fit, save_fit
from tests.cli.runner import run
from tests.explain.pages.report_kernels import DEVICES, two_launches
from tests.minimal_fit import FREE

CHAIN = f"{Path(__file__).parents[1] / 'explain' / 'pages' / 'report_kernels.py'}:two_launches"
OPTIONS = ("--set", f"n={2**20}", *(word for name in DEVICES for word in ("--device", name)))


@pytest.fixture(autouse=True)
def fresh_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_explain_prints_first_screen_and_source_within_80_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = run("explain", CHAIN, *OPTIONS)
    assert (printed.exit_code, printed.stderr) == (0, "")
    lines = printed.stdout.splitlines()
    assert max(len(line) for line in lines if len(line.split()) > 1) <= 80  # a path may be longer, on its own line
    assert lines[0].startswith("Return b = 2a, and in a second launch")
    for words in (
        "chain(n=1048576) on NVIDIA Tesla V100 PCIe (nvidia-v100), model pipeline:",
        "chain(n=1048576) on AMD Radeon R9 Fury (amd-r9-fury), model linear:",
        "share of peak, chain",
        "what would help (each alone)",
        "warp stall reasons: ",
        "roofline: at least ",
        "launch chain_0: (127 + n)",
        "{id=",
        "DRAM moves ",
        "No prediction",
        "nobodys-device: no device called 'nobodys-device'",
    ):
        assert any(words in line for line in lines), words


def test_kernel_that_executes_nothing_is_explained(tmp_path: Path):
    file = tmp_path / "nothing.py"
    file.write_text(
        """import loopy as lp

knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", lang_version=(2018, 2))
knl = lp.split_iname(lp.add_dtypes(knl, {"a": "float32"}), "i", 32, outer_tag="g.0", inner_tag="l.0")
""",
        encoding="utf-8",
    )
    printed = run("explain", f"{file}:knl", "--set", "n=0", "--device", "nvidia-a100")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert printed.stdout.startswith("loopy_kernel(n=0) on ")  # a kernel has no docstring
    assert "the kernel executes nothing" in printed.stdout


def test_fit_with_zero_weights_is_explained(tmp_path: Path):
    free = Fit(model="linear", device="V", slug="nvidia-v100", counting="executed", weights=FREE | {"launches": 0.0})
    save_fit(free, tmp_path / "free.json")
    printed = run("explain", CHAIN, "--set", "n=4096", "--fit", tmp_path / "free.json", "--only", "linear")
    assert printed.exit_code == 0
    assert "0 s" in printed.stdout


def test_requested_model_is_shown_first():
    options = ("--set", "n=4096", "--device", "nvidia-v100", "--only", "gpuperf", "--only", "pipeline")
    shown = run("explain", CHAIN, *options, "--model", "gpuperf").stdout
    assert "(nvidia-v100), model gpuperf: " in shown


def test_explain_starts_with_the_dedented_docstring(tmp_path: Path):
    file = tmp_path / "with_words.py"
    words = '''"""Double everything.

    Each work-item has one element,
    which it reads and writes.
    """
'''
    source = "from tests.kernels import doubled as twice\n\n\ndef doubled():\n    " + words + "    return twice()\n"
    file.write_text(source, encoding="utf-8")
    printed = run("explain", f"{file}:doubled", "--set", "n=64", "--device", "nvidia-v100", "--only", "roofline").stdout
    assert printed.startswith("Double everything.\nEach work-item has one element, which it reads and writes.\n")


def test_json_of_explain_equals_the_explanation():
    printed = run("explain", CHAIN, "--set", "n=4096", "--device", "nvidia-a100", "--only", "roofline", "--json")
    expected = lpp.explain(two_launches(), n=4096, device="nvidia-a100", models=["roofline"])
    result = json.loads(printed.stdout)
    assert result.pop("about").startswith("Return b = 2a")
    assert result == {name: value for name, value in expected.to_dict().items() if name != "about"}


def test_report_names_devices_without_a_prediction(tmp_path: Path):
    devices = ("--device", "nvidia-a100", "--device", "nobodys-device")
    result = run("report", CHAIN, "--set", "n=4096", *devices, "--only", "volkov", "-o", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "no prediction: nobodys-device: no device called 'nobodys-device'" in result.stderr


def test_report_page_contains_the_docstring(tmp_path: Path):
    page = tmp_path / "page.html"
    result = run("report", CHAIN, "--set", "n=4096", "--device", "nvidia-a100", "--only", "volkov", "-o", page)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, f"report: {page}")
    html = page.read_text(encoding="utf-8")
    assert "Return b = 2a, and in a second launch" in html
    assert html.startswith("<!DOCTYPE html>")


def test_json_of_report_is_the_explanation_with_its_path(tmp_path: Path):
    options = (CHAIN, "--set", "n=4096", "--device", "nvidia-a100", "--only", "volkov", "--json")
    page = tmp_path / "page.html"
    result = json.loads(run("report", *options, "-o", page).stdout)
    assert result == {"path": str(page), **json.loads(run("explain", *options).stdout)}


def test_open_option_opens_the_page_in_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    page = tmp_path / "page.html"
    options = (CHAIN, "--set", "n=4096", "--device", "nvidia-a100", "--only", "volkov", "--no-findings")
    run("report", *options, "-o", page, "--open")
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("command", ["explain", "report"])
def test_model_of_a_fit_uses_its_weights_and_is_shown_first(command: str, tmp_path: Path):
    fit = Fit(model="linear", device="V", slug="nvidia-v100", counting="executed", weights=FREE | {"launches": 2.0})
    save_fit(fit, tmp_path / "fit.json")
    output = ("-o", tmp_path / "page.html") if command == "report" else ()
    options = ("--set", "n=4096", "--only", "linear", "--only", "roofline", "--fit", tmp_path / "fit.json")
    (on,) = json.loads(run(command, CHAIN, *options, *output, "--json").stdout)["devices"]
    assert (on["device"], on["first"], on["estimates"]["linear"]["seconds"]) == ("nvidia-v100", "linear", 4.0)
