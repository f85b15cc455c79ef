"""Running tasks in parallel so that each gets a result or a reason, even if workers or the executor die.

Any :class:`concurrent.futures.Executor` works. If it dies, or if its workers do not respond for too long, its remaining
tasks run in processes of our own (Pebble), each of which may die or be stopped without affecting the others. Without an
executor but with a time limit, tasks run in a separate process, since this process cannot interrupt C code.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pickle import PicklingError
from typing import Any, Generic

from pebble import ProcessPool

from loopyperf.executors import Processes, are_forked, check_executor, check_time_limit, may_be_started, scheduled
from loopyperf.search.task import Answer, Asked, Unanswered, failed, unsent, within

FIRST_RESULT_SECONDS = 60.0
"""extra seconds until the first result: workers import Loopy and loopyperf before they start"""
GRACE_SECONDS = 5.0
"""seconds beyond the time limit after which a worker that does not stop is abandoned"""
TASKS_PER_WORKER = 4
"""tasks in flight per worker of an executor"""


def number_of_workers(executor: Executor) -> int:
    """Return the number of parallel tasks of *executor*, at least 1; if unknown, the number of local processors.

    It is known for executors of the standard library and those modeled on them (loky, mpi4py), and for dask, where
    threads count.
    """
    client: Any = executor
    if hasattr(client, "_client"):  # distributed.cfexecutor.ClientExecutor
        return max(1, sum(client._client.nthreads().values()))
    counts = (getattr(client, name, None) for name in ("_max_workers", "num_workers"))
    return next((count for count in counts if isinstance(count, int) and count > 0), os.cpu_count() or 1)


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
    """tasks in flight; None: :data:`TASKS_PER_WORKER` for each worker"""
    notes: list[str] = field(default_factory=list[str])
    """notes on failures of the executor"""

    def __post_init__(self) -> None:
        """Raise an error for an invalid time limit or executor."""
        check_time_limit(self.limit)
        check_executor(self.executor)
        self._limited = partial(within, self.limit, self.ask)
        self._patience = None if self.limit is None else self.limit + GRACE_SECONDS

    def about(self, things: Iterable[Asked | None]) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Yield each of the tasks *things* with its result, in order of completion.

        *things* is consumed lazily, a few tasks ahead. The next task may depend on earlier results; while it waits for
        one that is in flight, *things* must yield None. A task that cannot be pickled runs in this process if there is
        no executor; only Python code can then be interrupted at the time limit.
        """
        left, wanted = iter(things), self.executor
        if wanted is None or isinstance(wanted, Processes):
            is_killed = wanted is not None or (self.limit is not None and are_forked())
            if not (is_killed and may_be_started()):
                yield from ((thing, self._limited(thing)) for thing in left if thing is not None)
                return
            for thing, answer in self._in_processes(left, 1 if wanted is None else wanted.number):
                is_ours = isinstance(answer, Unanswered) and not answer.was_sent
                yield thing, self._limited(thing) if is_ours else answer
            return
        lost: list[Asked] = []
        at_once = self.at_once or TASKS_PER_WORKER * number_of_workers(wanted)
        yield from self._in_flight(partial(wanted.submit, self._limited), left, at_once, lost, self._patience)
        if self.notes:
            yield from self._in_processes(chain(lost, left), os.cpu_count() or 1)

    def _in_processes(self, things: Iterable[Asked | None], number: int) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        left, again = iter(things), list[Asked]()
        while True:
            lost: list[Asked] = []
            with ProcessPool(max_workers=number) as processes:
                submit = partial(scheduled, processes, self._limited, self._patience)
                yield from self._in_flight(submit, left, TASKS_PER_WORKER * number, lost)
            # If a worker dies between two tasks, the whole pool is lost. A task that is lost twice is given up.
            twice = [thing for thing in lost if any(thing is each for each in again)]
            yield from ((thing, Unanswered("its worker processes died repeatedly")) for thing in twice)
            if not lost:
                return
            again = [thing for thing in lost if not any(thing is each for each in twice)]
            left = chain(again, left)

    def _in_flight(
        self,
        submit: "Callable[[Asked], Future[Answer | Unanswered]]",
        things: Iterator[Asked | None],
        at_once: int,
        lost: list[Asked],
        patience: float | None = None,
    ) -> Iterator[tuple[Asked, Answer | Unanswered]]:
        """Run *at_once* of *things* at a time; yield each with its result, until all are done or the workers are gone.

        The workers are gone if they are broken, or if none responds within *patience* seconds. A note then says why,
        and the tasks that will never finish are added to *lost*.
        """
        waiting: dict[Future[Answer | Unanswered], Asked] = {}
        late, is_alive = FIRST_RESULT_SECONDS, True
        try:
            while is_alive:
                while len(waiting) < at_once and (thing := next(things, None)) is not None:
                    try:
                        waiting[submit(thing)] = thing
                    except (PicklingError, TypeError, AttributeError) as error:
                        yield thing, unsent(error)
                    except Exception as error:  # broken, closed and shut-down executors raise various errors
                        lost.append(thing)
                        self._note_death(error)
                        return
                if not waiting:
                    return
                longest = None if patience is None else patience + late
                done, _ = wait(waiting, timeout=longest, return_when=FIRST_COMPLETED)
                if not done:
                    note = f"no worker of the executor responded within {longest:g} s; the executor was abandoned"
                    self.notes.append(note)
                    return
                late = 0.0
                for future in done:
                    thing = waiting.pop(future)
                    try:
                        answer = future.result()
                    except (BrokenExecutor, CancelledError) as error:
                        lost.append(thing)
                        is_alive = False
                        self._note_death(error)
                        continue
                    except Exception as error:  # pickle, executors and workers raise various errors
                        answer = failed(error, self.limit)
                    yield thing, answer
        finally:
            for future in waiting:
                future.cancel()
            lost.extend(waiting.values())

    def _note_death(self, error: BaseException) -> None:
        note = f"the executor died ({type(error).__name__}); its remaining tasks ran in other processes"
        if note not in self.notes:
            self.notes.append(note)
