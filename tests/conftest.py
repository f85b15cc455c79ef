"""Settings of all tests: no test reads or writes a person's own data, and none fails because a machine is busy."""

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import loopy as lp
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.engine import ConjectureRunner

from loopyperf.oracle.remembering import recollection

# Machines are shared: how long one example takes says nothing.
settings.register_profile("loopyperf", deadline=None)
settings.load_profile("loopyperf")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say below the last line of all what was not tried, and why: a skipped test is no test that has passed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    reasons = Counter(each.longrepr[2].removeprefix("Skipped: ") for each in skipped)
    for reason, number in reasons.items():
        reporter.write_line(f"NOT TRIED: {number} test{'' if number == 1 else 's'}: {reason}", yellow=True, bold=True)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that stands in for a person's own data in this test; it is not there yet."""
    folder = tmp_path / "own data"
    monkeypatch.setenv("LOOPYPERF_DATA", str(folder))
    monkeypatch.delenv("LOOPYPERF_DEVICE", raising=False)
    monkeypatch.delenv("LOOPYPERF_CACHE", raising=False)
    # pytest-xdist gives its workers the width of its own terminal, and commands fold their lines there.
    monkeypatch.delenv("COLUMNS", raising=False)
    return folder


@pytest.fixture(autouse=True)
def forgotten_counts() -> None:
    """Forget what earlier tests have counted."""
    recollection.forget()


@pytest.fixture
def fresh_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw each kernel anew, where Hypothesis would vary each five times, and leave no trace in Loopy's caches."""
    monkeypatch.setattr(ConjectureRunner, "generate_mutations_from", lambda *_: None)
    with lp.CacheMode(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
