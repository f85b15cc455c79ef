"""Questions that are with workers: what comes back, and what never will."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from math import inf
from pickle import PicklingError
from typing import Generic

from loopyperf.oracle.ranking.outcome import Answer, Asked, Unanswered, failed, unsent

START = 60.0
"""seconds more until the first answer: workers load Loopy, and us, before they begin"""
LOOK = 2.0
"""seconds after which it is asked whether the executor is still open"""
OF_DEAD_WORKERS = {"KilledWorker"}
"""errors that say that those who worked on it died one after the other, whatever killed them: dask's"""


@dataclass
class Pending(Generic[Asked, Answer]):
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
