"""How long a variant takes: it is built, checked against the device's limits, and given to a predictor."""

import signal
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from loopy.kernel.data import ValueArg
from loopy.types import LoopyType
from pebble import ProcessExpired

from loopyperf.device.occupancy import check_fits
from loopyperf.errors import LoopyperfError, ParameterError, one_line
from loopyperf.executors import WELL, TimeIsUp, limited
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.kernel.kernel import declared_group
from loopyperf.models.catalog import DEVICE_MODELS, MODELS
from loopyperf.models.result import Estimate
from loopyperf.polyhedral.evaluation import missing_sizes
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.throughput import THROUGHPUT, ThroughputPredictor
from loopyperf.search.variants import Variant, check_sizes, check_typical
from loopyperf.stages.case import Case, prepared

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there is no answer to a question."""

    reason: str
    is_final: bool = True
    """whether nobody else is to be asked the same; not where it is the model that has no answer"""
    takes: frozenset[str] | None = None
    """names of the sizes given that the variant takes; None where it was not built"""
    lacks: frozenset[str] = frozenset()
    """names of the sizes that it needs, and that were not given"""
    was_sent: bool = field(default=True, compare=False)
    """whether it reached a worker"""


def within(seconds: float | None, ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or that it takes longer than *seconds*."""
    if seconds is None:
        return _answered(ask, thing)
    try:
        return limited(seconds, partial(_answered, ask, thing))
    except TimeIsUp:
        return _too_late(seconds)


def _answered(ask: Callable[[Asked], Answer], thing: Asked) -> Answer | Unanswered:
    """Return what *ask* says of *thing*, or what it raised: code of the user's may raise anything, Ctrl-C's error too.

    Only where a signal came is it one that ends all.
    """
    with _signals() as came:
        try:
            return ask(thing)
        except TimeIsUp:
            raise
        except BaseException as error:
            if came:
                raise
            return refused(error)


@contextmanager
def _signals() -> Generator[list[int]]:
    """Yield the numbers of the signals that have come meanwhile, of those that end a process."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # signals come to the main thread
        return
    before: dict[int, Any] = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def hear(number: int, frame: FrameType | None) -> None:
        came.append(number)
        before[number](number, frame)

    heard = {number: handler for number, handler in before.items() if callable(handler)}
    for number in heard:
        signal.signal(number, hear)
    try:
        yield came
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def refused(
    error: BaseException,
    takes: Collection[str] | None = None,
    lacks: Collection[str] = (),
    *,
    is_final: bool = True,
) -> Unanswered:
    """Return *error*, which was raised of a variant, in words; what is not an error of ours has its name before it."""
    reason = one_line(error) if isinstance(error, LoopyperfError) else _in_words(error)
    return Unanswered(reason, is_final, None if takes is None else frozenset(takes), frozenset(lacks))


def failed(error: BaseException, seconds: float | None) -> Unanswered:
    """Return why a worker gave no answer; *seconds* are its time limit."""
    if isinstance(error, ProcessExpired):
        status = 0 if error.exitcode == WELL else error.exitcode
        return Unanswered(f"the process that worked it out died (exit status {status})")
    if isinstance(error, TimeoutError) and seconds is not None:
        return _too_late(seconds)
    return Unanswered(_in_words(error))


def given_up() -> Unanswered:
    """Return that processes died again and again that had a question."""
    return Unanswered("processes that had it died, one after the other")


def unsent(error: BaseException) -> Unanswered:
    """Return why a question did not reach a worker: what cannot be pickled, not how many layers found that out."""
    while error.__cause__ is not None:
        error = error.__cause__
    return Unanswered(f"it cannot be sent to a worker: {_in_words(error)}", was_sent=False)


def _too_late(seconds: float) -> Unanswered:
    return Unanswered(f"no answer within {seconds:g} s")


def _in_words(error: BaseException) -> str:
    said = one_line(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


LOOKED_AT = 8
"""variants that tell which sizes there are"""

Sizes = Mapping[str, Any]


def accepted_sizes(program: Program, sizes: Sizes) -> Sizes:
    """Return those of *sizes* that *program* takes; Loopy's passes are not needed to know them."""
    arguments = as_translation_unit(program).default_entrypoint.args
    names = {each.name for each in arguments if isinstance(each, ValueArg) and _may_be_integer(each)}
    return {name: size for name, size in sizes.items() if name in names}


def sizes_lacking(program: Program, sizes: Sizes) -> frozenset[str]:
    """Return the names of the sizes that *program* needs beside *sizes*; none where Loopy cannot prepare it."""
    try:
        return prepared(program).sizes - set(sizes)
    except LoopyperfError:
        return frozenset()


def _may_be_integer(argument: ValueArg) -> bool:
    """Return whether *argument* is an integer, or Loopy has not found its type yet."""
    return not isinstance(argument.dtype, LoopyType) or bool(argument.dtype.is_integral())


