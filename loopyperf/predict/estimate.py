"""How long does a kernel take? :func:`predictor` resolves names, once; :func:`estimate` does that and predicts."""

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from loopyperf.calibration.choice import (
    DEVICE_VARIABLE,
    WITHOUT_FIT,
    FitChoice,
    chosen_device,
    chosen_fit,
    fit_with_notes,
    requested_device,
    resolved_device,
    usual_answer,
)
from loopyperf.calibration.fit_library import find_fit
from loopyperf.calibration.fits import Fit, path_of
from loopyperf.calibration.residual_model import ResidualModel, load_residual_model
from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import OnUnknown, check_options
from loopyperf.device.description import Device
from loopyperf.device.device_files import is_path
from loopyperf.device.device_library import DeviceChoice, load_device
from loopyperf.errors import ParameterError
from loopyperf.files import read_document, user_data_stamp
from loopyperf.kernel import Program
from loopyperf.measurement.backends import RUNNING
from loopyperf.models.catalog import LEARNED, MODELS, find_model
from loopyperf.models.model_interface import DeviceModel, FittedModel, RegressionModel, SampledModel
from loopyperf.models.result import Estimate
from loopyperf.predict.by_counts import CountsPredictor
from loopyperf.predict.corrected import CorrectedPredictor, chosen_residual_model
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.sampled import BackendChoice, SampledPredictor, opened_for_parts
from loopyperf.stages.case import Case, merged_sizes
from loopyperf.stages.compiled import COMPILERS, Compiler


