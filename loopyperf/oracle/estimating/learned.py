"""Estimates by a learned model: its base answers, and what was learned from measurements corrects that."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, isfinite
from typing import Any

from loopyperf.calibration.learning.learned import SAMPLED, Learned
from loopyperf.calibration.learning.learned_files import find_learned, load_learned
from loopyperf.device.description import Device
from loopyperf.device.library import is_one_device, slug_of
from loopyperf.errors import FitFileError, ParameterError
from loopyperf.kernel import Program
from loopyperf.measurement.backends.parts import RunsParts
from loopyperf.models import DEVICE_MODELS
from loopyperf.models.learned import corrected
from loopyperf.models.result import NO_INTERVAL, Estimate, ModelTime
from loopyperf.models.sampling import sampled_time
from loopyperf.oracle.estimating.by_counts import time_by_counts
from loopyperf.oracle.estimating.by_device import answered_at, device_estimate, time_by_pipelines
from loopyperf.oracle.estimating.sampled import samples_of
from loopyperf.oracle.observation import told_device
from loopyperf.oracle.samples.taking import SampledKernel
from loopyperf.oracle.seen_kernel import SeenKernel

Sampler = Callable[[Mapping[str, Any], str], SampledKernel]
"""takes samples at a size, on the device of that short name"""
LearnedChoice = Learned | str | os.PathLike[str]
"""a learned model, or the path of one"""


def chosen_learned(
    device: Device | str | None, choice: LearnedChoice | None, meant: str = "", backend: str = ""
) -> Learned:
    """Return *choice* (read, if it is a path), else a person's own learned model of *device*, else of the one *meant*.

    Of several of a device, under whichever of its names they were trained, that of *backend* is taken. Raises
    :class:`FitFileError` for a file that is not a learned model, and for a model of another device than was asked for.
    """
    slug = device.slug if isinstance(device, Device) else None if device is None else slug_of(device)
    if choice is None:
        return find_learned(slug or meant, backend)
    learned = choice if isinstance(choice, Learned) else load_learned(choice)
    if slug is not None and not is_one_device(slug, learned.record.slug):
        raise FitFileError(
            f"the learned model was trained on the device {learned.record.slug!r} and knows nothing of {slug!r}, which "
            "was asked for; train one there, or name the device that it is of"
        )
    return learned


def estimate_learned(
    program: Program,
    learned: Learned,
    typical: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
    take: Sampler | None = None,
) -> Estimate:
    """Return how long *program* runs at *sizes* on the device of *learned*; see :func:`loopyperf.estimate`.

    *take* takes samples, for a model that corrects the sampled one. Raises :class:`ModelInputError` where a feature is
    missing that the model was trained with, :class:`ParameterError` where there is nothing that takes samples, and
    :class:`FitFileError` where they are of another device.
    """
    record = learned.record
    if record.base == SAMPLED and take is None:
        raise ParameterError(
            f"this learned model of {record.slug} corrects the sampled model, and runs a part of the kernel there: "
            "give a backend; without the device, train a model from rows without samples"
        )
    device = told_device(record)

    def at(point: Mapping[str, Any]) -> tuple[str, ModelTime]:
        if take is None or record.base != SAMPLED:
            kernel = SeenKernel(program, point, device, typical)
            return kernel.graphs.kernel, learned_time(learned, kernel)
        taken = take(point, record.slug)
        kernel = SeenKernel(program, point, device, typical, taken.programs, taken.launching)
        answer = learned_time(learned, kernel)
        return kernel.graphs.kernel, replace(answer, notes=(*answer.notes, *taken.notes(float(answer.seconds))))

    name, answer = answered_at(program, sizes, at)
    return device_estimate(name, record.model, record.slug, sizes, answer, typical)


def sampler(
    program: Program, backend: RunsParts, arguments: Mapping[str, Any] | None, typical: Mapping[str, Any] | None
) -> Sampler:
    """Return what takes samples of *program* on *backend*; it raises :class:`FitFileError` for another device."""

    def take(sizes: Mapping[str, Any], slug: str) -> SampledKernel:
        if not is_one_device(backend.environment.slug, slug):
            raise FitFileError(
                f"the learned model was trained on the device {slug!r}, and samples would be taken on "
                f"{backend.environment.slug!r}; train one there, or open a backend of the device that it is of"
            )
        return samples_of(program, backend, arguments, typical, sizes)

    return take


def learned_time(learned: Learned, kernel: SeenKernel) -> ModelTime:
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


def _base(learned: Learned, kernel: SeenKernel) -> ModelTime:
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
