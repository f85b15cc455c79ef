"""The hot loop as machine code, by numba.

A process with few and short runs never pays for it: numba takes half a second to load, so the loop runs in Python until
that has taken as long. The machine code is kept in numba's cache, under a name that changes with the source.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from loopyperf.pipeline import expressions, in_order, queues, warp_steps

FUNCTIONS = (
    queues.is_before,
    queues.first_in,
    queues.is_empty,
    queues.push,
    queues.remove,
    expressions.applied,
    expressions.evaluate,
    warp_steps.value,
    warp_steps.has_passes,
    warp_steps.remember,
    warp_steps.latest,
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
    """Return :func:`loopyperf.pipeline.in_order.issue_in_order` for an array, as machine code.

    It is given the bare pointer: with an array each access would ask whether it counts from the end, and each call
    would count a reference.
    """
    numba: Any = import_module("numba")
    digest = _digest()
    compiled: dict[str, Any] = {}
    for function in FUNCTIONS[:-1]:
        compiled[function.__name__] = numba.njit(_copy(function, compiled, digest), cache=True)
    entry = numba.cfunc("int64(CPointer(int64), int64)", cache=True)(_copy(FUNCTIONS[-1], compiled, digest)).ctypes
    return lambda memory, limit: entry(memory.ctypes.data_as(entry.argtypes[0]), limit)


def _copy(function: Callable[..., Any], compiled: Mapping[str, Any], digest: str) -> FunctionType:
    """Return *function* under a name of its own, which calls what is *compiled*."""
    names = {**function.__globals__, **compiled}
    copy = FunctionType(cast("FunctionType", function).__code__, names, f"{function.__name__}_{digest}")
    copy.__qualname__, copy.__module__ = copy.__name__, function.__module__
    return copy


@dataclass
class InPython:
    """The issues that a process makes in Python."""

    most: int = 20_000
    """before it loads machine code: they take about as long as that"""
    made: int = 0

    @property
    def left(self) -> int:
        """How many are still to be made in Python, 0 where machine code is there already."""
        is_loaded = machine_code.cache_info().currsize > 0
        return 0 if is_loaded else max(self.most - self.made, 0)


in_python = InPython()
"""of this process, in all its runs"""


def _digest() -> str:
    """Return what changes with the source of the functions: numba's cache looks at the file of each alone."""
    files = sorted({function.__code__.co_filename for function in FUNCTIONS})
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:12]
