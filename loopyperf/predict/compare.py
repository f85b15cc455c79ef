"""Comparison of models: the prediction of each model for a kernel, or the reason why it has none."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice, usual_answer
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, is_one_device
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import (
    FitFileError,
    LoopyperfError,
    OccupancyError,
    ParameterError,
    UnknownDeviceError,
    unanswered,
)
from loopyperf.kernel import Program
from loopyperf.models.catalog import DEVICE_MODELS, MODELS, find_model
from loopyperf.models.model_interface import DeviceModel
from loopyperf.models.program_timing import timing
from loopyperf.models.result import MAX_NAMED, Estimate
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.estimate import predictor
from loopyperf.predict.fitted import record_of
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, look_up, one_size
from loopyperf.stages.compile import Compiler, check_compiler
from loopyperf.stages.device_choice import chosen_device, device_or_error
from loopyperf.stages.profile import kernel_profile, profiled_name
from loopyperf.stages.timing import timed_program
from loopyperf.units import duration, listed, number_of

Record = Fit | ResidualModel


def models_named(models: object) -> list[str]:
    """Return the names of *models*, of all models for None.

    Raises :class:`UnknownModelError` for an unknown name, and :class:`ParameterError` for an empty list.
    """
    if models is None:
        return list(MODELS)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise ParameterError(f"models must be a list of model names, got {models!r:.80}")
    found = [find_model(str(name)).name for name in cast("Iterable[object]", models)]
    if not found:
        raise ParameterError("models is empty; name a model, or drop models= to run all")
    return found


def record_among(fit: FitChoice | ResidualModel | None, models: Iterable[str]) -> Record | None:
    """Return *fit*, read from its file if it is a path.

    Raises :class:`ParameterError` if its model is not among the *models*.
    """
    if fit is None:
        return None
    record, named = record_of(fit), list(models)
    if record.model not in named:
        raise ParameterError(
            f"the fit is for model {record.model!r}, which is not among the models {', '.join(named)}; add it, or drop "
            "the fit"
        )
    return record


def answers_by(record: Record | None, model: str, slug: str) -> bool:
    """Return whether *record* is a fit of *model* for the device with short name *slug*."""
    return record is not None and record.model == model and is_one_device(slug, record.slug)


def usual_model(slug: str, record: Record | None = None) -> str:
    """Return the default model of the device with short name *slug*: that of *record* if it is for this device."""
    if record is not None and answers_by(record, record.model, slug):
        return record.model
    try:
        found, _ = usual_answer(slug)
    except UnknownDeviceError:
        return WITHOUT_FIT
    return found.model if isinstance(found, Fit) else WITHOUT_FIT


def device_for(device: DeviceChoice | None, record: Record | None) -> tuple[str, Device | UnknownDeviceError]:
    """Return short name and parameters of *device*, by default that of *record*; an error if it has no parameters."""
    return device_or_error(record.slug if record is not None and device is None else device)


def check_requested(record: Record | None, slugs: Iterable[str]) -> None:
    """Raise :class:`FitFileError` if *record* is for none of the devices with short names *slugs*."""
    if record is None:
        return
    names = list(slugs)
    if not any(is_one_device(slug, record.slug) for slug in names):
        raise FitFileError(
            f"the fit is for device {record.slug!r}, not for {', '.join(map(repr, names))}; add its device, or drop "
            "the fit"
        )


@dataclass(frozen=True, slots=True)
class Predictors:
    """The predictors of a device: the fit and the compiler that its models use."""

    slug: str
    """short name of the device"""
    device: Device | UnknownDeviceError
    """device parameters, or the error that explains their absence"""
    record: Record | None = None
    """fit or residual model; the model that it is of uses it, if it is for this device"""
    compiler: Compiler = "model"
    """source of register counts, for models of the device"""

    def __post_init__(self) -> None:
        """Raise :class:`ParameterError` for an unknown compiler."""
        check_compiler(self.compiler)

    def of(self, model: str) -> Predictor:
        """Return the predictor of *model*; raises as :func:`loopyperf.predictor`."""
        if answers_by(self.record, model, self.slug):
            found = predictor(model=model, fit=self.record)
        else:
            found = predictor(model=model, device=self.known if model in DEVICE_MODELS else self.slug)
        return replace(found, compiler=self.compiler) if isinstance(found, DevicePredictor) else found

    @property
    def known(self) -> Device:
        """Return the device parameters, or raise the error that explains their absence."""
        if isinstance(self.device, UnknownDeviceError):
            raise self.device
        return self.device

    def predictions(self, models: Iterable[str], case: Case) -> tuple[dict[str, Estimate], dict[str, str]]:
        """Return model -> prediction for *case*, and model -> reason why there is none."""
        estimates: dict[str, Estimate] = {}
        refusals: dict[str, str] = {}
        for name in models:
            try:
                estimates[name] = self.of(name).predict(case)
            except LoopyperfError as error:
                refusals[name] = str(error)
        return estimates, refusals


ROUNDING = 1e-9
"""relative difference up to which two times count as equal"""


def models_table(estimates: Mapping[str, Estimate], clock: float | None) -> Table:
    """Return a table of bound and time by model, with the cycles of a core if its *clock* (in Hz) is known."""
    rows = [(name, each.bound, each.time_in_words) for name, each in estimates.items()]
    if clock is None:
        return Table(("model", "bound by", "time"), rows, text=2)
    cycles = (f"{float(each) * clock:,.0f}" for each in estimates.values())
    counted = [(*row, number) for row, number in zip(rows, cycles, strict=True)]
    return Table(("model", "bound by", "time", "cycles"), counted, text=2)


def is_below(estimate: Estimate, least: float) -> bool:
    """Return whether *estimate* is below the roofline's bound, *least* seconds."""
    return float(estimate) < least * (1 - ROUNDING)


