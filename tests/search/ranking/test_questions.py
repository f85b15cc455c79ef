"""Whatever happens to who works out an answer, every question gets one."""

import ctypes
import os
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, Thread

import pytest

from loopyperf.errors import ParameterError
from loopyperf.executors import Processes
from loopyperf.search import tasks_in_flight as workers
from loopyperf.search.task import Unanswered, failed
from loopyperf.search.tasks_in_flight import TaskRunner, Workers, number_of_workers


def doubled(number: int) -> int:
    return 2 * number


def tenth(number: int) -> float:
    """Of 3 there is none in time, 4 kills whoever works on it."""
    if number == 3:
        while True:
            time.sleep(60)
    if number == 4:
        os._exit(7)
    return number / 10


ENDINGS: dict[int, Callable[[], object]] = {
    1: lambda: os._exit(0),
    2: lambda: os._exit(3),
    3: lambda: os.execv("/bin/true", ["true"]),
    4: lambda: os.kill(os.getpid(), signal.SIGKILL),
    5: lambda: os.kill(os.getpid(), signal.SIGTERM),
    6: lambda: ctypes.string_at(0),
}
"""ways in which a process dies"""


def dying(number: int) -> int:
    ENDINGS.get(number, lambda: None)()
    return number


def raising(number: int) -> int:
    """Raise what ends a program, though no signal has come."""
    if number < 3:
        raise (KeyboardInterrupt, GeneratorExit, SystemExit)[number]
    return number


def ended(number: int) -> int:
    """Return the number; 3 swallows whatever would stop it, and goes on."""
    end = time.monotonic() + 2.5
    while number == 3 and time.monotonic() < end:
        with suppress(BaseException):
            time.sleep(0.1)
    return number


def told(questions: TaskRunner, things: list[int]) -> dict[int, object]:
    found = list(questions.about(things))
    assert sorted(thing for thing, _ in found) == sorted(things)
    return dict(found)