class SizesSeen:
    """What the first variants tell of the sizes that there are."""

    def __init__(self, sizes: Sizes, variants: int) -> None:
        """Begin with nothing known of so many *variants*, which are asked about at *sizes*."""
        self._given = frozenset(sizes)
        self._variants = variants
        self._answered: set[str] = set()
        self._taken: list[frozenset[str]] = []
        self._lacking: list[frozenset[str]] = []

    def note(self, variant: str, answer: Estimate | Unanswered) -> None:
        """Take note of what came of *variant*.

        Raises :class:`ParameterError` once :data:`LOOKED_AT` variants, or all, are known of which none takes one of the
        sizes, or all need another one.
        """
        if variant in self._answered or len(self._taken) >= LOOKED_AT:
            return
        self._answered.add(variant)
        takes = answer.takes if isinstance(answer, Unanswered) else frozenset(answer.sizes)
        if takes is not None:
            self._taken.append(takes)
            self._lacking.append(answer.lacks if isinstance(answer, Unanswered) else frozenset())
        if self._taken and (len(self._taken) == LOOKED_AT or len(self._answered) == self._variants):
            self._check()

    def _check(self) -> None:
        are_several = len(self._taken) > 1
        who = f"the {len(self._taken)} variants that were looked at" if are_several else "the variant"
        missing = sorted(frozenset[str].intersection(*self._lacking))
        idle = sorted(self._given - frozenset[str]().union(*self._taken))
        if missing:
            given = ", ".join(sorted(self._given)) or "none"
            raise missing_sizes(missing, f": {who} cannot do without it; the sizes given: {given}")
        if idle:
            known = ", ".join(sorted(frozenset[str]().union(*self._taken))) or "none"
            raise ParameterError(
                f"superfluous size {', '.join(idle)}: {who} {'use' if are_several else 'uses'} only these of the given "
                f"sizes: {known}; leave it out, or check whether it is a misspelt option"
            )


BOUNDS = (THROUGHPUT, "roofline")
"""models whose times are bounds of those of others, the cheapest first"""
BOUNDED = frozenset({"roofline", "volkov", "pipeline"})
"""models whose times these are bounds of: the busiest pipeline of a core is busy that long"""


@dataclass(frozen=True, slots=True)
class Task:
    """A variant at given sizes, and the predictor for it."""

    predictor: Predictor
    variant: Variant
    sizes: Sizes
    typical: Mapping[str, Any] | None = None
    stage: int = 0
    """place of the predictor among the bounds before it"""


def predicted(task: Task) -> Estimate | Unanswered:
    """Return how long the variant of *task* takes, or why that is not known; it is called in the workers."""
    try:
        program = task.variant.program()
        taken = accepted_sizes(program, task.sizes)
    except Exception as error:  # whatever goes wrong with one variant, the others are ranked
        return refused(error)
    case = Case(program, taken, task.typical)
    try:
        _check_fits(task.predictor, case)
    except Exception as error:
        return refused(error, taken)
    try:
        return task.predictor.predict(case).without_sources()
    except Exception as error:
        lacks = sizes_lacking(program, taken) if isinstance(error, ParameterError) else frozenset[str]()
        return refused(error, taken, lacks, is_final=bool(lacks))


def _check_fits(predictor: Predictor, case: Case) -> None:
    """Raise :class:`OccupancyError` for a kernel that the device cannot run."""
    limits = predictor.limits
    if limits is not None:
        check_fits(declared_group(as_translation_unit(case.kernel).default_entrypoint), limits)
        check_fits(predictor.group(case), limits)


def check_ranked(predictor: Predictor, sizes: Sizes, typical: Mapping[str, Any] | None) -> None:
    """Raise :class:`ParameterError` unless variants can be ranked by *predictor* at *sizes*.

    It must execute nothing, sizes must be integers, and typical values must state something.
    """
    check_sizes(sizes)
    check_typical(typical)
    if predictor.executes_kernels:
        raise executes_kernels(predictor.model)


def executes_kernels(model: str) -> ParameterError:
    """Return the error that variants cannot be ranked by a *model* that executes them."""
    return ParameterError(f"{model!r} executes kernels, and ranking executes none: see Ranking.measure")


def bound_of(predictor: Predictor, name: str) -> Predictor:
    """Return the predictor of the least time of a variant: *name* is one of :data:`BOUNDS`.

    Raises :class:`ParameterError` for another name, and where the parameters of the device are not known.
    """
    if name not in BOUNDS:
        what = "is a model, but not a bound of others" if name in MODELS else "is unknown"
        raise ParameterError(f"there is no bound {name!r}, which {what}; there are: {', '.join(BOUNDS)}")
    parameters, slug = predictor.device_parameters, predictor.device
    if parameters is None:
        raise ParameterError(f"bounds need a description of the device, and {slug!r} has none: leave them out")
    if name in DEVICE_MODELS:
        return DevicePredictor(name, slug, parameters=parameters, alternatives=False)
    return ThroughputPredictor(name, slug, parameters=parameters)


def without_notes(predictor: Predictor) -> Predictor:
    """Return *predictor* without its notes, which a ranking has once for all variants."""
    return replace(predictor, notes=())


def bounds_note(predictor: Predictor, bounds: Sequence[str]) -> tuple[str, ...]:
    """Return, where *bounds* are not known to be bounds of the model's times, that they are not."""
    if not bounds or predictor.model in BOUNDED:
        return ()
    return (
        f"{' and '.join(map(repr, bounds))} need not be bounds of {predictor.model!r}: some that were left out may be "
        "faster by it",
    )