def below_roofline(estimates: Mapping[str, Estimate], least: float) -> str:
    """Return a sentence on the models whose estimates are below the roofline's bound, *least* seconds; empty if none.

    A model can be below the roofline, since it may ignore effects that the roofline includes.
    """
    below = [name for name, each in estimates.items() if is_below(each, least)]
    if not below:
        return ""
    verb, subject = ("predicts", "it does") if len(below) == 1 else ("predict", "they do")
    left_out = dict.fromkeys(what for name in below for what in estimates[name].left_out)
    without = f", and leave{'s' * (len(below) == 1)} out {listed(left_out, MAX_NAMED)}" if left_out else ""
    less = f"{', '.join(below)} {verb} less than the {duration(least)} of the roofline"
    return f"{less}: {subject} not include all effects of the roofline{without}"


Refusals = Mapping[str, str]
"""model -> reason why it has no prediction"""
MAX_SHOWN = 6
"""largest number of occupancies that are printed"""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """The predictions of several models for a kernel at one size on one device.

    :func:`loopyperf.compare` returns it. Printing it gives a table of the models.

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
    >>> comparison = lpp.compare(knl, n=2**20, device="nvidia-titan-v", models=["roofline", "volkov"])
    >>> list(comparison.estimates)
    ['roofline', 'volkov']
    >>> comparison.bounds["roofline"]
    'DRAM'
    """

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    clock: float | None
    """clock frequency of a core in Hz; None if unknown"""
    estimates: Mapping[str, Estimate]
    """model -> estimate, in the order of the model catalog"""
    refusals: Refusals
    """model -> reason why it has no prediction, and what to do about it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """typical values that were given (:func:`loopyperf.count`)"""
    first: str = ""
    """the requested model, or the one that :func:`loopyperf.estimate` uses by default, which comes first"""

    @property
    def seconds(self) -> dict[str, float]:
        """Return model -> run time in seconds."""
        return {name: float(each) for name, each in self.estimates.items()}

    @property
    def cycles(self) -> dict[str, float]:
        """Return model -> run time in cycles of a core; empty if the clock is unknown."""
        return {} if self.clock is None else {name: seconds * self.clock for name, seconds in self.seconds.items()}

    @property
    def bounds(self) -> dict[str, str]:
        """Return model -> the property that takes most of the time."""
        return {name: each.bound for name, each in self.estimates.items()}

    def report_text(self) -> ReportText:
        """Return a table of the predictions, and the reasons why other models have none."""
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}",
            answer=_number_of_models(self.estimates, self.refusals, self.estimates.get(self.first)),
            tables=[models_table(self.estimates, self.clock)] if self.estimates else [],
            remarks=self._remarks(),
        )

    def _remarks(self) -> list[str]:
        """Return a sentence on models below the roofline, and the reasons why other models have no prediction."""
        if not self.estimates:
            # There is nothing else to print, so reasons are not shortened.
            return unanswered(self.refusals, as_said=str)
        roofline = self.estimates.get("roofline")
        below = "" if roofline is None else below_roofline(self.estimates, float(roofline))
        return [*filter(None, [below]), *unanswered(self.refusals)]

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each prediction: model, seconds, cycles of a core, and the bound."""
        return [
            {"model": name, "seconds": seconds, "cycles": self.cycles.get(name), "bound": self.bounds[name]}
            for name, seconds in self.seconds.items()
        ]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OccupancyComparison(Tabular):
    """The predictions of several models for a kernel at several occupancies.

    :func:`loopyperf.compare_occupancies` returns it.

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
    >>> found = lpp.compare_occupancies(
    ...     knl, n=2**20, concurrent_groups=[1, 8], device="nvidia-titan-v", models=["roofline", "volkov"]
    ... )
    >>> found.warps
    (8, 64)
    >>> found.performance("roofline")["volkov"].round()
    array([ 61., 100.])
    """

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    concurrent_groups: tuple[int, ...]
    """numbers γ of resident groups on a core"""
    warps: tuple[int, ...]
    """numbers ω of resident warps on a core, for the kernel's longest launch"""
    seconds: Mapping[str, NDArray[np.float64]]
    """model -> run times in seconds, one for each number of groups"""
    refusals: Refusals
    """model -> reason why it has no prediction, and what to do about it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """typical values that were given (:func:`loopyperf.count`)"""

    def performance(self, standard: str | float = WITHOUT_FIT) -> dict[str, NDArray[np.float64]]:
        """Return model -> performance at each occupancy, in percent of that of the *standard*.

        *standard* is a run time in seconds, or a model, whose run time at the first occupancy is used. In Lemeire, Fig.
        17 and 18, it is the measured time at the first occupancy. Raises :class:`ParameterError` for a model without a
        prediction.
        """
        if isinstance(standard, str):
            if standard not in self.seconds:
                known = ", ".join(self.seconds) or "none"
                raise ParameterError(f"no prediction of model {standard!r}; choose from: {known}")
            standard = float(self.seconds[standard][0])
        return {name: 100 * standard / times for name, times in self.seconds.items()}

    def __eq__(self, other: object) -> bool:
        """Return whether all values are equal. (There is no hash, because of the mappings.)"""
        return self.to_dict() == other.to_dict() if isinstance(other, OccupancyComparison) else NotImplemented

    @property
    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Return model -> list of (warps, performance), with performance in runs of the kernel per second."""
        return {
            name: [(float(warps), 1 / float(seconds)) for warps, seconds in zip(self.warps, times, strict=True)]
            for name, times in self.seconds.items()
        }

    def report_text(self) -> ReportText:
        """Return a table of times by model at some of the occupancies, and the reasons why other models have none."""
        last = len(self.warps) - 1
        shown = sorted({round(last * step / (MAX_SHOWN - 1)) for step in range(MAX_SHOWN)})
        times = [(name, *(duration(float(each[place])) for place in shown)) for name, each in self.seconds.items()]
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, by resident warps per core",
            answer=_number_of_models(self.seconds, self.refusals),
            tables=[Table(("warps", *(str(self.warps[place]) for place in shown)), times)] if times else [],
            remarks=[*self._not_shown(len(shown)), *unanswered(self.refusals)],
        )

    def _not_shown(self, shown: int) -> Iterator[str]:
        if shown < len(self.warps):
            yield f"not shown: {len(self.warps) - shown} of {number_of(len(self.warps), 'occupancy')}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each model and occupancy: resident groups and warps of a core, and seconds."""
        occupancies = list(zip(self.concurrent_groups, self.warps, strict=True))
        return [
            {"model": name, "concurrent_groups": groups, "warps": warps, "seconds": seconds}
            for name, times in self.seconds.items()
            for (groups, warps), seconds in zip(occupancies, times.tolist(), strict=True)
        ]


