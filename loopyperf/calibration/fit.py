"""Fit a model to timings from any source: rows of a kernel, its sizes and its run time in seconds."""

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

from loopyperf.calibration.choice import FitChoice, chosen_fit
from loopyperf.calibration.fits import Fit, Provenance, save_fit
from loopyperf.calibration.fitting import FitRecipe, fit_observations, possible
from loopyperf.calibration.overlap_fit import solve_overlap
from loopyperf.calibration.problem import Observation
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
from loopyperf.stages.case import Case, found_once
from loopyperf.stages.counting import CountingOptions, count_at
from loopyperf.stages.device_choice import DEVICE_VARIABLE
from loopyperf.stages.timing import timed_program

BUSY: ResultKind[dict[str, float]] = json_result_kind("busy", 4096, dict[str, float])
"""busy seconds by pipeline, cached so that another fit of the same kernels need not analyze them again"""


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
    """Return *program* at *sizes*, with a run time of *seconds*, as an observation.

    With a *device* and executed counting it includes the busy time of the pipelines, unless the device lacks a required
    parameter. Raises the errors of :func:`loopyperf.count` and :func:`loopyperf.instruction_graph`.
    """
    counted = count_at(program, CountingOptions(counting, typical), sizes)
    properties = counted.properties()
    pipelines: dict[str, float] = {}
    if device is not None and counting == "executed":
        timed = partial(timed_program, Case(program, sizes, typical), device=device)
        pipelines = dict(found_once(BUSY, program, (device, typical, sizes), partial(busy_if_known, timed)))
    return Observation(
        kernel_class=kernel_class,
        label=label,
        sizes=dict(sizes),
        properties=dict(zip(properties, properties.totals.evaluator.at(sizes), strict=True)),
        seconds=seconds,
        pipelines=pipelines,
    )


def busy_if_known(timed: Callable[[], TimedProgram | None]) -> dict[str, float]:
    """Return the busy seconds of a kernel's pipelines; empty if the device lacks a required parameter."""
    try:
        kernel = timed()
        return {} if kernel is None else busy_seconds(kernel)
    except MissingNumberError:
        return {}


