"""What comes of one question: an answer, or why there is none."""

import signal
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from pebble import ProcessExpired

from loopyperf.errors import LoopyperfError, one_line
from loopyperf.oracle.ranking.own_processes import WELL
from loopyperf.oracle.time_limit import TimeIsUp, limited

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there is no answer to a question."""

    reason: str
    is_final: bool = True
    """whether nobody else is to be asked the same; not where it is the model that has no answer"""
    takes: frozenset[str] | None = None
    """names of the sizes given that the variant takes; None where it was not built"""
    lacks: frozenset[str] = frozenset()
    """names of the sizes that it needs, and that were not given"""
    was_sent: bool = field(default=True, compare=False)
    """whether it reached a worker"""


def within(seconds: float | None, ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or that it takes longer than *seconds*."""
    if seconds is None:
        return _answered(ask, thing)
    try:
        return limited(seconds, partial(_answered, ask, thing))
    except TimeIsUp:
        return _too_late(seconds)


def _answered(ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or what it raised: code of the user's may raise anything, Ctrl-C's error too.

    Only where a signal came is it one that ends all.
    """
    with _signals() as came:
        try:
            return ask(thing)
        except TimeIsUp:
            raise
        except BaseException as error:
            if came:
                raise
            return refused(error)


@contextmanager
def _signals() -> Generator[list[int]]:
    """Yield the numbers of the signals that have come meanwhile, of those that end a process."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # signals come to the main thread
        return
    before: dict[int, Any] = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def hear(number: int, frame: FrameType | None) -> None:
        came.append(number)
        before[number](number, frame)

    heard = {number: handler for number, handler in before.items() if callable(handler)}
    for number in heard:
        signal.signal(number, hear)
    try:
        yield came
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def refused(
    error: BaseException,
    takes: Collection[str] | None = None,
    lacks: Collection[str] = (),
    *,
    is_final: bool = True,
) -> Unanswered:
    """Return *error*, which was raised of a variant, in words; what is not an error of ours has its name before it."""
    reason = one_line(error) if isinstance(error, LoopyperfError) else _in_words(error)
    return Unanswered(reason, is_final, None if takes is None else frozenset(takes), frozenset(lacks))


def failed(error: BaseException, seconds: float | None) -> Unanswered:
    """Return why a worker gave no answer; *seconds* are its time limit."""
    if isinstance(error, ProcessExpired):
        status = 0 if error.exitcode == WELL else error.exitcode
        return Unanswered(f"the process that worked it out died (exit status {status})")
    if isinstance(error, TimeoutError) and seconds is not None:
        return _too_late(seconds)
    return Unanswered(_in_words(error))


def given_up() -> Unanswered:
    """Return that processes died again and again that had a question."""
    return Unanswered("processes that had it died, one after the other")


def unsent(error: BaseException) -> Unanswered:
    """Return why a question did not reach a worker: what cannot be pickled, not how many layers found that out."""
    while error.__cause__ is not None:
        error = error.__cause__
    return Unanswered(f"it cannot be sent to a worker: {_in_words(error)}", was_sent=False)


def _too_late(seconds: float) -> Unanswered:
    return Unanswered(f"no answer within {seconds:g} s")


def _in_words(error: BaseException) -> str:
    said = one_line(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
