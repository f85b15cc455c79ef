"""Training of residual models on measurements: kernels, sizes, seconds, and optional samples."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor

from msgspec import structs

from loopyperf.calibration.archived import measured_device, measured_kernels, provenance, within_the_model
from loopyperf.calibration.fit import (
    Measured,
    Row,
    analysed,
    busy_if_known,
    checked_rows,
    given_device_name,
    given_provenance,
)
from loopyperf.calibration.fit_library import FITTED_MODELS
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations, possible
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.residual_model import (
    SAMPLED,
    ResidualModel,
    save_residual_model,
)
from loopyperf.calibration.training import MIN_CLASSES, Base, Example, fitted_base, learn, unfitted_base
from loopyperf.device.description import Device
from loopyperf.errors import (
    CalibrationError,
    LoopyperfError,
    UnknownModelError,
)
from loopyperf.executors import check_executor
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.sampling import sampled_time
from loopyperf.predict.corrected import SeenKernel

FITTED = FITTED_MODELS[::-1]
"""base models that are fitted to the rows, the default first"""
BASES = (SAMPLED, *FITTED, *DEVICE_MODELS)
"""models that a residual model can correct"""

Task = tuple[Measured, str, Device | None]


def train(
    measurements: Iterable[Row],
    *,
    device: Device | str | None = None,
    base: str | None = None,
    source: str = "timings taken elsewhere",
    save: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> ResidualModel:
    """Train a residual model, which corrects the predictions of another model, on measurements.

    Parameters
    ----------
    measurements : iterable of Measured, Mapping or tuple
        Rows as for :func:`loopyperf.fit`: kernel, sizes, seconds and optional samples.
    device : Device or str, optional
        The device on which they were measured.
    base : str, optional
        The model to correct: ``"sampled"``, ``"overlap"``, ``"linear"``, or a model of the device such as
        ``"pipeline"``. Default: ``"sampled"`` if any row has samples, else ``"overlap"``. ``"sampled"`` uses only rows
        with samples (``record.source`` tells how many). A fitted base is fitted to the rows: to pipelines if the device
        parameters are known, else to counts.
    source : str
        Origin of the measurements, for the record.
    save : str or os.PathLike, optional
        File for the model.
    executor : concurrent.futures.Executor, optional
        Where to analyze the rows. Default: this process.
    on_failure : callable, optional
        Called with each row that cannot be analyzed and its error; without it, the error is raised.

    Returns
    -------
    ResidualModel
        The model, for ``lpp.estimate(..., model="learned", fit=...)``.

    Raises
    ------
    CalibrationError
        A row is not a measurement, or there are fewer than three kernel classes.
    UnknownModelError
        *base* is unknown.
    ParameterError
        *device* or *executor* is invalid.
    LoopyperfError
        scikit-learn is not installed.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> rows = lpp.load_measurements("archive.jsonl")                                   # doctest: +SKIP
    >>> learned = lpp.train(rows, device="nvidia-titan-v", save="learned.json")         # doctest: +SKIP
    >>> lpp.estimate(knl, n=2**20, model="learned", fit=learned).seconds                # doctest: +SKIP
    """
    check_executor(executor)
    named, known = given_device_name(device)
    rows = checked_rows(measurements)
    origin = given_provenance(named, known, "executed", source)
    learned = _learned(origin, rows, known, base, executor, on_failure)
    if save is not None:
        save_residual_model(learned, save)
    return learned


def train_recordings(
    recordings: Sequence[Recording], files: Sequence[KernelFile], base: str | None = None
) -> ResidualModel:
    """Train a residual model on archives of `loopyperf calibrate`; see :func:`train`.

    Kernels whose time depends on things that no property models are skipped, as in fits. Raises
    :class:`CalibrationError` without archives, for an archive without a run, for archives of several devices, and for
    kernels that are not in *files*.
    """
    rows = [row for recording in recordings for row in measured_kernels(within_the_model(recording, files), files)]
    slugs = sorted({recording.runs[-1].environment.slug for recording in recordings})
    if len(slugs) != 1:
        raise CalibrationError(f"give archives of one device; these are of: {', '.join(slugs) or 'none'}")
    first = recordings[0].runs[-1]
    if unlike := [reason for recording in recordings for reason in first.differences(recording.runs[-1])]:
        raise CalibrationError(f"cannot combine these archives: {'; '.join(dict.fromkeys(unlike))}")
    latest = max(recordings, key=lambda recording: recording.runs[-1].started)
    known = measured_device(latest.runs[-1].environment)
    return _learned(provenance(latest, "executed"), rows, known, base)


def _learned(
    origin: Provenance,
    rows: Sequence[Measured],
    device: Device | None,
    base: str | None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> ResidualModel:
    """Return a residual model of those *rows* that the base can use; the record's source says how many."""
    chosen = _chosen(base, rows, device)
    used = _used(rows, chosen)
    found = examples(used, chosen, device, executor, on_failure)
    _check_sampled_classes(found, used, rows)
    origin = structs.replace(origin, source=_source_note(origin.source, used, rows))
    return learn_from(origin, found, chosen)


