"""Predictions by a residual model: a base model predicts, and a regression on measurements corrects the prediction."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, isfinite
from typing import Any

from msgspec import structs

from loopyperf.calibration.choice import requested_device
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import (
    SAMPLED,
    ResidualModel,
    find_residual_model,
    load_residual_model,
)
from loopyperf.counts.kernel_counts import KernelCounts
from loopyperf.device.description import Device
from loopyperf.device.device_library import is_one_device, slug_of
from loopyperf.device.substitutes import completed
from loopyperf.display import NoteKind, without
from loopyperf.errors import (
    FitFileError,
    MissingNumberError,
    ParameterError,
)
from loopyperf.kernel import Program
from loopyperf.measurement.backends.backend import RunsParts
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.residual_regression import (
    Features,
    corrected,
    counted_features,
    graph_features,
    lowered_launches,
    sampled_features,
    static_features,
)
from loopyperf.models.result import Answer, Estimate, ModelTime, no_interval
from loopyperf.models.sampling import SampledProgram, sampled_time
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.estimate import Options
from loopyperf.predict.fitted import time_by_counts, time_by_pipelines
from loopyperf.predict.on_device import ANSWERS, answered_at, device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.sampled import opened_for_parts, samples_of
from loopyperf.stages.case import Case, look_up
from loopyperf.stages.counting import CountingOptions, count_at
from loopyperf.stages.device_choice import resolved_device
from loopyperf.stages.profile import LANES, kernel_profile
from loopyperf.stages.timing import timed_program

LearnedChoice = ResidualModel | str | os.PathLike[str]
"""a residual model, or the path of one"""


@dataclass(frozen=True)
class SeenKernel:
    """A kernel at one size, from which features are computed; each attribute is computed on first use."""

    program: Program
    sizes: Mapping[str, Any]
    device: Device | None
    """parameters of the device; None if unknown"""
    typical: Mapping[str, Any] | None = None
    samples: Sequence[SampledProgram] = ()
    launching: float = 0.0
    """seconds of host time in addition to the samples"""

    @cached_property
    def counted(self) -> KernelCounts:
        """Return the symbolic counts of the kernel."""
        return count_at(self.program, CountingOptions("executed", self.typical), self.sizes)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return property -> count in one run."""
        properties = self.counted.properties()
        return dict(zip(properties, properties.totals.evaluator.at(self.sizes), strict=True))

    @cached_property
    def profile(self) -> KernelProfile:
        """Return the instruction graphs and memory accesses of the kernel's warps."""
        lanes = completed(self.device).needed("warp_size") if self.device else LANES
        return kernel_profile(self.program, warp_size=lanes, typical=self.typical, parameters=self.sizes)

    @cached_property
    def timed(self) -> TimedProgram | None:
        """Return the timed program on its device; None without device parameters."""
        case = Case(self.program, self.sizes, self.typical)
        return timed_program(case, device=self.device) if self.device else None

    @cached_property
    def features(self) -> Features:
        """Return the features, including those of samples if there are any."""
        groups = sum(launch.groups * launch.times for launch in self.profile.launches)
        found = self._of_graphs() | counted_features(self.counts, groups)
        if self.samples:
            instructions = sum(launch.instructions for launch in lowered_launches(self.profile))
            found |= sampled_features(self.samples, instructions)
        return found.rounded()

    def _of_graphs(self) -> Features:
        """Return the features of the graphs; those of the device only if its parameters suffice."""
        try:
            return static_features(self.timed) if self.timed else graph_features(lowered_launches(self.profile))
        except MissingNumberError:
            return graph_features(lowered_launches(self.profile))


def chosen_residual_model(
    device: Device | str | None, choice: LearnedChoice | None, default: str = "", backend: str = ""
) -> ResidualModel:
    """Return *choice* (read from its file if it is a path), else the user's own residual model for a device.

    The device is *device*, else the one named *default*. If there are models for several backends, that of *backend*
    is used. Raises :class:`FitFileError` for a file that is not a residual model, and for a model of another device.
    """
    slug = device.slug if isinstance(device, Device) else None if device is None else slug_of(device)
    if choice is None:
        return find_residual_model(slug or default, backend)
    learned = choice if isinstance(choice, ResidualModel) else load_residual_model(choice)
    if slug is not None and not is_one_device(slug, learned.record.slug):
        raise FitFileError(
            f"the residual model was trained on device {learned.record.slug!r}, not on {slug!r}; train one for "
            f"{slug!r}, or select device {learned.record.slug!r}"
        )
    return learned