def estimate(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    counting: Counting | None = None,
    typical: Mapping[str, Any] | None = None,
    on_unknown: OnUnknown = "refuse",
    alternatives: bool = True,
    compiler: Compiler = "model",
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
    - *compiler*: what tells registers, spills and where private arrays live, for a model that knows the device: the
      compiler ``"model"``; ``"nvrtc"``, which compiles the kernel for an NVIDIA GPU, without one (the extra
      ``cuda-compiler``); or ``"auto"``, NVRTC where it can. The notes say what that cost and changed.
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
    - With ``compiler="nvrtc"``, raises :class:`CompilerError` where that is not installed, or refuses kernel or device.
    - A model that runs the kernel raises :class:`BackendError` without a device, and :class:`MeasurementError`.
    - A learned model raises :class:`ModelInputError` for features that it was not taught, and :class:`LoopyperfError`
      without scikit-learn.
    """
    case = Case(program, merged_sizes(parameters, sizes), typical)
    given = _Given(device, fit, backend, counting, on_unknown, alternatives, arguments, compiler)
    return _latest_predictor(model, given).predict(case)


def predictor(
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    backend: BackendChoice | None = None,
    counting: Counting | None = None,
    on_unknown: OnUnknown = "refuse",
    alternatives: bool = True,
    compiler: Compiler = "model",
    arguments: Mapping[str, Any] | None = None,
) -> Predictor:
    """Return a model bound to its fit or device, to be called with kernels and sizes.

        >>> predict = lpp.predictor(device="nvidia-v100", model="pipeline")     # doctest: +SKIP
        >>> predict(knl, n=4096).seconds                                        # doctest: +SKIP

    Names, files and backends are resolved here, once; the options are those of :func:`loopyperf.estimate`, which
    raises the same errors for them.
    """
    given = _Given(device, fit, backend, counting, on_unknown, alternatives, arguments, compiler)
    given.check_types(model)
    return _bound(model, given)


def given_or_named(
    given: Predictor | None,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    alternatives: bool = True,
) -> Predictor:
    """Return the predictor that is *given*, else the one of these names; raises :class:`ParameterError` for both."""
    if given is None:
        return predictor(device=device, model=model, fit=fit, alternatives=alternatives)
    if not (device is None and model is None and fit is None):
        raise ParameterError("predictor= already has a device and a model; drop device=, model= and fit=")
    return given


def _bound(model: str | None, given: "_Given") -> Predictor:
    fit = given.fit
    if model is not None:
        return _BINDERS[type(find_model(model))](model, given)
    if fit is None:
        return _usual(given)
    record = record_of(fit)
    found = replace(given, fit=record)
    return _corrected(LEARNED, found) if isinstance(record, ResidualModel) else _fitted(None, found)


def record_of(fit: FitChoice | ResidualModel) -> Fit | ResidualModel:
    """Return *fit*, or the fit or the learned model in the file at that path; raises :class:`FitFileError`."""
    if isinstance(fit, Fit | ResidualModel):
        return fit
    path = path_of(fit)
    document = read_document(Path(path), "fit", "give the path of a fit or of a learned model")
    model = cast("dict[str, object]", document).get("model") if isinstance(document, dict) else None
    return load_residual_model(path) if isinstance(MODELS.get(str(model)), RegressionModel) else find_fit("", path=path)


def _latest_predictor(model: str | None, given: "_Given") -> Predictor:
    """Return the predictor for names that are looked up in files: a recent one, while these files are as they were."""
    given.check_types(model)
    device = os.environ.get(DEVICE_VARIABLE, "") if given.device is None else given.device
    is_named = isinstance(device, str) and not is_path(device)
    stamp = user_data_stamp() if is_named and given.fit is given.backend is given.arguments is None else None
    if stamp is None:
        return _bound(model, given)
    asked = (model, given, device, os.environ.get("PYOPENCL_CTX"), stamp)
    if asked not in _latest:
        found = _bound(model, given)
        if len(_latest) >= LATEST:
            _latest.clear()
        _latest[asked] = found
    return _latest[asked]


LATEST = 64
"""predictors that are kept"""
_latest: dict[Hashable, Predictor] = {}


# {{{ what is given


@dataclass(frozen=True, slots=True)
class _Given:
    """The options of :func:`predictor` beside the model."""

    device: DeviceChoice | None
    fit: FitChoice | ResidualModel | None
    backend: BackendChoice | None
    counting: Counting | None
    on_unknown: OnUnknown
    alternatives: bool
    arguments: Mapping[str, Any] | None
    compiler: Compiler = "model"

    def check_types(self, model: object) -> None:
        """Raise :class:`ParameterError` for an option of the wrong type or value, perhaps meant as a kernel's size."""
        for option, value, what, types in (
            ("device", self.device, "a name", (str, os.PathLike, Device)),
            ("model", model, "a name", str),
            ("fit", self.fit, "a fit, a learned model, or the path of one", (str, os.PathLike, Fit, ResidualModel)),
            ("alternatives", self.alternatives, "True or False", bool),
        ):
            _check_type(option, value, what, types)
        if self.compiler not in COMPILERS:
            raise ParameterError(
                f"compiler is one of {', '.join(map(repr, COMPILERS))}; received {self.compiler!r:.80}"
            )
        check_options("executed" if self.counting is None else self.counting, None, self.on_unknown)

    def check_unused(self, who: str, *unused: str) -> None:
        """Raise :class:`ParameterError` if one of the options *unused* by the model that *who* names is given."""
        for option in unused:
            if getattr(self, option) not in _NEUTRAL[option]:
                raise ParameterError(f"{who} {_UNUSED[option]}")


def _check_type(option: str, value: object, what: str, types: type | tuple[type, ...]) -> None:
    if value is not None and not isinstance(value, types):
        raise ParameterError(
            f"{option} is {what}, received {value!r:.80}; pass a kernel's size called {option} through "
            f"parameters={{{option!r}: ...}}"
        )


_UNUSED = {
    "fit": "is not fitted; drop fit=",
    "backend": "does not execute the kernel; drop backend=, or use model='sampled'",
    "arguments": "does not execute the kernel; drop arguments=, or use model='sampled'",
    "counting": "models what is executed; drop counting=",
    "compiler": "does not ask about registers; drop compiler=",
    "on_unknown": "leaves nothing out; drop on_unknown=, and specify in typical= what depends on data",
}
"""option -> what to do about it, where a model has no use for it"""
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "fit": (None,),
    "backend": (None,),
    "arguments": (None,),
    "counting": (None, "executed"),
    "compiler": ("model",),
    "on_unknown": ("refuse",),
}
"""option -> values that any model takes"""

# }}}

# {{{ binding a model to what it needs


