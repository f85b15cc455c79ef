"""The script that writes the data of the papers' figures."""

import csv
from itertools import islice
from pathlib import Path

import paper_figures
import pytest


def test_rows_are_written_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper_figures, "FIGURES", {"dao-5-to-8": lambda: islice(paper_figures.stairs(), 96)})
    paper_figures.main(tmp_path / "new")
    with (tmp_path / "new" / "dao-5-to-8.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["group"]) for row in rows] == list(range(96))
    milestones = [[float(row[name]) for name in ("start", "20%", "40%", "60%", "80%", "finish")] for row in rows]
    assert all(each == sorted(each) for each in milestones)
    assert (tmp_path / "new" / "dao-5-to-8.svg").read_text(encoding="utf-8").startswith("<?xml")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 + len(rows)  # an empty line, the title and the column names


def test_every_figure_has_rows() -> None:
    for rows in paper_figures.FIGURES.values():
        (row,) = islice(rows(), 1)
        assert all(value != "" for value in row.values())
