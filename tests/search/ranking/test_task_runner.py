"""Every task gets a result or a reason, whatever happens to its worker."""

import ctypes
import os
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from threading import Lock, Thread

import pytest

from loopyperf.errors import ParameterError
from loopyperf.executors import Processes
from loopyperf.search import task_runner as workers
from loopyperf.search.task import Unanswered, failed
from loopyperf.search.task_runner import TaskRunner, number_of_workers


def doubled(number: int) -> int:
    return 2 * number


def tenth(number: int) -> float:
    """Return number / 10; 3 never returns, and 4 kills its process."""
    if number == 3:
        while True:
            time.sleep(60)
    if number == 4:
        os._exit(7)
    return number / 10


ENDINGS: dict[int, Callable[[], object]] = {
    2: lambda: os._exit(3),
    4: lambda: os.kill(os.getpid(), signal.SIGKILL),
    5: lambda: os.kill(os.getpid(), signal.SIGTERM),
    6: lambda: ctypes.string_at(0),
}
"""ways in which a process dies"""


def dying(number: int) -> int:
    ENDINGS.get(number, lambda: None)()
    return number


def exiting(number: int) -> int:
    """Return the number; 0 ends the program."""
    if not number:
        raise SystemExit
    return number


def ignoring_interruptions(number: int) -> int:
    """Return the number; 3 ignores interruptions for 2.5 s first."""
    end = time.monotonic() + 2.5
    while number == 3 and time.monotonic() < end:
        with suppress(BaseException):
            time.sleep(0.1)
    return number


def run_tasks(runner: TaskRunner, tasks: list[int]) -> dict[int, object]:
    found = list(runner.about(tasks))
    assert sorted(task for task, _ in found) == sorted(tasks)
    return dict(found)


def test_results_without_an_executor_are_in_order():
    assert list(TaskRunner(doubled).about([3, 1, 2])) == [(3, 6), (1, 2), (2, 4)]


@pytest.mark.parametrize("number", [1, 2])
def test_dead_worker_is_reported_for_every_kind_of_exit(number):
    found = run_tasks(TaskRunner(dying, Processes(number)), list(range(8)))
    assert found[0] == 0
    assert found[7] == 7
    assert all(found[each].reason.startswith("the worker process died") for each in ENDINGS)


@pytest.mark.parametrize("executor", [lambda: None, lambda: Processes(2), lambda: ThreadPoolExecutor(2)])
def test_exit_of_a_task_is_reported(executor):
    found = run_tasks(TaskRunner(exiting, executor()), [0, 1])
    assert (found[0].reason, found[1]) == ("SystemExit", 1)


