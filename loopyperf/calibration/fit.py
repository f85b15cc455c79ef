"""A fit from timings that were taken elsewhere: rows of a kernel, its sizes and the seconds that it took."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar, cast

from loopyperf.calibration.choice import DEVICE_VARIABLE, FitChoice, chosen_fit
from loopyperf.calibration.fits import Fit, Provenance, save_fit
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.overlap_fit import solve_overlap
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import FitRecipe, possible
from loopyperf.counts.execution import Counting
from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug, is_path
from loopyperf.device.device_library import description_or_none
from loopyperf.errors import CalibrationError, LoopyperfError, MissingNumberError, ParameterError
from loopyperf.executors import TimeIsUp, check_executor, check_time_limit, limited
from loopyperf.kernel import Program
from loopyperf.measurement.environment import installed_versions
from loopyperf.models.catalog import find_fitted_model
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.models.sampling import SampledProgram
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, CountingOptions, count_at, found_once
from loopyperf.stages.stages import timed_kernel

BUSY: ResultKind[dict[str, float]] = json_result_kind("busy", 4096, dict[str, float])
"""pipeline -> seconds; a fit of the same kernels, made again, need not look at them again"""


def observe(
    program: Program,
    sizes: Mapping[str, Any],
    seconds: float,
    *,
    kernel_class: str,
    label: str,
    counting: Counting = "executed",
    device: Device | None = None,
    typical: Mapping[str, Any] | None = None,
) -> Observation:
    """Return *program* at *sizes*, which took so many *seconds*, as an observation.

    With a *device*, and executed counting, it is also told how long its pipelines are busy; not where the device's
    description lacks a number. Raises what :func:`loopyperf.count` and :func:`loopyperf.instruction_graph` raise.
    """
    counted = count_at(program, CountingOptions(counting, typical), sizes)
    properties = counted.properties()
    return Observation(
        kernel_class=kernel_class,
        label=label,
        sizes=dict(sizes),
        properties=dict(zip(properties, properties.totals.at(sizes), strict=True)),
        seconds=seconds,
        pipelines={} if device is None or counting != "executed" else _busy(program, sizes, device, typical),
    )


def _busy(
    program: Program, sizes: Mapping[str, Any], device: Device, typical: Mapping[str, Any] | None
) -> dict[str, float]:
    def busy() -> dict[str, float]:
        return busy_if_known(lambda: timed_kernel(Case(program, sizes, typical), device))

    return dict(found_once(BUSY, program, (device, typical, sizes), busy))


def busy_if_known(timed: Callable[[], TimedProgram | None]) -> dict[str, float]:
    """Return the seconds that pipelines are busy with a kernel; nothing where the description lacks a number of it."""
    try:
        kernel = timed()
        return {} if kernel is None else busy_seconds(kernel)
    except MissingNumberError:
        return {}


NOBODYS = "unnamed device"
"""what a fit is of where nobody says which device was measured"""
PRIOR_MODEL = "overlap"
"""the model whose weights of pipelines one device tells of another"""
_A_ROW = "kernel, sizes, seconds and, if you like, kernel_class, label, typical"


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel at one size, and how long it took."""

    kernel: Program
    """the program that was measured"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    seconds: float
    """that one run took"""
    kernel_class: str = ""
    """cross-validation leaves out all rows of a class; by default the kernel's name"""
    label: str = ""
    """which kernel of its class it is, in words; by default the kernel's name"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what the source does not tell (:func:`loopyperf.count`)"""
    samples: Sequence[SampledProgram] = ()
    """what the first groups of each launch took; only learned models look at them"""
    launching: float = 0.0
    """seconds that the host takes beside them"""


Row = Measured | Sequence[Any] | Mapping[str, Any]
"""a :class:`Measured`, its fields in their order, or its fields by name"""


Task = tuple[Measured, Counting, Device | None, float | None]
Asked = TypeVar("Asked")
Found = TypeVar("Found")


