"""Worker processes, time limits, and validation of executors and limits.

Worker processes come from Pebble: a worker that exceeds its time limit is killed, one that dies is replaced, and the
others continue.

A time limit interrupts a call in the main thread with an alarm signal. Elsewhere, as in dask's workers, signals do not
arrive. The call then runs in a daemon thread, which is abandoned when its time is over: it ends by itself or with its
process.
"""

import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
from pebble import ProcessPool

from loopyperf.errors import ParameterError

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Processes:
    """Number of worker processes to start, in place of an executor; they end when the results are complete."""

    number: int


def may_be_started() -> bool:
    """Return whether this process may have children; daemons, such as dask's workers under a nanny, may not."""
    return not multiprocessing.current_process().daemon


def are_forked() -> bool:
    """Return whether new processes are forked, as on Linux, so that a script needs no ``if __name__`` guard."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return method == "fork"


def scheduled(
    processes: ProcessPool, ask: Callable[[Task], Answer], seconds: float | None, task: Task
) -> "Future[Answer]":
    """Schedule ``ask(task)`` on *processes*, with a time limit of *seconds* after which the worker is killed.

    Raises the error of :mod:`pickle` if *ask* or *task* cannot be pickled.
    """
    pickle.dumps((ask, task))  # Pebble pickles later, and reports failures as errors of the worker
    return processes.schedule(ask, args=(task,), timeout=seconds)


OVERDUE_DELAY = 1e-3
"""seconds until the caller's alarm if it became due during the call"""
ALARM_INTERVAL = 1.0
"""seconds between interrupts, repeated because the interrupted code may catch one"""

Result = TypeVar("Result")


class TimeIsUp(BaseException):
    """The time limit of a call is over; a BaseException, so that ``except Exception`` does not catch it."""


def limited(seconds: float | None, call: Callable[[], Result]) -> Result:
    """Return the result of *call*; raises :class:`TimeIsUp` if it takes longer than *seconds*."""
    if seconds is None:
        return call()
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        with _alarm(seconds):
            return call()
    return _in_daemon_thread(seconds, call)


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Raise :class:`TimeIsUp` after *seconds*. An alarm of the caller that becomes due meanwhile is delayed."""

    def stop(*_: Any) -> None:
        raise TimeIsUp

    before, started = signal.signal(signal.SIGALRM, stop), monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (monotonic() - started), OVERDUE_DELAY), interval)


def _in_daemon_thread(seconds: float, call: Callable[[], Result]) -> Result:
    outcome: Future[Result] = Future()
    context = copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(call))
        except BaseException as error:  # passed on to the caller, whatever it is
            outcome.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome.done():
        return outcome.result()
    raise TimeIsUp


MAX_TIME_LIMIT = 1e7
"""maximum time limit in seconds (four months), so that clocks and threads do not overflow"""


def check_executor(executor: object) -> None:
    """Raise :class:`ParameterError` if *executor* lacks the interface of :mod:`concurrent.futures`."""
    if executor is None or isinstance(executor, Processes):
        return
    if callable(getattr(executor, "get_executor", None)):  # a dask client has submit() too, but returns other futures
        raise ParameterError(
            f"executor must be a concurrent.futures executor, got {executor!r:.80}; pass its get_executor()"
        )
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ParameterError(
            "executor must be a concurrent.futures executor, such as ProcessPoolExecutor(4), or have its interface; "
            f"got {executor!r:.80}"
        )


def check_time_limit(seconds: object) -> None:
    """Raise :class:`ParameterError` if *seconds* is neither None nor a valid time limit."""
    limit = None if seconds is None else as_number(seconds)
    if seconds is not None and (limit is None or not 0 < limit <= MAX_TIME_LIMIT):
        advice = "; omit it for no limit" if limit is not None and limit > MAX_TIME_LIMIT else ""
        raise ParameterError(
            f"the time limit must be above 0 and at most {MAX_TIME_LIMIT:,.0f} seconds, got {seconds!r:.80}{advice}"
        )


def as_number(value: object) -> float | None:
    """Return *value* as a float; None if it is not a number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(cast("float", value))
    return None


def is_number(value: object) -> TypeGuard[int]:
    """Return whether *value* is an integer >= 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
