"""Estimates by models that look at graphs: these are built at each size anew, unless the same was asked before.

What is remembered is the answer at one size. It depends on the program, the size and what is stated, on all that the
device's description says, and on the model, or all of the fit but when it was made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from loopyperf.calibration.fits import Fit
from loopyperf.counts.closed_forms.evaluation import integer_array
from loopyperf.device.description import Device
from loopyperf.device.library import load_device
from loopyperf.kernel import Program
from loopyperf.models import find_fitted_model
from loopyperf.models.exact_sum import adding_up
from loopyperf.models.interface import DeviceModel
from loopyperf.models.on_device.pipeline_shares import pipeline_shares
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.models.result import NO_INTERVAL, Breakdown, Estimate, ModelTime, Row, common
from loopyperf.models.transcription import Answer, read, transcribed
from loopyperf.oracle.analysis import found_once, prepared
from loopyperf.oracle.estimating.alternatives import Time, together, with_alternatives
from loopyperf.oracle.estimating.intervals import extrapolations, interval
from loopyperf.oracle.instruction_graph import timed_kernel
from loopyperf.oracle.observation import told_device
from loopyperf.oracle.remembering.recollection import Kind
from loopyperf.oracle.sizes import common_shape

ANSWERS = Kind[Answer]("answer", 4096, transcribed, read)
"""some kilobytes each in memory"""
COUNTING = "executed"
"""graphs have what is executed"""
NOT_FITTED = f"{NO_INTERVAL}the model rests on the device's description, and was fitted to no measurements"


def estimate_on_device(
    program: Program,
    model: DeviceModel,
    device: Device,
    typical: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
    *,
    alternatives: bool = True,
) -> Estimate:
    """Return how long *program* runs at *sizes* on *device* by *model*; see :func:`loopyperf.estimate`."""
    time = partial(with_alternatives, time=by_description(model), are_asked=alternatives)
    asked = (model.name, alternatives)
    kernel, answer = _answered(program, time, asked, device, typical, sizes)
    return device_estimate(kernel, model.name, device.slug, sizes, answer, typical)


def by_description(model: DeviceModel) -> Time:
    """Return what *model* says of a kernel, with a note that nobody knows how far it is off."""

    def time(kernel: TimedKernel) -> ModelTime:
        answer = model.time(kernel)
        return replace(answer, notes=(*answer.notes, NOT_FITTED))

    return time


def estimate_by_pipelines(
    program: Program,
    fit: Fit,
    typical: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
    *,
    alternatives: bool = True,
) -> Estimate:
    """Return how long *program* runs at *sizes* by a *fit* of the pipelines of its device, which must be described."""
    device = told_device(fit) or load_device(fit.described_as or fit.slug)  # which says what is missing
    either = partial(with_alternatives, time=partial(time_by_pipelines, fit), are_asked=alternatives)
    asked = (structs.replace(fit, created=None), alternatives)
    kernel, answer = _answered(program, either, asked, device, typical, sizes)
    return device_estimate(kernel, fit.model, fit.slug, sizes, answer, typical)


def time_by_pipelines(fit: Fit, kernel: TimedKernel) -> ModelTime:
    """Return how long *kernel* takes by a *fit* of the pipelines of its device, with what there is to say of it."""
    shares = pipeline_shares(kernel)
    answer = find_fitted_model(fit.model).time(fit, shares)
    spread, unlike = interval(fit, shares, answer.seconds)
    free = (f"no weight for {name!r} in the fit: taken as described" for name in answer.unfitted)
    return replace(answer, interval=spread, notes=(*kernel.notes, *free, *extrapolations(fit, shares), *unlike))


def _answered(
    program: Program,
    time: Time,
    asked: tuple[Any, ...],
    device: Device,
    typical: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
) -> Answer:
    """Return the kernel's name, and what *time*, which depends on nothing but *asked*, says of it at *sizes*."""

    def at(one: Mapping[str, Any]) -> Answer:
        what = (*asked, device, typical, one)
        return found_once(ANSWERS, program, what, lambda: _at(program, time, device, typical, one))

    return answered_at(program, sizes, at)


def device_estimate(
    kernel: str,
    model: str,
    device: str,
    sizes: Mapping[str, Any],
    answer: ModelTime,
    typical: Mapping[str, Any] | None,
) -> Estimate:
    """Return a model's *answer* as an estimate."""
    return Estimate(
        kernel=kernel,
        sizes=dict(sizes),
        device=device,
        model=model,
        counting=COUNTING,
        seconds=answer.seconds,
        breakdown=answer.breakdown,
        interval=answer.interval,
        notes=answer.notes,
        unsure=answer.unsure,
        alternatives=answer.alternatives,
        left_out=answer.left_out,
        typical=dict(typical or {}),
        columns=answer.columns,
    )


def _at(
    program: Program, time: Time, device: Device, typical: Mapping[str, Any] | None, sizes: Mapping[str, Any]
) -> Answer:
    kernel = timed_kernel(program, device, typical, sizes)
    return kernel.graphs.kernel, time(kernel)


def answered_at(program: Program, sizes: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], Answer]) -> Answer:
    """Return what *answer* says of *program* at one size; where any of *sizes* is an array, of all of them as one.

    Costs are then by property alone.
    """
    arrays = {
        name: integer_array(name, cast("object", size)) for name, size in sizes.items() if isinstance(size, np.ndarray)
    }
    if not arrays:
        return answer(sizes)
    shape = common_shape({name: array.shape for name, array in arrays.items()})
    every = {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    points = [{name: int(array.flat[place]) for name, array in every.items()} for place in range(int(np.prod(shape)))]
    if not points:
        return prepared(program).name, ModelTime(np.zeros(shape), Breakdown(()))
    answers = [answer({**sizes, **point}) for point in points]
    return answers[0][0], _together([each for _, each in answers], shape)


def _together(answers: Sequence[ModelTime], shape: tuple[int, ...]) -> ModelTime:
    names = dict.fromkeys(row.property for answer in answers for row in answer.breakdown.rows)
    costs = [{cost.property: cost for cost in answer.breakdown.costs()} for answer in answers]

    def over(values: list[Any]) -> NDArray[Any]:
        return np.array(values, dtype=np.float64).reshape(shape)

    of_each = [[known.get(name) for known in costs] for name in names]
    seconds, parts = adding_up([over([0.0 if cost is None else cost.seconds for cost in each]) for each in of_each])
    rows: list[Row] = []
    for name, found, part in zip(names, of_each, parts, strict=True):
        counts = over([0 if cost is None else cost.count for cost in found])
        rows.append(Row(name, "", counts, common(cost.each for cost in found if cost is not None), part))
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))
    ends = [answer.interval for answer in answers if answer.interval is not None]
    spread = (over([low for low, _ in ends]), over([high for _, high in ends])) if len(ends) == len(answers) else None
    unsure = tuple(dict.fromkeys(name for answer in answers for name in answer.unsure))
    return ModelTime(
        seconds,
        Breakdown(tuple(rows)),
        notes=notes,
        interval=spread,
        unsure=unsure,
        alternatives=together(answers, shape),
        left_out=tuple(dict.fromkeys(name for answer in answers for name in answer.left_out)),
        columns=answers[0].columns,
    )
