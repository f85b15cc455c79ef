"""Asking the same of many things side by side: each gets an answer, whatever happens to who works it out.

Any :class:`concurrent.futures.Executor` will do. Where it dies, or where none of its workers answers for too long, what
it has left is asked in processes of our own, each of which may die or be stopped without the others (Pebble). So is
what it loses while it lives on: dask gives a task up whose workers have died one after the other.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Generic

from pebble import ProcessPool

from loopyperf.errors import ParameterError
from loopyperf.oracle.ranking.answer import Answer, Asked, Unanswered, within
from loopyperf.oracle.ranking.asking import Asking
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
    executor: Executor | None = None
    """whose workers do it; None for this process, one after the other"""
    limit: float | None = None
    """seconds for each"""
    ready: Callable[[], object] | None = None
    """what a worker does before its time begins; it costs nothing once it was done"""
    at_once: int | None = None
    """questions that the executor has at a time; None for :data:`AHEAD` for each worker"""
    notes: list[str] = field(default_factory=list[str])
    """what went wrong with the executor, in sentences"""

    def __post_init__(self) -> None:
        """Refuse a time limit that is none."""
        if self.limit is not None and not self.limit > 0:
            raise ParameterError(f"a time limit is a number of seconds above 0, received {self.limit!r}")

    def about(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of *things* with its answer, in the order in which answers come.

        *things* are taken as there is somebody to ask, a few ahead. What comes next may depend on answers before:
        where it waits for one of those that are being worked out, None comes instead.
        """
        if self.executor is None:
            yield from ((thing, self._limited(thing)) for thing in things if thing is not None)
            return
        left = iter(things)
        workers = Workers(self.executor)
        asking = Asking(
            partial(self.executor.submit, self._limited),
            at_once=lambda: self.at_once or AHEAD * workers.number,
            limit=self.limit,
            patience=self._end,
        )
        while asking.is_alive:
            asking.lost = []
            yield from asking.about(left)
            self.notes = list(asking.notes)
            if not asking.lost:
                return
            yield from self._in_processes(asking.lost if asking.is_alive else chain(asking.lost, left))

    @property
    def _end(self) -> float | None:
        return None if self.limit is None else self.limit + GRACE

    @property
    def _limited(self) -> Callable[[Asked], Answer | Unanswered]:
        return partial(within, self.limit, self.ready, self.ask)

    def _in_processes(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        workers = os.cpu_count() or 1
        if self.ready is not None:
            self.ready()  # and so are processes that are forked off
        with ProcessPool(max_workers=workers) as processes:
            submit = partial(_schedule, processes, self._limited, self._end)
            asking = Asking(submit, lambda: AHEAD * workers, self.limit, patience=None)
            yield from asking.about(iter(things))


def _schedule(
    processes: ProcessPool, ask: Callable[[Asked], Answer], seconds: float | None, thing: Asked
) -> "Future[Answer]":
    return processes.schedule(ask, args=(thing,), timeout=seconds)