def interrupting(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


def test_sigint_stops_all_tasks_and_keeps_the_signal_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the background jobs of a shell ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(TaskRunner(interrupting).about([1, 2]))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gives_the_same_results(pool):
    with pool(2) as executor:
        assert run_tasks(TaskRunner(doubled, executor), list(range(50))) == {each: 2 * each for each in range(50)}


def test_number_of_tasks_in_flight_is_limited():
    started: list[int] = []

    def numbers():
        for number in range(20):
            started.append(number)
            yield number

    class Slow(Executor):
        def submit(self, function, /, *arguments):
            assert len(started) - len(done) <= 3
            future: Future[int] = Future()
            future.set_result(function(*arguments))
            return future

    done: list[int] = []
    for task, _ in TaskRunner(doubled, Slow(), at_once=3).about(numbers()):
        done.append(task)
    assert len(done) == 20


@pytest.mark.parametrize("pool", [nullcontext, partial(ProcessPoolExecutor, 1), partial(ThreadPoolExecutor, 1)])
def test_task_over_the_time_limit_is_stopped_and_others_complete(pool):
    with pool() as executor:
        runner = TaskRunner(tenth, executor, limit=0.5)
        found = run_tasks(runner, [1, 3, 2])
    assert found == {1: 0.1, 2: 0.2, 3: Unanswered("timed out after 0.5 s")}
    assert runner.notes == []


def test_task_that_ignores_its_timeout_is_stopped_in_another_process(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.5)
    with ProcessPoolExecutor(1) as executor:
        runner = TaskRunner(ignoring_interruptions, executor, limit=0.5)
        found = run_tasks(runner, [1, 3])
    assert found[1] == 1
    assert found[3] == Unanswered("timed out after 0.5 s")  # in one of our own processes, which is stopped
    assert runner.notes == ["no worker of the executor responded within 1 s; the executor was abandoned"]


def test_dead_process_loses_no_other_tasks():
    with ProcessPoolExecutor(2) as executor:
        runner = TaskRunner(tenth, executor)
        found = run_tasks(runner, [1, 2, 4, 5, 6, 7, 8])
    assert found.pop(4) == Unanswered("the worker process died (exit status 7)")
    assert found == {each: each / 10 for each in (1, 2, 5, 6, 7, 8)}
    assert runner.notes == [
        "the executor died (BrokenProcessPool); its remaining tasks ran in other processes",
    ]


def test_tasks_run_without_an_executor_that_was_shut_down():
    executor = ProcessPoolExecutor(1)
    executor.shutdown()
    runner = TaskRunner(doubled, executor)
    assert run_tasks(runner, [1, 2]) == {1: 2, 2: 4}
    assert len(runner.notes) == 1


def test_thread_keeps_the_time_limit_without_an_executor():
    found: dict[int, object] = {}
    thread = Thread(target=lambda: found.update(run_tasks(TaskRunner(tenth, limit=0.5), [3, 1])))
    thread.start()
    thread.join()
    assert found == {1: 0.1, 3: Unanswered("timed out after 0.5 s")}


class SilentExecutor(Executor):
    """Accepts all tasks, but completes only the first few."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def submit(self, function, /, *arguments):
        future: Future[object] = Future()
        if self.left > 0:
            future.set_result(function(*arguments))
        self.left -= 1
        return future


def test_unresponsive_executor_is_abandoned(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.2)
    runner = TaskRunner(doubled, SilentExecutor(2), limit=0.3)
    assert run_tasks(runner, list(range(6))) == {each: 2 * each for each in range(6)}
    assert runner.notes == ["no worker of the executor responded within 0.5 s; the executor was abandoned"]


def test_first_result_of_an_executor_may_take_longer(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(workers, "FIRST_RESULT_SECONDS", 1.0)
    runner = TaskRunner(doubled, SilentExecutor(0), limit=0.3)
    assert run_tasks(runner, [1, 2]) == {1: 2, 2: 4}
    assert runner.notes == ["no worker of the executor responded within 1.5 s; the executor was abandoned"]


class ClosedExecutor(Executor):
    """Raises its own error on submit, as a closed dask client does."""

    def submit(self, function, /, *arguments):
        raise OSError("the client is closed")


def test_tasks_run_without_an_executor_that_fails_on_submit():
    runner = TaskRunner(doubled, ClosedExecutor())
    assert run_tasks(runner, list(range(20))) == {each: 2 * each for each in range(20)}
    assert runner.notes == ["the executor died (OSError); its remaining tasks ran in other processes"]


class PicklingExecutor(Executor):
    """Pickles its arguments on submit."""

    def submit(self, function, /, *arguments):
        try:
            pickle.dumps(arguments)
        except TypeError as error:
            raise TypeError("could not serialize") from error
        future: Future[object] = Future()
        future.set_result(function(*arguments))
        return future


def unlocked(task: object) -> bool:
    return isinstance(task, int)


def test_tasks_that_an_executor_cannot_pickle_are_reported():
    tasks: list[object] = [Lock() for _ in range(20)]
    found = dict(TaskRunner(unlocked, PicklingExecutor(), at_once=2).about([*tasks, 1]))
    assert found[1] is True
    reason = Unanswered("cannot be sent to a worker: TypeError: cannot pickle '_thread.lock' object")
    assert [found[each] for each in tasks] == 20 * [reason]


# {{{ number of workers


class Client:
    """The part of a dask client that gives the threads of its workers."""

    def __init__(self, *threads: int) -> None:
        self.threads = dict(enumerate(threads))

    def nthreads(self) -> dict[int, int]:
        return self.threads


class ClientExecutor(Executor):
    def __init__(self, client: Client) -> None:
        self._client = client


def test_number_of_workers_of_each_executor():
    assert number_of_workers(ThreadPoolExecutor(7)) == 7
    assert number_of_workers(ProcessPoolExecutor(3)) == 3
    assert number_of_workers(ClientExecutor(Client(4, 4, 2))) == 10
    assert number_of_workers(ClientExecutor(Client())) == 1
    assert number_of_workers(SilentExecutor(0)) == os.cpu_count()


# }}}


def test_task_that_cannot_be_pickled_is_reported():
    with ProcessPoolExecutor(1) as executor:
        found = run_tasks(TaskRunner(lambda number: number, executor), [1])
    assert "pickle" in found[1].reason.lower()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_invalid_time_limit_is_refused(limit):
    with pytest.raises(ParameterError, match="time limit must be above 0"):
        TaskRunner(doubled, limit=limit)


def test_timeout_error_without_a_limit_is_an_error_of_the_task():
    assert failed(TimeoutError("the lock"), None) == Unanswered("TimeoutError: the lock")