def fit(
    measurements: Iterable[Row],
    *,
    device: Device | str | None = None,
    model: str | None = None,
    counting: Counting = "executed",
    source: str = "timings taken elsewhere",
    save: str | os.PathLike[str] | None = None,
    prior: FitChoice | None = None,
    executor: Executor | None = None,
    time_limit: float | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> Fit:
    """Return the fit of *measurements* that were taken on *device*, in seconds per unit of work.

    It is of *model*, or of the model that generalises best. *measurements* are rows of a kernel, its sizes, the seconds
    that it took, and the class that it is of: tuples in this order, mappings, or :class:`Measured`. *device* is a name
    or a description, by default what ``LOOPYPERF_DEVICE`` names: where the device is described, how long its pipelines
    are busy is tried beside property counts. *counting* says how work is counted (see :func:`loopyperf.count`), and
    *source* in a few words where the times come from. Rows are analysed by *executor*, if one is given. A row that
    cannot be analysed, or takes more than *time_limit* seconds, raises its error; with *on_failure* this is called
    instead, with the row and the error, and the fit is made without it. The fit is written to *save*, if that is given,
    in the format of :func:`loopyperf.calibrate`.

    A few rows suffice where the device is described: weights of pipelines are drawn to the description, and are near it
    until there are some tens of rows. With *prior*, a fit of pipelines (or its path, or the name of a device that has
    one), they are drawn to its weights instead, and only the overlap of pipelines is fitted.

    Raises :class:`CalibrationError` if a row is not a measurement or nothing is left to fit, :class:`UnknownModelError`
    for a model that is not fitted, and :class:`ParameterError` for an invalid device, prior, executor or time limit;
    for a prior also what :func:`loopyperf.load_fit` raises, and :class:`UnknownDeviceError`.
    """
    if model is not None:
        find_fitted_model(model)
    believed = prior_fit(prior, model)
    named, known = given_device_name(device)
    rows = checked_rows(measurements)
    check_executor(executor)
    check_time_limit(time_limit)
    observations = _observed(rows, counting, known, executor, time_limit, on_failure)
    candidates = drawn_to(believed, observations) if believed else possible(observations, model)
    said = f"{source}; drawn to the fit of {believed.slug}" if believed else source
    fits = fit_observations(given_provenance(named, known, counting, said), observations, candidates)
    if save is not None:
        save_fit(fits[0], Path(save))
    return fits[0]


def prior_fit(prior: FitChoice | None, model: str | None) -> Fit | None:
    """Return the fit of pipelines that *prior* is, or names by its path or its device.

    Raises :class:`ParameterError` for a fit of counts, or where a *model* without pipelines is asked for, and what
    reading it raises.
    """
    if prior is None:
        return None
    if model not in (None, PRIOR_MODEL):
        raise ParameterError(
            f"prior= is for the model {PRIOR_MODEL!r}, received model={model!r}; leave one of them out"
        )
    if isinstance(prior, str) and not is_path(prior):
        found = chosen_fit(PRIOR_MODEL, prior, None)
    else:
        found = chosen_fit(None, None, prior)
    if (found.model, found.basis) != (PRIOR_MODEL, "pipelines"):
        raise ParameterError(
            f"prior= is a fit of {PRIOR_MODEL!r}, of pipelines; received the fit of {found.model!r}, of {found.basis}, "
            f"on {found.slug}; make one of its archive with `loopyperf fit --model {PRIOR_MODEL}`"
        )
    return found


def drawn_to(prior: Fit, observations: Sequence[Observation]) -> tuple[FitRecipe, ...]:
    """Return the one way to fit *observations* with weights that are drawn to those of *prior*.

    Raises :class:`ParameterError` where nothing is known of their pipelines.
    """
    found = [each for each in possible(observations, PRIOR_MODEL) if each.basis == "pipelines"]
    if not found:
        raise ParameterError(
            "prior= needs a device with a complete description, of which pipelines are known; state device=, or leave "
            "prior= out"
        )
    return tuple(replace(each, solve=partial(solve_overlap, prior=prior)) for each in found)


def given_provenance(device: Device | str, known: Device | None, counting: Counting, source: str) -> Provenance:
    """Return where what is made from rows taken on *device* comes from; *known* is its description, if it has one."""
    return Provenance(
        model="",
        device=known.name if known else str(device),
        slug=known.slug if known else device_slug(str(device)),
        versions=installed_versions(),
        counting=counting,
        created=datetime.now(UTC),
        source=source,
    )


def given_device_name(device: object) -> tuple[Device | str, Device | None]:
    """Return the name of *device*, or its description, and its description if there is one.

    Without one, that is what ``LOOPYPERF_DEVICE`` names, or nobody's. Raises :class:`ParameterError` if *device* is
    neither a name nor a description.
    """
    if isinstance(device, Device):
        return device, device
    named = os.environ.get(DEVICE_VARIABLE) or NOBODYS if device is None else device
    if not isinstance(named, str) or not device_slug(named):
        raise ParameterError(f"device is the name of the measured device, or its description; received {device!r}")
    return named, description_or_none(device_slug(named))


def checked_rows(measurements: object) -> list[Measured]:
    """Return *measurements* as rows; raises :class:`CalibrationError` naming the first that is not a measurement."""
    if isinstance(measurements, str) or not isinstance(measurements, Iterable):
        raise CalibrationError(f"measurements are rows of {_A_ROW}; received {measurements!r:.80}")
    return [_row(row, number) for number, row in enumerate(cast("Iterable[object]", measurements))]


def _row(row: object, number: int) -> Measured:
    found, why = row, ""
    try:
        if isinstance(row, Mapping):
            found = Measured(**cast("Mapping[str, Any]", row))
        elif isinstance(row, Sequence) and not isinstance(row, str):
            found = Measured(*cast("Sequence[Any]", row))
    except TypeError as error:
        why = f" ({error})"
    if not isinstance(found, Measured):
        raise CalibrationError(f"row {number} is not a measurement: give {_A_ROW}; received {row!r:.80}{why}")
    sizes, seconds = cast("object", found.sizes), cast("object", found.seconds)
    if not isinstance(sizes, Mapping):
        raise CalibrationError(f"row {number}: sizes are by name, as in {{'n': 1024}}; received {sizes!r:.80}")
    if not isinstance(seconds, Real) or not (isfinite(float(seconds)) and float(seconds) > 0):
        raise CalibrationError(f"row {number}: seconds must be a positive number; received {seconds!r:.80}")
    return found


def _observed(
    rows: Sequence[Measured],
    counting: Counting,
    device: Device | None,
    executor: Executor | None,
    time_limit: float | None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None,
) -> list[Observation]:
    tasks: list[Task] = [(row, counting, device, time_limit) for row in rows]
    return analysed(_observation, tasks, rows, executor, on_failure)


def analysed(
    analyse: Callable[[Asked], Found | LoopyperfError],
    tasks: Sequence[Asked],
    rows: Sequence[Measured],
    executor: Executor | None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None,
) -> list[Found]:
    """Return what *analyse* finds of each of *tasks*, one for each of *rows*, by *executor* if there is one.

    The first error is raised; with *on_failure* this is called with the row instead, which is left out.
    """
    found = map(analyse, tasks) if executor is None else executor.map(analyse, tasks)
    kept: list[Found] = []
    for row, each in zip(rows, found, strict=True):
        if not isinstance(each, LoopyperfError):
            kept.append(each)
        elif on_failure is None:
            raise each
        else:
            on_failure(row, each)
    return kept


def _observation(task: Task) -> Observation | LoopyperfError:
    row, counting, device, time_limit = task
    entry: Any = getattr(row.kernel, "default_entrypoint", row.kernel)
    name = str(getattr(entry, "name", entry))
    observed = partial(
        observe,
        row.kernel,
        row.sizes,
        row.seconds,
        kernel_class=row.kernel_class or name,
        label=row.label or name,
        counting=counting,
        device=device,
        typical=row.typical or None,
    )
    try:
        return limited(time_limit, observed)
    except TimeIsUp:
        return CalibrationError(f"{row.label or name} at {dict(row.sizes)} takes longer than {time_limit} s to analyse")
    except LoopyperfError as error:
        return error
