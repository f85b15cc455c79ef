"""The function :func:`search`, which finds the fastest point in a space of transformations.

Points are evaluated in batches, and each batch waits for all results of the previous one. The selection therefore
depends only on the results, not on the order of their completion, and is the same with any executor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, abridged, tagged
from loopyperf.errors import ParameterError
from loopyperf.executors import Processes, is_number
from loopyperf.models.result import Estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.search.cascade import Cascade, Predicting
from loopyperf.search.rank import NO_ESTIMATE, Ranking, chosen_predictor, rank, ranking_of
from loopyperf.search.space import SAMPLERS, Adviser, Builder, Space, check_builds, sampler_of, spaced
from loopyperf.search.variants import Variant, check_top
from loopyperf.stages.case import merged_sizes
from loopyperf.stages.compile import Compiler
from loopyperf.units import number_of

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial as OptunaTrial

PATIENCE = 10
"""proposals of known points in a row after which a new point is drawn at random"""


@dataclass
class Explored:
    """The points that a search has evaluated, each once."""

    variants: dict[int, Variant] = field(default_factory=dict[int, Variant])
    """point -> variant, in order of evaluation"""
    estimates: dict[str, Estimate] = field(default_factory=dict[str, Estimate])
    """name -> estimate"""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """name -> reason why there is no estimate"""

    def tell(self, adviser: Adviser, trial: "OptunaTrial", point: int) -> None:
        """Report the time of a *trial* of *point* to the *adviser*."""
        estimate = self.estimates.get(self.variants[point].name)
        seconds = inf if estimate is None else float(estimate)
        # A fit does not apply if the time is negative; reporting it would lead the sampler to similar points.
        adviser.tell(trial, seconds if 0 <= seconds < inf else None)

    def ranking(self, by: Predicting) -> Ranking:
        """Return the ranking of the points, predicted *by* a model; equal times are in the order of the space."""
        evaluated = [self.variants[point] for point in sorted(self.variants)]
        ranked = [(each.name, self.estimates[each.name]) for each in evaluated if each.name in self.estimates]
        ranked.sort(key=lambda pair: pair[1].place)
        return ranking_of(by, evaluated, dict(ranked), self.failures)


def explore(
    space: Space,
    build: Builder,
    adviser: Adviser,
    trials: int,
    batch: int,
    seed: int,
    predicted: Callable[[Sequence[Variant]], Cascade],
) -> Explored:
    """Evaluate *trials* points, at most all, which the *adviser* proposes in batches of *batch*."""
    found, random = Explored(), Random(seed)
    while len(found.variants) < trials:
        pending: list[tuple[OptunaTrial, int]] = []
        new: list[int] = []
        while len(new) < min(batch, trials - len(found.variants)):
            for _ in range(PATIENCE):
                trial, point = adviser.advice()
                if point in new:
                    pending.append((trial, point))
                elif point in found.variants:
                    found.tell(adviser, trial, point)
                else:
                    break
            else:
                point = random.randrange(space.points)
                while point in found.variants or point in new:
                    point = (point + 1) % space.points
                trial = adviser.take(point)
            pending.append((trial, point))
            new.append(point)
        variants = {point: space.variant(point, build) for point in new}
        cascade = predicted([*variants.values()])
        found.variants |= variants
        found.estimates |= cascade.estimates
        found.failures |= cascade.failures
        for trial, point in pending:
            found.tell(adviser, trial, point)
    return found


EXHAUSTIVE = "exhaustive"
MAX_EXHAUSTIVE = 256
"""largest number of points that are all ranked by default"""
DEFAULT_OPTIMIZER = "tpe"
"""default optimizer for larger spaces"""
TRIALS = 100
"""default number of evaluated points of larger spaces"""
BATCH = 8
"""default number of points in a batch"""


@dataclass(frozen=True, slots=True)
class Trial:
    """An evaluated point."""

    name: str
    """name of the point in the ranking"""
    choice: Mapping[str, Any]
    """name of the space -> choice"""
    seconds: float | None
    """predicted time; None if there is no estimate, because of a failure or because bounds made it unnecessary"""


@dataclass(frozen=True, slots=True, repr=False)
class Search(Tabular):
    """The result of a search: a ranking of the evaluated points, and the sequence of trials.

    :func:`loopyperf.search` returns it.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> def doubled(group):
    ...     knl = lp.make_kernel(
    ...         "{[i]: 0 <= i < n}",
    ...         "b[i] = 2*a[i]",
    ...         [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...         assumptions="n >= 1",
    ...         lang_version=(2018, 2),
    ...     )
    ...     return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.search(doubled, {"group": (32, 64, 256)}, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> found.best
    {'group': 256}
    >>> found.trials_until(found.seconds)
    3
    """

    _ROWS = "trials"

    ranking: Ranking
    """ranking of the evaluated points, fastest first"""
    trials: tuple[Trial, ...]
    """trials in order of evaluation"""
    points: int
    """number of points of the space"""
    optimizer: str
    """optimizer that selected them; ``"exhaustive"`` if all points were evaluated"""

    @property
    def best(self) -> Mapping[str, Any]:
        """Return the choices of the fastest point; raises :class:`ParameterError` if no point has an estimate."""
        name = self.ranking.best
        return next(trial.choice for trial in self.trials if trial.name == name)

    @property
    def seconds(self) -> float:
        """Return the run time of the fastest point; raises :class:`ParameterError` as :attr:`best` does."""
        return self.ranking.seconds[self.ranking.best]

    @property
    def best_so_far(self) -> tuple[float, ...]:
        """Return the least seconds after each trial; infinity before the first estimate.

        Negative times, to which the fit does not apply, are ignored.
        """
        known = (inf if trial.seconds is None or trial.seconds < 0 else trial.seconds for trial in self.trials)
        return tuple(accumulate(known, min))

    def trials_until(self, seconds: float) -> int | None:
        """Return the number of trials until one took at most *seconds*; None if none did."""
        found = (number for number, best in enumerate(self.best_so_far, 1) if best <= seconds)
        return next(found, None)

    def report_text(self) -> ReportText:
        """Return a table of the fastest and slowest points with the number of their trials, and remarks."""
        ranking = self.ranking
        evaluated = f"{len(self.trials):,} of {number_of(self.points, 'point')} by {self.optimizer}"
        answer = NO_ESTIMATE
        if ranking.order:
            answer = f"{ranking.best}, trial {self._numbers[ranking.best]:,}, takes {ranking.fastest_in_words}"
        return ReportText(
            question=f"{tagged(evaluated, ranking.sizes, ranking.typical)} on {ranking.device}, model {ranking.model}",
            answer=answer,
            tables=[self._table()] if ranking.order else [],
            remarks=list(ranking.remarks()),
            notes=self.ranking.notes,
        )

    @property
    def _numbers(self) -> dict[str, int]:
        """Return name -> number of its trial."""
        return {trial.name: number for number, trial in enumerate(self.trials, 1)}

    def _table(self) -> Table:
        trial = self._numbers
        place = {name: number for number, group in enumerate(self.ranking.ties, 1) for name in group}

        def row(name: str) -> tuple[str, ...]:
            estimate = self.ranking.estimates[name]
            return f"{place[name]:,}", name, estimate.bound, estimate.time_in_words, f"{trial[name]:,}"

        rows = abridged(self.ranking.order, row, called=1)
        return Table(("", "point", "bound by", "time", "trial"), rows, text=3)


def search(
    build: Builder,
    space: Mapping[str, Sequence[Any]],
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
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
    """Search a space of transformations for the variant with the least predicted run time.

    Parameters
    ----------
    build : callable
        Builds the program of a point; it gets the choices as keyword arguments. If it raises an error, e.g. for an
        invalid combination, the point is among the failures of the ranking.
    space : dict of str to list, tuple or range
        Choices by name; a point is one choice for each name. Optimizers treat monotonic sequences of numbers as a
        scale, and other choices as categories.
    device, model, fit, compiler, predictor, typical, executor, time_limit, parameters, **sizes
        As in :func:`loopyperf.rank`.
    bounds, top
        As in :func:`loopyperf.rank`, for ``"exhaustive"`` only. Points that cannot be among the fastest have no
        seconds, and are in ``ranking.beaten``.
    optimizer : str or optuna.samplers.BaseSampler, optional
        ``"exhaustive"`` ranks all points. ``"tpe"``, ``"random"`` or an Optuna sampler (the extra ``search``) select
        points; a sampler works on the indices of choices. Default: ``"exhaustive"`` for up to 256 points unless
        *trials* is smaller, else ``"tpe"``.
    trials : int, optional
        Number of points to evaluate, each at most once. Default: 100.
    batch : int
        Number of points to select at a time. The sampler gets the results after each batch, which an executor can run
        in parallel; the points depend on *seed* and *batch*, but not on the executor.
    seed : int
        Seed of the sampler.
    progress : callable, optional
        Called after each result with the numbers of results and of trials.

    Returns
    -------
    Search
        Ranking of the evaluated points by predicted seconds, and the sequence of trials.

    Raises
    ------
    ParameterError
        The space is empty, *build* does not take its names, or an option is invalid.
    LoopyperfError
        Optuna is needed and not installed. Other errors as in :func:`loopyperf.rank`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> def doubled(group):
    ...     knl = lp.make_kernel(
    ...         "{[i]: 0 <= i < n}",
    ...         "b[i] = 2*a[i]",
    ...         [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...         assumptions="n >= 1",
    ...         lang_version=(2018, 2),
    ...     )
    ...     return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.search(doubled, {"group": (32, 64, 256)}, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> found.best
    {'group': 256}
    >>> found.optimizer, len(found.trials)
    ('exhaustive', 3)
    """
    searched = spaced(space)
    check_builds(build, searched)
    for name, number in (("trials", 1 if trials is None else trials), ("batch", batch)):
        if not is_number(number):
            raise ParameterError(f"{name} must be an integer >= 1, got {number!r:.80}")
    if not (type(seed) is int and 0 <= seed < 2**32):
        raise ParameterError(f"seed must be an integer from 0 to 2**32 - 1, got {seed!r:.80}")
    check_top(top, bounds)
    merged = merged_sizes(parameters, sizes)
    chosen = _chosen(optimizer, searched, trials)
    if chosen == EXHAUSTIVE:
        answerer: dict[str, Any] = {"device": device, "model": model, "fit": fit, "predictor": predictor}
        workers: dict[str, Any] = {"executor": executor, "time_limit": time_limit, "typical": typical, "bounds": bounds}
        ranking = rank(searched.variants(build), top=top, parameters=merged, progress=progress, **answerer, **workers)
        return _search(ranking, searched, range(searched.points), EXHAUSTIVE)
    if bounds or top is not None:
        raise ParameterError("bounds= and top= require an exhaustive search; drop them, or use optimizer='exhaustive'")
    sampler = sampler_of(chosen, seed)
    number = min(trials or TRIALS, searched.points)
    otherwise = compiler if predictor is model is fit is None else None
    predictor = chosen_predictor(predictor, device, model, fit, compiler)
    by = Predicting(predictor, merged, typical, executor, time_limit, otherwise, number)
    adviser = Adviser(searched, sampler)
    explored = explore(searched, build, adviser, number, batch, seed, partial(by.cascade, bounds=(), progress=progress))
    name = chosen if isinstance(chosen, str) else type(sampler).__name__
    return _search(explored.ranking(by), searched, explored.variants, name)


def _search(ranking: Ranking, space: Space, points: Iterable[int], optimizer: str) -> Search:
    trials = [(space.name(point), space.choice(point)) for point in points]
    seconds = ranking.seconds
    return Search(
        ranking=ranking,
        trials=tuple(Trial(name, choice, seconds.get(name)) for name, choice in trials),
        points=space.points,
        optimizer=optimizer,
    )


def _chosen(optimizer: "str | BaseSampler | None", space: Space, trials: int | None) -> "str | BaseSampler":
    """Return the optimizer, by default one for the size of the space; raises :class:`ParameterError` for a bad name."""
    if optimizer is None:
        are_few = space.points <= MAX_EXHAUSTIVE if trials is None else space.points <= min(trials, MAX_EXHAUSTIVE)
        return EXHAUSTIVE if are_few else DEFAULT_OPTIMIZER
    if isinstance(optimizer, str) and optimizer not in (EXHAUSTIVE, *SAMPLERS):
        names = ", ".join((EXHAUSTIVE, *SAMPLERS))
        raise ParameterError(f"unknown optimizer {optimizer!r}; choose from {names}, or pass an Optuna sampler")
    if optimizer == EXHAUSTIVE and trials is not None and trials < space.points:
        raise ParameterError(
            f"an exhaustive search evaluates all {space.points:,} points, got trials={trials}; drop trials=, or use "
            f"optimizer={DEFAULT_OPTIMIZER!r}"
        )
    return optimizer
