"""The cascade of lower bounds, which finds the fastest variants with few model runs, and its execution in processes.

Every variant has a lower bound of its time, initially −∞. The variant with the least bound is processed next:
its next, more expensive bound is computed or, after all bounds, its predicted time. The search ends when the wanted
number of times is known and none of them exceeds the least remaining bound: no other variant can be faster. This holds
as far as the bounds are lower bounds of the model's times; a note reports contradictions. A variant that cannot be
built or run is dropped.
"""

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from math import inf

from loopyperf.calibration.choice import WITHOUT_FIT
from loopyperf.executors import Processes
from loopyperf.models.result import Estimate
from loopyperf.predict.estimate import predictor as predictor_of
from loopyperf.predict.predictor import Predictor
from loopyperf.search.task import (
    BOUNDED,
    CHECKED_VARIANTS,
    Sizes,
    SizesSeen,
    Task,
    Unanswered,
    bound_of,
    bounds_note,
    check_ranked,
    predicted,
    without_notes,
)
from loopyperf.search.task_runner import TaskRunner
from loopyperf.search.variants import OfChoice, Variant
from loopyperf.stages.compile import Compiler
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
    first = (
        [number * index // CHECKED_VARIANTS for index in range(CHECKED_VARIANTS)] if number > CHECKED_VARIANTS else []
    )
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
    is_refused: bool = False
    """whether the model has no prediction for some variant that other models might predict"""

    def __post_init__(self) -> None:
        """Start without bounds and estimates."""
        self._turns = order_of_asking(len(self.variants))
        self._left = [(-inf, 0, turn) for turn in range(len(self.variants))]
        self._bounds = dict.fromkeys((variant.name for variant in self.variants), _Bound())
        self._places = {variant.name: index for index, variant in enumerate(self.variants)}
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
            self.is_refused |= not answer.is_final
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


MIN_MODELED = 32
"""points that the model predicts at least before others are skipped because of their lower bounds"""


@dataclass
class Predicting:
    """Predicts variants, in this process or in others; a set of variants may be predicted in several batches."""

    predictor: Predictor
    """predictor of the model; another one if the default fit has no weights for the kernels of the first batch"""
    sizes: Sizes
    typical: OfChoice
    executor: Executor | Processes | None = None
    time_limit: float | None = None
    """time limit for each variant, in seconds"""
    otherwise: Compiler | None = None
    """compiler of the model without a fit that may replace :attr:`predictor`; None: it is not replaced"""
    number: int | None = None
    """number of all variants; None: that of the first batch"""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """notes on bounds and on failures of the executor"""

    def __post_init__(self) -> None:
        """Raise :class:`ParameterError` for a predictor that executes kernels, and for invalid sizes or options."""
        check_ranked(self.predictor, self.sizes, None if callable(self.typical) else self.typical)
        self._runner = TaskRunner(predicted, self.executor, self.time_limit)
        self._seen = SizesSeen(self.sizes)
        self._done = 0

    def cascade(
        self,
        variants: Sequence[Variant],
        bounds: Sequence[str] | None = None,
        top: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Cascade:
        """Return the lower bounds and estimates of *variants*, at least of the *top* fastest.

        Without *bounds*, the roofline bounds the models that it is valid for, and the :data:`MIN_MODELED` fastest get
        an estimate. *progress* is called with the number of results and their largest possible number. Raises
        :class:`ParameterError` for sizes that none of the first variants takes, or that all of them lack.
        """
        found = self._run(variants, bounds, top, progress)
        device, otherwise = self.predictor.device_parameters, self.otherwise
        self.otherwise = None
        is_unfit = found.is_refused and not found.estimates and self.predictor.model != WITHOUT_FIT
        if is_unfit and otherwise is not None and device is not None:
            self.predictor, self._done = predictor_of(device=device, model=WITHOUT_FIT, compiler=otherwise), 0
            found = self._run(variants, bounds, top, progress)
        return found

    def _run(
        self,
        variants: Sequence[Variant],
        bounds: Sequence[str] | None,
        top: int | None,
        progress: Callable[[int, int], None] | None,
    ) -> Cascade:
        if bounds is None:
            bounds = ("roofline",) if self.predictor.model in BOUNDED - {"roofline"} else ()
            top = MIN_MODELED if bounds else None
        stages = (*(bound_of(self.predictor, name) for name in bounds), without_notes(self.predictor))
        cascade = Cascade(stages, variants, self.sizes, self.typical, top)
        for task, answer in self._runner.about(cascade.tasks()):
            self._seen.note(task.variant.name, answer, self.number or len(variants))
            cascade.take(task, answer)
            self._done += 1
            if progress is not None:
                progress(self._done, self.number or len(variants) * len(stages))
        notes = cascade.notes or bounds_note(self.predictor, bounds)
        self.notes = dict.fromkeys((*self.notes, *self._runner.notes, *notes))
        return cascade
