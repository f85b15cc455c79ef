"""The fastest point of a space of transformations: :func:`search`.

What is known of the points of a space, and which are asked about next.

Points are asked about in batches, in which the next waits for all answers of the one before: who is asked next depends
on no more than the answers, not on the order in which they come, and so on no executor.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, abridged, tagged
from loopyperf.errors import ParameterError
from loopyperf.executors import Processes
from loopyperf.models.result import Estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.search.rank import NO_ESTIMATE, Ranking, chosen_predictor, rank, ranking_of
from loopyperf.search.space import SAMPLERS, Adviser, Builder, Space, check_builds, sampler_of, spaced
from loopyperf.search.task import Sizes, SizesSeen, Task, Unanswered, check_ranked, predicted, without_notes
from loopyperf.search.tasks_in_flight import TaskRunner
from loopyperf.search.variants import Variant, check_top
from loopyperf.stages.case import merged_sizes
from loopyperf.units import number_of

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial as OptunaTrial

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
        self._told: list[tuple[OptunaTrial, int]] = []
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
                self._record(trial, point)
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
                self._record(trial, point)
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

    def _record(self, trial: "OptunaTrial", point: int) -> None:
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


Answers = TaskRunner[Task, Estimate | Unanswered]

EXHAUSTIVE = "exhaustive"
FEW = 256
"""points that a space has at most for all of them to be ranked, unless told otherwise"""
ADVISED = "tpe"
"""the optimizer for larger spaces, unless told otherwise"""
TRIALS = 100
"""points of a larger space that are asked about, unless told otherwise"""
BATCH = 8
"""points that are asked about at a time, unless told otherwise"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A point that was asked about."""

    name: str
    """what the point is called in the ranking"""
    choice: Mapping[str, Any]
    """parameter of the space -> what was chosen for it"""
    seconds: float | None
    """None where there is no estimate, for the reason in the ranking's failures, or since bounds spared the model it"""


@dataclass(frozen=True, slots=True, repr=False)
class Search(Shown):
    """What a search has found: a ranking of the points that it asked about, and how it came to them."""

    ranking: Ranking
    """the points that were asked about, fastest first"""
    trials: tuple[Trial, ...]
    """in the order in which they were asked about"""
    points: int
    """that the space has"""
    optimizer: str
    """what chose them: ``"exhaustive"`` where all were asked about"""

    @property
    def best(self) -> Mapping[str, Any]:
        """Return the choices of the fastest point; raises :class:`ParameterError` where no point has an estimate."""
        name = self.ranking.best
        return next(trial.choice for trial in self.trials if trial.name == name)

    @property
    def seconds(self) -> float:
        """Return the run time of the fastest point; raises :class:`ParameterError` as :attr:`best` does."""
        return self.ranking.seconds[self.ranking.best]

    @property
    def best_so_far(self) -> tuple[float, ...]:
        """Return, after each trial, the seconds of the fastest point up to then; infinity as long as there is none.

        A time below 0 is none: the fit does not apply there.
        """
        known = (inf if each.seconds is None or each.seconds < 0 else each.seconds for each in self.trials)
        return tuple(accumulate(known, min))

    def trials_until(self, seconds: float) -> int | None:
        """Return how many trials it took until one was no slower than *seconds*; None where none was."""
        found = (number for number, best in enumerate(self.best_so_far, 1) if best <= seconds)
        return next(found, None)

    def report_text(self) -> ReportText:
        """Return the fastest points and the slowest, each with the trial that found it, and who has no estimate."""
        ranking = self.ranking
        asked = f"{len(self.trials):,} of {number_of(self.points, 'point')} by {self.optimizer}"
        answer = NO_ESTIMATE
        if ranking.order:
            answer = f"{ranking.best}, trial {self._numbers[ranking.best]:,}, takes {ranking.fastest_in_words}"
        return ReportText(
            question=f"{tagged(asked, ranking.sizes, ranking.typical)} on {ranking.device}, model {ranking.model}",
            answer=answer,
            tables=[self._table()] if ranking.order else [],
            remarks=list(ranking.remarks()),
            notes=self.ranking.notes,
        )

    @property
    def _numbers(self) -> dict[str, int]:
        """Return name -> which trial it was."""
        return {each.name: number for number, each in enumerate(self.trials, 1)}

    def _table(self) -> Table:
        trial = self._numbers
        place = {name: number for number, group in enumerate(self.ranking.ties, 1) for name in group}

        def row(name: str) -> tuple[str, ...]:
            estimate = self.ranking.estimates[name]
            return f"{place[name]:,}", name, estimate.bound, estimate.time_in_words, f"{trial[name]:,}"

        rows = abridged(self.ranking.order, row, called=1)
        return Table(("", "point", "bound by", "time", "trial"), rows, text=3)

    def to_dict(self) -> dict[str, Any]:
        """Return the search as plain values; JSON can hold them where it can hold the choices."""
        return {
            "optimizer": self.optimizer,
            "points": self.points,
            "trials": [
                {"name": each.name, "choice": dict(each.choice), "seconds": each.seconds} for each in self.trials
            ],
            "ranking": self.ranking.to_dict(),
        }


