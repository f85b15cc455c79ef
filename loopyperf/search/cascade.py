"""Cheap bounds first: a model is asked about no more variants than it takes to know the fastest ones.

Every variant has a bound, which it takes at least; at first it is not known. The one with the least is asked next: for
its next bound, or, where it has told them all, for its time. Once as many times are known as are wanted, and none is
above the least bound that is left, nothing that is left can be faster. This holds as far as bounds are bounds of the
model's times; what contradicts that is said. A variant that nobody can build, or run, is asked about no further.

How sure a ranking is: which variants tie, and which few hold the fastest one.

With Tᵢ the predicted time of variant i and hᵢ half the width of its interval, in ln of times, its true time is taken
to be tᵢ = Tᵢ·exp(hᵢ·uᵢ). The u are independent, and distributed as kernels of a class that was left out of the fit were
off from the mean of their class, over half the width of their intervals: what a model gets wrong of all variants alike
does not change their order. Where the fit does not say that, they are normal, and h what the interval says.
"""

import heapq
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, hypot, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Uncertainty, quantile
from loopyperf.errors import ParameterError
from loopyperf.models.result import DEVIATIONS, LEVEL, Estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.search.task import LOOKED_AT, Sizes, Task, Unanswered
from loopyperf.search.variants import Variant, check_share
from loopyperf.units import number_of

ROUNDING = 1e-9
"""by which a time may be below its bound, relative"""


@dataclass(frozen=True, slots=True)
class Beaten:
    """A variant that others beat, whatever the model would say of it."""

    name: str
    """of the variant"""
    at_least: float
    """seconds that it takes"""
    bound: str
    """the model that says so"""


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a variant takes at least, as far as is known."""

    seconds: float = -inf
    model: str = ""
    """that says so, the best of those that were asked"""


def order_of_asking(number: int) -> list[int]:
    """Return the places of so many variants in the order in which they are asked: first some from all over the list."""
    first = [number * place // LOOKED_AT for place in range(LOOKED_AT)] if number > LOOKED_AT else []
    return [*first, *sorted(set(range(number)) - set(first))]


@dataclass
class Cascade:
    """What is known of variants, and what is asked next."""

    predictors: Sequence[Predictor]
    """of bounds, the cheapest first, and then of the model"""
    variants: Sequence[Variant]
    sizes: Sizes
    typical: Mapping[str, Any] | None
    top: int | None
    """how many of the fastest are wanted; None for all"""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """variant -> why there is no estimate"""
    estimates: dict[str, Estimate] = field(default_factory=dict[str, Estimate])
    """by name, in the order in which they came"""

    def __post_init__(self) -> None:
        """Start with nothing known of any variant."""
        self._turns = order_of_asking(len(self.variants))
        self._left = [(-inf, 0, turn) for turn in range(len(self.variants))]
        self._bounds = dict.fromkeys((each.name for each in self.variants), _Bound())
        self._places = {each.name: place for place, each in enumerate(self.variants)}
        self._turn = {self.variants[place].name: turn for turn, place in enumerate(self._turns)}
        self._waiting = 0
        self._times: list[float] = []
        self._contradicted: dict[str, str] = {}

    def tasks(self) -> Iterator[Task | None]:
        """Yield what is asked next; None where that depends on answers that have not come."""
        while self._left or self._waiting:
            if not self._left or self._is_settled():
                if not self._waiting:
                    return
                yield None
                continue
            _, stage, turn = heapq.heappop(self._left)
            self._waiting += 1
            yield Task(self.predictors[stage], self.variants[self._turns[turn]], self.sizes, self.typical, stage)

    def _is_settled(self) -> bool:
        enough = self.top is not None and len(self._times) >= self.top
        return enough and self._times[self._last] <= self._left[0][0]

    @property
    def _last(self) -> int:
        return (self.top or 1) - 1

    def take(self, task: Task, answer: Estimate | Unanswered) -> None:
        """Record an *answer*. A variant whose bound is unknown goes on to the next predictor all the same."""
        self._waiting -= 1
        name = task.variant.name
        is_last = task.stage == len(self.predictors) - 1
        if isinstance(answer, Unanswered) and (is_last or answer.is_final):
            self.failures[name] = answer.reason
        elif is_last:
            assert isinstance(answer, Estimate)
            self._take(name, answer)
        else:
            if not isinstance(answer, Unanswered):
                told = _Bound(float(answer), task.predictor.model)
                self._bounds[name] = max(self._bounds[name], told, key=lambda each: each.seconds)
            heapq.heappush(self._left, (self._bounds[name].seconds, task.stage + 1, self._turn[name]))

    def _take(self, name: str, answer: Estimate) -> None:
        seconds = float(answer)
        self.estimates[name] = answer
        if not answer.place[0]:  # no variant is slower than one that takes some seconds at least
            insort(self._times, seconds)
        bound = self._bounds[name]
        if seconds < bound.seconds * (1 - ROUNDING):
            self._contradicted[name] = bound.model

    @property
    def fastest(self) -> dict[str, Estimate]:
        """Return the fastest variants by name, as many as are wanted; in the order given where times are equal.

        Those whose times lack something, or are below 0, stand behind all others.
        """
        order = sorted(self.estimates, key=lambda name: (self.estimates[name].place, self._places[name]))
        return {name: self.estimates[name] for name in order[: self.top]}

    @property
    def beaten(self) -> tuple[Beaten, ...]:
        """Return the variants that are not among these, those with the least bounds first, but times below 0 last."""
        slower = sorted(
            self.estimates.keys() - self.fastest.keys(), key=lambda name: float(self.estimates[name].seconds)
        )
        model = self.predictors[-1].model
        known = [Beaten(name, float(self.estimates[name].seconds), model) for name in slower]
        names = [self.variants[self._turns[turn]].name for _, _, turn in self._left]
        open_ = [Beaten(name, self._bounds[name].seconds, self._bounds[name].model) for name in names]
        return tuple(sorted((*known, *open_), key=lambda each: (each.at_least < 0, each.at_least)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is wrong with the bounds, in sentences."""
        found: list[str] = []
        for bound in dict.fromkeys(self._contradicted.values()):
            number = sum(each == bound for each in self._contradicted.values())
            found.append(
                f"{bound!r} is not a bound of {self.predictors[-1].model!r}, which says less for "
                f"{number_of(number, 'variant')}, and may for some that were left out"
            )
        return tuple(found)


