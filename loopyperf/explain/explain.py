"""Explain why a kernel takes so long: :func:`explain` evaluates models on one or several devices."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, TypeVar

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError
from loopyperf.explain.diagnosis import diagnosed
from loopyperf.explain.explanation import Explanation, OnDevice, with_others
from loopyperf.explain.roofline_chart import roofline_at
from loopyperf.explain.source_view import SourceLine, listing_of
from loopyperf.kernel import Program
from loopyperf.models.catalog import MODELS, find_model
from loopyperf.models.result import Estimate
from loopyperf.predict.compare import Predictors, check_requested, models_named, record_among, usual_model
from loopyperf.predict.on_device import BOUND, DevicePredictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, admitted_sizes, found_once, one_size, prepared
from loopyperf.stages.compile import Compiler
from loopyperf.stages.device_choice import device_or_error

Found = TypeVar("Found")
LISTING: ResultKind[tuple[str, tuple[SourceLine, ...]]] = json_result_kind(
    "listing", 256, tuple[str, tuple[SourceLine, ...]]
)
"""cached name and source listing of a kernel"""
DeviceChoices = DeviceChoice | Sequence[DeviceChoice]


def explain(
    program: Program,
    /,
    *,
    device: DeviceChoices | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    about: str = "",
    findings: bool = True,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Explanation:
    """Explain why *program* takes so long at one size, and what would make it faster.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, or several of them, optional
        Names, parameter files or loaded devices. The default is the device of *fit*, or the one that
        ``LOOPYPERF_DEVICE`` names, or this machine's OpenCL device.
    model : str, optional
        The model to show first, a name in :data:`loopyperf.MODELS`. The default is the model of *fit*, or the default
        of :func:`loopyperf.estimate`. If it cannot predict the kernel, another one is shown.
    models : iterable of str, optional
        All models to evaluate. The default is the model shown first and the roofline, a lower bound.
    fit : Fit, ResidualModel or path, optional
        A fit or residual model. Its own model uses it on the device that it was made for; other models and devices
        ignore it.
    compiler : {"model", "nvrtc", "auto"}
        Source of register counts, as in :func:`loopyperf.estimate`.
    about : str, optional
        A description of the kernel.
    findings : bool, optional
        Whether to simulate changes that may make the kernel faster, at most eight per device.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    Explanation
        For each device, the estimates in seconds and a diagnosis: the utilization of pipelines and memory levels,
        stall reasons, and findings. Models and devices without a prediction are listed in ``refusals`` with the
        reason.

    Raises
    ------
    KernelError
        Loopy cannot prepare the kernel.
    UncountableError
        The kernel contains a construct without an exact count.
    ParameterError
        A size or an option is invalid.
    UnknownModelError
        A model is unknown.
    FitFileError
        *fit* is not a fit, or does not match the models.
    UnknownDeviceError
        The only device is unknown.
    LoopyperfError
        No model can predict the kernel on any device.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> explanation = lpp.explain(knl, device="nvidia-titan-v", n=2**24)
    >>> print(explanation.devices[0].cause)  # doctest: +ELLIPSIS
    bound by DRAM bandwidth: busy for ... % of the time
    """
    merged = one_size(parameters, sizes)
    kernel, lines = found_once(LISTING, program, (merged,), lambda: _listed(program, merged))
    first = None if model is None else find_model(model).name
    names = None if models is None else models_named(models)
    record = record_among(fit, MODELS if names is None else names)
    request = _Request(Case(program, merged, typical), names, first, record, compiler, findings)
    asked = record.slug if record is not None and device is None else device
    requested = [asked] if asked is None or isinstance(asked, str | PathLike | Device) else list(asked)
    if not requested:
        raise ParameterError("the list of devices is empty; pass at least one device, or none for the default device")
    check_requested(record, (device_or_error(choice)[0] for choice in requested))
    found: list[OnDevice] = []
    refusals: dict[str, str] = {}
    failures: list[LoopyperfError] = []
    for choice in requested:
        try:
            found.append(request.on(choice))
        except LoopyperfError as error:
            name = choice.slug if isinstance(choice, Device) else fspath(choice or "default device")
            refusals[name] = str(error)
            failures.append(error)
    if not found:
        raise failures[0]
    listing = with_others(lines, (estimate for on in found for estimate in on.estimates.values()))
    return Explanation(kernel, merged, about, listing, tuple(found), refusals, dict(typical or {}))


def _listed(program: Program, sizes: Mapping[str, Any]) -> tuple[str, tuple[SourceLine, ...]]:
    """Return the name and the source listing of *program*; raises :class:`ParameterError` for invalid *sizes*."""
    kernel = prepared(program, sizes)
    admitted_sizes(kernel, sizes)
    return kernel.name, listing_of(kernel)


@dataclass(frozen=True, slots=True)
class _Request:
    """The inputs of an explanation that are the same for each device."""

    case: Case
    models: Sequence[str] | None
    """models to evaluate; None for the one shown first and the roofline"""
    first: str | None
    record: Fit | ResidualModel | None
    compiler: Compiler
    findings: bool

    def on(self, choice: DeviceChoice | None) -> OnDevice:
        """Return the explanation on a device; without device parameters, only fits of counts apply.

        Raises :class:`LoopyperfError` if no model can predict the kernel.
        """
        slug, device = device_or_error(choice)
        by = Predictors(slug, device, self.record, self.compiler)
        usual = self.first or usual_model(slug, self.record)
        estimates, refusals = self._predictions(by, usual)
        first = next((name for name in (usual, WITHOUT_FIT, *estimates) if name in estimates), "")
        known = None if isinstance(device, UnknownDeviceError) else device
        if not first:
            if isinstance(device, UnknownDeviceError):
                raise device
            name = next(name for name in (self.first or WITHOUT_FIT, WITHOUT_FIT, *refusals) if name in refusals)
            raise LoopyperfError(f"no model can predict the kernel on {device.slug!r}; {name}: {refusals[name]}")
        shown = by.of(first)
        of_launches = shown if isinstance(shown, DevicePredictor) and first != BOUND else None
        roofline = _or_error(lambda: roofline_at(self.case, by.known, of_launches))
        diagnosis = _or_error(lambda: diagnosed(self.case, shown, estimates[first], findings=self.findings))
        found = {"roofline": roofline, "diagnosis": diagnosis}
        return OnDevice(
            device=slug,
            name=slug if known is None else known.name,
            first=first,
            estimates={first: estimates[first]} | estimates,
            refusals=refusals,
            clock=None if known is None else known.clock,
            roofline=None if isinstance(roofline, LoopyperfError) else roofline,
            gaps={name: str(error) for name, error in found.items() if isinstance(error, LoopyperfError)},
            diagnosis=None if isinstance(diagnosis, LoopyperfError) else diagnosis,
            cores=None if known is None else known.cores,
        )

    def _predictions(self, by: Predictors, usual: str) -> tuple[dict[str, Estimate], dict[str, str]]:
        """Return the estimates by model, and the reasons of the models without one."""
        if self.models is not None:
            return by.predictions(self.models, self.case)
        estimates, refusals = by.predictions([usual], self.case)
        if not estimates and usual != WITHOUT_FIT:
            estimates, refused = by.predictions([WITHOUT_FIT], self.case)
            refusals |= refused
        beside, refused = by.predictions([BOUND], self.case)
        return estimates | beside, refusals | refused


def _or_error(find: Callable[[], Found]) -> Found | LoopyperfError:
    """Return the result of *find*, or the error that it raises."""
    try:
        return find()
    except LoopyperfError as error:
        return error


def paragraphs(about: str) -> list[str]:
    """Return the paragraphs of *about*, which are separated by empty lines, each as one line.

    A paragraph with an indented line, such as a formula, keeps its line breaks.
    """
    found = [block.strip("\n") for block in about.replace("\r\n", "\n").split("\n\n")]
    return [
        block if any(line.startswith((" ", "\t")) for line in block.splitlines()) else " ".join(block.split())
        for block in found
        if block.strip()
    ]
