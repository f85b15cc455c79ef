"""Asking the same of many things side by side: each gets an answer, whatever happens to who works it out.

Any :class:`concurrent.futures.Executor` will do. Where it dies, or where none of its workers answers for too long, what
it has left is asked in processes of our own, each of which may die or be stopped without the others (Pebble). So is
what it loses while it lives on: dask gives a task up whose workers have died one after the other. Without an executor,
but with a limit, all is asked in a process of our own, since nothing in this one stops what computes in C.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Generic

from loopyperf.oracle.ranking.options import check_executor, check_time_limit
from loopyperf.oracle.ranking.outcome import Answer, Asked, Unanswered, given_up, within
from loopyperf.oracle.ranking.own_processes import Processes, are_forked, may_be_started, process_pool, scheduled
from loopyperf.oracle.ranking.pending import Pending
from loopyperf.oracle.ranking.workers import Workers

GRACE = 5.0
"""seconds beyond the limit until a worker that does not stop itself is given up"""
AHEAD = 4
"""questions that an executor has at a time, for each of its workers"""


@dataclass
class Questions(Generic[Asked, Answer]):
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
        pending = Pending(
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
                pending = Pending(submit, lambda: AHEAD * number, self.limit, patience=None)
                yield from pending.about(left)
            # A pool is lost with what it has where a worker dies between two questions. What is lost twice is given up.
            yield from ((thing, given_up()) for thing in pending.lost if any(thing is each for each in again))
            again = [thing for thing in pending.lost if not any(thing is each for each in again)]
            if pending.is_alive and not again:
                return
            left = chain(again, left)