def test_without_an_executor_answers_come_in_order():
    assert list(TaskRunner(doubled).about([3, 1, 2])) == [(3, 6), (1, 2), (2, 4)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_that_dies_in_any_way_is_an_answer(number):
    found = told(TaskRunner(dying, Processes(number)), list(range(8)))
    assert found[0] == 0
    assert found[7] == 7
    assert all(found[each].reason.startswith("the worker process died") for each in ENDINGS)


@pytest.mark.parametrize("executor", [lambda: None, lambda: Processes(2), lambda: ThreadPoolExecutor(2)])
def test_what_ends_a_program_is_an_answer_where_no_signal_came(executor):
    found = told(TaskRunner(raising, executor()), list(range(5)))
    assert [found[each].reason for each in range(3)] == ["KeyboardInterrupt", "GeneratorExit", "SystemExit"]
    assert (found[3], found[4]) == (3, 4)


def interrupting(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


def test_an_interruption_by_a_signal_ends_all_and_its_handler_stays():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(TaskRunner(interrupting).about([1, 2]))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gives_the_same_answers(pool):
    with pool(2) as executor:
        assert told(TaskRunner(doubled, executor), list(range(50))) == {each: 2 * each for each in range(50)}


def test_no_more_is_asked_at_a_time_than_was_said():
    taken: list[int] = []

    def numbers():
        for number in range(20):
            taken.append(number)
            yield number

    class Slow(Executor):
        def submit(self, function, /, *arguments):
            assert len(taken) - len(done) <= 3
            future: Future[int] = Future()
            future.set_result(function(*arguments))
            return future

    done: list[int] = []
    for thing, _ in TaskRunner(doubled, Slow(), at_once=3).about(numbers()):
        done.append(thing)
    assert len(done) == 20


@pytest.mark.parametrize("is_parallel", [False, True])
def test_what_takes_too_long_is_stopped_and_the_rest_goes_on(is_parallel):
    things = [1, 3, 2]
    if is_parallel:
        with ProcessPoolExecutor(1) as executor:
            found = told(TaskRunner(tenth, executor, limit=0.5), things)
    else:
        found = told(TaskRunner(tenth, limit=0.5), things)
    assert found == {1: 0.1, 2: 0.2, 3: Unanswered("timed out after 0.5 s")}


def test_what_swallows_the_alarm_is_stopped_at_the_next(monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.5)
    with ProcessPoolExecutor(1) as executor:
        questions = TaskRunner(ended, executor, limit=0.5)
        found = told(questions, [1, 3])
    assert found[1] == 1
    assert found[3] == Unanswered("timed out after 0.5 s")  # in a process of our own, which is ended
    assert questions.notes == ["no worker of the executor responded within 1 s; the executor was abandoned"]


def test_a_process_that_dies_takes_no_other_answer_with_it():
    with ProcessPoolExecutor(2) as executor:
        questions = TaskRunner(tenth, executor)
        found = told(questions, [1, 2, 4, 5, 6, 7, 8])
    assert found.pop(4) == Unanswered("the worker process died (exit status 7)")
    assert found == {each: each / 10 for each in (1, 2, 5, 6, 7, 8)}
    assert questions.notes == [
        "the executor died (BrokenProcessPool); its remaining tasks ran in other processes",
    ]


def test_an_executor_that_was_shut_down_is_done_without():
    executor = ProcessPoolExecutor(1)
    executor.shutdown()
    questions = TaskRunner(doubled, executor)
    assert told(questions, [1, 2]) == {1: 2, 2: 4}
    assert len(questions.notes) == 1


def test_workers_that_are_threads_keep_the_limit_and_go_on():
    with ThreadPoolExecutor(1) as executor:
        questions = TaskRunner(tenth, executor, limit=0.5)
        found = told(questions, [3, 1, 2])
    assert found == {1: 0.1, 2: 0.2, 3: Unanswered("timed out after 0.5 s")}
    assert questions.notes == []


def test_a_thread_keeps_the_limit_without_an_executor():
    found: dict[int, object] = {}
    thread = Thread(target=lambda: found.update(told(TaskRunner(tenth, limit=0.5), [3, 1])))
    thread.start()
    thread.join()
    assert found == {1: 0.1, 3: Unanswered("timed out after 0.5 s")}


class Silent(Executor):
    """Takes everything, and never answers after the first few."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def submit(self, function, /, *arguments):
        future: Future[object] = Future()
        if self.left > 0:
            future.set_result(function(*arguments))
        self.left -= 1
        return future


def test_workers_that_fall_silent_are_given_up(monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.2)
    questions = TaskRunner(doubled, Silent(2), limit=0.3)
    assert told(questions, list(range(6))) == {each: 2 * each for each in range(6)}
    assert questions.notes == ["no worker of the executor responded within 0.5 s; the executor was abandoned"]


def test_workers_have_longer_for_their_first_answer(monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.2)
    monkeypatch.setattr(workers, "START", 1.0)
    questions = TaskRunner(doubled, Silent(0), limit=0.3)
    assert told(questions, [1, 2]) == {1: 2, 2: 4}
    assert questions.notes == ["no worker of the executor responded within 1.5 s; the executor was abandoned"]


class Forgetful(Executor):
    """Does everything at once, except that what it is given first is lost, in one way or another."""

    def __init__(self, lost: Exception) -> None:
        self.lost: Exception | None = lost
        self.done: list[object] = []

    def submit(self, function, /, *arguments):
        future: Future[object] = Future()
        if self.lost is None:
            self.done += arguments
            future.set_result(function(*arguments))
        elif isinstance(self.lost, CancelledError):
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(self.lost)
        self.lost = None
        return future


KilledWorker = type("KilledWorker", (Exception,), {"__doc__": "Called like dask's."})


@pytest.mark.parametrize("lost", [CancelledError(), KilledWorker("worker 3")], ids=lambda error: type(error).__name__)
def test_what_an_executor_loses_is_asked_elsewhere_and_it_does_the_rest(lost):
    executor = Forgetful(lost)
    questions = TaskRunner(doubled, executor)
    assert told(questions, [1, 2, 3]) == {1: 2, 2: 4, 3: 6}
    assert executor.done == [2, 3]
    name = type(lost).__name__
    assert questions.notes == [f"the executor lost tasks ({name}); they ran in other processes"]


class Closed(Executor):
    """Refuses in its own way, as a closed client of dask's does."""

    def submit(self, function, /, *arguments):
        raise OSError("the client is closed")


def test_an_executor_that_refuses_in_its_own_way_is_done_without():
    questions = TaskRunner(doubled, Closed())
    assert told(questions, list(range(20))) == {each: 2 * each for each in range(20)}
    assert questions.notes == ["the executor died (OSError); its remaining tasks ran in other processes"]


class Particular(Executor):
    """Pickles what it is given before it takes it."""

    def submit(self, function, /, *arguments):
        try:
            pickle.dumps(arguments)
        except TypeError as error:
            raise TypeError("could not serialize") from error
        future: Future[object] = Future()
        future.set_result(function(*arguments))
        return future


def unlocked(thing: object) -> bool:
    return isinstance(thing, int)


def test_what_cannot_be_sent_is_named_and_the_rest_goes_on():
    things: list[object] = [Lock() for _ in range(20)]
    found = dict(TaskRunner(unlocked, Particular(), at_once=2).about([*things, 1]))
    assert found[1] is True
    reason = Unanswered("cannot be sent to a worker: TypeError: cannot pickle '_thread.lock' object")
    assert [found[each] for each in things] == 20 * [reason]


# {{{ how many workers there are


class Client:
    """As much of dask's as tells the threads of workers."""

    def __init__(self, *threads: int) -> None:
        self.threads = dict(enumerate(threads))

    def nthreads(self) -> dict[int, int]:
        return self.threads


class ClientExecutor(Executor):
    def __init__(self, client: Client) -> None:
        self._client = client


def test_executors_say_how_many_workers_they_have():
    assert number_of_workers(ThreadPoolExecutor(7)) == 7
    assert number_of_workers(ProcessPoolExecutor(3)) == 3
    assert number_of_workers(ClientExecutor(Client(4, 4, 2))) == 10
    assert number_of_workers(ClientExecutor(Client())) == 1
    assert number_of_workers(Silent(0)) == os.cpu_count()


def test_workers_that_come_are_counted_after_a_while(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    client = Client(2)
    counted = Workers(ClientExecutor(client))
    assert counted.number == 2
    client.threads = {0: 2, 1: 2}
    assert counted.number == 2
    now[0] = 11.0
    assert counted.number == 4
    client.nthreads = None  # it is dead
    now[0] = 22.0
    assert counted.number == 4


# }}}


def test_what_cannot_be_sent_to_a_process_is_named():
    with ProcessPoolExecutor(1) as executor:
        found = told(TaskRunner(lambda number: number, executor), [1])
    assert "pickle" in found[1].reason.lower()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_limit_that_is_no_time_is_refused(limit):
    with pytest.raises(ParameterError, match="time limit must be above 0"):
        TaskRunner(doubled, limit=limit)


def test_an_error_of_time_without_a_limit_is_the_workers_own():
    assert failed(TimeoutError("the lock"), None) == Unanswered("TimeoutError: the lock")


# {{{ the first time


# }}}
