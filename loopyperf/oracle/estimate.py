"""How long will this kernel take? :func:`estimate` finds the fit or the device, analyses the kernel, asks the model."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.learning.learned import Learned
from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import OnUnknown
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.errors import LoopyperfError, MissingNumberError, ParameterError
from loopyperf.kernel import Program
from loopyperf.measurement.backends import RUNNING
from loopyperf.measurement.backends.parts import RunsParts
from loopyperf.models import DEVICE_MODELS, find_model
from loopyperf.models.interface import DeviceModel, LearnedModel, Model, SampledModel
from loopyperf.models.result import Estimate
from loopyperf.oracle.analysis import CountingOptions, count_at, usual_options
from loopyperf.oracle.choice import (
    WITHOUT_FIT,
    FitChoice,
    chosen_device,
    chosen_fit,
    meant_device,
    meant_fit,
    usual_answer,
)
from loopyperf.oracle.estimating.by_counts import estimate_counted
from loopyperf.oracle.estimating.by_device import estimate_by_pipelines, estimate_on_device
from loopyperf.oracle.estimating.learned import chosen_learned, estimate_learned, sampler
from loopyperf.oracle.estimating.sampled import BackendChoice, estimate_sampled, opened_for_parts
from loopyperf.oracle.sizes import merged_sizes


def estimate(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | Learned | None = None,
    counting: Counting | None = None,
    typical: Mapping[str, Any] | None = None,
    on_unknown: OnUnknown = "refuse",
    alternatives: bool = True,
    backend: BackendChoice | None = None,
    arguments: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Estimate:
    """Return how long *program* runs at *sizes*, in seconds, with the reason why, without running it.

    Sizes are the kernel's integer parameters as keywords. Arrays of sizes broadcast together and give arrays of
    seconds. ``interval`` holds the run time with a probability of 80 %, if the fit has what that takes. What was
    assumed or left out is in the ``notes`` of the answer. Three kinds of models answer:

    - A fitted model answers by a fit. For a device that is named, is described and has no fit, ``"pipeline"`` answers,
      and the notes say so.
    - A model that knows the device, such as ``"pipeline"``, takes no fit, and counts what is executed. Where such a
      model, or a fit of pipelines, is unsure whether private arrays are registers, ``unsure`` names them,
      ``alternatives`` has the time that it is otherwise, and the interval holds both.
    - ``"sampled"``, and a ``"learned"`` model that corrects it, run the kernel's first groups on *backend*; the
      interval of ``"sampled"`` is the scatter of the samples alone.

    Options:

    - *device*: its name; for a model that knows the device also the path of a description, or one that was loaded (see
      :func:`loopyperf.load_device`). By default what ``LOOPYPERF_DEVICE`` names, else this machine's OpenCL device.
    - *model*: a name in :data:`loopyperf.MODELS`; by default that of the fit that generalises best.
    - *fit*: a fit or the path of one; by default that of *model* for *device*. For ``"learned"`` it is what
      :func:`loopyperf.train` returns, or the path of its file; by default a person's own for *device*.
    - *counting*: how work is counted (see :func:`loopyperf.count`); by default as in the fit.
    - *typical* and *on_unknown*: what to do about what the source does not tell (see :func:`loopyperf.count`).
    - *alternatives*: False saves the time that they take, up to as long again; ``unsure`` is told all the same.
    - *backend*: what the fit was measured through, by default OpenCL where there are several, as the notes then say; or
      what a model runs the kernel on: ``"opencl"``, ``"cuda"`` or an open one.
    - *arguments*: the kernel's, by name, for a model that runs it; others are made up.
    - *parameters*: sizes by name, for those that are called like an option.

    Errors, each saying what to do:

    - Raises :class:`UnknownModelError` and :class:`UnknownDeviceError` for names that are not known.
    - Raises :class:`FitFileError` for a file that is not a fit, or a fit of another model, device or backend, and
      :class:`DeviceFileError` for a file that is not a description.
    - Raises :class:`KernelError` for a kernel that Loopy cannot prepare, and :class:`UncountableError` for a construct
      that has no exact count.
    - Raises :class:`ParameterError` for sizes and options that make no sense, and :class:`EngineError` for arrays of
      sizes where islpy cannot count.
    - A model that knows the device raises :class:`MissingNumberError` for what its description lacks, and
      :class:`OccupancyError` for groups that are too large.
    - A model that runs the kernel raises :class:`BackendError` without a device, and :class:`MeasurementError`.
    - A learned model raises :class:`ModelInputError` for features that it was not taught, and :class:`LoopyperfError`
      without scikit-learn.
    """
    _check(device, model, alternatives)
    asked = None if model is None else find_model(model)
    merged = merged_sizes(parameters, sizes)
    _check_fitted_options(asked, fit, counting, on_unknown)
    if isinstance(asked, SampledModel):
        return estimate_sampled(program, asked, opened_for_parts(backend, device), arguments, typical, merged)
    _check_runs_nothing(asked, fit, backend, arguments)
    if isinstance(asked, DeviceModel):
        return estimate_on_device(program, asked, chosen_device(device), typical, merged, alternatives=alternatives)
    if isinstance(asked, LearnedModel) or isinstance(fit, Learned):
        _check_looks_at_graphs("a learned model", counting, on_unknown)
        machine = None if backend is None else opened_for_parts(backend)
        take = None if machine is None else sampler(program, machine, arguments, typical)
        return estimate_learned(program, _learned(asked, device, fit, machine), typical, merged, take)
    chosen, said = _chosen(asked, device, fit, backend)
    answer = _estimate_by(program, chosen, counting, typical, on_unknown, alternatives, merged)
    return replace(answer, notes=(*said, *answer.notes)) if said else answer


def chosen_record(
    asked: Model | None, device: DeviceChoice | None, fit: FitChoice | Learned | None
) -> tuple[Fit | Learned | Device, tuple[str, ...]]:
    """Return the fit, or the learned model, that is meant, and what is to be said of the choice.

    Where no model is named and there is no fit, it is the device's description, by which :data:`WITHOUT_FIT` answers.
    Raises what :func:`estimate` raises if there is neither.
    """
    if isinstance(asked, LearnedModel) or isinstance(fit, Learned):
        return _learned(asked, device, fit), ()
    return _chosen(asked, device, fit, None)


def _chosen(
    asked: Model | None, device: DeviceChoice | None, fit: FitChoice | None, backend: object
) -> tuple[Fit | Device, tuple[str, ...]]:
    """Return the fit that is meant, or the description, and what is to be said of the choice."""
    if backend is not None:
        _check_type("backend", "a name", backend, str)
        if backend not in RUNNING:
            known = " or ".join(map(repr, RUNNING))
            raise ParameterError(f"a fit is measured through {known}; received backend={backend!r}")
    through = cast("str | None", backend)
    if asked is None and fit is None:
        return usual_answer(device, through)
    if device is not None and not isinstance(device, str):
        raise ParameterError(
            "a fitted model needs a fit, which is looked up by the device's name; give that name, or the path of a fit "
            f"by fit=..., in place of {device!r}"
        )
    model = None if asked is None else asked.name
    return meant_fit(model, device, through) if fit is None else (chosen_fit(model, device, fit, through), ())


def _estimate_without_fit(
    program: Program, device: Device, typical: Mapping[str, Any] | None, alternatives: bool, sizes: Mapping[str, Any]
) -> Estimate:
    model = DEVICE_MODELS[WITHOUT_FIT]
    try:
        return estimate_on_device(program, model, device, typical, sizes, alternatives=alternatives)
    except MissingNumberError as missing:
        another = _answering(program, device, typical, sizes)
        raise MissingNumberError(f"{missing}. No model was named, and {WITHOUT_FIT!r} was asked{another}") from missing


def _answering(program: Program, device: Device, typical: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> str:
    """Return which model answers in place of :data:`WITHOUT_FIT`, as the end of a sentence; nothing where none does."""
    for name, model in DEVICE_MODELS.items():
        with suppress(LoopyperfError):
            estimate_on_device(program, model, device, typical, sizes, alternatives=False)
            return f"; model={name!r} answers"
    return ""


def _estimate_by(
    program: Program,
    chosen: Fit | Device,
    counting: Counting | None,
    typical: Mapping[str, Any] | None,
    on_unknown: OnUnknown,
    alternatives: bool,
    sizes: Mapping[str, Any],
) -> Estimate:
    if isinstance(chosen, Device):
        _check_looks_at_graphs(f"{WITHOUT_FIT!r}, which answers where there is no fit,", counting, on_unknown)
        return _estimate_without_fit(program, chosen, typical, alternatives, sizes)
    if chosen.basis == "pipelines":
        _check_looks_at_graphs("this fit, of pipelines,", counting, on_unknown)
        return estimate_by_pipelines(program, chosen, typical, sizes, alternatives=alternatives)
    if counting is None and typical is None and on_unknown == "refuse":
        options = usual_options(chosen.counting)
    else:
        options = CountingOptions(counting or chosen.counting, typical, on_unknown=on_unknown)
    return estimate_counted(count_at(program, options, sizes), chosen, sizes, typical)


def _learned(
    asked: Model | None,
    device: DeviceChoice | None,
    choice: FitChoice | Learned | None,
    machine: RunsParts | None = None,
) -> Learned:
    """Return the learned model that is meant, of *machine*'s device where no other is named.

    Raises :class:`ParameterError` for what is a fit, or another model's.
    """
    if isinstance(choice, Fit) or not isinstance(asked, LearnedModel | None):
        raise ParameterError(
            f"a learned model goes with model='learned', and a fit with the model that it is of; received "
            f"model={'learned' if asked is None else asked.name!r} with {type(choice).__name__}"
        )
    name = device if isinstance(device, Device | None) else os.fspath(device)
    if machine is not None:
        return chosen_learned(name, choice, machine.environment.slug, machine.environment.backend)
    return chosen_learned(name, choice, "" if name or choice else meant_device())


def _check(device: object, model: object, alternatives: object) -> None:
    """Raise :class:`ParameterError` if an option has the wrong type; pass a size of that name through *parameters*."""
    if device is not None:
        _check_type("device", "a name", device, (str, os.PathLike, Device))
    if model is not None:
        _check_type("model", "a name", model, str)
    if alternatives is not True:
        _check_type("alternatives", "True or False", alternatives, bool)


def _check_type(option: str, what: str, value: object, types: type | tuple[type, ...]) -> None:
    if value is not None and not isinstance(value, types):
        raise ParameterError(
            f"{option} is {what}, received {value!r}; pass a kernel's size called {option} through "
            f"parameters={{{option!r}: ...}}"
        )


def _check_fitted_options(model: Model | None, fit: object, counting: Counting | None, on_unknown: OnUnknown) -> None:
    """Raise :class:`ParameterError` where *model* is not fitted, for a fit, and for options that are for fits."""
    if not isinstance(model, SampledModel | DeviceModel):
        return
    if fit is not None:
        how = "name the device" if isinstance(model, DeviceModel) else "give a backend"
        raise ParameterError(f"the model {model.name!r} is not fitted: leave fit out, and {how}")
    _check_looks_at_graphs(f"the model {model.name!r}", counting, on_unknown)


def _check_runs_nothing(asked: Model | None, fit: object, backend: object, arguments: object) -> None:
    """Raise :class:`ParameterError` for what to run with, where nothing is run; a fit may be told by its backend."""
    if (arguments is None and backend is None) or isinstance(asked, LearnedModel) or isinstance(fit, Learned):
        return
    if arguments is not None or isinstance(asked, DeviceModel):
        option = "arguments" if arguments is not None else "backend"
        name = "a fitted model" if asked is None else f"the model {asked.name!r}"
        raise ParameterError(f"{name} runs nothing: leave {option} out, or ask the model 'sampled'")


def _check_looks_at_graphs(who: str, counting: Counting | None, on_unknown: OnUnknown) -> None:
    """Raise :class:`ParameterError` for options that tell nothing to who looks at the graphs of a kernel."""
    if counting not in (None, "executed"):
        raise ParameterError(f"{who} looks at what is executed: leave counting out")
    if on_unknown != "refuse":
        raise ParameterError(f"{who} leaves nothing out: leave on_unknown out, and state in typical what data decides")
