"""What is shown while one waits: on a terminal, unless nothing but the answer is wanted."""

import io

import click
import pytest
from rich.console import Console

import loopyperf as lpp
from loopyperf.cli import progress
from loopyperf.cli.command_table import program
from loopyperf.cli.streams import LOUDNESS
from loopyperf.measurement.campaign import Progress
from tests.kernels import doubled


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what is shown on a terminal of 100 columns."""
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


def test_bars_say_how_far_it_is(printed: io.StringIO) -> None:
    show_all()
    assert "ranking" in printed.getvalue()
    assert "7/12" in printed.getvalue()
    assert "measuring barriers" in printed.getvalue()
    assert "3/40" in printed.getvalue()
    assert "fitting" in printed.getvalue()


def test_a_stage_that_is_not_counted_has_a_word_and_no_numbers(printed: io.StringIO) -> None:
    with progress.campaign_bar() as report:
        report(Progress(40, 40, "barriers", "group 64"))
        before = len(printed.getvalue())
        report(Progress(0, 0, "", "", "fitting"))
    assert "fitting" in printed.getvalue()[before:]
    assert "/" not in printed.getvalue()[before:]


@pytest.mark.parametrize(("asked", "is_shown"), [("quiet", False), ("verbose", True)])
def test_quiet_shows_none(asked: str, is_shown: bool, printed: io.StringIO) -> None:
    context = click.Context(program)
    context.meta[LOUDNESS] = asked
    with context.scope():
        show_all()
    assert bool(printed.getvalue()) == is_shown


def test_a_file_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "standard_error", lambda: Console(file=shown))
    show_all()
    assert shown.getvalue() == ""


def test_a_ranking_reports_each_answer() -> None:
    told: list[tuple[int, int]] = []
    variants = {str(group): doubled(group=group) for group in (32, 64, 4096)}
    question = {"n": 4096, "device": "nvidia-v100", "model": "pipeline"}
    lpp.rank(variants, **question, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    lpp.rank(variants, **question, bounds=["roofline"], top=1, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert {total for _, total in told} == {6}
    assert len(told) < 6
