"""A function in a process of its own, which may crash, hang or spoil the device for itself, and for nobody else.

What it tells on the way arrives as it is told. The process is a fork, so that it has everything loaded; whoever starts
it has no device open, since neither CUDA nor PoCL survives a fork.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from loopyperf.errors import LoopyperfError

Tell = Callable[[object], None]
"""what the function calls to tell something, which can be pickled"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: with *result*, or with a *problem* in one line."""

    result: Any = None
    problem: str | None = None
    trace: str = ""
    """of an error that is none of loopyperf's"""
    is_late: bool = False
    """whether it was ended since it was beyond its end, and not because it had told nothing for too long"""


def in_own_process(
    function: Callable[[Tell], object], hear: Callable[[Any], None], silence: float, end: float
) -> Ended:
    """Call *function* in a process of its own, and *hear* with what it tells; return how it ended.

    It is killed once it has told nothing for *silence* seconds, and at *end* by the monotonic clock.
    """
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_called, args=(function, sender), daemon=True)
    process.start()
    sender.close()
    try:
        return _heard(receiver, hear, silence, end) or Ended(problem=f"its process ended with {_status(process)}")
    finally:
        process.kill()
        process.join()


def _heard(receiver: Connection, hear: Callable[[Any], None], silence: float, end: float) -> Ended | None:
    """Return how the process ended, None if it did not say."""
    while True:
        left = max(0.0, end - time.monotonic())
        if not receiver.poll(min(silence, left)):
            return Ended(
                problem=f"it told nothing for {min(silence, left):.0f} s, and was ended", is_late=left < silence
            )
        try:
            told = receiver.recv()
        except EOFError:
            return None
        if isinstance(told, Ended):
            return told
        hear(told)


def _called(function: Callable[[Tell], object], sender: Connection) -> None:
    try:
        sender.send(Ended(function(sender.send)))
    except LoopyperfError as error:
        sender.send(Ended(problem=_line(error)))
    except Exception as error:
        sender.send(Ended(problem=_line(f"{type(error).__name__}: {error}"), trace=traceback.format_exc()))


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _status(process: Any) -> str:
    process.join()
    return f"status {process.exitcode}" if process.exitcode >= 0 else f"signal {-process.exitcode}"