def search(
    build: Builder,
    space: Mapping[str, Sequence[Any]],
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    predictor: Predictor | None = None,
    bounds: Sequence[str] = (),
    top: int | None = None,
    typical: Mapping[str, Any] | None = None,
    optimizer: "str | BaseSampler | None" = None,
    trials: int | None = None,
    batch: int = BATCH,
    executor: Executor | Processes | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **sizes: Any,
) -> Search:
    """Return a ranking, by predicted seconds, of the programs that *build* makes of the choices in *space*.

    *space* is a dict from names to lists, tuples or ranges of choices; a point is one choice for each name, and *build*
    gets them as keywords. Where it raises, since a point makes no sense, that is among the failures of the ranking, as
    is all else that goes wrong with one (see :func:`loopyperf.rank`, also for *executor* and *time_limit*). Numbers in
    ascending or descending order are a scale, on which an optimizer finds its way; other choices are categories.

    *optimizer* ``"exhaustive"`` ranks all points, as :func:`loopyperf.rank` does, with *bounds* and *top*, too: points
    that cannot be among the fastest then have no seconds, and are in ``ranking.beaten``. ``"tpe"``, ``"random"`` and
    any sampler of Optuna's (the extra ``search``), which sees the places of choices in their lists, choose so many
    *trials*, points of which none is asked about twice. They are told what came out after each *batch*, which an
    executor may work on at a time: for a *seed* and a *batch* the points are the same with any executor, or none. By
    default up to 256 points are all ranked, unless *trials* are fewer, and of more ``"tpe"`` chooses 100. *device*,
    *model*, *fit*, *predictor*, *typical*, *parameters*, *progress* and sizes are as in :func:`loopyperf.rank`.

    Raises :class:`ParameterError` for a space without points, a builder that does not take its names, an unknown
    optimizer, and numbers of trials that make no sense; :class:`LoopyperfError` where Optuna is needed and not
    installed; and what :func:`loopyperf.rank` raises.
    """
    searched = spaced(space)
    check_builds(build, searched)
    _check_numbers(trials, batch, seed)
    check_top(top, bounds)
    merged = merged_sizes(parameters, sizes)
    chosen = _chosen(optimizer, searched, trials)
    _check_is_exhaustive(chosen, bounds, top)
    if chosen == EXHAUSTIVE:
        answerer: dict[str, Any] = {"device": device, "model": model, "fit": fit, "predictor": predictor}
        workers: dict[str, Any] = {"executor": executor, "time_limit": time_limit, "typical": typical, "bounds": bounds}
        ranking = rank(searched.variants(build), top=top, parameters=merged, progress=progress, **answerer, **workers)
        return _search(ranking, searched, range(searched.points), EXHAUSTIVE)
    sampler = sampler_of(chosen, seed)
    bound = chosen_predictor(predictor, device, model, fit)
    check_ranked(bound, merged, typical)
    number = min(trials or TRIALS, searched.points)
    exploration = Exploration(searched, build, bound, merged, typical, Adviser(searched, sampler), number, batch, seed)
    name = chosen if isinstance(chosen, str) else type(sampler).__name__
    return _explored(exploration, TaskRunner(predicted, executor, time_limit), name, progress)


def _explored(
    exploration: Exploration, questions: Answers, optimizer: str, progress: Callable[[int, int], None] | None
) -> Search:
    seen = SizesSeen(exploration.sizes, exploration.trials)
    for number, (task, answer) in enumerate(questions.about(exploration.tasks()), 1):
        seen.note(task.variant.name, answer)
        exploration.take(task, answer)
        if progress is not None:
            progress(number, exploration.trials)
    return _search(exploration.ranking(questions.notes), exploration.space, exploration.variants, optimizer)


def _search(ranking: Ranking, space: Space, asked: Iterable[int], optimizer: str) -> Search:
    trials = [(space.name(point), space.choice(point)) for point in asked]
    seconds = ranking.seconds
    return Search(
        ranking=ranking,
        trials=tuple(Trial(name, choice, seconds.get(name)) for name, choice in trials),
        points=space.points,
        optimizer=optimizer,
    )


def _chosen(optimizer: "str | BaseSampler | None", space: Space, trials: int | None) -> "str | BaseSampler":
    """Return the optimizer that is meant; raises :class:`ParameterError` for an unknown name."""
    if optimizer is None:
        are_few = space.points <= FEW if trials is None else space.points <= min(trials, FEW)
        return EXHAUSTIVE if are_few else ADVISED
    if isinstance(optimizer, str) and optimizer not in (EXHAUSTIVE, *SAMPLERS):
        there_are = ", ".join((EXHAUSTIVE, *SAMPLERS))
        raise ParameterError(f"there is no optimizer {optimizer!r}; there are: {there_are}, and Optuna's samplers")
    if optimizer == EXHAUSTIVE and trials is not None and trials < space.points:
        raise ParameterError(
            f"an exhaustive search asks about all {space.points:,} points, received trials={trials}: leave trials out, "
            f"or say optimizer={ADVISED!r}"
        )
    return optimizer


def _check_is_exhaustive(optimizer: object, bounds: Sequence[str], top: int | None) -> None:
    """Raise :class:`ParameterError` for options of a ranking of all points if not all points are ranked."""
    if optimizer != EXHAUSTIVE and (bounds or top is not None):
        raise ParameterError(
            "an optimizer is told the model's own times: leave bounds and top out, or say optimizer='exhaustive'"
        )


def _check_numbers(trials: object, batch: object, seed: object) -> None:
    if trials is not None and not _counts(trials):
        raise ParameterError(f"trials is how many points are asked about, 1 or more; received {trials!r}")
    if not _counts(batch):
        raise ParameterError(f"batch is how many points are asked about at a time, 1 or more; received {batch!r}")
    if not (type(seed) is int and 0 <= seed < 2**32):
        raise ParameterError(f"a seed is a whole number from 0 up to 2**32 - 1, received {seed!r}")


def _counts(number: object) -> bool:
    return type(number) is int and number >= 1
