"""Predictions by a learned model: its base answers, and what was learned from measurements corrects that."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, isfinite
from typing import Any

from msgspec import structs

from loopyperf.calibration.archived import measured_kernels, provenance, within_the_model
from loopyperf.calibration.choice import measured_device, requested_device
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
    find_residual_model,
    load_residual_model,
    save_residual_model,
)
from loopyperf.calibration.training import FEWEST_CLASSES, Base, Example, FittedBase, UnfittedBase, learn
from loopyperf.calibration.validation import possible
from loopyperf.counts.counted_kernel import KernelCounts
from loopyperf.device.description import Device
from loopyperf.device.device_library import is_one_device, slug_of
from loopyperf.device.substitutes import completed
from loopyperf.errors import (
    CalibrationError,
    FitFileError,
    LoopyperfError,
    MissingNumberError,
    ParameterError,
    UnknownModelError,
)
from loopyperf.executors import check_executor
from loopyperf.kernel import Program
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.backends.backend import RunsParts
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.residual_regression import Features, corrected, sampled_features
from loopyperf.models.result import NO_INTERVAL, Answer, Estimate, ModelTime
from loopyperf.models.sampling import SampledProgram, sampled_time
from loopyperf.models.static_features import counted_features, graph_features, lowered_launches, static_features
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.by_counts import time_by_counts
from loopyperf.predict.on_device import ANSWERS, answered_at, device_estimate, time_by_pipelines
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.sampled import samples_of
from loopyperf.stages.case import Case, CountingOptions, count_at, found_once
from loopyperf.stages.stages import LANES, Stages, kernel_profile, staged

LearnedChoice = ResidualModel | str | os.PathLike[str]
"""a learned model, or the path of one"""


@dataclass(frozen=True)
class SeenKernel:
    """A kernel at one size; each attribute is computed on first use."""

    program: Program
    sizes: Mapping[str, Any]
    device: Device | None
    """None where the device is not described"""
    typical: Mapping[str, Any] | None = None
    samples: Sequence[SampledProgram] = ()
    launching: float = 0.0
    """seconds that the host takes beside them"""

    @cached_property
    def counted(self) -> KernelCounts:
        """Return what the kernel does."""
        return count_at(self.program, CountingOptions("executed", self.typical), self.sizes)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return property -> how many units of it a run has."""
        properties = self.counted.properties()
        return dict(zip(properties, properties.totals.at(self.sizes), strict=True))

    @cached_property
    def profile(self) -> KernelProfile:
        """Return what the kernel's warps do."""
        lanes = completed(self.device).needed("warp_size") if self.device else LANES
        return kernel_profile(self.program, warp_size=lanes, typical=self.typical, parameters=self.sizes)

    @cached_property
    def stages(self) -> Stages | None:
        """Return what becomes of the kernel on its device; None where that is not described."""
        return staged(self.profile, self.device) if self.device else None

    @property
    def timed(self) -> TimedProgram | None:
        """Return the kernel on its device; None where that is not described."""
        return None if self.stages is None else self.stages.timed

    @cached_property
    def features(self) -> Features:
        """Return the features: of samples too, where there are any."""
        groups = sum(launch.groups * launch.times for launch in self.profile.launches)
        found = self._of_graphs() | counted_features(self.counts, groups)
        if self.samples:
            instructions = sum(launch.instructions for launch in lowered_launches(self.profile))
            found |= sampled_features(self.samples, instructions)
        return found.rounded()

    def _of_graphs(self) -> Features:
        """Return what the graphs tell, as much as the device's description has numbers for."""
        try:
            return static_features(self.timed) if self.timed else graph_features(lowered_launches(self.profile))
        except MissingNumberError:
            return graph_features(lowered_launches(self.profile))


def chosen_residual_model(
    device: Device | str | None, choice: LearnedChoice | None, meant: str = "", backend: str = ""
) -> ResidualModel:
    """Return *choice* (read, if it is a path), else a person's own learned model of *device*, else of the one *meant*.

    Of several of a device, under whichever of its names they were trained, that of *backend* is taken. Raises
    :class:`FitFileError` for a file that is not a learned model, and for a model of another device than was asked for.
    """
    slug = device.slug if isinstance(device, Device) else None if device is None else slug_of(device)
    if choice is None:
        return find_residual_model(slug or meant, backend)
    learned = choice if isinstance(choice, ResidualModel) else load_residual_model(choice)
    if slug is not None and not is_one_device(slug, learned.record.slug):
        raise FitFileError(
            f"the learned model was trained on the device {learned.record.slug!r} and knows nothing of {slug!r}, which "
            "was asked for; train one there, or name the device that it is of"
        )
    return learned


