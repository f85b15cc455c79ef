"""Processes, time limits and executors: where tasks run, for how long, and checks of what callers give.

Processes of our own: one that hangs is killed, one that dies is replaced, and the others go on (Pebble).

None outlives the process that started it, however that one ends.

A call that may take so many seconds.

In the main thread of a process, the alarm clock interrupts it. Elsewhere, as in dask's workers, no signal arrives. The
call is then made in a thread of its own, which is left behind once its time is over, and interrupted as soon as it runs
Python code. What waits or computes in C is not; only the end of its process ends that.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
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

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


LOOK = 1.0
"""seconds after which a worker asks whether its parent is still there, where the system does not tell it"""
PARENT_DEATH_SIGNAL = 1
"""the option of Linux's prctl(2)"""
WELL = 256
"""the exit status of a worker that says that all is well; no process has it"""


@dataclass(frozen=True, slots=True)
class Processes:
    """So many processes of our own, in place of an executor: none of them is left when a question has its answer."""

    number: int


def may_be_started() -> bool:
    """Return whether this process may have children: daemons, such as dask's workers under a nanny, may not."""
    return not multiprocessing.current_process().daemon


def are_forked() -> bool:
    """Return whether processes begin as copies of this one, so that a script needs no ``if __name__``, as on Linux."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return method == "fork"


class Worker(multiprocessing.Process):
    """A process that has died whenever it has ended: Pebble waits for ever for one whose exit status is 0."""

    @property
    def exitcode(self) -> int | None:
        """Return the exit status; :data:`WELL` in place of 0."""
        status = super().exitcode
        return WELL if status == 0 else status


class _Context:
    """What Pebble starts processes by: all that :mod:`multiprocessing` has, but processes are workers."""

    Process = Worker

    def __getattr__(self, name: str) -> Any:
        return getattr(multiprocessing, name)


def process_pool(number: int) -> ProcessPool:
    """Return a pool of so many workers, each of which ends with this process."""
    context: Any = _Context()
    return ProcessPool(max_workers=number, initializer=end_with_parent, context=context)


def end_with_parent() -> None:
    """Have this process killed once its parent has ended, though it computes in C where no Python code runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def scheduled(
    processes: ProcessPool, ask: Callable[[Asked], Answer], seconds: float | None, thing: Asked
) -> "Future[Answer]":
    """Have *processes* ask; who takes longer than *seconds* is killed. Raises where *thing* cannot be pickled."""
    pickle.dumps((ask, thing))  # Pebble finds that out later, and does not tell it from errors of the worker's
    return processes.schedule(ask, args=(thing,), timeout=seconds)


SOON = 1e-3
"""seconds until a caller's alarm that was due meanwhile"""
AGAIN = 1.0
"""seconds after which what goes on all the same is interrupted again: somebody in between may have caught that"""

Result = TypeVar("Result")


class TimeIsUp(BaseException):
    """The time limit of a call is over. It is not an Exception, which code in between might catch and go on."""


def limited(seconds: float | None, call: Callable[[], Result]) -> Result:
    """Return what *call* returns; raises :class:`TimeIsUp` where that takes longer than *seconds*."""
    if seconds is None:
        return call()
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        with _alarm(seconds):
            return call()
    return _in_a_thread(seconds, call)


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Raise :class:`TimeIsUp` after *seconds*. An alarm that the caller has set is put off until then, if it is due."""

    def stop(*_: Any) -> None:
        raise TimeIsUp

    before, started = signal.signal(signal.SIGALRM, stop), monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (monotonic() - started), SOON), interval)


def _in_a_thread(seconds: float, call: Callable[[], Result]) -> Result:
    outcome: Future[Result] = Future()
    context = copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(call))
        except BaseException as error:  # it is the caller's, whatever it is
            outcome.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome.done():
        return outcome.result()
    threading.Thread(target=_stop, args=(thread,), daemon=True).start()
    raise TimeIsUp


def _stop(thread: threading.Thread) -> None:
    """Interrupt *thread* until it ends."""
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeIsUp))
        thread.join(AGAIN)


LONGEST = 1e7
"""seconds that a time limit is at most, which is four months: clocks and threads take no more than so many"""


def check_executor(executor: object) -> None:
    """Raise :class:`ParameterError` if *executor* is not a :mod:`concurrent.futures` executor, or one like it."""
    if executor is None or isinstance(executor, Processes):
        return
    if callable(getattr(executor, "get_executor", None)):  # dask's clients have both, and futures of their own
        raise ParameterError(
            f"an executor is needed, received {executor!r:.80}; give its get_executor(), which is one of "
            "concurrent.futures"
        )
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ParameterError(
            f"an executor is one of concurrent.futures, such as ProcessPoolExecutor(4), or one with its interface; "
            f"received {executor!r:.80}"
        )


def check_time_limit(seconds: object) -> None:
    """Raise :class:`ParameterError` if *seconds* is neither None nor a time limit."""
    limit = None if seconds is None else as_number(seconds)
    if seconds is not None and (limit is None or not 0 < limit <= LONGEST):
        advice = "; leave it out for no limit" if limit is not None and limit > LONGEST else ""
        raise ParameterError(
            f"a time limit is a number of seconds above 0, up to {LONGEST:,.0f}, received {seconds!r:.80}{advice}"
        )


def as_number(value: object) -> float | None:
    """Return *value* as a number; None if it is not a number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(cast("float", value))
    return None


def is_number(value: object) -> TypeGuard[int]:
    """Return whether *value* is a number of things, 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
