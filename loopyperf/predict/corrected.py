"""Predictions by a learned model: its base answers, and what was learned from measurements corrects that."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, isfinite
from typing import Any

from msgspec import structs

from loopyperf.calibration.choice import requested_device
from loopyperf.calibration.residual_model import (
    SAMPLED,
    ResidualModel,
    find_residual_model,
    load_residual_model,
)
from loopyperf.counts.counted_kernel import KernelCounts
from loopyperf.device.description import Device
from loopyperf.device.device_library import is_one_device, slug_of
from loopyperf.device.substitutes import completed
from loopyperf.errors import (
    FitFileError,
    MissingNumberError,
    ParameterError,
)
from loopyperf.kernel import Program
from loopyperf.measurement.backends.backend import RunsParts
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
