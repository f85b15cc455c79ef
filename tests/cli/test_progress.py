"""Tests of progress bars: shown on a terminal, but not with --quiet and not in a file."""

import io

import click
import pytest
from rich.console import Console

import loopyperf as lpp
from loopyperf.cli import progress
from loopyperf.cli.command_table import program
from loopyperf.cli.options import LOUDNESS
from loopyperf.measurement.campaign import Progress
from tests.kernels import doubled


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return the progress bars shown on a terminal of 100 columns."""
    shown = io.StringIO()
    monkeypatch.setattr(progress, "standard_error", lambda: Console(file=shown, force_terminal=True, width=100))
    return shown


def show_all() -> None:
    with progress.counting_bar("ranking") as report:
        report(7, 12)
    with progress.campaign_bar() as report:
        report(Progress(3, 40, "barriers", "group 64"))
    with progress.working("fitting"):
        pass


def test_bars_show_the_stage_and_the_progress(printed: io.StringIO) -> None:
    show_all()
    assert "ranking" in printed.getvalue()
    assert "7/12" in printed.getvalue()
    assert "measuring barriers" in printed.getvalue()
    assert "3/40" in printed.getvalue()
    assert "fitting" in printed.getvalue()


@pytest.mark.parametrize(("asked", "is_shown"), [("quiet", False), ("verbose", True)])
def test_quiet_shows_no_bars(asked: str, is_shown: bool, printed: io.StringIO) -> None:
    context = click.Context(program)
    context.meta[LOUDNESS] = asked
    with context.scope():
        show_all()
    assert bool(printed.getvalue()) == is_shown


def test_bars_are_not_written_to_files(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "standard_error", lambda: Console(file=shown))
    show_all()
    assert shown.getvalue() == ""


def test_without_a_terminal_a_campaign_prints_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "standard_error", lambda: Console(file=shown))
    times = iter([0, 29, 31, 31, 32])
    monkeypatch.setattr(progress, "monotonic", lambda: next(times))
    with progress.campaign_bar() as report:
        for done in (7, 8, 9):
            report(Progress(done, 40, "barriers", "group 64"))
    assert shown.getvalue() == "measuring barriers: 8 of 40\n"


def test_rank_reports_progress_after_each_estimate() -> None:
    calls: list[tuple[int, int]] = []
    variants = {str(group): doubled(group=group) for group in (32, 64, 4096)}
    options = {"n": 4096, "device": "nvidia-v100", "model": "pipeline"}
    lpp.rank(variants, **options, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    calls.clear()
    lpp.rank(variants, **options, bounds=["roofline"], top=1, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))
    assert {total for _, total in calls} == {6}
    assert len(calls) < 6
