"""Asking the same of many things side by side: each gets an answer, whatever happens to who works it out.

Any :class:`concurrent.futures.Executor` will do. Where it dies, or where none of its workers answers for too long, what
it has left is asked in processes of our own, each of which may die or be stopped without the others (Pebble). So is
what it loses while it lives on: dask gives a task up whose workers have died one after the other. Without an executor,
but with a limit, all is asked in a process of our own, since nothing in this one stops what computes in C.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import inf
from pickle import PicklingError
from typing import Any, Generic

from loopyperf.executors import (
    Processes,
    are_forked,
    check_executor,
    check_time_limit,
    may_be_started,
    process_pool,
    scheduled,
)
from loopyperf.search.task import Answer, Asked, Unanswered, failed, given_up, unsent, within

START = 60.0
"""seconds more until the first answer: workers load Loopy, and us, before they begin"""
LOOK = 2.0
"""seconds after which it is asked whether the executor is still open"""
OF_DEAD_WORKERS = {"KilledWorker"}
"""errors that say that those who worked on it died one after the other, whatever killed them: dask's"""


@dataclass
class TasksInFlight(Generic[Asked, Answer]):
    """Workers, and the questions that they have."""

    submit: "Callable[[Asked], Future[Answer | Unanswered]]"
    """gives them one"""
    at_once: Callable[[], int]
    """tells how many they have at a time"""
    limit: float | None
    """seconds for each, which the workers keep"""
    patience: float | None
    """seconds without an answer of anyone until they are given up; None where they are waited for"""
    is_closed: Callable[[], bool] = lambda: False
    """tells whether somebody has closed their executor: then questions may be left without any answer"""
    is_alive: bool = True
    """whether they can be asked again"""
    lost: list[Asked] = field(default_factory=list[Asked])
    """what they were asked, and never will answer"""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """what went wrong with them, in sentences"""

    def __post_init__(self) -> None:
        """Begin with nothing asked."""
        self._waiting: dict[Future[Answer | Unanswered], Asked] = {}
        self._late = START

    def about(self, things: Iterator[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of *things* with its answer, until there are none, or nobody is left to be asked."""
        try:
            while self.is_alive:
                yield from self._ask(things)
                if not self._waiting:
                    return
                yield from self._answers()
        finally:
            for future in self._waiting:
                future.cancel()
            self.lost += self._waiting.values()
            self._waiting = {}

    def _ask(self, things: Iterator[Asked | None]) -> Iterator[tuple[Asked, Unanswered]]:
        """Ask as much as they can have; yield what does not reach them."""
        while self.is_alive and len(self._waiting) < self.at_once():
            thing = next(things, None)
            if thing is None:
                return
            try:
                self._waiting[self.submit(thing)] = thing
            except (PicklingError, TypeError, AttributeError) as error:
                yield thing, unsent(error)
            except Exception as error:  # executors that are broken, closed or shut down have errors of their own
                self._died(error)
                self.lost.append(thing)

    def _answers(self) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield the next answers."""
        for future in self._done():
            self._late = 0.0
            thing = self._waiting.pop(future)
            try:
                answer = future.result()
            except Exception as error:  # pickle, an executor and a worker have errors of their own
                if self._is_lost(error):
                    self.lost.append(thing)
                    continue
                answer = failed(error, self.limit)
            yield thing, answer

    def _done(self) -> set[Future[Answer | Unanswered]]:
        """Return what has an answer; nothing once nobody is waited for any more."""
        patience = inf if self.patience is None else self.patience + self._late
        waited = 0.0
        while waited < patience:
            done, _ = wait(self._waiting, timeout=min(LOOK, patience - waited), return_when=FIRST_COMPLETED)
            if done:
                return done
            waited += LOOK
            if self.is_closed():
                self.notes["the executor was closed: what it had left was asked in other processes"] = None
                self.is_alive = False
                return set()
        self.notes[f"no worker of the executor answered within {patience:g} s: it is given up"] = None
        self.is_alive = False
        return set()

    def _is_lost(self, error: BaseException) -> bool:
        if isinstance(error, BrokenExecutor):
            self._died(error)
            return True
        if isinstance(error, CancelledError) or type(error).__name__ in OF_DEAD_WORKERS:
            name = type(error).__name__
            self.notes[f"the executor lost some of its work ({name}): that was asked in other processes"] = None
            return True
        return False

    def _died(self, error: BaseException) -> None:
        name = type(error).__name__
        self.notes[f"the executor died ({name}): what it had left was asked in other processes"] = None
        self.is_alive = False


RECOUNTED = 10.0
"""seconds after which workers are counted again: those of a cluster come and go"""


def number_of_workers(executor: Executor) -> int:
    """Return how many things *executor* does at once, 1 or more; where it does not say, the number of processors here.

    Those of the standard library say it, and what is made after them (loky, mpi4py); dask's, of which threads count.
    """
    told: Any = executor
    if hasattr(told, "_client"):  # distributed.cfexecutor.ClientExecutor
        return max(1, sum(told._client.nthreads().values()))
    for name in ("_max_workers", "num_workers"):
        number = getattr(told, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return os.cpu_count() or 1


@dataclass
class Workers:
    """The workers of an executor, counted now and then."""

    executor: Executor

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self._number = 1
        self._counted = float("-inf")

    @property
    def number(self) -> int:
        """Return how many there are, or were when the executor said it last."""
        if time.monotonic() > self._counted + RECOUNTED:
            with suppress(Exception):  # one that is dead says so when it is asked to do something
                self._number = number_of_workers(self.executor)
            self._counted = time.monotonic()
        return self._number

    def is_closed(self) -> bool:
        """Return whether the executor says that it was closed, as that of dask does: it may never answer then."""
        told: Any = self.executor
        return getattr(getattr(told, "_client", None), "status", "") in ("closing", "closed")


GRACE = 5.0
"""seconds beyond the limit until a worker that does not stop itself is given up"""
AHEAD = 4
"""questions that an executor has at a time, for each of its workers"""


@dataclass
class TaskRunner(Generic[Asked, Answer]):
    """The same question about many things."""

    ask: Callable[[Asked], Answer]
    """is called in the workers: it and what it takes and returns are pickled"""
    executor: Executor | Processes | None = None
    """whose workers do it; None for one after the other: in this process, or with a limit in one that can be killed"""
    limit: float | None = None
    """seconds for each"""
    at_once: int | None = None
    """questions that the executor has at a time; None for :data:`AHEAD` for each worker"""
    notes: list[str] = field(default_factory=list[str])
    """what went wrong with the executor, in sentences"""

    def __post_init__(self) -> None:
        """Refuse an invalid time limit or executor."""
        check_time_limit(self.limit)
        check_executor(self.executor)

    def about(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of *things* with its answer, in the order in which answers come.

        *things* are taken as there is somebody to ask, a few ahead. What comes next may depend on answers before:
        where it waits for one of those that are being worked out, None comes instead.
        """
        if self.executor is None or isinstance(self.executor, Processes):
            yield from self._by_ourselves(self.executor, things)
            return
        left = iter(things)
        workers = Workers(self.executor)
        pending = TasksInFlight(
            partial(self.executor.submit, self._limited),
            at_once=lambda: self.at_once or AHEAD * workers.number,
            limit=self.limit,
            patience=self._end,
            is_closed=workers.is_closed,
        )
        while pending.is_alive:
            pending.lost = []
            yield from pending.about(left)
            self.notes = list(pending.notes)
            if not pending.lost:
                return
            yield from self._in_processes(pending.lost if pending.is_alive else chain(pending.lost, left))

    @property
    def _end(self) -> float | None:
        return None if self.limit is None else self.limit + GRACE

    @property
    def _limited(self) -> Callable[[Asked], Answer | Unanswered]:
        return partial(within, self.limit, self.ask)

    def _by_ourselves(
        self, wanted: Processes | None, things: Iterable[Asked | None]
    ) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield answers of processes of our own, if they are *wanted* or there is a limit to be kept; else of this one.

        What cannot be pickled is asked in this process, where a limit is kept as far as Python keeps it.
        """
        is_killed = wanted is not None or (self.limit is not None and are_forked())
        if not (is_killed and may_be_started()):
            yield from ((thing, self._limited(thing)) for thing in things if thing is not None)
            return
        for thing, answer in self._in_processes(things, 1 if wanted is None else wanted.number):
            is_ours = isinstance(answer, Unanswered) and not answer.was_sent
            yield thing, self._limited(thing) if is_ours else answer

    def _in_processes(
        self, things: Iterable[Asked | None], workers: int | None = None
    ) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        number = workers or os.cpu_count() or 1
        left, again = iter(things), list[Asked]()
        while True:
            with process_pool(number) as processes:
                submit = partial(scheduled, processes, self._limited, self._end)
                pending = TasksInFlight(submit, lambda: AHEAD * number, self.limit, patience=None)
                yield from pending.about(left)
            # A pool is lost with what it has where a worker dies between two questions. What is lost twice is given up.
            yield from ((thing, given_up()) for thing in pending.lost if any(thing is each for each in again))
            again = [thing for thing in pending.lost if not any(thing is each for each in again)]
            if pending.is_alive and not again:
                return
            left = chain(again, left)
