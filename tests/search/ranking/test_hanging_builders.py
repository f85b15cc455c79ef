"""Time limits also stop builders that stay in C code or catch every exception: their process is killed."""

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
from loopyperf.search import task_runner as in_flight
from loopyperf.search.task_runner import TaskRunner
from tests.kernels import doubled

ROOT = Path(__file__).parents[3]
OPTIONS = {"n": 4096, "device": "nvidia-titan-v", "model": "roofline"}
GOOD = {f"groups of {group}": partial(doubled, group=group) for group in (16, 32)}


def in_c() -> lp.TranslationUnit:
    """Run for minutes in C code, where Python handles no alarm."""
    sum(itertools.repeat(1, 10**11))
    return doubled()


def uninterruptible() -> lp.TranslationUnit:
    """Ignore every exception."""
    while True:
        with suppress(BaseException):
            time.sleep(60)


@pytest.fixture
def no_grace(monkeypatch):
    monkeypatch.setattr(in_flight, "GRACE_SECONDS", 0.5)


@pytest.mark.parametrize("builder", [in_c, pytest.param(uninterruptible, marks=pytest.mark.slow)])
def test_hanging_builder_is_killed_and_the_rest_is_ranked(builder, no_grace):
    start = time.monotonic()
    ranking = lpp.rank({"hangs": builder, **GOOD}, **OPTIONS, time_limit=5)
    assert time.monotonic() - start < 60
    assert ranking.failures == {"hangs": "timed out after 5 s"}
    assert ranking.seconds == lpp.rank(GOOD, **OPTIONS).seconds


@pytest.mark.slow
def test_hanging_builder_of_a_search_is_killed(no_grace):
    found = lpp.search(hanging, {"group": (16, 24, 32)}, **OPTIONS, optimizer="random", time_limit=5)
    assert found.ranking.failures == {"group=24": "timed out after 5 s"}
    assert len(found.ranking.order) == 2


def hanging(group: int) -> lp.TranslationUnit:
    return in_c() if group == 24 else doubled(group=group)


def test_task_that_cannot_be_pickled_runs_in_this_process():
    arguments: list[int] = []
    found = dict(TaskRunner(lambda number: arguments.append(number) or 2 * number, limit=10).about([1, 2]))
    assert found == {1: 2, 2: 4}
    assert arguments == [1, 2]  # the list of this process


def test_sleeping_lambda_is_interrupted():
    ranking = lpp.rank({"never": lambda: time.sleep(600), "a": lambda: doubled()}, **OPTIONS, time_limit=5)
    assert ranking.failures == {"never": "timed out after 5 s"}
    assert ranking.order == ("a",)


@pytest.mark.parametrize("reason", ["not forked", "a daemon"])
def test_alarm_is_used_where_no_process_can_be_started(reason, monkeypatch):
    if reason == "a daemon":
        monkeypatch.setattr(in_flight, "may_be_started", lambda: False)
    else:
        monkeypatch.setattr(own_processes.multiprocessing, "get_start_method", lambda **_: "spawn")
    monkeypatch.setattr(in_flight, "ProcessPool", None)
    assert dict(TaskRunner(abs, limit=10).about([-1, 2])) == {-1: 1, 2: 2}


def test_own_processes_run_tasks_without_a_time_limit():
    assert dict(TaskRunner(abs, Processes(2)).about(range(-9, 1))) == {-each: each for each in range(10)}


@pytest.mark.slow
def test_command_ends_although_a_worker_hangs(tmp_path):
    file = tmp_path / "hangs.py"
    file.write_text(
        "import itertools\nfrom functools import partial\n\nfrom tests.kernels import doubled\n\n\n"
        "def in_c():\n    sum(itertools.repeat(1, 10**11))\n\n\n"
        "variants = {'hangs': in_c, 'a': doubled, 'b': partial(doubled, group=32)}\n"
    )
    code = "import sys; sys.path[:0] = ['.']\nfrom loopyperf.cli.command_table import program\nprogram()"
    arguments = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "roofline", "--workers", "2")
    command = [sys.executable, "-W", "ignore", "-c", code, "rank", f"{file}:variants", *arguments, "--time-limit", "5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "hangs: timed out after 5 s" in run.stdout
    assert run.stdout.startswith("3 variants (n=4096)")
