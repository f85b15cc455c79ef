"""Prediction of one variant: build it, check it against the device's limits, and run the predictor."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from loopy.kernel.data import ValueArg
from loopy.types import LoopyType
from pebble import ProcessExpired

from loopyperf.device.description import Device
from loopyperf.device.occupancy import occupancy
from loopyperf.errors import LoopyperfError, MissingNumberError, ParameterError, one_line
from loopyperf.executors import TimeIsUp, limited
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.kernel.kernel import Group, declared_group
from loopyperf.models.catalog import DEVICE_MODELS, MODELS
from loopyperf.models.result import Estimate
from loopyperf.polyhedral.evaluation import missing_sizes
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.throughput import THROUGHPUT, ThroughputPredictor
from loopyperf.search.variants import OfChoice, Variant, check_sizes, check_typical
from loopyperf.stages.case import Case, prepared

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The reason why a task has no result."""

    reason: str
    is_final: bool = True
    """whether other predictors would fail as well; False if only the model has no prediction"""
    takes: frozenset[str] | None = None
    """names of the given sizes that the variant takes; None if it was not built"""
    lacks: frozenset[str] = frozenset()
    """names of sizes that the variant needs and that were not given"""
    was_sent: bool = field(default=True, compare=False)
    """whether the task reached a worker"""