def compare(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Comparison:
    """Compare the run times that several models predict for *program* at one size on *device*.

    Fitted models take part if there is a fit for the device.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    device : str, os.PathLike or Device, optional
        As in :func:`loopyperf.estimate`. Default: the device of *fit*, if given.
    model : str, optional
        The model in the first row. Default: that of *fit*, else the default of :func:`loopyperf.estimate`.
    models : iterable of str, optional
        Names of models in :data:`loopyperf.MODELS`. Default: all models.
    fit : Fit, ResidualModel, str or os.PathLike, optional
        A fit or residual model, or the path of one, for the model that it is of. It must be for *device*.
    compiler, typical, parameters, **sizes
        As in :func:`loopyperf.estimate`; each size is one integer.

    Returns
    -------
    Comparison
        The estimate of each model. ``refusals`` has the reasons why other models have no prediction, e.g. a missing
        fit or device parameter.

    Raises
    ------
    UnknownModelError, UnknownDeviceError, FitFileError, DeviceFileError, KernelError, UncountableError, ParameterError
        As in :func:`loopyperf.estimate`, for errors that concern all models.

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
    >>> print(lpp.compare(knl, n=2**20, device="nvidia-titan-v", models=["roofline", "volkov"]))
    ... # doctest: +ELLIPSIS
    loopy_kernel(n=1048576) on nvidia-titan-v: 2 models
      model     bound by     time  cycles
      roofline  DRAM      ...
      volkov    DRAM      ...
    """
    names, merged = models_named(models), one_size(parameters, sizes)
    record = record_among(fit, names)
    slug, known = device_for(device, record)
    check_requested(record, [slug])
    first = find_model(model).name if model is not None else usual_model(slug, record)
    case = Case(program, merged, typical)
    # Errors in the kernel are raised once, before the models run.
    kernel = profiled_name(case, known) if isinstance(known, Device) else ""
    estimates, refusals = Predictors(slug, known, record, compiler).predictions(names, case)
    if model is fit is None and first not in estimates and WITHOUT_FIT in estimates:
        first = WITHOUT_FIT  # the default fit has no weights for the kernel
    estimates = {name: estimates[name] for name in sorted(estimates, key=lambda name: name != first)}
    clock = known.clock if isinstance(known, Device) else None
    if isinstance(known, UnknownDeviceError):
        if not estimates:
            raise known
        kernel = next(iter(estimates.values())).kernel
    return Comparison(kernel, merged, slug, clock, estimates, refusals, dict(typical or {}), first)


def compare_occupancies(
    program: Program,
    /,
    *,
    concurrent_groups: Sequence[int] | None = None,
    device: DeviceChoice | None = None,
    models: Iterable[str] | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> OccupancyComparison:
    """Compare the run times of *program* that models predict for different numbers of resident groups on a core.

    Experiments set this number with local memory that a kernel allocates and does not use. Fitted models do not depend
    on it, and have no prediction.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    concurrent_groups : sequence of int, optional
        Numbers of resident groups, from 1 up to the largest number that fits on a core. Default: all of them.
    device, models, typical, parameters, **sizes
        As in :func:`loopyperf.compare`.

    Returns
    -------
    OccupancyComparison
        The run times of each model in seconds, one for each number of groups.

    Raises
    ------
    OccupancyError
        *concurrent_groups* is empty, or has a number that does not fit on a core.
    UnknownModelError, UnknownDeviceError, DeviceFileError, KernelError, UncountableError, ParameterError
        As in :func:`loopyperf.compare`.

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
    >>> found = lpp.compare_occupancies(knl, n=2**20, device="nvidia-titan-v", models=["volkov"])
    >>> found.concurrent_groups
    (1, 2, 3, 4, 5, 6, 7, 8)
    >>> bool(found.seconds["volkov"][0] > found.seconds["volkov"][-1])
    True
    """
    case, chosen = Case(program, one_size(parameters, sizes), typical), chosen_device(device)
    names = models_named(models)
    key = chosen, case.typical, case.sizes, names, concurrent_groups
    lookup = look_up(OCCUPANCIES, program, key)
    found = lookup.found or lookup.keep(_at_occupancies(case, chosen, names, concurrent_groups))
    kernel, groups, warps, times, refusals = found
    seconds = {name: np.array(time) for name, time in times.items()}
    given = dict(typical or {})
    return OccupancyComparison(kernel, case.sizes, chosen.slug, groups, warps, seconds, dict(refusals), given)


_Occupancies = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, tuple[float, ...]], dict[str, str]]
OCCUPANCIES: ResultKind[_Occupancies] = json_result_kind("occupancies", 256, _Occupancies)
"""kernel name, numbers of groups, numbers of warps, model -> seconds, model -> reason why it has no prediction"""


