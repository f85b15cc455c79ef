"""Asking the same of many things side by side: each gets an answer, whatever happens to who works it out.

Any :class:`concurrent.futures.Executor` will do. Where it dies, or where none of its workers answers for too long, what
it has left is asked in processes of our own, each of which may die or be stopped without the others (Pebble).
"""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from pebble import ProcessExpired, ProcessPool

from loopyperf.errors import ParameterError

GRACE = 5.0
"""seconds beyond the limit until a worker that does not stop itself is given up"""
AT_ONCE = 4 * (os.cpu_count() or 1)
"""questions that an executor has at a time"""

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class TimeIsUp(BaseException):
    """The time limit of a question is over. It is no error, which somebody in between might catch and go on."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there is no answer to a question."""

    reason: str


@dataclass
class Questions(Generic[Asked, Answer]):
    """The same question about many things."""

    ask: Callable[[Asked], Answer]
    """is called in the workers: it and what it takes and returns are pickled"""
    executor: Executor | None = None
    """whose workers do it; None for this process, one after the other"""
    limit: float | None = None
    """seconds for each"""
    at_once: int = AT_ONCE
    notes: list[str] = field(default_factory=list[str])
    """what went wrong with the executor, in sentences"""

    def __post_init__(self) -> None:
        """Refuse a time limit that nobody can keep."""
        if self.limit is not None and not self.limit > 0:
            raise ParameterError(f"a time limit is a number of seconds above 0, received {self.limit!r}")
        if self.limit is not None and self.executor is None and not _can_interrupt():
            raise ParameterError("a time limit without an executor needs the main thread: give executor=...")

    def about(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of *things* with its answer, in the order in which answers come.

        *things* are taken as there is somebody to ask, a few ahead. What comes next may depend on answers before:
        where it waits for one of those that are being worked out, None comes instead.
        """
        if self.executor is None:
            yield from ((thing, self._here(thing)) for thing in things if thing is not None)
            return
        left: Iterator[Asked | None] = iter(things)
        lost: list[Asked] = []
        ask = partial(within, self.limit, self.ask)
        yield from self._by(partial(self.executor.submit, ask), left, lost, self._patience)
        if lost:
            left = chain(lost, left)
            with ProcessPool(max_workers=os.cpu_count() or 1) as processes:
                schedule = partial(_schedule, processes, ask, self._patience)
                yield from self._by(schedule, left, [], None)

    @property
    def _patience(self) -> float | None:
        return None if self.limit is None else self.limit + GRACE

    def _here(self, thing: Asked) -> Answer | Unanswered:
        return within(self.limit, self.ask, thing)

    def _by(
        self,
        submit: "Callable[[Asked], Future[Answer | Unanswered]]",
        things: Iterator[Asked | None],
        lost: list[Asked],
        patience: float | None,
    ) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield what those say whom *submit* gives a question; what they lose is added to *lost*."""
        waiting: dict[Future[Answer | Unanswered], Asked] = {}
        while not lost:
            for thing in islice(things, self.at_once - len(waiting)):
                if thing is None:
                    break
                try:
                    waiting[submit(thing)] = thing
                except RuntimeError as error:  # broken executors, and those that are shut down
                    self._note(error)
                    lost.append(thing)
                    break
            if not waiting:
                return
            done, _ = wait(waiting, timeout=patience, return_when=FIRST_COMPLETED)
            if not done:
                self.notes.append(f"no worker of the executor answered within {patience:g} s: it is given up")
                break
            for future in done:
                thing = waiting.pop(future)
                try:
                    yield thing, future.result()
                except (BrokenExecutor, CancelledError) as error:
                    self._note(error)
                    lost.append(thing)
                except Exception as error:  # pickle, an executor, and a worker that dies have errors of their own
                    yield thing, Unanswered(_in_words(error, self.limit))
        for future in waiting:
            future.cancel()
        lost += waiting.values()

    def _note(self, error: BaseException) -> None:
        sentence = f"the executor died ({type(error).__name__}): what it had left was asked in other processes"
        if sentence not in self.notes:
            self.notes.append(sentence)


def within(seconds: float | None, ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or that it takes longer than *seconds*.

    The limit is kept in the main thread of a process, where Python can interrupt it; elsewhere there is none.
    """
    if seconds is None or not _can_interrupt():
        return ask(thing)
    try:
        with _alarm(seconds):
            return ask(thing)
    except TimeIsUp:
        return Unanswered(f"no answer within {seconds:g} s")


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Raise :class:`TimeIsUp` after *seconds*, and again each second: somebody in between may swallow it."""

    def stop(*_: Any) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _can_interrupt() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


def _schedule(
    processes: ProcessPool, ask: Callable[[Asked], Answer], seconds: float | None, thing: Asked
) -> "Future[Answer]":
    return processes.schedule(ask, args=(thing,), timeout=seconds)


def _in_words(error: Exception, seconds: float | None) -> str:
    if isinstance(error, ProcessExpired):
        return f"the process that worked it out died (exit status {error.exitcode})"
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
