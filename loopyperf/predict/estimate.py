"""The functions :func:`predictor`, which binds a model to a device or a fit, and :func:`estimate`."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loopyperf.device.description import Device
from loopyperf.device.device_files import is_path
from loopyperf.device.device_library import DeviceChoice
from loopyperf.errors import MissingNumberError, ParameterError, UnknownDeviceError
from loopyperf.files import user_data_stamp
from loopyperf.kernel import Program
from loopyperf.models.catalog import find_model
from loopyperf.models.model_interface import DeviceModel, FittedModel, RegressionModel, SampledModel
from loopyperf.models.result import Estimate
from loopyperf.predict.on_device import SIMULATED, DevicePredictor, on_wall_clock
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import CACHE, ResultKind
from loopyperf.stages.case import Case, merged_sizes
from loopyperf.stages.compile import Compiler, check_compiler
from loopyperf.stages.device_choice import DEVICE_VARIABLE, chosen_device

if TYPE_CHECKING:
    from loopyperf.calibration.choice import FitChoice
    from loopyperf.calibration.residual_model import ResidualModel
    from loopyperf.counts.execution import Counting
    from loopyperf.predict.sampled import BackendChoice


def estimate(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: "FitChoice | ResidualModel | None" = None,
    counting: "Counting | None" = None,
    typical: Mapping[str, Any] | None = None,
    alternatives: bool = True,
    compiler: Compiler = "model",
    backend: "BackendChoice | None" = None,
    arguments: Mapping[str, Any] | None = None,
    wall: bool = False,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Estimate:
    """Predict the run time of *program* at *sizes*, in seconds, without running the whole kernel.

    There are three kinds of models:

    - A fitted model uses a fit. If the named device has parameters but no fit, ``"pipeline"`` is the default, with
      a note.
    - A model of the device, such as ``"pipeline"``, takes no fit and counts executed instructions. Such a model, or a
      fit of pipelines, may be unsure whether the compiler keeps a private array in registers. Then ``unsure`` names
      the array, ``alternatives`` has the time for the other placement, and the interval covers both times.
    - ``"sampled"``, and a ``"learned"`` model that corrects it, run the first work-groups of the kernel on *backend*.
      The interval of ``"sampled"`` covers only the scatter of the samples.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    device : str, os.PathLike or Device, optional
        Device name; for a model of the device also the path of a device file or a loaded device (see
        :func:`loopyperf.load_device`). Default: the device that ``LOOPYPERF_DEVICE`` names, else this machine's OpenCL
        device.
    model : str, optional
        Name of a model in :data:`loopyperf.MODELS`. Default: the model of the fit that generalizes best, else
        ``"pipeline"``.
    fit : Fit, ResidualModel, str or os.PathLike, optional
        A fit, or the path of its file. Default: the fit of *model* for *device*. For ``"learned"``, a residual model
        (see :func:`loopyperf.train`) or the path of its file; default: your own residual model for *device*.
    counting : {"executed", "paper"}, optional
        How work is counted (see :func:`loopyperf.count`). Default: as in the fit.
    typical : Mapping, optional
        Values that depend on data, e.g. trip counts, by name (see :func:`loopyperf.count`).
    alternatives : bool
        Whether to predict the times for other placements of private arrays. False saves up to half of the time;
        ``unsure`` still names the arrays.
    compiler : {"model", "nvrtc", "auto"}
        Source of register counts, spills and the placement of private arrays, for a model of the device: the compiler
        model; NVRTC, which compiles the kernel for an NVIDIA GPU and needs no GPU (the extra ``cuda-compiler``); or
        NVRTC if available. Notes give its cost and its effect.
    backend : str or Backend, optional
        Backend that the fit was measured with; if there are fits for several backends, the default is OpenCL, with
        a note. For a model that runs the kernel: ``"opencl"``, ``"cuda"`` or an open backend.
    arguments : Mapping, optional
        Kernel arguments by name, for a model that runs the kernel; missing ones are generated.
    wall : bool
        Whether to predict the wall-clock time of one run, with the launch and the wait on the host. By default, a model
        of the device predicts the device time of consecutive launches. Other models always predict wall-clock times.
    parameters : Mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int or array
        The kernel's integer parameters. Arrays broadcast together and give arrays of seconds.

    Returns
    -------
    Estimate
        The run time in seconds with its breakdown. ``interval`` contains the run time with a probability of 80 % if
        the fit was validated on enough kernels. ``notes`` lists assumptions and omissions.

    Raises
    ------
    UnknownModelError
        *model* is unknown.
    UnknownDeviceError
        *device* is unknown, or has neither a fit nor parameters.
    FitFileError
        The file is not a fit, or the fit is for another model, device or backend.
    DeviceFileError
        The file is not a device file.
    KernelError
        Loopy cannot preprocess the kernel.
    UncountableError
        A construct in the kernel has no exact count.
    ParameterError
        A size or an option is invalid.
    EngineError
        A size is an array, and islpy lacks barvinok.
    MissingNumberError
        The model needs a number that the device parameters lack.
    OccupancyError
        A work-group is too large for the device.
    CompilerError
        ``compiler="nvrtc"`` was given, and NVRTC is not installed or rejects the kernel or the device.
    BackendError
        The model runs the kernel, and the backend has no device.
    MeasurementError
        The model runs the kernel, and the measurement fails.
    ModelInputError
        The residual model was trained with features that the kernel lacks.
    LoopyperfError
        A residual model is used, and scikit-learn is not installed.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> estimate = lpp.estimate(knl, n=2**24, device="nvidia-titan-v", model="roofline")
    >>> f"{estimate.seconds:.1e} s, bound by {estimate.bound}"
    '2.4e-04 s, bound by DRAM'

    Several sizes at once:

    >>> sizes = np.array([2**20, 2**24])
    >>> lpp.estimate(knl, n=sizes, device="nvidia-titan-v", model="roofline").seconds.shape
    (2,)
    """
    case = Case(program, merged_sizes(parameters, sizes), typical)
    options = Options(device, fit, backend, counting, alternatives, arguments, compiler)
    check_type("wall", wall, "True or False", bool)
    by, found = predicted_by(_latest_predictor(model, options), case, model is fit is None, compiler)
    return on_wall_clock(found, by) if wall else found


def predictor(
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: "FitChoice | ResidualModel | None" = None,
    backend: "BackendChoice | None" = None,
    counting: "Counting | None" = None,
    alternatives: bool = True,
    compiler: Compiler = "model",
    arguments: Mapping[str, Any] | None = None,
) -> Predictor:
    """Bind a model to its device or fit; the predictor takes kernels and sizes.

    Names, files and backends are resolved once. :func:`loopyperf.estimate` with the same options predicts the same.

    Parameters
    ----------
    device, model, fit, backend, counting, alternatives, compiler, arguments
        As in :func:`loopyperf.estimate`.

    Returns
    -------
    Predictor
        Call it with a kernel and sizes; it returns an :class:`Estimate`. It is picklable unless the model executes
        kernels.

    Raises
    ------
    UnknownModelError, UnknownDeviceError, FitFileError, DeviceFileError, ParameterError, BackendError
        As in :func:`loopyperf.estimate`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> predict = lpp.predictor(device="nvidia-titan-v", model="roofline")
    >>> for group in (32, 256):
    ...     variant = lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    ...     print(group, f"{predict(variant, n=2**20).seconds:.1e}")
    32 5.2e-05
    256 1.8e-05
    """
    options = Options(device, fit, backend, counting, alternatives, arguments, compiler)
    options.check_types(model)
    return _bound(model, options)


def predictor_for_measured(
    slug: str,
    *,
    device: DeviceChoice | None,
    model: str | None,
    fit: "FitChoice | ResidualModel | None",
    compiler: Compiler,
) -> Predictor:
    """Return the predictor for *device*, by default the measured one, *slug*, or if that is unknown the default one."""
    if device is None:
        with suppress(UnknownDeviceError):  # a processor has parameters without its name
            return predictor(device=slug, model=model, fit=fit, compiler=compiler)
    return predictor(device=device, model=model, fit=fit, compiler=compiler)


def given_or_named(
    given: Predictor | None,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: "FitChoice | ResidualModel | None" = None,
    alternatives: bool = True,
    compiler: Compiler = "model",
) -> Predictor:
    """Return the *given* predictor, else a new one; raises :class:`ParameterError` if both are requested."""
    if given is None:
        return predictor(device=device, model=model, fit=fit, alternatives=alternatives, compiler=compiler)
    if not (device is None and model is None and fit is None and compiler == "model"):
        raise ParameterError("predictor= already has a device and a model; drop device=, model=, fit= and compiler=")
    return given


def shown_estimate(
    case: Case,
    given: Predictor | None = None,
    *,
    device: DeviceChoice | None,
    model: str | None,
    fit: "FitChoice | ResidualModel | None",
    compiler: Compiler,
) -> tuple[Predictor, Estimate]:
    """Return a predictor as :func:`given_or_named` does, and its estimate of *case*, as :func:`estimate` predicts."""
    by = given_or_named(given, device=device, model=model, fit=fit, compiler=compiler)
    return predicted_by(by, case, given is model is fit is None, compiler)


def predicted_by(by: Predictor, case: Case, is_default: bool, compiler: Compiler) -> tuple[Predictor, Estimate]:
    """Return *by* and its estimate of *case*.

    If the default is a fit that has no weights for the kernel, the model for device parameters predicts instead.
    """
    try:
        return by, by.predict(case)
    except MissingNumberError:
        if not is_default or by.model == SIMULATED or by.device_parameters is None:
            raise
    other = predictor(device=by.device_parameters, model=SIMULATED, compiler=compiler)
    return other, other.predict(case)


def _bound(model: str | None, options: "Options") -> Predictor:
    kind = FittedModel if model is None else type(find_model(model))
    return _BINDERS[kind](model, options)


def _latest_predictor(model: str | None, options: "Options") -> Predictor:
    """Return the predictor for these options; a recent one is reused while the user's data files are unchanged."""
    options.check_types(model)
    device = os.environ.get(DEVICE_VARIABLE, "") if options.device is None else options.device
    is_named = isinstance(device, str) and not is_path(device)
    stamp = user_data_stamp() if is_named and options.fit is options.backend is options.arguments is None else None
    if stamp is None:
        return _bound(model, options)
    given = options.counting, options.alternatives, options.compiler
    key = (model, device, given, os.environ.get("PYOPENCL_CTX"), stamp)
    found = CACHE.get(PREDICTORS, key)
    if found is None:
        found = _bound(model, options)
        CACHE.put(PREDICTORS, key, found)
    return found


