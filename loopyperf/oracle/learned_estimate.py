"""Estimates by a learned model: its base answers, and what was learned from measurements corrects that."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite
from typing import Any

from loopyperf.calibration.learned import SAMPLED, Learned
from loopyperf.calibration.learned_files import find_learned, load_learned
from loopyperf.device.description import Device
from loopyperf.device.names import device_slug
from loopyperf.errors import FitFileError, ParameterError
from loopyperf.models import DEVICE_MODELS, find_fitted_model
from loopyperf.models.learned import corrected
from loopyperf.models.on_device.pipeline_shares import pipeline_shares
from loopyperf.models.result import Estimate, ModelTime
from loopyperf.models.sampling import SampledProgram, sampled_time
from loopyperf.oracle.analysis import Program
from loopyperf.oracle.device_estimate import COUNTING, answered
from loopyperf.oracle.observation import described
from loopyperf.oracle.seen_kernel import SeenKernel

LearnedChoice = Learned | str | os.PathLike[str]
"""a learned model, or the path of one"""


def chosen_learned(device: Device | str | None, choice: LearnedChoice | None, meant: str | None = None) -> Learned:
    """Return *choice* (read, if it is a path), else a person's own learned model of *device*, else of the one *meant*.

    Raises :class:`FitFileError` for a file that is none, and for a model of another device than was asked for.
    """
    slug = device.slug if isinstance(device, Device) else None if device is None else device_slug(device)
    if choice is None:
        return find_learned(slug or meant or "")
    learned = choice if isinstance(choice, Learned) else load_learned(choice)
    if slug not in (None, learned.record.slug):
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
    samples: Sequence[SampledProgram] = (),
) -> Estimate:
    """Return how long *program* runs at *sizes* on the device of *learned*; see :func:`loopyperf.estimate`.

    Raises :class:`ModelInputError` where a feature is missing that the model was trained with.
    """
    record = learned.record
    if record.base == SAMPLED and not samples:
        raise ParameterError(
            f"this learned model of {record.slug} corrects the sampled model: it needs samples of the kernel, taken on "
            "the device; without one, train a model from rows without samples"
        )
    device = described(record.slug)

    def at(point: Mapping[str, Any]) -> tuple[str, ModelTime]:
        kernel = SeenKernel(program, point, device, typical, samples if record.base == SAMPLED else ())
        return kernel.graphs.kernel, learned_time(learned, kernel)

    name, answer = answered(at, sizes)
    return Estimate(
        kernel=name,
        sizes=dict(sizes),
        device=record.slug,
        model=record.model,
        counting=COUNTING,
        seconds=answer.seconds,
        breakdown=answer.breakdown,
        interval=answer.interval,
        notes=answer.notes,
    )


def learned_time(learned: Learned, kernel: SeenKernel) -> ModelTime:
    """Return the time of *kernel* with its interval: what the base says, corrected."""
    base = _base(learned, kernel)
    if kernel.samples and all(each.samples.is_whole for each in kernel.samples):
        return base  # it was run
    answer = corrected(base, learned.correction(kernel.features))
    seconds, factor = float(answer.seconds), learned.half_width
    spread = (seconds / exp(factor), seconds * exp(factor)) if isfinite(factor) else None
    return replace(answer, interval=spread, notes=(*base.notes, *learned.doubts(kernel.features)))


def _base(learned: Learned, kernel: SeenKernel) -> ModelTime:
    record = learned.record
    if record.base == SAMPLED:
        return sampled_time(kernel.samples)
    fit = record.fit
    if fit is not None and fit.basis == "counts":
        return find_fitted_model(fit.model).time(fit, kernel.counted.shares(kernel.sizes))
    if kernel.timed is None:
        raise ParameterError(
            f"this learned model corrects {record.base!r}, which needs the description of the device {record.slug!r}; "
            "there is none: restore it to where it was when the model was trained"
        )
    if fit is not None:
        return find_fitted_model(fit.model).time(fit, pipeline_shares(kernel.timed))
    return DEVICE_MODELS[record.base].time(kernel.timed)
