"""Processes of our own: one that hangs is killed, one that dies is replaced, and the others go on (Pebble).

None outlives the process that started it, however that one ends.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from pebble import ProcessPool

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


LOOK = 1.0
"""seconds after which a worker asks whether its parent is still there, where the system does not tell it"""
PARENT_DEATH_SIGNAL = 1
"""the option of Linux's prctl(2)"""
WELL = 256
"""the exit status of a worker that says that all is well; no process has it"""


@dataclass(frozen=True, slots=True)
class Processes:
    """So many processes of our own, in place of an executor: none of them is left when a question has its answer."""

    number: int


def may_be_started() -> bool:
    """Return whether this process may have children: daemons, such as dask's workers under a nanny, may not."""
    return not multiprocessing.current_process().daemon


def are_forked() -> bool:
    """Return whether processes begin as copies of this one, so that a script needs no ``if __name__``, as on Linux."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return method == "fork"


class Worker(multiprocessing.Process):
    """A process that has died whenever it has ended: Pebble waits for ever for one whose exit status is 0."""

    @property
    def exitcode(self) -> int | None:
        """Return the exit status; :data:`WELL` in place of 0."""
        status = super().exitcode
        return WELL if status == 0 else status


class _Context:
    """What Pebble starts processes by: all that :mod:`multiprocessing` has, but processes are workers."""

    Process = Worker

    def __getattr__(self, name: str) -> Any:
        return getattr(multiprocessing, name)


def process_pool(number: int) -> ProcessPool:
    """Return a pool of so many workers, each of which ends with this process."""
    context: Any = _Context()
    return ProcessPool(max_workers=number, initializer=end_with_parent, context=context)


def end_with_parent() -> None:
    """Have this process killed once its parent has ended, though it computes in C where no Python code runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def scheduled(
    processes: ProcessPool, ask: Callable[[Asked], Answer], seconds: float | None, thing: Asked
) -> "Future[Answer]":
    """Have *processes* ask; who takes longer than *seconds* is killed. Raises where *thing* cannot be pickled."""
    pickle.dumps((ask, thing))  # Pebble finds that out later, and does not tell it from errors of the worker's
    return processes.schedule(ask, args=(thing,), timeout=seconds)
