"""Fixtures of ``test_speed.py``, which compares our speed with a peer's and fails below a minimum ratio."""

import time
from collections.abc import Callable
from typing import Any

import loopy as lp
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

Fresh = Callable[[], tuple[Any, ...]]
Function = Callable[..., object]
RESULTS = pytest.StashKey[list[str]]()


@pytest.fixture
def race(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that runs *ours* and *peer* alternately and fails unless ours is *least* times as fast.

    Each run gets new arguments from *fresh*. The fastest of *turns* runs of each side counts. If the whole work takes
    too long for the peer, it does one of *parts* equal parts of the work, and its time is multiplied by *parts*.
    """

    def run(
        ours: Function, peer: Function, least: float, *, fresh: Fresh = tuple, parts: int = 1, turns: int = 7
    ) -> None:
        peer_times: list[float] = []

        def turn() -> tuple[tuple[Any, ...], dict[str, Any]]:
            arguments = fresh()
            start = time.process_time()
            peer(*arguments)
            peer_times.append((time.process_time() - start) * parts)
            return fresh(), {}

        with lp.CacheMode(False):
            benchmark.pedantic(ours, setup=turn, rounds=turns)
        ratio = min(peer_times) / benchmark.stats.stats.min
        benchmark.extra_info.update(peer_seconds=min(peer_times), ratio=ratio, least=least)
        name = request.node.name.removeprefix("test_").replace("_", " ")
        request.config.stash.setdefault(RESULTS, []).append(f"{name:75} {ratio:7.2f}x   at least {least:g}x")
        assert ratio > least, f"{name}: {ratio:.1f} times as fast, expected more than {least:g}"

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ratio of each comparison."""
    for line in terminalreporter.config.stash.get(RESULTS, []):
        terminalreporter.write_line(line)
