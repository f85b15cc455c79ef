"""The function :func:`tune`, which finds the fastest point of a space with few measurements."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import exp, inf
from time import monotonic
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, tagged
from loopyperf.errors import MAX_NAMED, ParameterError, by_reason, unanswered
from loopyperf.executors import Processes, is_number
from loopyperf.kernel import Program
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.environment import Array
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.estimate import predictor_for_measured
from loopyperf.predict.predictor import Predictor
from loopyperf.search.cascade import Predicting
from loopyperf.search.exploration import PREDICTIONS, PredictedSpace, Restriction, Restrictions
from loopyperf.search.measuring import Leader, Measuring, check_measuring, measuring_into
from loopyperf.search.rank import chosen_predictor
from loopyperf.search.space import Builder, Space, check_builds, spaced
from loopyperf.search.tuner import Tuner
from loopyperf.search.variants import OfChoice, Variant, check_share
from loopyperf.stages.case import merged_sizes
from loopyperf.stages.compile import Compiler
from loopyperf.units import duration, in_percent, listed, number_of

FAILURES = 16
"""points that may fail before the first one is measured, and beyond twice the budget"""


@dataclass(frozen=True, slots=True)
class TuningStep:
    """A point that was selected for measurement."""

    name: str
    """name of the point, e.g. ``"tile=16, order=C"``"""
    choice: Mapping[str, Any]
    """name of the space -> choice"""
    predicted: float
    """predicted seconds, before any measurement"""
    seconds: float | None
    """measured seconds; None if it could not be measured"""
    reason: str
    """why it could not be measured: building, compiling, running or comparing the result failed"""
    regret: float
    """relative distance of the fastest measured time from the least time of the space that remained possible"""


@dataclass(frozen=True, slots=True, repr=False)
class Tuning(Tabular):
    """The fastest point of a space, and how it was found; :func:`loopyperf.tune` returns it."""

    _ROWS = "trail"
    _OMITTED = ("build",)

    choice: Mapping[str, Any]
    """name of the space -> choice of the fastest point"""
    name: str
    """name of the fastest point"""
    seconds: float
    """its measured seconds; if nothing was measured, its predicted seconds"""
    leaders: tuple[Leader, ...]
    """the fastest points with the summary of all their runs, which were taken in turns; fastest first"""
    trail: tuple[TuningStep, ...]
    """selected points in order"""
    regret: float
    """relative distance of the fastest time from the least time of the space, which holds with :attr:`probability`"""
    probability: float
    """probability, as far as errors of predictions are as those of measured spaces"""
    ended: str
    """why it ended: ``"regret"``, ``"budget"``, ``"all measured"`` or ``"no backend"``"""
    points: int | None
    """points that meet the restrictions; None if the space is too large to know"""
    predicted: int
    """points with a prediction by the model or a lower bound"""
    failures: Mapping[str, str]
    """name -> reason why there is no prediction; these points were not measured"""
    sizes: Mapping[str, Any]
    """values of the kernels' parameters, by name"""
    device: str
    """short name of the device that was measured or, without a backend, predicted"""
    model: str
    """model of the predictions"""
    predicting: float
    """seconds spent on predictions"""
    measuring: float
    """seconds spent on compiling and measuring"""
    notes: tuple[str, ...]
    """notes on the predictor, on bounds, on generated arguments, and on failures of the executor"""
    build: Builder
    """the function that builds a point"""

    @property
    def kernel(self) -> Program:
        """Return the kernel of the fastest point, built anew."""
        return self.build(**self.choice)

    @property
    def ties(self) -> tuple[str, ...]:
        """Return the names of the leaders whose times cannot be distinguished from the fastest one."""
        return tuple(leader.name for leader in self.leaders if leader.is_tie)

    def report_text(self) -> ReportText:
        """Return a table of the leaders, the number of measurements and predictions, and the remaining regret."""
        tried = len(self.trail)
        asked = f"{number_of(tried, 'measurement')} of {self._of()}" if tried else f"{self._of()} by prediction"
        question = f"{tagged(asked, self.sizes)} on {self.device}, model {self.model}"
        rows = [
            (
                leader.name,
                duration(leader.seconds),
                duration(leader.median),
                in_percent(leader.spread, 2),
                str(leader.runs),
                duration(leader.predicted),
                "tie" if leader.is_tie and len(self.ties) > 1 else "",
            )
            for leader in self.leaders
        ]
        titles = ("point", "min", "median", "spread", "runs", "predicted", "")
        return ReportText(
            question=question,
            answer=f"{self.name} takes {duration(self.seconds)}",
            tables=[Table(titles, rows, text=1)] if rows else [],
            remarks=[*self._remarks()],
            notes=self.notes,
            alone=self.name,
        )

    def _of(self) -> str:
        return number_of(self.predicted, "point") if self.points is None else number_of(self.points, "point")

    def _remarks(self) -> Iterable[str]:
        if self.ended == "no backend":
            yield "nothing was measured, since no backend is given: a search by prediction"
        else:
            share = in_percent(self.regret, 2) if self.regret < 1 else f"a factor of {1 + self.regret:.2g}"
            if self.ended != "all measured":
                yield f"with a probability of {in_percent(self.probability)}, no point is faster by more than {share}"
            yield f"ended: {ENDS[self.ended]}"
        yield (
            f"predicting {number_of(self.predicted, 'point')} took {duration(self.predicting)}, "
            f"measuring {duration(self.measuring)}"
        )
        yield from unanswered(self.failures, as_said=str)
        reasons = by_reason({step.name: step.reason for step in self.trail if step.reason})
        for reason, names in reasons.items():
            yield f"not measured: {listed(names, MAX_NAMED, '; ')}: {reason}"


