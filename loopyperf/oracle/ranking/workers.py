"""How many workers an executor has: the interface of :mod:`concurrent.futures` does not say it, executors do."""

import os
import time
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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
