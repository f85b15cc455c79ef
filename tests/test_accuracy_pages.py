"""The tables of docs/accuracy are what the scripts print, and what the first page says of them is in them."""

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
"""so many kernels from one that is analysed again to the next"""
with_data = pytest.mark.skipif(
    not (SHARED_DATA / "titan-v.pkl.xz").exists(), reason="no titan-v.pkl.xz in ../shared/data or LOOPYPERF_SHARED_DATA"
)


def rows(page: Path) -> list[dict[str, str]]:
    """Return heading -> cell of all rows of the tables of *page*; of headings that are the same, the last counts."""
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


FIRST_PAGE = {row["model"]: row for row in rows(ROOT / "README.md") if "streams, six GPUs" in row}
OF_DEVICES = [name for name, row in FIRST_PAGE.items() if row["streams, six GPUs"]]


def test_the_first_page_has_a_model_of_each_sort():
    assert OF_DEVICES == ["`pipeline`", "`roofline`"]
    assert [*FIRST_PAGE] == ["`linear`", "`overlap` of pipelines", *OF_DEVICES, "`sampled`", "`learned`"]


@pytest.mark.parametrize("name", OF_DEVICES)
def test_the_first_page_has_the_figures_of_a_model(name: str):
    row = FIRST_PAGE[name]
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
def test_the_first_page_has_the_figures_of_a_fit(name: str, row: str):
    assert FIRST_PAGE[name]["einsums, TITAN V"] == f"{exp(float(first_row(EINSUMS, row)['median abs(ln)'])):.2f}"


OVERVIEW = rows(ROOT / "docs" / "accuracy.md")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def page_of(row: int) -> Path:
    """Return the page that a row of the overview leads to; where it has no link, that of the row above."""
    links = [re.search(r"\]\((.*\.md)\)", each["page and command"]) for each in OVERVIEW[: row + 1]]
    return PAGES.parent / next(each[1] for each in reversed(links) if each)


def is_rounded(number: str, full: str) -> bool:
    """Return whether *number* is *full* or what is left of it with fewer digits."""
    return number == f"{float(full):.{len(number.partition('.')[2])}f}"


def test_the_overview_says_what_its_pages_say(subtests: pytest.Subtests):
    for row in range(len(OVERVIEW)):
        with subtests.test(row=str(row)):
            on_page = NUMBER.findall(page_of(row).read_text(encoding="utf-8"))
            for number in NUMBER.findall(OVERVIEW[row]["how close"]):
                assert any(is_rounded(number, each) for each in on_page), number


@pytest.mark.slow
@with_data
@pytest.mark.parametrize("page", BY_COMMAND, ids=lambda page: page.stem)
def test_tables_are_what_the_scripts_print(page: Path):
    """They simulate and fit anew."""
    checked = subprocess.run([*COG, page], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@with_data
def test_what_was_gathered_is_what_the_models_say_today():
    """If not, the pages are of another tree: gather anew (benchmarks/README.md)."""
    measured = measured_kernels()
    for told in gathered([GATHERED])[::EVERY]:
        now = find(told.row, measured[told.row], 600)
        assert (now.counts, now.reasons) == (told.counts, told.reasons)
        for name in ("pipelines", "told", "amounts"):
            assert getattr(now, name) == pytest.approx(getattr(told, name))
        assert {model: now.seconds[model] for model in told.seconds} == pytest.approx(told.seconds)
        assert now.otherwise == [pytest.approx(each) for each in told.otherwise]