PREDICTORS: ResultKind[Predictor] = ResultKind("predictor", 64)


# {{{ options


@dataclass(frozen=True, slots=True)
class Options:
    """The options of :func:`predictor` except the model."""

    device: DeviceChoice | None
    fit: "FitChoice | ResidualModel | None"
    backend: "BackendChoice | None"
    counting: "Counting | None"
    alternatives: bool
    arguments: Mapping[str, Any] | None
    compiler: Compiler = "model"

    def check_types(self, model: object) -> None:
        """Raise :class:`ParameterError` for an option of the wrong type, which may be a kernel's size of that name."""
        for option, value, what, types in (
            ("device", self.device, "a name", (str, os.PathLike, Device)),
            ("model", model, "a name", str),
            ("alternatives", self.alternatives, "True or False", bool),
        ):
            check_type(option, value, what, types)
        check_compiler(self.compiler)
        if self.fit is not None:
            import_module("loopyperf.predict.fitted").check_fit(self.fit)
        if (self.counting or "executed") != "executed":
            import_module("loopyperf.counts.kernel_counts").check_options(self.counting)

    def check_unused(self, subject: str, *unused: str) -> None:
        """Raise :class:`ParameterError`, a sentence about *subject*, if one of the *unused* options is given."""
        for option in unused:
            if getattr(self, option) not in _NEUTRAL[option]:
                raise ParameterError(f"{subject} {_UNUSED[option]}")


