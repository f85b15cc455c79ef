"""The tables of docs/accuracy equal the output of the scripts, and contain the numbers of the README."""

import re
import subprocess
import sys
from math import exp
from pathlib import Path

import pytest
from parts.shared_data import SHARED_DATA
from parts.titan_v import GATHERED, gathered, measured_kernels
from titan_v_gather import find

from tests.documents import ROOT

PAGES = ROOT / "docs" / "accuracy"
EINSUMS, STREAMS = PAGES / "titan_v.md", PAGES / "streams.md"
BY_COMMAND = sorted(page for page in PAGES.glob("*.md") if "[[[cog" in page.read_text(encoding="utf-8"))
COG = [sys.executable, "-m", "cogapp", "-P", "--check", "-I", "benchmarks", "-p", "from parts.printed import printed"]
EVERY = 60
"""one of this many kernels is analyzed again"""
with_data = pytest.mark.skipif(
    not (SHARED_DATA / "titan-v.pkl.xz").exists(), reason="no titan-v.pkl.xz in ../shared/data or LOOPYPERF_SHARED_DATA"
)


def rows(page: Path) -> list[dict[str, str]]:
    """Return heading -> cell for all table rows of *page*; of equal headings, the last one is used."""
    found: list[dict[str, str]] = []
    heading: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if heading and cells and not set(line) <= set("|-: "):
            found.append(dict(zip(heading, cells, strict=True)))
        heading = heading or cells if cells else []
    return found


def first_row(page: Path, name: str) -> dict[str, str]:
    """Return the first row of *page* whose first cell is *name*."""
    return next(row for row in rows(page) if next(iter(row.values())) == name)


README = {row["model"]: row for row in rows(ROOT / "README.md") if "streams, six GPUs" in row}
DEVICE_MODELS = [name for name, row in README.items() if row["streams, six GPUs"]]


def test_readme_lists_models_of_each_kind():
    assert DEVICE_MODELS == ["`pipeline`", "`roofline`"]
    assert [*README] == ["`linear`", "`overlap` of pipelines", *DEVICE_MODELS, "`sampled`", "`learned`"]


@pytest.mark.parametrize("name", DEVICE_MODELS)
def test_readme_has_the_errors_of_device_models(name: str):
    row = README[name]
    assert row["einsums, TITAN V"] == f"{exp(float(first_row(EINSUMS, name)['median abs(ln)'])):.2f}"
    assert row["streams, six GPUs"] == f"{float(first_row(STREAMS, name)['mean']):.0f} %"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("`linear`", "linear, non-negative"),
        ("`overlap` of pipelines", "overlap of pipelines"),
        ("`learned`", "with ε-SVR"),
    ],
)
def test_readme_has_the_errors_of_fitted_models(name: str, row: str):
    assert README[name]["einsums, TITAN V"] == f"{exp(float(first_row(EINSUMS, row)['median abs(ln)'])):.2f}"


OVERVIEW = rows(ROOT / "docs" / "accuracy.md")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def page_of(row: int) -> Path:
    """Return the page that a row of the overview links to; without a link, the page of the row above."""
    links = [re.search(r"\]\((.*\.md)\)", each["page and command"]) for each in OVERVIEW[: row + 1]]
    return PAGES.parent / next(each[1] for each in reversed(links) if each)


def is_rounded(number: str, full: str) -> bool:
    """Return whether *number* equals *full*, rounded to as many digits."""
    return number == f"{float(full):.{len(number.partition('.')[2])}f}"


def test_numbers_of_the_overview_are_on_its_pages(subtests: pytest.Subtests):
    for row in range(len(OVERVIEW)):
        with subtests.test(row=str(row)):
            on_page = NUMBER.findall(page_of(row).read_text(encoding="utf-8"))
            for number in NUMBER.findall(OVERVIEW[row]["how close"]):
                assert any(is_rounded(number, each) for each in on_page), number


@pytest.mark.slow
@with_data
@pytest.mark.parametrize("page", BY_COMMAND, ids=lambda page: page.stem)
def test_tables_equal_the_output_of_the_scripts(page: Path):
    """The scripts repeat the simulations and fits."""
    checked = subprocess.run([*COG, page], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@with_data
def test_gathered_predictions_equal_current_predictions():
    """If this fails, the pages are outdated; gather the predictions again (benchmarks/README.md)."""
    measured = measured_kernels()
    for saved in gathered([GATHERED])[::EVERY]:
        now = find(saved.row, measured[saved.row], 600)
        assert (now.counts, now.reasons) == (saved.counts, saved.reasons)
        for name in ("pipelines", "told", "amounts"):
            assert getattr(now, name) == pytest.approx(getattr(saved, name))
        assert {model: now.seconds[model] for model in saved.seconds} == pytest.approx(saved.seconds)
        assert now.otherwise == [pytest.approx(each) for each in saved.otherwise]
