"""What comes of one question: an answer, or why there is none."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pebble import ProcessExpired

from loopyperf.errors import LoopyperfError, one_line
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


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The seconds that a variant takes at least."""

    seconds: float
    sizes: Mapping[str, Any]
    """at which it takes that"""

    def __float__(self) -> float:
        return self.seconds


def within(
    seconds: float | None, ready: Callable[[], object] | None, ask: Callable[[Asked], Answer], thing: Asked
) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or that it takes longer than *seconds*, once a worker is *ready*."""
    if seconds is None:
        return ask(thing)
    if ready is not None:
        ready()
    try:
        return limited(seconds, partial(ask, thing))
    except TimeIsUp:
        return _too_late(seconds)


def refused(
    error: Exception,
    takes: Collection[str] | None = None,
    lacks: Collection[str] = (),
    *,
    is_final: bool = True,
) -> Unanswered:
    """Return *error*, which was raised of a variant, in words; what is not an error of ours has its name before it."""
    said = one_line(error)
    reason = said if isinstance(error, LoopyperfError) else f"{type(error).__name__}: {said}"
    return Unanswered(reason, is_final, None if takes is None else frozenset(takes), frozenset(lacks))


def failed(error: BaseException, seconds: float | None) -> Unanswered:
    """Return why a worker gave no answer; *seconds* are its time limit."""
    if isinstance(error, ProcessExpired):
        return Unanswered(f"the process that worked it out died (exit status {error.exitcode})")
    if isinstance(error, TimeoutError) and seconds is not None:
        return _too_late(seconds)
    return Unanswered(_in_words(error))


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
