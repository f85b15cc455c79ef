"""Settings of all tests: no test reads or writes the user's data, and none fails because the machine is busy."""

import os
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from random import randrange
from typing import TypeVar

import loopy as lp
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.engine import ConjectureRunner

from loopyperf.stages.cache import CACHE

pytest_plugins = ["tests.answer_fixtures"]

# Test machines are shared: the run time of an example is not meaningful.
settings.register_profile("loopyperf", deadline=None)
settings.load_profile("loopyperf")

# Containers often set it; then each process rewrites all asserts, which doubles the time to collect the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test, and no process that a test starts, reads from the user's cache or writes to it.
os.environ["LOOPYPERF_CACHE"] = "0"

MUST_TRY = "LOOPYPERF_MUST_TRY"
"""set to 1, as in `.ci/run`, to make the tests in :data:`TRIED` fail where they would be skipped"""
MUST = os.environ.get(MUST_TRY) == "1"
TRIED = ("explain/pages/test_in_browser.py", "test_notebooks.py", "test_tutorial.py")
"""tests that require only the environment and a browser; data, GPUs and nvcc are not available everywhere"""
Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose Hypothesis's seed for all workers, so that the header shows it even if a worker dies."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(randrange(1 << 32))


def pytest_report_header(config: pytest.Config) -> str:
    """Return the option that draws the same examples again."""
    return f"--hypothesis-seed={config.option.hypothesis_seed}"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Report failure for a skipped file that must run."""
    report = yield
    return _failed_if_skipped(report, collector)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report failure for a skipped test that must run."""
    report = yield
    return _failed_if_skipped(report, item)


def _failed_if_skipped(report: Report, node: pytest.Collector | pytest.Item) -> Report:
    if MUST and report.skipped and node.path.relative_to(Path(__file__).parent).as_posix() in TRIED:
        assert isinstance(report.longrepr, tuple)
        report.outcome = "failed"
        report.longrepr = f"{MUST_TRY} is set, but this cannot be tried: {_reason(report.longrepr)}"
    return report


def _reason(skipped: tuple[str, int, str]) -> str:
    return skipped[2].removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """List skipped tests with reasons below pytest's summary, so that they are not mistaken for passed ones."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    reasons = Counter(_reason(each.longrepr) for each in skipped)
    for reason, number in reasons.items():
        reporter.write_line(f"NOT TRIED: {number} test{'' if number == 1 else 's'}: {reason}", yellow=True, bold=True)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that replaces the user's data folder in this test; it does not exist yet."""
    folder = tmp_path / "own data"
    monkeypatch.setenv("LOOPYPERF_DATA", str(folder))
    monkeypatch.delenv("LOOPYPERF_DEVICE", raising=False)
    # pytest-xdist passes the width of its terminal to its workers, and commands would wrap their lines at that width.
    monkeypatch.delenv("COLUMNS", raising=False)
    return folder


@pytest.fixture(autouse=True)
def clear_counts() -> None:
    """Clear the cached counts of earlier tests."""
    CACHE.clear()


@pytest.fixture
def fresh_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw each kernel independently, without Hypothesis's five mutations of each, and disable Loopy's caches."""
    monkeypatch.setattr(ConjectureRunner, "generate_mutations_from", lambda *_: None)
    with lp.CacheMode(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
