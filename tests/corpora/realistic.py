"""Sizes at which a recorded kernel has a realistic amount of work."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from loopy.kernel.array import ArrayBase
from loopy.symbolic import get_dependencies
from pymbolic import evaluate

from loopyperf.kernel import Kernel

from .admissible import admissible_sizes, admits, points

MOST_POINTS = 10**8
"""limit of the number of points in the loops of all instructions"""
DOUBLED = range(22, -1, -1)
"""numbers of doublings of the sizes, in the order in which they are tried"""
LARGE = 16
"""the smallest recorded number that counts as a problem size and is increased; smaller ones are dimensions or orders"""


def realistic_sizes(kernel: Kernel, recorded: Mapping[str, Any]) -> Mapping[str, int]:
    """Return sizes for *kernel*: those of the *recorded* call, increased together as far as the loops allow."""
    known = dict(_recorded_sizes(kernel, recorded))
    first = next(admissible_sizes(kernel), dict.fromkeys(kernel.parameters, 1))
    start = {name: known.get(name, first.get(name, 1)) for name in kernel.parameters}
    if not admits(kernel, start):
        start = {name: first.get(name, 1) for name in kernel.parameters}
    growing = {name for name, size in start.items() if size >= LARGE or name not in known}
    grown = [{name: size << (times if name in growing else 0) for name, size in start.items()} for times in DOUBLED]
    return next((sizes for sizes in grown if admits(kernel, sizes) and points(kernel, sizes) <= MOST_POINTS), grown[-1])


def _lengths(array: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", array.shape if isinstance(array.shape, tuple) else ())


def _recorded_sizes(kernel: Kernel, recorded: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the parameters that were passed, and those that follow from the length of one axis of a passed array."""
    for name in kernel.parameters & recorded.keys():
        if isinstance(recorded[name], int):
            yield name, recorded[name]
    arguments: list[Any] = list(kernel.loopy_kernel.args)
    for array in arguments:
        shape = recorded.get(array.name)
        if isinstance(array, ArrayBase) and isinstance(shape, tuple):
            for length, actual in zip(_lengths(array), cast("Sequence[int]", shape), strict=False):
                names = frozenset[str]() if length is None else get_dependencies(length)
                if len(names) == 1 and names <= kernel.parameters:
                    (name,) = names
                    at: list[Any] = [evaluate(cast("Any", length), {name: value}) for value in (0, 1)]
                    if at[1] != at[0] and (actual - at[0]) % (at[1] - at[0]) == 0:
                        yield name, (actual - at[0]) // (at[1] - at[0])
