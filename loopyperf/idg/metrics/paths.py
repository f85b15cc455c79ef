"""What each moment of a run hung on, kept as chains of causes: a critical path is one of them, read backwards.

A cause is an issue of an instruction, or the moment at which a part of the run that was repeated many times began.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Component = Hashable
"""what a moment is of: a result, a pipeline that becomes free, the order of the program, or the end"""
Waiting = Literal["completion", "issue", "order"]
"""what counts of the instruction that is waited for: Λ, λ, or nothing"""
Lengths = Counter[tuple[int, Waiting]]
"""(instruction, what counts of it) -> how often it does on a path"""


class Issue(NamedTuple):
    """An instruction issues as soon as something else allows it to."""

    place: int
    waiting: Waiting
    """what counts of the one before"""
    before: "Link"


@dataclass(frozen=True, slots=True)
class Start:
    """Something at the start of a part that is repeated."""

    component: Component


@dataclass(frozen=True, slots=True)
class Repetition:
    """Something at the end of a part that was repeated."""

    component: Component
    times: int
    ends: Mapping[Component, "Link"]
    """at the end of one repetition; the chains begin at its start"""
    before: Mapping[Component, "Link"]
    """at the start of the first repetition"""


Link = Issue | Start | Repetition | None
Position = tuple[Component, Waiting]


def path_lengths(last: Link, waiting: Waiting) -> Lengths:
    """Return what the longest path consists of that ends with waiting for *last*."""
    lengths: Lengths = Counter()
    _follow(last, waiting, 1, lengths)
    return Counter({key: number for key, number in lengths.items() if key[1] != "order"})


def _follow(link: Link, waiting: Waiting, times: int, lengths: Lengths) -> Position | None:
    """Add to *lengths* what leads to *link*; return at which start the chain begins, and what counts there."""
    while link is not None:
        match link:
            case Issue():
                lengths[link.place, waiting] += times
                link, waiting = link.before, link.waiting
            case Start():
                return link.component, waiting
            case Repetition():
                component, waiting = _follow_repeated(link, waiting, times, lengths)
                link = link.before[component]
    return None


def _follow_repeated(repetition: Repetition, waiting: Waiting, times: int, lengths: Lengths) -> Position:
    """Add to *lengths* what leads through all repetitions; return at what of the first one's start it begins."""
    here: Position = (repetition.component, waiting)
    taken: dict[Position, Lengths] = {}
    remaining = repetition.times
    while remaining and here not in taken:
        step: Lengths = Counter()
        start = _follow(repetition.ends[here[0]], here[1], 1, step)
        assert start is not None, "the chains of a repetition begin at its start"
        taken[here] = step
        here, remaining = start, remaining - 1
    for step in taken.values():
        _add(lengths, step, times)
    if remaining:
        here = _follow_cycle(list(taken), taken, here, remaining, times, lengths)
    return here


def _follow_cycle(
    order: list[Position],
    steps: Mapping[Position, Lengths],
    here: Position,
    remaining: int,
    times: int,
    lengths: Lengths,
) -> Position:
    """Add what *remaining* more repetitions add, from *here* round the cycle at the end of *order*."""
    cycle = order[order.index(here) :]
    for number, position in enumerate(cycle):
        _add(lengths, steps[position], times * ((remaining - number - 1) // len(cycle) + 1))
    return cycle[remaining % len(cycle)]


def _add(lengths: Lengths, step: Lengths, times: int) -> None:
    for key, number in step.items():
        lengths[key] += number * times
