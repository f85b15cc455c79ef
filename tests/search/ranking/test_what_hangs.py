"""A limit is kept whatever goes on: what computes in C, and what catches whatever would stop it, is killed."""

import itertools
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf import executors as own_processes
from loopyperf.executors import Processes
from loopyperf.search import tasks_in_flight as in_flight
from loopyperf.search.tasks_in_flight import TaskRunner
from tests.kernels import doubled

ROOT = Path(__file__).parents[3]
QUESTION = {"n": 4096, "device": "nvidia-titan-v", "model": "roofline"}
GOOD = {f"groups of {group}": partial(doubled, group=group) for group in (16, 32)}


def in_c() -> lp.TranslationUnit:
    """Add up for minutes without a line of Python in between, at which an alarm would be heard."""
    sum(itertools.repeat(1, 10**11))
    return doubled()


def deaf() -> lp.TranslationUnit:
    """Go on whatever is raised."""
    while True:
        with suppress(BaseException):
            time.sleep(60)


@pytest.fixture
def no_grace(monkeypatch):
    monkeypatch.setattr(in_flight, "GRACE", 0.5)


@pytest.mark.parametrize("builder", [in_c, deaf])
def test_without_an_executor_it_is_killed_and_the_rest_is_ranked(builder, no_grace):
    start = time.monotonic()
    ranking = lpp.rank({"hangs": builder, **GOOD}, **QUESTION, time_limit=5)
    assert time.monotonic() - start < 60
    assert ranking.failures == {"hangs": "timed out after 5 s"}
    assert ranking.seconds == lpp.rank(GOOD, **QUESTION).seconds


def test_a_search_is_stopped_too(no_grace):
    found = lpp.search(hanging, {"group": (16, 24, 32)}, **QUESTION, optimizer="random", time_limit=5)
    assert found.ranking.failures == {"group=24": "timed out after 5 s"}
    assert len(found.ranking.order) == 2


def hanging(group: int) -> lp.TranslationUnit:
    return in_c() if group == 24 else doubled(group=group)


def test_what_cannot_be_pickled_is_asked_here():
    asked: list[int] = []
    found = dict(TaskRunner(lambda number: asked.append(number) or 2 * number, limit=10).about([1, 2]))
    assert found == {1: 2, 2: 4}
    assert asked == [1, 2]  # of this process


def test_lambdas_are_stopped_as_far_as_python_stops_them():
    ranking = lpp.rank({"never": lambda: time.sleep(600), "a": lambda: doubled()}, **QUESTION, time_limit=5)
    assert ranking.failures == {"never": "timed out after 5 s"}
    assert ranking.order == ("a",)


@pytest.mark.parametrize("reason", ["not forked", "a daemon"])
def test_where_no_process_may_be_started_the_alarm_is_left(reason, monkeypatch):
    if reason == "a daemon":
        monkeypatch.setattr(in_flight, "may_be_started", lambda: False)
    else:
        monkeypatch.setattr(own_processes.multiprocessing, "get_start_method", lambda **_: "spawn")
    monkeypatch.setattr(in_flight, "process_pool", None)
    assert dict(TaskRunner(abs, limit=10).about([-1, 2])) == {-1: 1, 2: 2}


def test_so_many_processes_of_our_own_answer_without_a_limit():
    assert dict(TaskRunner(abs, Processes(2)).about(range(-9, 1))) == {-each: each for each in range(10)}


def test_the_command_ends_although_a_worker_hangs(tmp_path):
    file = tmp_path / "hangs.py"
    file.write_text(
        "import itertools\nfrom functools import partial\n\nfrom tests.kernels import doubled\n\n\n"
        "def in_c():\n    sum(itertools.repeat(1, 10**11))\n\n\n"
        "variants = {'hangs': in_c, 'a': doubled, 'b': partial(doubled, group=32)}\n"
    )
    code = "import sys; sys.path[:0] = ['.']\nfrom loopyperf.cli.command_table import program\nprogram()"
    asked = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "roofline", "--workers", "2")
    command = [sys.executable, "-W", "ignore", "-c", code, "rank", f"{file}:variants", *asked, "--time-limit", "5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "hangs: timed out after 5 s" in run.stdout
    assert run.stdout.startswith("3 variants (n=4096)")