ENDS = {
    "regret": "the accepted regret is reached",
    "budget": "the budget is spent",
    "all measured": "all points are measured",
}
"""what the report says about the end"""


def tune(
    build: Builder,
    space: Mapping[str, Sequence[Any]],
    /,
    *,
    backend: str | Backend | None = None,
    budget: int | None = None,
    max_seconds: float | None = None,
    regret: float = 0.02,
    probability: float = 0.9,
    restrictions: Restriction | Iterable[Restriction] = (),
    predictions: int = PREDICTIONS,
    state: str | os.PathLike[str] | None = None,
    reference: Mapping[str, Array] | None = None,
    arguments: OfChoice = None,
    protocol: Protocol | None = None,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    predictor: Predictor | None = None,
    typical: OfChoice = None,
    executor: Executor | Processes | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **sizes: Any,
) -> Tuning:
    """Find the fastest point of a space with as few measurements as possible.

    All points that may be the fastest are predicted; the most promising are measured one after another, and each
    measurement corrects the predictions of the others. It ends when probably no point is faster than the fastest
    measured one by more than *regret*. The leaders are then measured again, in turns.

    Parameters
    ----------
    build, space
        As in :func:`loopyperf.search`.
    backend : {"opencl", "cuda"} or Backend, optional
        Where kernels are measured (``loopyperf.measurement.backends.open_backend``). Without it nothing is measured.
    budget : int, optional
        Largest number of points to measure; those that fail do not count.
    max_seconds : float, optional
        Seconds after which no other point is measured, predictions included.
    regret : float
        Accepted distance from the least time of the space, relative.
    probability : float
        Probability, between 0 and 1, with which the result is within *regret*, as far as the errors of predictions
        are as those of the measured spaces (:doc:`/accuracy/tuning`).
    restrictions : str, callable or sequence of them
        Conditions that a point must meet: Python expressions over the names of the space, e.g. ``"tile*unroll <= 64"``,
        or functions that take the choices as keyword arguments.
    predictions : int
        Largest number of points to predict. A larger space is explored: random points, then the neighbours of the
        fastest ones.
    state : path, optional
        Archive of the measurements and decisions. If it exists, the tuning continues where it ended.
    reference : dict of str to numpy.ndarray, optional
        Expected results by array name; default: those of the first measured point.
    arguments : dict or callable, optional
        Kernel arguments by name; missing ones are generated, the same for all points. If they depend on the point, a
        function that takes the choices as keyword arguments and returns the dict.
    protocol : Protocol, optional
        How often kernels run.
    device, model, fit, compiler, predictor, typical, executor, time_limit, parameters, **sizes
        As in :func:`loopyperf.rank`; *device* is by default the device that is measured, and *typical* may be a
        function of the choices like *arguments*.
    seed : int
        Seed of the random points of a large space.
    progress : callable, optional
        Called with the number of measured points and the largest possible number.

    Returns
    -------
    Tuning
        The fastest point with its time, the trail of measurements, and the regret that may remain.

    Raises
    ------
    ParameterError
        The space is empty, no point meets *restrictions*, none could be predicted or measured, or an option is invalid.
    BackendError
        There is no device, or it is lost; what was measured is in *state*.
    ArchiveError, IncompatibleRunsError
        *state* belongs to another space or another device.

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
    >>> tuned = lpp.tune(doubled, {"group": (32, 64, 256)}, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> tuned.choice, tuned.ended
    ({'group': 256}, 'no backend')
    """
    started = monotonic()
    whole = spaced(space)
    check_builds(build, whole)
    check_share(regret, probability)
    _check_limits(budget, predictions, max_seconds)
    if backend is not None:
        check_measuring(backend, None if callable(arguments) else arguments, protocol)
    elif state is not None:
        raise ParameterError("state= keeps measurements, but nothing is measured without backend=; give it too")
    admitted = Restrictions.of(restrictions, whole)
    merged = merged_sizes(parameters, sizes)
    machine = None if backend is None else opened(backend)
    if machine is None or predictor is not None:
        chosen = chosen_predictor(predictor, device, model, fit, compiler)
    else:
        slug = machine.environment.slug
        chosen = predictor_for_measured(slug, device=device, model=model, fit=fit, compiler=compiler)
    otherwise = compiler if predictor is model is fit is None else None
    by = Predicting(chosen, merged, typical, executor, time_limit, otherwise)
    exploration = PredictedSpace(whole, build, admitted, by.cascade, predictions, seed)
    exploration.run()
    tuned = _Tuned(exploration, regret, probability, started)
    if machine is not None:
        space_identity = _identity(build, whole, merged)
        with measuring_into(state, machine, protocol, space_identity, merged, arguments, reference) as measuring:
            until = inf if max_seconds is None else started + max_seconds
            tuned.measure(measuring, budget or whole.points, until, progress)
            by.notes |= measuring.notes
    return tuned.result(by, by.predictor.device if machine is None else machine.environment.slug)