def _usual(given: "_Given") -> Predictor:
    """Return the predictor where neither a model nor a fit is named: the best fit, else the device's parameters."""
    record, notes = usual_answer(given.device, _of_fit(given))
    if isinstance(record, Fit):
        return _by_fit(record, notes, given)
    given.check_unused(repr(WITHOUT_FIT), "arguments", "counting", "on_unknown")
    return DevicePredictor(
        WITHOUT_FIT, record.slug, notes, parameters=record, alternatives=given.alternatives, compiler=given.compiler
    )


def _fitted(model: str | None, given: "_Given") -> Predictor:
    """Return the predictor by the fit that is given, or that there is of *model* for the device."""
    backend, device = _of_fit(given), given.device
    if isinstance(given.fit, ResidualModel):
        raise ParameterError(f"a learned model needs model={LEARNED!r}, received {model!r}")
    if device is not None and not isinstance(device, str):
        raise ParameterError(
            "a fitted model needs a fit, which is looked up by the device's name; give that name, or the path of a fit "
            f"by fit=..., in place of {device!r}"
        )
    if given.fit is None:
        return _by_fit(*fit_with_notes(model, device, backend), given)
    return _by_fit(chosen_fit(model, device, given.fit, backend), (), given)


def _by_fit(fit: Fit, notes: tuple[str, ...], given: "_Given") -> Predictor:
    slim = structs.replace(fit, residuals=(), coverage=(), cross_validation=None)
    given.check_unused(repr(fit.model), "arguments")
    if fit.basis == "counts":
        given.check_unused(f"a fit of {fit.model!r}", "compiler")
        counting = given.counting or fit.counting
        return CountsPredictor(fit.model, fit.slug, notes, fit=slim, counting=counting, on_unknown=given.on_unknown)
    given.check_unused("a fit of pipelines", "counting", "on_unknown")
    parameters = requested_device(fit) or load_device(fit.described_as or fit.slug)  # which says what is missing
    return DevicePredictor(
        fit.model,
        fit.slug,
        notes,
        parameters=parameters,
        fit=slim,
        alternatives=given.alternatives,
        compiler=given.compiler,
    )


def _on_device(model: str, given: "_Given") -> Predictor:
    given.check_unused(repr(model), "fit", "backend", "arguments", "counting", "on_unknown")
    parameters = chosen_device(given.device)
    return DevicePredictor(
        model, parameters.slug, parameters=parameters, alternatives=given.alternatives, compiler=given.compiler
    )


def _sampled(model: str, given: "_Given") -> Predictor:
    given.check_unused(repr(model), "fit", "counting", "on_unknown", "compiler")
    machine = opened_for_parts(given.backend, given.device)
    return SampledPredictor(model, machine.environment.slug, machine=machine, arguments=given.arguments)


def _corrected(model: str, given: "_Given") -> Predictor:
    given.check_unused("a learned model", "counting", "on_unknown", "compiler")
    fit, device = given.fit, given.device
    if isinstance(fit, Fit):
        raise ParameterError(f"model={model!r} needs a learned model, received a fit of {fit.model!r}")
    machine = None if given.backend is None else opened_for_parts(given.backend)
    name = device if isinstance(device, Device | None) else os.fspath(device)
    if machine is not None:
        learned = chosen_residual_model(name, fit, machine.environment.slug, machine.environment.backend)
    else:
        learned = chosen_residual_model(name, fit, "" if name or fit else resolved_device())
    return CorrectedPredictor(model, learned.slug, learned=learned, machine=machine, arguments=given.arguments)


def _of_fit(given: "_Given") -> str | None:
    """Return the backend that a fit was measured through; raises :class:`ParameterError` for what is not one's name."""
    _check_type("backend", given.backend, "a name", str)
    if given.backend is None or given.backend in RUNNING:
        return cast("str | None", given.backend)
    known = " or ".join(map(repr, RUNNING))
    raise ParameterError(f"a fit is measured through {known}; received backend={given.backend!r}")


_BINDERS: Mapping[type, Callable[[str, _Given], Predictor]] = {
    FittedModel: _fitted,
    DeviceModel: _on_device,
    SampledModel: _sampled,
    RegressionModel: _corrected,
}

# }}}
