"""The cascade of lower bounds, which finds the fastest variants with few model runs; and the confidence of a ranking.

Cascade: every variant has a lower bound of its time, initially −∞. The variant with the least bound is processed next:
its next, more expensive bound is computed or, after all bounds, its predicted time. The search ends when the wanted
number of times is known and none of them exceeds the least remaining bound: no other variant can be faster. This holds
as far as the bounds are lower bounds of the model's times; a note reports contradictions. A variant that cannot be
built or run is dropped.

Confidence: with Tᵢ the predicted time of variant i and hᵢ half the width of its interval, in ln of times, its true time
is modeled as tᵢ = Tᵢ·exp(hᵢ·uᵢ). The uᵢ are independent. They are distributed as the errors of held-out kernels about
the mean error of their class, divided by half the width of their intervals, because an error that is common to all
variants does not change their order. If the fit lacks these errors, the uᵢ are normal, scaled to match the interval.
"""

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, hypot, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Uncertainty, quantile
from loopyperf.errors import ParameterError
from loopyperf.models.result import DEVIATIONS, LEVEL, Estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.search.task import LOOKED_AT, Sizes, Task, Unanswered
from loopyperf.search.variants import OfChoice, Variant, check_share
from loopyperf.units import number_of

ROUNDING = 1e-9
"""relative tolerance by which a time may be below its lower bound"""


@dataclass(frozen=True, slots=True)
class Beaten:
    """A variant that is not among the fastest, according to its lower bound."""

    name: str
    """name of the variant"""
    at_least: float
    """lower bound of its time, in seconds"""
    bound: str
    """model of the bound"""


@dataclass(frozen=True, slots=True)
class _Bound:
    """The best known lower bound of a variant's time."""

    seconds: float = -inf
    model: str = ""
    """model of the bound"""