def learn_from(origin: Provenance, examples: Sequence[Example], base: str) -> ResidualModel:
    """Return the residual model of *base* learned from *examples*; see :func:`train`."""
    if base not in FITTED:
        return learn(origin, unfitted_base(base), examples)
    fitted, fit = _fitted(origin, examples, base)
    return learn(origin, fitted, examples, fit)


def _fitted(origin: Provenance, examples: Sequence[Example], base: str) -> tuple[Base, Fit | None]:
    """Return a base model fitted to *examples* (to pipelines if they have any), and its fit to all of them."""
    observations = [example.observation for example in examples]
    candidates = possible(observations, base) if observations else ()
    if not candidates:
        return unfitted_base(base), None  # learn() raises an error about missing rows
    candidate = min(candidates, key=lambda each: each.basis != "pipelines")
    (fit,) = fit_observations(origin, observations, [candidate])
    return fitted_base(candidate), fit


def _chosen(base: str | None, rows: Sequence[Measured], device: Device | None) -> str:
    """Return the name of the base model; raises an error if it cannot be used."""
    sampled = any(row.samples for row in rows)
    if base is None:
        base = SAMPLED if sampled else FITTED[0]
    if base == SAMPLED and rows and not sampled:
        raise CalibrationError(
            f"base {SAMPLED!r} needs samples, but none of the {len(rows)} rows has any; record some with `loopyperf "
            f"calibrate --samples`, or use base={FITTED[0]!r}"
        )
    if base in (SAMPLED, *FITTED):
        return base
    if base not in DEVICE_MODELS:
        raise UnknownModelError(f"base {base!r} cannot be corrected; choose one of: {', '.join(BASES)}")
    if device is None:
        raise CalibrationError(f"base {base!r} needs device parameters; name a device that has a device file")
    return base


def _used(rows: Sequence[Measured], base: str) -> Sequence[Measured]:
    """Return those of *rows* that the model *base* can use."""
    return [row for row in rows if row.samples] if base == SAMPLED else rows


def _check_sampled_classes(found: Sequence[Example], used: Sequence[Measured], rows: Sequence[Measured]) -> None:
    """Raise :class:`CalibrationError` if too few kernel classes have samples."""
    classes = sorted({each.observation.kernel_class for each in found})
    if len(used) < len(rows) and len(classes) < MIN_CLASSES:
        raise CalibrationError(
            f"only {len(used)} of {len(rows)} rows have samples, of {len(classes)} kernel classes "
            f"({', '.join(map(repr, classes))}); sample at least {MIN_CLASSES} classes, or use another base, e.g. "
            f"base={FITTED[0]!r}"
        )


def _source_note(source: str, used: Sequence[Measured], rows: Sequence[Measured]) -> str:
    """Return *source*, with the number of *rows* that were *used* if it is not all."""
    return source if len(used) == len(rows) else f"{source}, the {len(used)} of {len(rows)} rows that have samples"


# {{{ from rows to examples


def examples(
    rows: Sequence[Measured],
    base: str,
    device: Device | None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> list[Example]:
    """Return the training examples for *base*: *rows* with their features; see :func:`train`.

    A row that cannot be analyzed raises its error, or is passed to *on_failure* with the error.
    """
    tasks: list[Task] = [(row, base, device) for row in rows]
    return analysed(_example, tasks, rows, executor, on_failure)


def _example(task: Task) -> Example | LoopyperfError:
    row, base, device = task
    samples = row.samples if base == SAMPLED else ()
    kernel = SeenKernel(row.kernel, row.sizes, device, row.typical or None, samples, row.launching)
    try:
        observation = Observation(
            kernel_class=row.kernel_class or kernel.profile.kernel,
            label=row.label or kernel.profile.kernel,
            sizes=dict(row.sizes),
            properties=kernel.counts,
            seconds=row.seconds,
            pipelines=busy_if_known(lambda: kernel.timed),
        )
        return Example(observation, kernel.features, _note(kernel, base))
    except LoopyperfError as error:
        return error


def _note(kernel: SeenKernel, base: str) -> float | None:
    """Return the seconds that the base predicts; None for a fitted base."""
    if base == SAMPLED:
        return float(sampled_time(kernel.samples, kernel.launching).seconds)
    if base in FITTED or kernel.timed is None:
        return None
    return float(DEVICE_MODELS[base].time(kernel.timed).seconds)


# }}}