def _check_limits(budget: object, predictions: object, max_seconds: float | None) -> None:
    for name, number in (("budget", 1 if budget is None else budget), ("predictions", predictions)):
        if not is_number(number):
            raise ParameterError(f"{name} must be an integer >= 1, got {number!r:.80}")
    if max_seconds is not None and not max_seconds > 0:
        raise ParameterError(f"max_seconds must be > 0, got {max_seconds!r:.80}")


def _identity(build: Builder, space: Space, sizes: Mapping[str, Any]) -> str:
    """Return a text that identifies the space, the sizes and the builder's name."""
    choices = {name: [*map(str, several)] for name, several in space.choices.items()}
    given = build.keywords if isinstance(build, partial) else {}
    name = getattr(build.func if isinstance(build, partial) else build, "__qualname__", "")
    text = f"{name} {given} {choices} {sorted(sizes.items())}"
    return sha256(text.encode()).hexdigest()[:16]


class _Tuned:
    """A tuning under way: the points of an exploration, and the tuner that selects among them."""

    def __init__(self, exploration: PredictedSpace, regret: float, probability: float, started: float) -> None:
        """Start with the predictions of *exploration*, which started at the time *started*."""
        self.exploration = exploration
        self.trail: list[TuningStep] = []
        self.ended = "no backend"
        self.leaders: tuple[Leader, ...] = ()
        self._points, candidates = exploration.candidates()
        self.tuner = Tuner(candidates, regret, probability)
        self._started, self._predicted = started, monotonic()

    def best(self) -> tuple[int, float]:
        """Return the fastest point and its measured seconds or, before any measurement, its predicted ones."""
        best = self.tuner.best
        if best is not None:
            return self._points[best], self.tuner.seconds[best]
        first = self.tuner.ask()
        if self.trail or first is None:
            reasons = "; ".join(dict.fromkeys(step.reason for step in self.trail))
            raise ParameterError(f"none of {number_of(len(self.trail), 'point')} could be measured: {reasons}")
        return self._points[first], float(exp(self.tuner.candidates.predicted[first]))

    def result(self, by: Predicting, device: str) -> Tuning:
        """Return the tuning of *device* so far, with the predictions *by* its predictor."""
        explored, space = self.exploration, self.exploration.space
        best, seconds = self.best()
        return Tuning(
            choice=space.choice(best),
            name=space.name(best),
            seconds=seconds,
            leaders=self.leaders,
            trail=tuple(self.trail),
            regret=self.tuner.remaining_regret(),
            probability=self.tuner.probability,
            ended=self.ended,
            points=explored.allowed,
            predicted=len(explored.known) - len(explored.failures),
            failures={space.name(point): reason for point, reason in explored.failures.items()},
            sizes=by.sizes,
            device=device,
            model=by.predictor.model,
            predicting=self._predicted - self._started,
            measuring=monotonic() - self._predicted if self.trail else 0.0,
            notes=(*by.predictor.notes, *by.notes),
            build=explored.build,
        )

    def measure(
        self, measuring: Measuring, budget: int, until: float, progress: Callable[[int, int], None] | None
    ) -> None:
        """Measure points until no faster one is likely or the budget is spent, then the leaders again."""
        space, build = self.exploration.space, self.exploration.build
        first: Variant | None = None
        self.ended = "all measured"
        while (index := self.tuner.ask()) is not None:
            point = self._points[index]
            variant = space.variant(point, build)
            remaining = self.tuner.remaining_regret()
            if remaining <= self.tuner.regret:
                self.ended = "regret"
                break
            tried, number = len(self.trail), len(self.tuner.seconds)
            if number >= budget or tried >= FAILURES + 2 * budget or monotonic() > until:
                self.ended = "budget"
                break
            if tried >= FAILURES and not number:
                break
            predicted = float(exp(self.tuner.candidates.predicted[index]))
            if variant.name not in measuring.seconds and variant.name not in measuring.failures:
                measuring.measure(variant, first)
                measuring.record_decision(variant.name, predicted, None if remaining == inf else remaining)
            else:
                measuring.check_kernel(variant)
            seconds, reason = measuring.seconds.get(variant.name), measuring.failures.get(variant.name, "")
            self.tuner.tell(index, seconds)
            self.trail.append(TuningStep(variant.name, space.choice(point), predicted, seconds, reason, remaining))
            if seconds is not None:
                first = first or variant
                if index == self.tuner.best:
                    self._grow(point)
            if progress is not None:
                progress(len(self.tuner.seconds), budget)
        if not self.tuner.seconds:
            return
        of_name = {space.name(self._points[index]): index for index in self.tuner.seconds}
        variants = {name: space.variant(self._points[index], build) for name, index in of_name.items()}
        predicted = {name: float(exp(self.tuner.candidates.predicted[index])) for name, index in of_name.items()}
        self.leaders = measuring.leaders(variants, predicted)
        self.tuner.seconds |= {of_name[leader.name]: leader.seconds for leader in self.leaders}

    def _grow(self, point: int) -> None:
        """Add the neighbours of a new fastest *point* of a space that is not predicted as a whole."""
        if not self.exploration.predict_neighbours(point):
            return
        seconds = {self._points[index]: taken for index, taken in self.tuner.seconds.items()}
        failed = {self._points[index] for index in self.tuner.failed}
        self._points, self.tuner.candidates = self.exploration.candidates()
        index_of = {each: index for index, each in enumerate(self._points)}
        self.tuner.seconds = {index_of[each]: taken for each, taken in seconds.items()}
        self.tuner.failed = {index_of[each] for each in failed}
