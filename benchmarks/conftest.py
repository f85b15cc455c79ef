"""The races of ``test_speed.py``: ours and a peer, by turns in one run, and how many times as fast ours has to be."""

import time
from collections.abc import Callable
from typing import Any

import loopy as lp
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

Fresh = Callable[[], tuple[Any, ...]]
Side = Callable[..., object]
RESULTS = pytest.StashKey[list[str]]()


@pytest.fixture
def race(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return what lets two sides run by turns, and fails unless ours is *least* times as fast as the peer.

    Each turn of either takes *fresh* arguments. The fastest turn of each counts. The peer does one of *parts* of what
    ours does in a turn, where all of it would take too long.
    """

    def run(ours: Side, peer: Side, least: float, *, fresh: Fresh = tuple, parts: int = 1, turns: int = 7) -> None:
        theirs: list[float] = []

        def turn() -> tuple[tuple[Any, ...], dict[str, Any]]:
            arguments = fresh()
            start = time.process_time()
            peer(*arguments)
            theirs.append((time.process_time() - start) * parts)
            return fresh(), {}

        with lp.CacheMode(False):
            benchmark.pedantic(ours, setup=turn, rounds=turns)
        ratio = min(theirs) / benchmark.stats.stats.min
        benchmark.extra_info.update(peer_seconds=min(theirs), ratio=ratio, least=least)
        what = request.node.name.removeprefix("test_").replace("_", " ")
        request.config.stash.setdefault(RESULTS, []).append(f"{what:75} {ratio:7.2f}x   at least {least:g}x")
        assert ratio > least, f"{what}: {ratio:.1f} times as fast, not {least:g}"

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many times as fast as its peer each was."""
    for line in terminalreporter.config.stash.get(RESULTS, []):
        terminalreporter.write_line(line)
