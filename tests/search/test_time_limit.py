"""A call over its time limit is interrupted, in any thread."""

import threading
import time
from contextlib import suppress
from contextvars import ContextVar

import pytest

from loopyperf.executors import TimeIsUp, limited

NAME = ContextVar("NAME", default="nobody")


def in_a_thread(call):
    """Return the result of *call*, or the exception that it raises, in a thread, where no signal arrives."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def spinning() -> None:
    """Run forever."""
    while True:
        time.sleep(0.01)


@pytest.mark.parametrize("seconds", [None, 10.0])
def test_call_within_the_limit_returns_its_result(seconds):
    assert limited(seconds, lambda: 5) == in_a_thread(lambda: limited(seconds, lambda: 5)) == 5


def test_errors_of_the_call_are_raised():
    with pytest.raises(ZeroDivisionError):
        limited(10.0, lambda: 1 // 0)
    assert isinstance(in_a_thread(lambda: limited(10.0, lambda: 1 // 0)), ZeroDivisionError)
    assert isinstance(in_a_thread(lambda: limited(10.0, lambda: exec("raise TimeoutError"))), TimeoutError)


def test_call_over_the_limit_is_interrupted():
    with pytest.raises(TimeIsUp):
        limited(0.2, spinning)
    assert isinstance(in_a_thread(lambda: limited(0.2, spinning)), TimeIsUp)


def test_thread_continues_while_a_call_that_sleeps_in_c_goes_on():
    start = time.monotonic()
    over = in_a_thread(lambda: limited(0.2, lambda: time.sleep(3)))
    assert isinstance(over, TimeIsUp)
    assert time.monotonic() - start < 2


def test_call_has_the_context_of_its_caller():
    NAME.set("somebody")

    def name_in_call() -> object:
        NAME.set("a worker")
        return limited(10.0, NAME.get)

    assert in_a_thread(name_in_call) == "a worker"


def test_nothing_is_interrupted_after_a_call_within_the_limit():
    def twice() -> int:
        with suppress(ZeroDivisionError):
            limited(0.3, lambda: 1 // 0)
        limited(0.3, lambda: None)
        end = time.monotonic() + 1.5
        iterations = 0
        while time.monotonic() < end:
            iterations += 1
        return iterations

    assert twice() > 0
    assert in_a_thread(twice) > 0