UNNAMED_DEVICE = "unnamed device"
"""name of the device of a fit if none is given"""
PRIOR_MODEL = "overlap"
"""model whose pipeline weights one device can take from another"""
_A_ROW = "kernel, sizes, seconds and optionally kernel_class, label, typical"


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel at one size and its measured run time.

    Examples
    --------
    >>> import loopy as lp
    >>> import loopyperf
    >>> knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", name="double", lang_version=(2018, 2))
    >>> row = loopyperf.Measured(knl, {"n": 2**20}, 30e-6, kernel_class="doubling")
    >>> row.seconds
    3e-05
    """

    kernel: Program
    """measured program"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    seconds: float
    """time of one run"""
    kernel_class: str = ""
    """class of the kernel, held out as a whole in cross-validation; by default the kernel's name"""
    label: str = ""
    """name of the kernel within its class; by default the kernel's name"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """typical iteration counts and condition shares (:func:`loopyperf.count`)"""
    samples: Sequence[SampledProgram] = ()
    """times of the first groups of each launch; used only by residual models"""
    launching: float = 0.0
    """host time in seconds in addition to the samples"""


Row = Measured | Sequence[Any] | Mapping[str, Any]
"""a :class:`Measured`, its fields in order, or its fields by name"""


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
    """Fit a model to *measurements*, the run times of kernels on one device.

    A few rows suffice if the device has parameters: the weights of pipelines are regularized toward them, and stay
    close to them until there are some tens of rows.

    Parameters
    ----------
    measurements : iterable of Measured, tuple or mapping
        Rows with a kernel, its sizes, its run time in seconds and its class: tuples in this order, mappings, or
        :class:`Measured`.
    device : Device or str, optional
        The measured device. The default is the one that ``LOOPYPERF_DEVICE`` names. If it has parameters, the busy time
        of its pipelines is a candidate for the fit besides property counts.
    model : str, optional
        Model to fit. The default is the one that generalizes best.
    counting : {"executed", "paper"}, optional
        How to count operations; see :func:`loopyperf.count`.
    source : str, optional
        A short description of the source of the times.
    save : path, optional
        File for the fit, in the format of :func:`loopyperf.calibrate`.
    prior : Fit, path or str, optional
        A fit of pipelines, its file, or the name of its device. The weights are regularized toward it instead of the
        device parameters, and only the overlap of pipelines is fitted.
    executor : concurrent.futures.Executor, optional
        Executor that analyzes the rows.
    time_limit : float, optional
        Maximum seconds to analyze a row.
    on_failure : callable, optional
        Called with a row that cannot be analyzed and the error; the row is then omitted. The default raises the error.

    Returns
    -------
    Fit
        Weights in seconds per unit of work, with provenance, residuals and, for two or more kernel classes,
        cross-validation and prediction intervals.

    Raises
    ------
    CalibrationError
        A row is not a measurement, or nothing is left to fit.
    UnknownModelError
        *model* is not a fitted model.
    ParameterError
        The device, prior, executor or time limit is invalid.
    FitFileError
        *prior* cannot be loaded, or the fit cannot be saved.
    UnknownDeviceError
        *prior* names a device without a fit.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("out, a", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="double",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> rows = [(knl, {"n": 2**20}, 30e-6), (knl, {"n": 2**22}, 90e-6), (knl, {"n": 2**24}, 330e-6)]
    >>> fit = lpp.fit(rows, device="my-gpu", model="linear")
    >>> print(f"{fit.weights['launches']:.1g} s")
    1e-05 s
    >>> print(f"{lpp.estimate(knl, fit=fit, n=2**23).seconds:.2g} s")
    0.00017 s
    """
    if model is not None:
        find_fitted_model(model)
    believed = prior_fit(prior, model)
    named, known = given_device_name(device)
    rows = checked_rows(measurements)
    check_executor(executor)
    check_time_limit(time_limit)
    tasks: list[Task] = [(row, counting, known, time_limit) for row in rows]
    observations = analysed(_observation, tasks, rows, executor, on_failure)
    candidates = regularized_toward(believed, observations) if believed else possible(observations, model)
    origin = f"{source}; regularized toward the fit of {believed.slug}" if believed else source
    fits = fit_observations(given_provenance(named, known, counting, origin), observations, candidates)
    if save is not None:
        save_fit(fits[0], Path(save))
    return fits[0]


def prior_fit(prior: FitChoice | None, model: str | None) -> Fit | None:
    """Return the fit of pipelines given by *prior*: a fit, its path or its device.

    Raises :class:`ParameterError` for a fit of counts or a *model* without pipelines, and the errors of loading it.
    """
    if prior is None:
        return None
    if model not in (None, PRIOR_MODEL):
        raise ParameterError(f"a prior is an option of model {PRIOR_MODEL!r}, got model={model!r}; omit one of them")
    if isinstance(prior, str) and not is_path(prior):
        found = chosen_fit(PRIOR_MODEL, prior, None)
    else:
        found = chosen_fit(None, None, prior)
    if (found.model, found.basis) != (PRIOR_MODEL, "pipelines"):
        raise ParameterError(
            f"a prior must be a fit of model {PRIOR_MODEL!r} to pipelines, got one of {found.model!r} to {found.basis} "
            f"for {found.slug}; make one from its archive with `loopyperf fit --model {PRIOR_MODEL}`"
        )
    return found


def regularized_toward(prior: Fit, observations: Sequence[Observation]) -> tuple[FitRecipe, ...]:
    """Return the candidate that fits *observations* with weights regularized toward those of *prior*.

    Raises :class:`ParameterError` if the observations have no pipelines.
    """
    found = [each for each in possible(observations, PRIOR_MODEL) if each.basis == "pipelines"]
    if not found:
        raise ParameterError("a prior needs a device with complete parameters; pass a device, or omit the prior")
    return tuple(replace(each, solve=partial(solve_overlap, prior=prior)) for each in found)


def given_provenance(device: Device | str, known: Device | None, counting: Counting, source: str) -> Provenance:
    """Return the provenance of a model made from rows measured on *device*, whose parameters are *known* or None."""
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
    """Return *device*'s name, or its parameters if given, and its parameters if they exist.

    The default is the device that ``LOOPYPERF_DEVICE`` names, or an unnamed device. Raises :class:`ParameterError` if
    *device* is neither a name nor device parameters.
    """
    if isinstance(device, Device):
        return device, device
    named = os.environ.get(DEVICE_VARIABLE) or UNNAMED_DEVICE if device is None else device
    if not isinstance(named, str) or not device_slug(named):
        raise ParameterError(f"device must be the name or the parameters of the measured device; got {device!r}")
    return named, description_or_none(device_slug(named))


def checked_rows(measurements: object) -> list[Measured]:
    """Return *measurements* as rows; raises :class:`CalibrationError` with the number of the first invalid one."""
    if isinstance(measurements, str) or not isinstance(measurements, Iterable):
        raise CalibrationError(f"measurements must be rows of {_A_ROW}; got {measurements!r:.80}")
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
        raise CalibrationError(f"row {number} must be a measurement: {_A_ROW}; got {row!r:.80}{why}")
    sizes, seconds = cast("object", found.sizes), cast("object", found.seconds)
    if not isinstance(sizes, Mapping):
        raise CalibrationError(f"row {number}: sizes must be a mapping by name, as in {{'n': 1024}}; got {sizes!r:.80}")
    if not isinstance(seconds, Real) or not (isfinite(float(seconds)) and float(seconds) > 0):
        raise CalibrationError(f"row {number}: seconds must be a positive number; got {seconds!r:.80}")
    return found


def analysed(
    analyse: Callable[[Asked], Found | LoopyperfError],
    tasks: Sequence[Asked],
    rows: Sequence[Measured],
    executor: Executor | None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None,
) -> list[Found]:
    """Return the results of *analyse* for *tasks*, which belong to *rows*, by *executor* if given.

    The first error is raised, unless *on_failure* is given: then it is called with the row, which is omitted.
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
        return CalibrationError(f"analyzing {row.label or name} at {dict(row.sizes)} took more than {time_limit} s")
    except LoopyperfError as error:
        return error