DRAWS = 2000
"""of the true times of all candidates"""
MOST_DRAWN = 20_000_000
"""numbers that are drawn for a shortlist, at most: of many candidates there are fewer draws"""
COMPARED = 1000
"""errors that are compared with each other, at most"""
SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShortlistCandidate:
    """A variant that may be the fastest."""

    name: str
    seconds: float
    """predicted; of one that is not ranked, those that it takes at least"""
    spread: float | None
    """half the width of its interval, in ln of times; None where none is stated"""
    is_ranked: bool = True


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The fewest variants that hold one that is fast enough."""

    names: tuple[str, ...]
    """fastest first"""
    regret: float
    """by how much the fastest of them may be slower than the fastest of all, relative"""
    probability: float
    """with which it is not slower than that, as far as the model's errors are known"""

    def __len__(self) -> int:
        return len(self.names)


def errors_of(known: Uncertainty | None) -> tuple[float, ...]:
    """Return how far kernels of a class were off from its mean, over half the width of an interval; () if unknown."""
    if known is None or not known.deviations:
        return ()
    half = quantile(known.scores, LEVEL)
    return tuple(each / half for each in known.deviations) if 0 < half < float("inf") else ()


def tied(ranked: Sequence[ShortlistCandidate], errors: Sequence[float]) -> tuple[tuple[str, ...], ...]:
    """Return the names of *ranked* in groups: those that cannot be told from the first one of their group.

    *errors* are those of :func:`errors_of`. Candidates whose spread is not known tie where their times are equal.
    """
    apart = _apart(errors)
    groups: list[list[str]] = []
    first: ShortlistCandidate | None = None
    for each in ranked:
        if first is None or not _is_within(first, each, apart):
            first = each
            groups.append([])
        groups[-1].append(each.name)
    return tuple(map(tuple, groups))


def _is_within(one: ShortlistCandidate, other: ShortlistCandidate, apart: float) -> bool:
    if one.spread is None or other.spread is None:
        return one.seconds == other.seconds
    return log(other.seconds / one.seconds) <= apart * hypot(one.spread, other.spread) / sqrt(2)


def _apart(errors: Sequence[float]) -> float:
    """Return by how much the errors of two kernels differ at most, with the probability of intervals."""
    if len(errors) < 2:
        return sqrt(2)
    some = np.array(errors)[:: -(-len(errors) // COMPARED)]
    place = np.triu_indices(len(some), 1)
    return float(np.quantile(np.abs(np.subtract.outer(some, some))[place], LEVEL))


def shortlisted(
    candidates: Sequence[ShortlistCandidate], errors: Sequence[float], regret: float, probability: float
) -> Shortlist:
    """Return the shortlist of *candidates*; see :meth:`loopyperf.search.rank.Ranking.shortlist`."""
    check_share(regret, probability)
    if not any(each.is_ranked for each in candidates):
        raise ParameterError("no variant has an estimate, so there is nothing to put on a shortlist: see failures")
    if any(each.spread is None for each in candidates):
        raise ParameterError(
            "the model states no intervals, so it is not known how sure the order is: rank with a fit that has them"
        )
    needed = np.sort(_needed(candidates, errors, regret))
    place = ceil(probability * len(needed)) - 1
    number = int(needed[place])
    chosen = candidates[:number]
    if not all(each.is_ranked for each in chosen):
        ranked = sum(each.is_ranked for each in candidates)
        raise ParameterError(
            f"it takes {number} variants to hold the fastest with a probability of {probability:g}, and {ranked} are "
            "ranked: rank with a larger top"
        )
    return Shortlist(tuple(each.name for each in chosen), regret, float(np.mean(needed <= number)))


def _needed(candidates: Sequence[ShortlistCandidate], errors: Sequence[float], regret: float) -> NDArray[np.int64]:
    """Return how many of *candidates*, the first ones, it took in each draw to hold one that is fast enough."""
    times = np.array([each.seconds for each in candidates])
    spreads = np.array([each.spread for each in candidates], dtype=np.float64)
    draws = max(1, min(DRAWS, MOST_DRAWN // len(times)))
    rng = np.random.default_rng(SEED)
    found = np.empty(draws, dtype=np.int64)
    for draw in range(draws):
        true = np.log(times) + spreads * _drawn(errors, len(times), rng)
        fast_enough = true <= true.min() + np.log1p(regret)
        found[draw] = int(np.argmax(fast_enough)) + 1
    return found


def _drawn(errors: Sequence[float], number: int, rng: np.random.Generator) -> Floats:
    if len(errors) < 2:
        return rng.standard_normal(number) / DEVIATIONS
    return rng.choice(np.array(errors), number)
