"""What comes of one question: an answer, or why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pebble import ProcessExpired

from loopyperf.oracle.ranking.time_limit import TimeIsUp, limited

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there is no answer to a question."""

    reason: str


def within(
    seconds: float | None, ready: Callable[[], object] | None, ask: Callable[[Asked], Answer], thing: Asked
) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or that it takes longer than *seconds*, once a worker is *ready*."""
    if seconds is not None and ready is not None:
        ready()
    try:
        return limited(seconds, partial(ask, thing))
    except TimeIsUp:
        return Unanswered(f"no answer within {seconds:g} s")


def failed(error: BaseException, seconds: float | None) -> Unanswered:
    """Return why a worker gave no answer; *seconds* are its time limit."""
    if isinstance(error, ProcessExpired):
        return Unanswered(f"the process that worked it out died (exit status {error.exitcode})")
    if isinstance(error, TimeoutError):
        return Unanswered(f"no answer within {seconds:g} s")
    return Unanswered(_in_words(error))


def unsent(error: BaseException) -> Unanswered:
    """Return why a question did not reach a worker: what cannot be pickled, not how many layers found that out."""
    while error.__cause__ is not None:
        error = error.__cause__
    return Unanswered(f"it cannot be sent to a worker: {_in_words(error)}")


def _in_words(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