def order_of_asking(number: int) -> list[int]:
    """Return the order in which *number* variants are processed; it starts with some from all over the list."""
    first = [number * place // LOOKED_AT for place in range(LOOKED_AT)] if number > LOOKED_AT else []
    return [*first, *sorted(set(range(number)) - set(first))]


@dataclass
class Cascade:
    """The state of a search for the fastest variants, and its next tasks."""

    predictors: Sequence[Predictor]
    """predictors of bounds, cheapest first, then of the model"""
    variants: Sequence[Variant]
    sizes: Sizes
    typical: OfChoice
    top: int | None
    """number of fastest variants to find; None for all"""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """variant -> reason why there is no estimate"""
    estimates: dict[str, Estimate] = field(default_factory=dict[str, Estimate])
    """variant -> estimate, in order of completion"""

    def __post_init__(self) -> None:
        """Start without bounds and estimates."""
        self._turns = order_of_asking(len(self.variants))
        self._left = [(-inf, 0, turn) for turn in range(len(self.variants))]
        self._bounds = dict.fromkeys((each.name for each in self.variants), _Bound())
        self._places = {each.name: place for place, each in enumerate(self.variants)}
        self._turn = {self.variants[place].name: turn for turn, place in enumerate(self._turns)}
        self._waiting = 0
        self._times: list[float] = []
        self._contradicted: dict[str, str] = {}

    def tasks(self) -> Iterator[Task | None]:
        """Yield the next task, or None while it depends on results that are in flight."""
        while self._left or self._waiting:
            is_settled = self.top is not None and len(self._times) >= self.top
            if not self._left or (is_settled and self._times[(self.top or 1) - 1] <= self._left[0][0]):
                if not self._waiting:
                    return
                yield None
                continue
            _, stage, turn = heapq.heappop(self._left)
            self._waiting += 1
            yield Task(self.predictors[stage], self.variants[self._turns[turn]], self.sizes, self.typical, stage)

    def take(self, task: Task, answer: Estimate | Unanswered) -> None:
        """Record the result of *task*. A variant without this bound goes on to the next predictor."""
        self._waiting -= 1
        name = task.variant.name
        is_last = task.stage == len(self.predictors) - 1
        if isinstance(answer, Unanswered) and (is_last or answer.is_final):
            self.failures[name] = answer.reason
        elif is_last:
            assert isinstance(answer, Estimate)
            seconds = float(answer)
            self.estimates[name] = answer
            if not answer.place[0]:  # an incomplete estimate is only a lower bound, which excludes no other variant
                insort(self._times, seconds)
            bound = self._bounds[name]
            if seconds < bound.seconds * (1 - ROUNDING):
                self._contradicted[name] = bound.model
        else:
            if not isinstance(answer, Unanswered):
                bound = _Bound(float(answer), task.predictor.model)
                self._bounds[name] = max(self._bounds[name], bound, key=lambda each: each.seconds)
            heapq.heappush(self._left, (self._bounds[name].seconds, task.stage + 1, self._turn[name]))

    @property
    def fastest(self) -> dict[str, Estimate]:
        """Return the fastest variants by name, at most *top*; equal times keep the given order.

        Incomplete and negative times come last.
        """
        order = sorted(self.estimates, key=lambda name: (self.estimates[name].place, self._places[name]))
        return {name: self.estimates[name] for name in order[: self.top]}

    @property
    def beaten(self) -> tuple[Beaten, ...]:
        """Return the other variants, least bound first, negative times last."""
        slower = sorted(
            self.estimates.keys() - self.fastest.keys(), key=lambda name: float(self.estimates[name].seconds)
        )
        model = self.predictors[-1].model
        known = [Beaten(name, float(self.estimates[name].seconds), model) for name in slower]
        names = [self.variants[self._turns[turn]].name for _, _, turn in self._left]
        open_ = [Beaten(name, self._bounds[name].seconds, self._bounds[name].model) for name in names]
        return tuple(sorted((*known, *open_), key=lambda each: (each.at_least < 0, each.at_least)))

    @property
    def lower_bounds(self) -> dict[str, float]:
        """Return name -> lower bound in seconds, of the variants that have one and did not fail."""
        return {
            name: bound.seconds
            for name, bound in self._bounds.items()
            if bound.seconds > -inf and name not in self.failures
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on bounds that the model's times contradict."""
        return tuple(
            f"{bound!r} is not a lower bound of {self.predictors[-1].model!r}, which predicts less for "
            f"{number_of(number, 'variant')}; skipped variants may be faster"
            for bound, number in Counter(self._contradicted.values()).items()
        )


SAMPLES = 2000
"""Monte Carlo samples of the true times of all candidates"""
MAX_RANDOM_NUMBERS = 20_000_000
"""largest number of random numbers for a shortlist; with many candidates there are fewer samples"""
MAX_COMPARED = 1000
"""largest number of errors that are compared in pairs"""
SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShortlistCandidate:
    """A variant that may be the fastest."""

    name: str
    seconds: float
    """predicted time; for a variant that is not ranked, its lower bound"""
    spread: float | None
    """half the width of its interval, in ln of times; None without an interval"""
    is_ranked: bool = True


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The smallest set of variants that contains one that is fast enough, with a given probability."""

    names: tuple[str, ...]
    """names of the variants, fastest first"""
    regret: float
    """relative amount by which the fastest of them may be slower than the fastest of all"""
    probability: float
    """probability that it is not slower than that, as far as the model's errors are known"""

    def __len__(self) -> int:
        return len(self.names)


def errors_of(known: Uncertainty | None) -> tuple[float, ...]:
    """Return the errors of kernels about their class's mean, over half the width of an interval; () if unknown."""
    if known is None or not known.deviations:
        return ()
    half = quantile(known.scores, LEVEL)
    return tuple(each / half for each in known.deviations) if 0 < half < float("inf") else ()


def tied(ranked: Sequence[ShortlistCandidate], errors: Sequence[float]) -> tuple[tuple[str, ...], ...]:
    """Return the names of *ranked* in groups, whose members cannot be distinguished from the group's first one.

    *errors* are those of :func:`errors_of`. Candidates without a spread tie only if their times are equal.
    """
    # the quantile, at the probability of intervals, of the difference between two kernels' errors
    apart = sqrt(2)
    if len(errors) > 1:
        some = np.array(errors)[:: -(-len(errors) // MAX_COMPARED)]
        pairs = np.triu_indices(len(some), 1)
        apart = float(np.quantile(np.abs(np.subtract.outer(some, some))[pairs], LEVEL))
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


def shortlisted(
    candidates: Sequence[ShortlistCandidate], errors: Sequence[float], regret: float, probability: float
) -> Shortlist:
    """Return the shortlist of *candidates*; see :meth:`loopyperf.search.rank.Ranking.shortlist`."""
    check_share(regret, probability)
    if not any(each.is_ranked for each in candidates):
        raise ParameterError("no variant could be predicted; see failures")
    if any(each.spread is None for each in candidates):
        raise ParameterError("a shortlist needs prediction intervals; rank with a fit that has them")
    needed = np.sort(_needed(candidates, errors, regret))
    place = ceil(probability * len(needed)) - 1
    number = int(needed[place])
    chosen = candidates[:number]
    if not all(each.is_ranked for each in chosen):
        ranked = sum(each.is_ranked for each in candidates)
        raise ParameterError(
            f"a probability of {probability:g} requires {number} variants, but only {ranked} are ranked; rank with a "
            "larger top"
        )
    return Shortlist(tuple(each.name for each in chosen), regret, float(np.mean(needed <= number)))


def _needed(candidates: Sequence[ShortlistCandidate], errors: Sequence[float], regret: float) -> NDArray[np.int64]:
    """Return, for each Monte Carlo sample, how many of the first *candidates* include one that is fast enough."""
    times = np.array([each.seconds for each in candidates])
    spreads = np.array([each.spread for each in candidates], dtype=np.float64)
    draws = max(1, min(SAMPLES, MAX_RANDOM_NUMBERS // len(times)))
    rng = np.random.default_rng(SEED)
    found = np.empty(draws, dtype=np.int64)
    for draw in range(draws):
        own = rng.standard_normal(len(times)) / DEVIATIONS if len(errors) < 2 else rng.choice(errors, len(times))
        true = np.log(times) + spreads * own
        fast_enough = true <= true.min() + np.log1p(regret)
        found[draw] = int(np.argmax(fast_enough)) + 1
    return found
