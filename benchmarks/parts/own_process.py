"""Run a function in a child process, so that a crash, a hang or a broken device context does not affect the parent.

The function can send messages to the parent while it runs. The child is forked and so shares all loaded modules. The
parent must not have opened a device, because neither CUDA nor PoCL works after a fork.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from loopyperf.errors import LoopyperfError

Send = Callable[[object], None]
"""called by the function to send a message, which must be picklable"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: its *result*, or a *problem* in one line."""

    result: Any = None
    problem: str | None = None
    trace: str = ""
    """traceback of an exception that is not a :class:`LoopyperfError`"""
    is_late: bool = False
    """whether the process was killed at its deadline, and not because it had sent no message for too long"""


def run_in_process(
    function: Callable[[Send], object], receive: Callable[[Any], None], timeout: float, end: float
) -> Outcome:
    """Call *function* in a child process, call *receive* with each message, and return the outcome.

    The process is killed if it sends no message for *timeout* seconds, and at *end*, a time of the monotonic clock.
    """
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(function, sender), daemon=True)
    process.start()
    sender.close()
    try:
        return _wait(receiver, receive, timeout, end) or Outcome(problem=f"process ended with {_status(process)}")
    finally:
        process.kill()
        process.join()


def _wait(receiver: Connection, receive: Callable[[Any], None], timeout: float, end: float) -> Outcome | None:
    """Return the outcome, or None if the process ended without sending it."""
    while True:
        left = max(0.0, end - time.monotonic())
        if not receiver.poll(min(timeout, left)):
            return Outcome(
                problem=f"no progress for {min(timeout, left):.0f} s; process killed", is_late=left < timeout
            )
        try:
            message = receiver.recv()
        except EOFError:
            return None
        if isinstance(message, Outcome):
            return message
        receive(message)


def _run(function: Callable[[Send], object], sender: Connection) -> None:
    try:
        sender.send(Outcome(function(sender.send)))
    except LoopyperfError as error:
        sender.send(Outcome(problem=_line(error)))
    except Exception as error:
        sender.send(Outcome(problem=_line(f"{type(error).__name__}: {error}"), trace=traceback.format_exc()))


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _status(process: Any) -> str:
    process.join()
    return f"status {process.exitcode}" if process.exitcode >= 0 else f"signal {-process.exitcode}"
