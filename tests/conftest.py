"""Settings of all tests: no test reads or writes a person's own data, and none fails because a machine is busy."""

import os
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import loopy as lp
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.engine import ConjectureRunner

from loopyperf.stages import cache as recent

pytest_plugins = ["tests.answer_fixtures"]

# Machines are shared: how long one example takes says nothing.
settings.register_profile("loopyperf", deadline=None)
settings.load_profile("loopyperf")

# No test, and no process that one starts, reads answers from the user's cache or fills it.
os.environ["LOOPYPERF_CACHE"] = "0"

MUST_TRY = "LOOPYPERF_MUST_TRY"
"""set to 1, as `.ci/run` does: what is in :data:`TRIED` is not skipped, it fails where it cannot be tried"""
MUST = os.environ.get(MUST_TRY) == "1"
TRIED = ("explain/pages/test_in_browser.py", "test_notebooks.py", "test_tutorial.py")
"""what needs nothing but the environment and a browser; data, GPUs and Graphviz are not everywhere"""
Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a file that is skipped as a whole fail where it must be tried."""
    report = yield
    return _failed_if_not_tried(report, collector)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test that is skipped fail where it must be tried."""
    report = yield
    return _failed_if_not_tried(report, item)


def _failed_if_not_tried(report: Report, node: pytest.Collector | pytest.Item) -> Report:
    if MUST and report.skipped and node.path.relative_to(Path(__file__).parent).as_posix() in TRIED:
        assert isinstance(report.longrepr, tuple)
        report.outcome = "failed"
        report.longrepr = f"{MUST_TRY} is set, but this cannot be tried: {_reason(report.longrepr)}"
    return report


def _reason(skipped: tuple[str, int, str]) -> str:
    return skipped[2].removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say below the last line of all what was not tried, and why: a skipped test is no test that has passed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    reasons = Counter(_reason(each.longrepr) for each in skipped)
    for reason, number in reasons.items():
        reporter.write_line(f"NOT TRIED: {number} test{'' if number == 1 else 's'}: {reason}", yellow=True, bold=True)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that stands in for a person's own data in this test; it is not there yet."""
    folder = tmp_path / "own data"
    monkeypatch.setenv("LOOPYPERF_DATA", str(folder))
    monkeypatch.delenv("LOOPYPERF_DEVICE", raising=False)
    # pytest-xdist gives its workers the width of its own terminal, and commands fold their lines there.
    monkeypatch.delenv("COLUMNS", raising=False)
    return folder


@pytest.fixture(autouse=True)
def forgotten_counts() -> None:
    """Forget what earlier tests have counted."""
    recent.clear_memory()


@pytest.fixture
def fresh_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw each kernel anew, where Hypothesis would vary each five times, and leave no trace in Loopy's caches."""
    monkeypatch.setattr(ConjectureRunner, "generate_mutations_from", lambda *_: None)
    with lp.CacheMode(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
