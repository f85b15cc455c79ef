"""What is known of the points of a space, and which are asked about next.

Points are asked about in batches, in which the next waits for all answers of the one before: who is asked next depends
on no more than the answers, not on the order in which they come, and so on no executor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from loopyperf.models.result import Estimate
from loopyperf.oracle.ranking.outcome import Unanswered
from loopyperf.oracle.ranking.rank import Ranking, ranking_of
from loopyperf.oracle.ranking.sizes_taken import Sizes
from loopyperf.oracle.ranking.task import Task, without_notes
from loopyperf.oracle.ranking.variants import Variant
from loopyperf.oracle.search.adviser import Adviser
from loopyperf.oracle.search.space import Builder, Space
from loopyperf.predict.predictor import Predictor

if TYPE_CHECKING:
    from optuna.trial import Trial

PATIENCE = 10
"""points in a row that are known already, after which one that is not is taken at random"""


@dataclass
class Exploration:
    """A search of so many points of a space, none of them twice."""

    space: Space
    build: Builder
    predictor: Predictor
    sizes: Sizes
    typical: Mapping[str, Any] | None
    adviser: Adviser
    trials: int
    """points that are asked about, no more than there are"""
    batch: int
    """of them, those that are asked about at a time"""
    seed: int

    def __post_init__(self) -> None:
        """Start with nothing known of any variant."""
        self.variants: dict[int, Variant] = {}
        """by point, in the order in which they were asked about"""
        self.estimates: dict[str, Estimate] = {}
        """by name"""
        self.failures: dict[str, str] = {}
        """by name, why there is no estimate"""
        self._told: list[tuple[Trial, int]] = []
        self._random = Random(self.seed)

    def tasks(self) -> Iterator[Task | None]:
        """Yield what is asked next; None where that depends on answers that have not come."""
        predictor = without_notes(self.predictor)
        while len(self.variants) < self.trials:
            batch = [self._next() for _ in range(min(self.batch, self.trials - len(self.variants)))]
            for variant in batch:
                yield Task(predictor, variant, self.sizes, self.typical)
            while not all(map(self._is_known, batch)):
                yield None
            for trial, point in self._told:
                self._tell(trial, point)
            self._told.clear()

    def take(self, task: Task, answer: Estimate | Unanswered) -> None:
        """Take note of an *answer*."""
        if isinstance(answer, Unanswered):
            self.failures[task.variant.name] = answer.reason
        else:
            self.estimates[task.variant.name] = answer

    def _next(self) -> Variant:
        """Return a point that was not asked about; what is known of others that the adviser wants is told it."""
        for _ in range(PATIENCE):
            trial, point = self.adviser.advice()
            if point not in self.variants:
                break
            if self._is_known(self.variants[point]):
                self._tell(trial, point)
            else:
                self._told.append((trial, point))
        else:
            point = self._any()
            trial = self.adviser.take(point)
        self._told.append((trial, point))
        self.variants[point] = self.space.variant(point, self.build)
        return self.variants[point]

    def _any(self) -> int:
        point = self._random.randrange(self.space.points)
        while point in self.variants:
            point = (point + 1) % self.space.points
        return point

    def _is_known(self, variant: Variant) -> bool:
        return variant.name in self.estimates or variant.name in self.failures

    def _tell(self, trial: "Trial", point: int) -> None:
        estimate = self.estimates.get(self.variants[point].name)
        seconds = inf if estimate is None else float(estimate)
        # The fit does not apply where a time is below 0: the adviser would look for more of such points.
        self.adviser.tell(trial, seconds if 0 <= seconds < inf else None)

    def ranking(self, notes: Sequence[str]) -> Ranking:
        """Return the ranking of what was asked about; of equal times, those of earlier points of the space first."""
        asked = [self.variants[point] for point in sorted(self.variants)]
        known = [(each.name, self.estimates[each.name]) for each in asked if each.name in self.estimates]
        known.sort(key=lambda pair: pair[1].place)
        return ranking_of(self.predictor, self.sizes, self.typical, asked, dict(known), self.failures, notes=notes)
