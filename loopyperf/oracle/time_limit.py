"""A call that may take so many seconds.

In the main thread of a process, the alarm clock interrupts it. Elsewhere, as in dask's workers, no signal arrives. The
call is then made in a thread of its own, which is left behind once its time is over, and interrupted as soon as it runs
Python code. What waits or computes in C is not; only the end of its process ends that.
"""

import ctypes
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from time import monotonic
from typing import Any, TypeVar

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