def check_type(option: str, value: object, what: str, types: type | tuple[type, ...]) -> None:
    if value is not None and not isinstance(value, types):
        raise ParameterError(
            f"{option} must be {what}, got {value!r:.80}; pass a kernel size of that name through "
            f"parameters={{{option!r}: ...}}"
        )


_UNUSED = {
    "fit": "is not fitted; drop fit=",
    "backend": "does not execute the kernel; drop backend=, or use model='sampled'",
    "arguments": "does not execute the kernel; drop arguments=, or use model='sampled'",
    "counting": "always uses 'executed' counts; drop counting=",
    "compiler": "does not use register counts; drop compiler=",
}
"""option -> rest of the error for a model that does not use it"""
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "fit": (None,),
    "backend": (None,),
    "arguments": (None,),
    "counting": (None, "executed"),
    "compiler": ("model",),
}
"""option -> values that every model accepts"""

# }}}

# {{{ binding of models to devices and fits


def _on_device(model: str | None, options: Options) -> Predictor:
    model = model or SIMULATED
    options.check_unused(repr(model), "fit", "backend", "arguments", "counting")
    parameters = chosen_device(options.device)
    return DevicePredictor(
        model, parameters.slug, parameters=parameters, alternatives=options.alternatives, compiler=options.compiler
    )


def _bound_in(module: str) -> Callable[[str | None, Options], Predictor]:
    """Return the function ``bound`` of *module*, which is imported at the first call: it imports fits or backends."""
    return lambda model, options: import_module(module).bound(model, options)


_BINDERS: Mapping[type, Callable[[str | None, Options], Predictor]] = {
    FittedModel: _bound_in("loopyperf.predict.fitted"),
    DeviceModel: _on_device,
    SampledModel: _bound_in("loopyperf.predict.sampled"),
    RegressionModel: _bound_in("loopyperf.predict.corrected"),
}

# }}}