@dataclass(frozen=True, eq=False)
class CorrectedPredictor(Predictor):
    """A learned model: its base answers, and what was learned from measurements corrects that.

    A model that corrects the sampled one executes a part of the kernel.
    """

    learned: ResidualModel = field(kw_only=True)
    machine: RunsParts | None = field(default=None, kw_only=True)
    """the backend that takes samples"""
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """of the kernel, by name, for samples; others are made up"""

    def predict(self, case: Case) -> Estimate:
        """Return how long *case* takes; see :func:`loopyperf.estimate`.

        Raises :class:`ModelInputError` where a feature is missing that the model was trained with, and
        :class:`ParameterError` where there is no backend that takes the samples that it corrects.
        """
        if self.learned.record.base == SAMPLED and self.machine is None:
            raise ParameterError(
                f"this learned model of {self.device} corrects the sampled model, which executes a part of the kernel: "
                "give backend=...; without the device, train a model from rows without samples"
            )
        return device_estimate(self, case, *answered_at(case, self._answer))

    def _answer(self, case: Case) -> Answer:
        """Return the kernel's name and the answer at one size; it is cached unless a part of the kernel is executed."""
        device = requested_device(self.learned.record)
        if self.machine is None or self.learned.record.base != SAMPLED:
            asked = (structs.replace(self.learned.record, created=None), device, case.typical, case.sizes)
            return found_once(ANSWERS, case.kernel, asked, lambda: self._of_graphs(case, device))
        taken = samples_of(case, self._checked(self.machine), self.arguments)
        kernel = SeenKernel(case.kernel, case.sizes, device, case.typical, taken.programs, taken.launching)
        answer = corrected_time(self.learned, kernel)
        return kernel.profile.kernel, replace(answer, notes=(*answer.notes, *taken.notes(float(answer.seconds))))

    def _of_graphs(self, case: Case, device: Device | None) -> Answer:
        kernel = SeenKernel(case.kernel, case.sizes, device, case.typical)
        return kernel.profile.kernel, corrected_time(self.learned, kernel)

    def _checked(self, machine: RunsParts) -> RunsParts:
        """Return *machine*; raises :class:`FitFileError` if it is another device than the model was trained on."""
        if not is_one_device(machine.environment.slug, self.device):
            raise FitFileError(
                f"the learned model was trained on the device {self.device!r}, and samples would be taken on "
                f"{machine.environment.slug!r}; train one there, or open a backend of the device that it is of"
            )
        return machine


def corrected_time(learned: ResidualModel, kernel: SeenKernel) -> ModelTime:
    """Return the time of *kernel* with its interval: what the base says, corrected."""
    base = _base(learned, kernel)
    if kernel.samples and all(each.samples.is_whole for each in kernel.samples):
        return base  # it was run
    answer = corrected(base, learned.correction(kernel.features))
    if base.left_out:  # which may take any time, corrected or not
        return replace(answer, interval=None, notes=(*base.notes, *learned.doubts(kernel.features)))
    seconds, factor = float(answer.seconds), learned.half_width
    is_known = isfinite(factor)
    spread = (seconds / exp(factor), seconds * exp(factor)) if is_known else None
    why = () if is_known else (f"{NO_INTERVAL}the model was tried on too few kernels that it had not seen",)
    said = (note for note in base.notes if not note.startswith(NO_INTERVAL))
    return replace(answer, interval=spread, notes=(*said, *learned.doubts(kernel.features), *why))


def _base(learned: ResidualModel, kernel: SeenKernel) -> ModelTime:
    record = learned.record
    if record.base == SAMPLED:
        return sampled_time(kernel.samples, kernel.launching)
    fit = record.fit
    if fit is not None and fit.basis == "counts":
        return time_by_counts(kernel.counted, fit, kernel.sizes)
    if kernel.timed is None:
        raise ParameterError(
            f"this learned model corrects {record.base!r}, which needs the description of the device {record.slug!r}; "
            "it is missing: restore it to where it was when the model was trained"
        )
    if fit is not None:
        return time_by_pipelines(fit, kernel.timed)
    return DEVICE_MODELS[record.base].time(kernel.timed)


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
