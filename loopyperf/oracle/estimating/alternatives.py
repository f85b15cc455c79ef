"""The other times of a kernel, where it is unsure which of its private arrays the compiler keeps in registers.

A second analysis costs as much as the first one without the source graphs, and is made where something is unsure only.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loopyperf.errors import LoopyperfError
from loopyperf.models.exact_sum import Seconds
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.models.result import Alternative, ModelTime
from loopyperf.units import listed

Time = Callable[[TimedKernel], ModelTime]
Interval = tuple[Seconds, Seconds]
NAMED = 3
"""arrays that a sentence names, at most"""


def with_alternatives(kernel: TimedKernel, time: Time, *, are_asked: bool = True) -> ModelTime:
    """Return what *time* says of *kernel*, with the times that it takes if unsure private arrays live elsewhere.

    Where it is unsure of several, all of them are taken to be in registers, or in private memory. The interval, where
    there is one, is from the lowest to the highest end of all. What has no answer for the other place is in the notes.
    Where the other times are not asked for, it is only said of which arrays it is unsure.
    """
    answer = time(kernel)
    found: list[Alternative] = []
    spreads = [answer.interval]
    notes: list[str] = []
    for other in kernel.alternatives if are_asked else ():
        arrays = moved(kernel, other)
        assumption = f"{in_words(arrays)} in {other.placement}"
        try:
            otherwise = time(other)
        except LoopyperfError as error:
            notes.append(f"no time if {assumption}: {error}")
            continue
        reasons = dict.fromkeys(kernel.unsure[name].reason for name in arrays)
        found.append(Alternative(otherwise.seconds, arrays, assumption, "; ".join(reasons)))
        spreads.append(otherwise.interval)
    return replace(
        answer,
        interval=_from_lowest_to_highest(spreads),
        notes=(*answer.notes, *notes),
        unsure=tuple(kernel.unsure),
        alternatives=tuple(found),
    )


def moved(kernel: TimedKernel, other: TimedKernel) -> tuple[str, ...]:
    """Return the private arrays that live in one place in *kernel*, and in another one in *other*."""
    return tuple(
        name
        for name, array in kernel.unsure.items()
        if array.is_in_memory_by(kernel.placement) != array.is_in_memory_by(other.placement)
    )


def in_words(arrays: Sequence[str]) -> str:
    """Return the subject of a sentence on *arrays*, with its verb."""
    if len(arrays) == 1:
        return f"the private array {arrays[0]} is"
    return f"the private arrays {listed(arrays, NAMED)} are"


def _from_lowest_to_highest(spreads: Sequence[Interval | None]) -> Interval | None:
    known = [each for each in spreads if each is not None]
    if len(known) < len(spreads):
        return None
    return min((low for low, _ in known), key=float), max((high for _, high in known), key=float)


def together(answers: Sequence[ModelTime], shape: tuple[int, ...]) -> tuple[Alternative, ...]:
    """Return the alternatives of *answers* at several sizes as those of one batch of a *shape*.

    At a size without an alternative, its time is that of the answer.
    """
    every = [{each.assumption: each for each in answer.alternatives} for answer in answers]
    found: list[Alternative] = []
    for assumption in dict.fromkeys(name for of_size in every for name in of_size):
        times = [
            of_size[assumption].seconds if assumption in of_size else answer.seconds
            for of_size, answer in zip(every, answers, strict=True)
        ]
        told = [of_size[assumption] for of_size in every if assumption in of_size]
        reasons = "; ".join(dict.fromkeys(each.reason for each in told))
        seconds = np.array(times, dtype=np.float64).reshape(shape)
        found.append(Alternative(seconds, told[0].arrays, assumption, reasons))
    return tuple(found)
