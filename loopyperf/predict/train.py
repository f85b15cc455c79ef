"""Train a residual model on measurements: kernels, sizes, seconds, and samples or none."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor

from msgspec import structs

from loopyperf.calibration.archived import measured_kernels, provenance, within_the_model
from loopyperf.calibration.choice import measured_device
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
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.residual_model import (
    SAMPLED,
    ResidualModel,
    check_recipe,
    save_residual_model,
)
from loopyperf.calibration.training import FEWEST_CLASSES, Base, Example, FittedBase, UnfittedBase, learn
from loopyperf.calibration.validation import possible
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
"""bases that are fitted to the rows, the usual one first"""
BASES = (SAMPLED, *FITTED, *DEVICE_MODELS)
"""models whose error can be learned"""

Task = tuple[Measured, str, Device | None]


def train(
    measurements: Iterable[Row],
    *,
    device: Device | str | None = None,
    base: str | None = None,
    recipe: str = "svr",
    source: str = "timings taken elsewhere",
    save: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> ResidualModel:
    """Return what can be learned from *measurements*, taken on *device*, of the error of the model called *base*.

    *measurements* are rows as :func:`loopyperf.fit` takes them. The base is the sampled model where rows have samples,
    and then only these rows are learned from, as ``record.source`` says; else the overlap model, fitted to the rows: of
    pipelines where the device is described. It may be a model of the device, as ``"pipeline"``, too. *recipe* learns:
    ``"svr"``, or ``"trees"``; both are judged on kernel classes that they have not seen, beside the base alone
    (``record.scores``). The model is written to *save*, if that is given. A row that cannot be analysed raises its
    error; with *on_failure* this is called instead.

    Raises :class:`CalibrationError` if a row is not a measurement, and for fewer than three classes of kernels,
    :class:`UnknownModelError` for an unknown base, :class:`ParameterError` for an invalid device or executor, and
    :class:`LoopyperfError` where scikit-learn is not installed.
    """
    check_recipe(recipe)
    check_executor(executor)
    named, known = given_device_name(device)
    rows = checked_rows(measurements)
    origin = given_provenance(named, known, "executed", source)
    learned = _learned(origin, rows, known, base, recipe, executor, on_failure)
    if save is not None:
        save_residual_model(learned, save)
    return learned


def train_recordings(
    recordings: Sequence[Recording], files: Sequence[KernelFile], base: str | None = None, recipe: str = "svr"
) -> ResidualModel:
    """Return what can be learned from all that archives of `loopyperf calibrate` hold; see :func:`train`.

    Kernels whose time hangs on what no property stands for are left out, as of fits. Raises :class:`CalibrationError`
    for no archive, for one without a run, for archives of several devices, and for kernels that *files* do not have.
    """
    check_recipe(recipe)
    rows = [row for each in recordings for row in measured_kernels(within_the_model(each, files), files)]
    slugs = sorted({each.runs[-1].environment.slug for each in recordings})
    if len(slugs) != 1:
        raise CalibrationError(f"a learned model is of one device; the archives are of: {', '.join(slugs) or 'none'}")
    first = recordings[0].runs[-1]
    if unlike := [reason for each in recordings for reason in first.differences(each.runs[-1])]:
        raise CalibrationError(f"these archives must not stand side by side: {'; '.join(dict.fromkeys(unlike))}")
    latest = max(recordings, key=lambda each: each.runs[-1].started)
    known = measured_device(latest.runs[-1].environment)
    return _learned(provenance(latest, "executed"), rows, known, base, recipe)


def _learned(
    origin: Provenance,
    rows: Sequence[Measured],
    device: Device | None,
    base: str | None,
    recipe: str,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> ResidualModel:
    """Return what can be learned from those of *rows* that tell of the base; the source says how many they are."""
    chosen = _chosen(base, rows, device)
    used = _used(rows, chosen)
    found = examples(used, chosen, device, executor, on_failure)
    _check_sampled_classes(found, used, rows)
    origin = structs.replace(origin, source=_source_note(origin.source, used, rows))
    return learn_from(origin, found, chosen, recipe)


def learn_from(origin: Provenance, examples: Sequence[Example], base: str, recipe: str = "svr") -> ResidualModel:
    """Return what *recipe* learns from *examples* of the error of the model called *base*; see :func:`train`."""
    if base not in FITTED:
        return learn(origin, UnfittedBase(base), examples, recipe)
    fitted, fit = _fitted(origin, examples, base)
    return learn(origin, fitted, examples, recipe, fit)


def _fitted(origin: Provenance, examples: Sequence[Example], base: str) -> tuple[Base, Fit | None]:
    """Return the base that is fitted to *examples*, of pipelines if they have any, and its fit to all of them."""
    observations = [each.observation for each in examples]
    candidates = possible(observations, base) if observations else ()
    if not candidates:
        return UnfittedBase(base), None  # refused for its lack of rows
    candidate = min(candidates, key=lambda each: each.basis != "pipelines")
    (fit,) = fit_observations(origin, observations, [candidate])
    return FittedBase(candidate), fit


def _chosen(base: str | None, rows: Sequence[Measured], device: Device | None) -> str:
    """Return the name of the base; raises for one that cannot be."""
    sampled = any(row.samples for row in rows)
    if base is None:
        base = SAMPLED if sampled else FITTED[0]
    if base == SAMPLED and rows and not sampled:
        raise CalibrationError(
            f"none of the {len(rows)} rows has samples, which the base {SAMPLED!r} needs: take some with `loopyperf "
            f"calibrate --samples`, into the same archive if you like, or learn that of base={FITTED[0]!r}"
        )
    if base in (SAMPLED, *FITTED):
        return base
    if base not in DEVICE_MODELS:
        raise UnknownModelError(f"the error of {base!r} cannot be learned; there are: {', '.join(BASES)}")
    if device is None:
        raise CalibrationError(f"the base {base!r} needs the description of the device; name one that is described")
    return base


def _used(rows: Sequence[Measured], base: str) -> Sequence[Measured]:
    """Return those of *rows* that the error of the model called *base* is learned from."""
    return [row for row in rows if row.samples] if base == SAMPLED else rows


def _check_sampled_classes(found: Sequence[Example], used: Sequence[Measured], rows: Sequence[Measured]) -> None:
    """Raise :class:`CalibrationError` where *rows* would do, and those *used*, which have samples, are too few."""
    classes = sorted({each.observation.kernel_class for each in found})
    if len(used) < len(rows) and len(classes) < FEWEST_CLASSES:
        raise CalibrationError(
            f"{len(used)} of {len(rows)} rows have samples, of {len(classes)} classes of kernels "
            f"({', '.join(map(repr, classes))}), and {FEWEST_CLASSES} classes or more are needed: take samples of "
            f"others, or learn the error of another base, as base={FITTED[0]!r}"
        )


def _source_note(source: str, used: Sequence[Measured], rows: Sequence[Measured]) -> str:
    """Return *source* with how many of *rows* were *used*, if not all."""
    return source if len(used) == len(rows) else f"{source}, the {len(used)} of {len(rows)} rows that have samples"


# {{{ from rows to examples


def examples(
    rows: Sequence[Measured],
    base: str,
    device: Device | None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> list[Example]:
    """Return what the error of the model called *base* is learned from: *rows* with their features; see :func:`train`.

    A row that cannot be analysed raises its error; with *on_failure* this is called instead.
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
    """Return the seconds that the base says, where it is not fitted."""
    if base == SAMPLED:
        return float(sampled_time(kernel.samples, kernel.launching).seconds)
    if base in FITTED or kernel.timed is None:
        return None
    return float(DEVICE_MODELS[base].time(kernel.timed).seconds)


# }}}