def within(seconds: float | None, ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return ``ask(thing)``, or an :class:`Unanswered` if it fails or takes longer than *seconds*."""
    try:
        return limited(seconds, partial(ask, thing))
    except TimeIsUp:
        return Unanswered(f"timed out after {seconds:g} s")
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        return refused(error)


def refused(
    error: BaseException,
    takes: Collection[str] | None = None,
    lacks: Collection[str] = (),
    *,
    is_final: bool = True,
) -> Unanswered:
    """Return *error* as an :class:`Unanswered`; the reason of a foreign error starts with its class name."""
    reason = one_line(error) if isinstance(error, LoopyperfError) else _in_words(error)
    return Unanswered(reason, is_final, None if takes is None else frozenset(takes), frozenset(lacks))


def failed(error: BaseException, seconds: float | None) -> Unanswered:
    """Return the reason why a worker gave no result; *seconds* is its time limit."""
    if isinstance(error, ProcessExpired):
        return Unanswered(f"the worker process died (exit status {error.exitcode})")
    if isinstance(error, TimeoutError) and seconds is not None:
        return Unanswered(f"timed out after {seconds:g} s")
    return Unanswered(_in_words(error))


def unsent(error: BaseException) -> Unanswered:
    """Return the reason why a task did not reach a worker: the innermost error of pickling."""
    while error.__cause__ is not None:
        error = error.__cause__
    return Unanswered(f"cannot be sent to a worker: {_in_words(error)}", was_sent=False)


def _in_words(error: BaseException) -> str:
    message = one_line(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


CHECKED_VARIANTS = 8
"""number of variants that determine which sizes exist"""

Sizes = Mapping[str, Any]


def accepted_sizes(program: Program, sizes: Sizes) -> Sizes:
    """Return those of *sizes* that *program* takes, without running Loopy's passes."""
    arguments = as_translation_unit(program).default_entrypoint.args
    values = [each for each in arguments if isinstance(each, ValueArg)]
    # An argument without a type yet may be an integer.
    names = {value.name for value in values if not isinstance(value.dtype, LoopyType) or value.dtype.is_integral()}
    return {name: size for name, size in sizes.items() if name in names}


def sizes_lacking(program: Program, sizes: Sizes) -> frozenset[str]:
    """Return the names of missing sizes of *program*; empty if Loopy cannot preprocess it."""
    try:
        return prepared(program).sizes - set(sizes)
    except LoopyperfError:
        return frozenset()


class SizesSeen:
    """Checks the given sizes against those that the first variants take."""

    def __init__(self, sizes: Sizes) -> None:
        """Start with the given *sizes*."""
        self._given = frozenset(sizes)
        self._answered: set[str] = set()
        self._taken: list[frozenset[str]] = []
        self._lacking: list[frozenset[str]] = []

    def note(self, variant: str, answer: Estimate | Unanswered, variants: int) -> None:
        """Record the result of *variant*, one of so many *variants*.

        Raises :class:`ParameterError` if, of :data:`CHECKED_VARIANTS` variants or of all, none takes one of the given
        sizes, or all lack another size.
        """
        if variant in self._answered or len(self._taken) >= CHECKED_VARIANTS:
            return
        self._answered.add(variant)
        takes = answer.takes if isinstance(answer, Unanswered) else frozenset(answer.sizes)
        if takes is not None:
            self._taken.append(takes)
            self._lacking.append(answer.lacks if isinstance(answer, Unanswered) else frozenset())
        if self._taken and (len(self._taken) == CHECKED_VARIANTS or len(self._answered) == variants):
            self._check()

    def _check(self) -> None:
        are_several = len(self._taken) > 1
        variants = f"the first {len(self._taken)} variants" if are_several else "the variant"
        missing = sorted(frozenset[str].intersection(*self._lacking))
        unused = sorted(self._given - frozenset[str]().union(*self._taken))
        if missing:
            given = ", ".join(sorted(self._given)) or "none"
            raise missing_sizes(missing, f": {variants} {'need' if are_several else 'needs'} it; sizes given: {given}")
        if unused:
            known = ", ".join(sorted(frozenset[str]().union(*self._taken))) or "none"
            raise ParameterError(
                f"superfluous size {', '.join(unused)}: of the given sizes, {variants} "
                f"{'use' if are_several else 'uses'} only {known}; drop it, or check for a misspelled option"
            )


BOUNDS = (THROUGHPUT, "roofline")
"""models whose times are lower bounds of other models' times, cheapest first"""
BOUNDED = frozenset({"roofline", "volkov", "pipeline"})
"""models with these lower bounds: their time is at least the busy time of the busiest pipeline"""


@dataclass(frozen=True, slots=True)
class Task:
    """A variant at given sizes with a predictor."""

    predictor: Predictor
    variant: Variant
    sizes: Sizes
    typical: OfChoice = None
    stage: int = 0
    """index of the predictor in the sequence of bounds and model"""


def predicted(task: Task) -> Estimate | Unanswered:
    """Return the estimate of *task*, or the reason why there is none; runs in the workers."""
    try:
        program = task.variant.program()
        taken = accepted_sizes(program, task.sizes)
        typical = task.variant.given(task.typical)
    except Exception as error:  # an error in one variant must not stop the ranking of others
        return refused(error)
    case = Case(program, taken, typical)
    try:
        if (limits := task.predictor.limits) is not None:
            check_fits(declared_group(as_translation_unit(program).default_entrypoint), limits)
            check_fits(task.predictor.group(case), limits)
    except Exception as error:
        return refused(error, taken)
    try:
        return task.predictor.predict(case).without_sources()
    except Exception as error:
        lacks = sizes_lacking(program, taken) if isinstance(error, ParameterError) else frozenset[str]()
        return refused(error, taken, lacks, is_final=bool(lacks))


def check_fits(group: Group, device: Device) -> None:
    """Raise :class:`OccupancyError` if *group* does not fit on a core of *device*."""
    try:
        occupancy(device, group.work_items, local_memory=group.local_memory)
    except MissingNumberError:  # unknown limits are not enforced
        return


def check_ranked(predictor: Predictor, sizes: Sizes, typical: Mapping[str, Any] | None) -> None:
    """Raise :class:`ParameterError` if *predictor* executes kernels, or if *sizes* or *typical* are invalid."""
    check_sizes(sizes)
    check_typical(typical)
    if predictor.executes_kernels:
        raise executes_kernels(predictor.model)


def executes_kernels(model: str) -> ParameterError:
    """Return the error for ranking by a *model* that executes kernels."""
    return ParameterError(
        f"{model!r} executes kernels, but ranking does not; use another model, and measure its fastest variants "
        "(Ranking.measure)"
    )


def bound_of(predictor: Predictor, name: str) -> Predictor:
    """Return the predictor of the lower bound *name*, one of :data:`BOUNDS`, on the device of *predictor*.

    Raises :class:`ParameterError` for another name, and if the device parameters are unknown.
    """
    if name not in BOUNDS:
        what = "is a model, but not a lower bound of others" if name in MODELS else "is unknown"
        raise ParameterError(f"bound {name!r} {what}; choose from: {', '.join(BOUNDS)}")
    parameters, slug = predictor.device_parameters, predictor.device
    if parameters is None:
        raise ParameterError(f"bounds= needs device parameters, but {slug!r} has none; drop bounds=")
    if name in DEVICE_MODELS:
        return DevicePredictor(name, slug, parameters=parameters, alternatives=False)
    return ThroughputPredictor(name, slug, parameters=parameters)


def without_notes(predictor: Predictor) -> Predictor:
    """Return *predictor* without its notes, which a ranking repeats once for all variants."""
    return replace(predictor, notes=())


def bounds_note(predictor: Predictor, bounds: Sequence[str]) -> tuple[str, ...]:
    """Return a note if *bounds* need not be lower bounds of the model's times."""
    if not bounds or predictor.model in BOUNDED:
        return ()
    named = " and ".join(map(repr, bounds))
    return (f"times of {named} may exceed those of {predictor.model!r}, so skipped variants may be faster",)