def _at_occupancies(
    case: Case, device: Device, names: Sequence[str], concurrent_groups: Sequence[int] | None
) -> _Occupancies:
    profile, full = kernel_profile(case, device=device), timed_program(case, device=device)
    if not full.launches:
        raise ParameterError(f"kernel {full.kernel!r} launches no groups at {dict(case.sizes)}; use larger sizes")
    longest = max(full.launches, key=lambda launch: launch.warps_of_core)
    most = min(launch.execution.concurrent_groups for launch in full.launches)
    numbers = tuple(range(1, most + 1)) if concurrent_groups is None else _checked(concurrent_groups)
    kernels = [timing(compile_profile(profile, device, concurrent_groups=groups), device) for groups in numbers]
    warps = tuple(groups * longest.warps_per_group for groups in numbers)
    return full.kernel, numbers, warps, *_over_occupancy(names, kernels)


def _over_occupancy(
    names: Iterable[str], kernels: Sequence[TimedProgram]
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Return model -> seconds of each of *kernels*, and model -> reason for no prediction, of the models *names*."""
    seconds: dict[str, tuple[float, ...]] = {}
    refusals: dict[str, str] = {}
    for name in names:
        model = find_model(name)
        if not isinstance(model, DeviceModel):
            refusals[name] = "does not depend on the number of resident groups"
            continue
        try:
            seconds[name] = tuple(float(model.time(kernel).seconds) for kernel in kernels)
        except LoopyperfError as error:
            refusals[name] = str(error)
    return seconds, refusals


def _checked(concurrent_groups: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of groups; raises :class:`OccupancyError` unless they are one or more integers."""
    numbers = np.atleast_1d(np.asarray(concurrent_groups))
    if not numbers.size or numbers.dtype.kind not in "iu":
        raise OccupancyError(f"concurrent_groups must be one or more integers, got {concurrent_groups!r:.80}")
    return tuple(numbers.tolist())


def _number_of_models(answers: Mapping[str, object], refusals: Refusals, first: Estimate | None = None) -> str:
    chosen = "" if first is None else f"{first.time_and_interval} by {first.model}; "
    without = f", {len(refusals)} without a prediction" if refusals else ""
    return f"{chosen}{number_of(len(answers), 'model')}{without}"
