"""How long a variant takes: it is built, checked against the device's limits, and given to a predictor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopyperf.device.occupancy import check_fits
from loopyperf.errors import ParameterError
from loopyperf.kernel import as_translation_unit
from loopyperf.kernel.kernel import declared_group
from loopyperf.models.catalog import DEVICE_MODELS, MODELS
from loopyperf.models.result import Estimate
from loopyperf.oracle.ranking.options import check_sizes, check_typical
from loopyperf.oracle.ranking.outcome import Unanswered, refused
from loopyperf.oracle.ranking.sizes_taken import Sizes, sizes_lacking, sizes_taken
from loopyperf.oracle.ranking.variants import Variant
from loopyperf.predict.case import Case
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.throughput import THROUGHPUT, ThroughputPredictor

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
        taken = sizes_taken(program, task.sizes)
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


def said_of_bounds(predictor: Predictor, bounds: Sequence[str]) -> tuple[str, ...]:
    """Return, where *bounds* are not known to be bounds of the model's times, that they are not."""
    if not bounds or predictor.model in BOUNDED:
        return ()
    return (
        f"{' and '.join(map(repr, bounds))} need not be bounds of {predictor.model!r}: some that were left out may be "
        "faster by it",
    )
