"""How sure a ranking is: which variants tie, and which few hold the fastest one.

With Tᵢ the predicted time of variant i and hᵢ half the width of its interval, in ln of times, its true time is taken
to be tᵢ = Tᵢ·exp(hᵢ·uᵢ). The u are independent, and distributed as kernels of a class that was left out of the fit were
off from the mean of their class, over half the width of their intervals: what a model gets wrong of all variants alike
does not change their order. Where the fit does not say that, they are normal, and h what the interval says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, hypot, log, sqrt

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Uncertainty, quantile
from loopyperf.errors import ParameterError
from loopyperf.models.result import DEVIATIONS, LEVEL
from loopyperf.oracle.ranking.options import check_share

DRAWS = 2000
"""of the true times of all candidates"""
MOST_DRAWN = 20_000_000
"""numbers that are drawn for a shortlist, at most: of many candidates there are fewer draws"""
COMPARED = 1000
"""errors that are compared with each other, at most"""
SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidate:
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


def tied(ranked: Sequence[Candidate], errors: Sequence[float]) -> tuple[tuple[str, ...], ...]:
    """Return the names of *ranked* in groups: those that cannot be told from the first one of their group.

    *errors* are those of :func:`errors_of`. Candidates whose spread is not known tie where their times are equal.
    """
    apart = _apart(errors)
    groups: list[list[str]] = []
    first: Candidate | None = None
    for each in ranked:
        if first is None or not _is_within(first, each, apart):
            first = each
            groups.append([])
        groups[-1].append(each.name)
    return tuple(map(tuple, groups))


def _is_within(one: Candidate, other: Candidate, apart: float) -> bool:
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
    candidates: Sequence[Candidate], errors: Sequence[float], regret: float, probability: float
) -> Shortlist:
    """Return the shortlist of *candidates*; see :meth:`loopyperf.oracle.ranking.rank.Ranking.shortlist`."""
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


def _needed(candidates: Sequence[Candidate], errors: Sequence[float], regret: float) -> NDArray[np.int64]:
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
