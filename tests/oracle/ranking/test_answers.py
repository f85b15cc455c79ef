"""Whatever happens to who works out an answer, every question gets one."""

import os
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread

import pytest

from loopyperf.errors import ParameterError
from loopyperf.oracle.ranking import answers
from loopyperf.oracle.ranking.answers import Questions, Unanswered


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


def ended(number: int) -> int:
    """Return the number; 3 swallows whatever would stop it, and goes on."""
    end = time.monotonic() + 2.5
    while number == 3 and time.monotonic() < end:
        with suppress(BaseException):
            time.sleep(0.1)
    return number


def told(questions: Questions, things: list[int]) -> dict[int, object]:
    found = list(questions.about(things))
    assert sorted(thing for thing, _ in found) == sorted(things)
    return dict(found)


def test_without_an_executor_answers_come_in_order():
    assert list(Questions(doubled).about([3, 1, 2])) == [(3, 6), (1, 2), (2, 4)]


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gives_the_same_answers(pool):
    with pool(2) as executor:
        assert told(Questions(doubled, executor), list(range(50))) == {each: 2 * each for each in range(50)}


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
    for thing, _ in Questions(doubled, Slow(), at_once=3).about(numbers()):
        done.append(thing)
    assert len(done) == 20


@pytest.mark.parametrize("is_parallel", [False, True])
def test_what_takes_too_long_is_stopped_and_the_rest_goes_on(is_parallel):
    things = [1, 3, 2]
    if is_parallel:
        with ProcessPoolExecutor(1) as executor:
            found = told(Questions(tenth, executor, limit=0.5), things)
    else:
        found = told(Questions(tenth, limit=0.5), things)
    assert found == {1: 0.1, 2: 0.2, 3: Unanswered("no answer within 0.5 s")}


def test_what_swallows_the_alarm_is_stopped_at_the_next(monkeypatch):
    monkeypatch.setattr(answers, "GRACE", 0.5)
    with ProcessPoolExecutor(1) as executor:
        questions = Questions(ended, executor, limit=0.5)
        found = told(questions, [1, 3])
    assert found[1] == 1
    assert found[3] == Unanswered("no answer within 0.5 s")  # in a process of our own, which is ended
    assert questions.notes == ["no worker of the executor answered within 1 s: it is given up"]


def test_a_process_that_dies_takes_no_other_answer_with_it():
    with ProcessPoolExecutor(2) as executor:
        questions = Questions(tenth, executor)
        found = told(questions, [1, 2, 4, 5, 6, 7, 8])
    assert found.pop(4) == Unanswered("the process that worked it out died (exit status 7)")
    assert found == {each: each / 10 for each in (1, 2, 5, 6, 7, 8)}
    assert questions.notes == [
        "the executor died (BrokenProcessPool): what it had left was asked in other processes",
    ]


def test_an_executor_that_was_shut_down_is_done_without():
    executor = ProcessPoolExecutor(1)
    executor.shutdown()
    questions = Questions(doubled, executor)
    assert told(questions, [1, 2]) == {1: 2, 2: 4}
    assert len(questions.notes) == 1


def test_workers_that_are_threads_are_given_up_where_they_hang(monkeypatch):
    monkeypatch.setattr(answers, "GRACE", 0.2)
    executor = HangingThreads()
    found = told(Questions(tenth, executor, limit=0.3), [1, 3, 2])
    assert found == {1: 0.1, 2: 0.2, 3: Unanswered("no answer within 0.3 s")}


class HangingThreads(Executor):
    """Threads that nobody waits for at the end, as those of the standard library do."""

    def submit(self, function, /, *arguments):
        future: Future[object] = Future()
        Thread(target=lambda: future.set_result(function(*arguments)), daemon=True).start()
        return future


def test_what_cannot_be_sent_to_a_process_is_named():
    with ProcessPoolExecutor(1) as executor:
        found = told(Questions(lambda number: number, executor), [1])
    assert "pickle" in found[1].reason.lower()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_limit_that_is_no_time_is_refused(limit):
    with pytest.raises(ParameterError, match="seconds above 0"):
        Questions(doubled, limit=limit)


def test_a_limit_that_nobody_can_keep_is_refused():
    caught: list[ParameterError] = []

    def elsewhere() -> None:
        try:
            Questions(doubled, limit=1.0)
        except ParameterError as error:
            caught.append(error)

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "executor" in str(caught[0])
