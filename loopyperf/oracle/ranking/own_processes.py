"""Processes of our own: one that hangs is killed, one that dies is replaced, and the others go on (Pebble)."""

import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from pebble import ProcessPool

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


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


def scheduled(
    processes: ProcessPool, ask: Callable[[Asked], Answer], seconds: float | None, thing: Asked
) -> "Future[Answer]":
    """Have *processes* ask; who takes longer than *seconds* is killed. Raises where *thing* cannot be pickled."""
    pickle.dumps((ask, thing))  # Pebble finds that out later, and does not tell it from errors of the worker's
    return processes.schedule(ask, args=(thing,), timeout=seconds)
