"""Running tasks in parallel so that each gets a result or a reason, even if workers or the executor die.

Any :class:`concurrent.futures.Executor` works. If it dies, or if its workers do not respond for too long, its remaining
tasks run in processes of our own (Pebble), each of which may die or be stopped without affecting the others. The same
happens to tasks that a living executor loses; dask, for example, gives up a task whose workers died repeatedly.
Without an executor but with a time limit, tasks run in a separate process, since this process cannot interrupt C code.
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
"""extra seconds until the first result: workers import Loopy and loopyperf before they start"""
LOOK = 2.0
"""seconds between checks whether the executor is open"""
OF_DEAD_WORKERS = {"KilledWorker"}
"""names of errors that mean that a task's workers died repeatedly, for any reason (dask)"""


@dataclass
class TasksInFlight(Generic[Asked, Answer]):
    """Workers and the tasks that they run."""

    submit: "Callable[[Asked], Future[Answer | Unanswered]]"
    """submits a task"""
    at_once: Callable[[], int]
    """returns the largest number of tasks in flight"""
    limit: float | None
    """time limit of a task in seconds, which the workers enforce"""
    patience: float | None
    """seconds without any result after which the workers are abandoned; None: never"""
    is_closed: Callable[[], bool] = lambda: False
    """returns whether the executor was closed; then some tasks may never finish"""
    is_alive: bool = True
    """whether the workers accept tasks"""
    lost: list[Asked] = field(default_factory=list[Asked])
    """submitted tasks that will never finish"""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """notes on failures of the workers"""

    def __post_init__(self) -> None:
        """Start without tasks."""
        self._waiting: dict[Future[Answer | Unanswered], Asked] = {}
        self._late = START

    def about(self, things: Iterator[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Run the tasks *things*; yield each with its result, until all are done or the workers are gone."""
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
        """Submit as many tasks as the workers accept; yield those that cannot be sent."""
        while self.is_alive and len(self._waiting) < self.at_once():
            thing = next(things, None)
            if thing is None:
                return
            try:
                self._waiting[self.submit(thing)] = thing
            except (PicklingError, TypeError, AttributeError) as error:
                yield thing, unsent(error)
            except Exception as error:  # broken, closed and shut-down executors raise various errors
                self._died(error)
                self.lost.append(thing)

    def _answers(self) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield the next results."""
        for future in self._done():
            self._late = 0.0
            thing = self._waiting.pop(future)
            try:
                answer = future.result()
            except Exception as error:  # pickle, executors and workers raise various errors
                if self._is_lost(error):
                    self.lost.append(thing)
                    continue
                answer = failed(error, self.limit)
            yield thing, answer

    def _done(self) -> set[Future[Answer | Unanswered]]:
        """Return the futures that are done; empty once the workers are abandoned."""
        patience = inf if self.patience is None else self.patience + self._late
        waited = 0.0
        while waited < patience:
            done, _ = wait(self._waiting, timeout=min(LOOK, patience - waited), return_when=FIRST_COMPLETED)
            if done:
                return done
            waited += LOOK
            if self.is_closed():
                self.notes["the executor was closed; its remaining tasks ran in other processes"] = None
                self.is_alive = False
                return set()
        self.notes[f"no worker of the executor responded within {patience:g} s; the executor was abandoned"] = None
        self.is_alive = False
        return set()

    def _is_lost(self, error: BaseException) -> bool:
        if isinstance(error, BrokenExecutor):
            self._died(error)
            return True
        if isinstance(error, CancelledError) or type(error).__name__ in OF_DEAD_WORKERS:
            name = type(error).__name__
            self.notes[f"the executor lost tasks ({name}); they ran in other processes"] = None
            return True
        return False

    def _died(self, error: BaseException) -> None:
        name = type(error).__name__
        self.notes[f"the executor died ({name}); its remaining tasks ran in other processes"] = None
        self.is_alive = False


RECOUNTED = 10.0
"""seconds between counts of the workers, since those of a cluster come and go"""


def number_of_workers(executor: Executor) -> int:
    """Return the number of parallel tasks of *executor*, at least 1; if unknown, the number of local processors.

    It is known for executors of the standard library and those modeled on them (loky, mpi4py), and for dask, where
    threads count.
    """
    client: Any = executor
    if hasattr(client, "_client"):  # distributed.cfexecutor.ClientExecutor
        return max(1, sum(client._client.nthreads().values()))
    for name in ("_max_workers", "num_workers"):
        number = getattr(client, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return os.cpu_count() or 1


@dataclass
class Workers:
    """The workers of an executor, counted from time to time."""

    executor: Executor

    def __post_init__(self) -> None:
        """Start without a count."""
        self._number = 1
        self._counted = float("-inf")

    @property
    def number(self) -> int:
        """Return the number of workers, as of the last successful count."""
        if time.monotonic() > self._counted + RECOUNTED:
            with suppress(Exception):  # a dead executor raises its error when a task is submitted
                self._number = number_of_workers(self.executor)
            self._counted = time.monotonic()
        return self._number

    def is_closed(self) -> bool:
        """Return whether the executor reports that it was closed, as dask does; its tasks may then never finish."""
        client: Any = self.executor
        return getattr(getattr(client, "_client", None), "status", "") in ("closing", "closed")


GRACE = 5.0
"""seconds beyond the time limit after which a worker that does not stop is abandoned"""
AHEAD = 4
"""tasks in flight per worker of an executor"""


@dataclass
class TaskRunner(Generic[Asked, Answer]):
    """Applies a function to many tasks in parallel."""

    ask: Callable[[Asked], Answer]
    """function to apply in the workers; it, its argument and its result are pickled"""
    executor: Executor | Processes | None = None
    """runs the tasks; None: serially in this process or, with a time limit, in a process that can be killed"""
    limit: float | None = None
    """time limit for each task, in seconds"""
    at_once: int | None = None
    """tasks in flight; None: :data:`AHEAD` for each worker"""
    notes: list[str] = field(default_factory=list[str])
    """notes on failures of the executor"""

    def __post_init__(self) -> None:
        """Raise an error for an invalid time limit or executor."""
        check_time_limit(self.limit)
        check_executor(self.executor)

    def about(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of the tasks *things* with its result, in order of completion.

        *things* is consumed lazily, a few tasks ahead. The next task may depend on earlier results; while it waits for
        one that is in flight, *things* must yield None.
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
        """Yield results from our own processes if they are *wanted* or there is a time limit, else from this process.

        A task that cannot be pickled runs in this process, where only Python code can be interrupted at the limit.
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
            # If a worker dies between two tasks, the whole pool is lost. A task that is lost twice is given up.
            yield from ((thing, given_up()) for thing in pending.lost if any(thing is each for each in again))
            again = [thing for thing in pending.lost if not any(thing is each for each in again)]
            if pending.is_alive and not again:
                return
            left = chain(again, left)