@dataclass(frozen=True, eq=False)
class CorrectedPredictor(Predictor):
    """A residual model: its base model predicts, and a regression corrects the prediction.

    A residual model of the sampled model executes part of the kernel.
    """

    learned: ResidualModel = field(kw_only=True)
    machine: RunsParts | None = field(default=None, kw_only=True)
    """backend that takes the samples"""
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """kernel arguments by name, for samples; missing ones are generated"""

    def predict(self, case: Case) -> Estimate:
        """Return the predicted run time of *case*; see :func:`loopyperf.estimate`.

        Raises :class:`ModelInputError` if the kernel lacks a feature that the model was trained with, and
        :class:`ParameterError` if the base model needs samples and there is no backend.
        """
        if self.learned.record.base == SAMPLED and self.machine is None:
            raise ParameterError(
                f"the residual model of {self.device} corrects {SAMPLED!r}, which executes part of the kernel; pass a "
                "backend, or train a model without samples"
            )
        return device_estimate(self, case, *answered_at(case, self._answer))

    def _answer(self, case: Case) -> Answer:
        """Return the kernel's name and the answer at one size, from the cache unless the kernel is sampled."""
        device = requested_device(self.learned.record)
        if self.machine is None or self.learned.record.base != SAMPLED:
            key = (structs.replace(self.learned.record, created=None), device, case.typical, case.sizes)
            lookup = look_up(ANSWERS, case.kernel, key)
            return lookup.found or lookup.keep(self._of_graphs(case, device))
        sampled = samples_of(case, self._checked(self.machine), self.arguments)
        kernel = SeenKernel(case.kernel, case.sizes, device, case.typical, sampled.programs, sampled.launching)
        answer = corrected_time(self.learned, kernel)
        return kernel.profile.kernel, replace(answer, notes=(*answer.notes, *sampled.notes(float(answer.seconds))))

    def _of_graphs(self, case: Case, device: Device | None) -> Answer:
        kernel = SeenKernel(case.kernel, case.sizes, device, case.typical)
        return kernel.profile.kernel, corrected_time(self.learned, kernel)

    def _checked(self, machine: RunsParts) -> RunsParts:
        """Return *machine*; raises :class:`FitFileError` if the model was trained on another device."""
        if not is_one_device(machine.environment.slug, self.device):
            raise FitFileError(
                f"the residual model was trained on device {self.device!r}, but the backend runs on "
                f"{machine.environment.slug!r}; train one for it, or use a backend on {self.device!r}"
            )
        return machine


def bound(model: str, options: Options) -> Predictor:
    """Return the predictor for the given options."""
    options.check_unused("a residual model", "counting", "compiler")
    fit, device = options.fit, options.device
    if isinstance(fit, Fit):
        raise ParameterError(f"model={model!r} needs a residual model, got a fit of {fit.model!r}")
    machine = None if options.backend is None else opened_for_parts(options.backend)
    name = device if isinstance(device, Device | None) else os.fspath(device)
    if machine is not None:
        learned = chosen_residual_model(name, fit, machine.environment.slug, machine.environment.backend)
    else:
        learned = chosen_residual_model(name, fit, "" if name or fit else resolved_device())
    return CorrectedPredictor(model, learned.slug, learned=learned, machine=machine, arguments=options.arguments)


def corrected_time(learned: ResidualModel, kernel: SeenKernel) -> ModelTime:
    """Return the corrected time of *kernel*, with its interval."""
    base = _base(learned, kernel)
    if kernel.samples and all(program.samples.is_whole for program in kernel.samples):
        return base  # the whole kernel was measured
    answer = corrected(base, learned.correction(kernel.features))
    if base.left_out:  # the cost of the omitted part is unknown, so there is no interval
        return replace(answer, interval=None, notes=(*base.notes, *learned.doubts(kernel.features)))
    seconds, factor = float(answer.seconds), learned.half_width
    is_known = isfinite(factor)
    spread = (seconds / exp(factor), seconds * exp(factor)) if is_known else None
    why = () if is_known else (no_interval("the model was validated on too few held-out kernels"),)
    notes = without(base.notes, NoteKind.NO_INTERVAL)
    return replace(answer, interval=spread, notes=(*notes, *learned.doubts(kernel.features), *why))


def _base(learned: ResidualModel, kernel: SeenKernel) -> ModelTime:
    record = learned.record
    if record.base == SAMPLED:
        return sampled_time(kernel.samples, kernel.launching)
    fit = record.fit
    if fit is not None and fit.basis == "counts":
        return time_by_counts(kernel.counted, fit, kernel.sizes)
    if kernel.timed is None:
        raise ParameterError(
            f"the residual model corrects {record.base!r}, which needs the device file of {record.slug!r}; restore the "
            "file that was used in training"
        )
    if fit is not None:
        return time_by_pipelines(fit, kernel.timed)
    return DEVICE_MODELS[record.base].time(kernel.timed)
