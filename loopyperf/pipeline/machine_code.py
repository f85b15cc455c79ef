"""The hot loop as machine code, by numba.

A short run never pays for it: numba takes half a second to load, so the loop runs in Python first and goes over to
machine code where it is. The machine code is kept in numba's cache, under a name that changes with the source.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from loopyperf.pipeline import expressions, heaps, in_order, warp_steps

FUNCTIONS = (
    heaps.is_before,
    heaps.first_in,
    heaps.rise,
    heaps.sink,
    heaps.push,
    heaps.remove,
    expressions.applied,
    expressions.evaluate,
    warp_steps.value,
    warp_steps.has_passes,
    warp_steps.remember,
    warp_steps.completion_of,
    warp_steps.wait_for_results,
    warp_steps.to_next,
    in_order.stamped,
    in_order.record,
    in_order.advance,
    in_order.settle,
    in_order.begin_group,
    in_order.issue,
    in_order.line_up,
    in_order.first_in_rank,
    in_order.longest_waiting,
    in_order.chosen,
    in_order.next_issue,
    in_order.vacancy,
    in_order.issue_in_order,
)
"""each after those that it calls"""

Loop = Callable[[Any, int], int]


@cache
def machine_code() -> Loop:
    """Return :func:`loopyperf.pipeline.in_order.issue_in_order` for an array, as machine code."""
    njit: Any = import_module("numba").njit
    digest = _digest()
    found: Any = None
    compiled: dict[str, Any] = {}
    for function in FUNCTIONS:
        names = {**function.__globals__, **compiled}
        copy = FunctionType(cast("FunctionType", function).__code__, names, f"{function.__name__}_{digest}")
        copy.__qualname__, copy.__module__ = copy.__name__, function.__module__
        found = compiled[function.__name__] = njit(copy, cache=True)
    return found


def is_loaded() -> bool:
    """Return whether there is machine code already, so that asking for it takes no time."""
    return machine_code.cache_info().currsize > 0


def _digest() -> str:
    """Return what changes with the source of the functions: numba's cache looks at the file of each alone."""
    files = sorted({function.__code__.co_filename for function in FUNCTIONS})
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:12]
