"""Why does this kernel take so long? :func:`explain` asks every model about it, on every device that is meant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Any, TypeVar

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice, device_or_error, usual_answer
from loopyperf.calibration.fit_library import find_fit
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError
from loopyperf.explain.advice import advice_at
from loopyperf.explain.diagnosis import Diagnosis, diagnosed
from loopyperf.explain.explanation import BOUND, Explanation, OnDevice, with_others
from loopyperf.explain.roofline_chart import roofline_at
from loopyperf.explain.source_view import KernelCode, SourceLine, generated_code, listing_of
from loopyperf.kernel import Program
from loopyperf.models.catalog import DEVICE_MODELS, MODELS, find_model
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.predict.compare import answers_by, check_requested, model_predictions, models_named, record_among
from loopyperf.predict.estimate import predictor
from loopyperf.predict.on_device import DevicePredictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, admitted_sizes, found_once, one_size, prepared
from loopyperf.units import duration, in_percent

Found = TypeVar("Found")
LISTING: ResultKind[tuple[str, tuple[SourceLine, ...]]] = json_result_kind(
    "listing", 256, tuple[str, tuple[SourceLine, ...]]
)
"""the kernel's name, and its source"""
OF_PIPELINES = "overlap"
"""the model whose fits may be of pipelines"""
CODE: ResultKind[KernelCode] = json_result_kind("code", 64, KernelCode)
DeviceChoices = DeviceChoice | Sequence[DeviceChoice]


def explain(
    program: Program,
    /,
    *,
    device: DeviceChoices | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    about: str = "",
    findings: bool = True,
    code: bool = False,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Explanation:
    """Return why *program* takes so long at one size, in seconds, and what would make it faster.

    On each device, :attr:`~OnDevice.diagnosis` says how busy each pipeline and memory level is, what warps wait for,
    and in :attr:`~loopyperf.explain.diagnosis.Diagnosis.findings` what each change would gain: at most
    eight changed programs are simulated by the model that is shown, none with ``findings=False``.

    With *code*, the answer has the code that Loopy generates, each line linked to its instruction.

    *device* is one, or several. *model* is the one that is shown first: by default that of *fit*, or of the best fit
    for the device, else ``"pipeline"``; where it has no answer, the first that has one. *models* are all that are
    evaluated; by default that one and the roofline, which is a bound. By *fit*, a fit, a learned model, or the path of
    one, the model that it is of answers on the device that it is for, which is the default device then; other models,
    and other devices, answer as they do without it. *about* says in a few words what the kernel is for. Sizes,
    *typical* and *parameters* are those of :func:`loopyperf.estimate`.

    A model or a device that has no answer is listed with the reason.

    Raises :class:`KernelError`, :class:`UncountableError`, :class:`ParameterError`, :class:`UnknownModelError` and
    :class:`FitFileError` as :func:`loopyperf.estimate` does, :class:`UnknownDeviceError` for a single device that
    nobody knows, and :class:`LoopyperfError` where no model has an answer on any device.
    """
    merged = one_size(parameters, sizes)
    kernel, lines = found_once(LISTING, program, (merged,), lambda: _listed(program, merged))
    first = None if model is None else find_model(model).name
    names = None if models is None else models_named(models)
    record = record_among(fit, MODELS if names is None else names)
    question = _Question(Case(program, merged, typical), names, first, record, findings)
    asked = _several(record.slug if record is not None and device is None else device)
    check_requested(record, (device_or_error(choice)[0] for choice in asked))
    found: list[OnDevice] = []
    refusals: dict[str, str] = {}
    failures: list[LoopyperfError] = []
    for choice in asked:
        try:
            found.append(question.on(choice))
        except LoopyperfError as error:
            refusals[_called(choice)] = str(error)
            failures.append(error)
    if not found:
        raise failures[0]
    listing = with_others(lines, (each for on in found for each in on.estimates.values()))
    generated = _generated(program, merged) if code else None
    return Explanation(kernel, merged, about, listing, tuple(found), refusals, dict(typical or {}), generated)


def _generated(program: Program, sizes: Mapping[str, Any]) -> KernelCode | None:
    """Return the code that Loopy generates; None where it generates none."""
    try:
        return found_once(CODE, program, (), lambda: generated_code(program, prepared(program, sizes)))
    except LoopyperfError:
        return None


def _listed(program: Program, sizes: Mapping[str, Any]) -> tuple[str, tuple[SourceLine, ...]]:
    """Return the name and the listing of *program*, which takes these *sizes*."""
    kernel = prepared(program, sizes)
    admitted_sizes(kernel, sizes)
    return kernel.name, listing_of(kernel)


def _several(device: DeviceChoices | None) -> Sequence[DeviceChoice | None]:
    if device is None or isinstance(device, str | PathLike | Device):
        return [device]
    if not device:
        raise ParameterError("device is one device or several, received an empty list; leave it out for the usual one")
    return list(device)


def _called(choice: DeviceChoice | None) -> str:
    if choice is None:
        return "this machine's"
    return choice.slug if isinstance(choice, Device) else fspath(choice)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of each device."""

    case: Case
    models: Sequence[str] | None
    """that are evaluated; None for the one that is shown first and the roofline"""
    first: str | None
    record: Fit | ResidualModel | None
    findings: bool

    def on(self, choice: DeviceChoice | None) -> OnDevice:
        """Return what there is to say on a device; raises :class:`LoopyperfError` where no model has an answer."""
        slug, device = device_or_error(choice)
        found = self._on(slug, device)
        if not found.estimates:
            if isinstance(device, UnknownDeviceError):
                raise device
            told = (self.first or WITHOUT_FIT, WITHOUT_FIT, *found.refusals)
            name = next(name for name in told if name in found.refusals)
            raise LoopyperfError(f"no model has an answer on {device.slug!r}; {name}: {found.refusals[name]}")
        return found

    def _on(self, slug: str, device: Device | UnknownDeviceError) -> OnDevice:
        """Return the answers on a device; without its parameters, only fits of counts answer."""

        def on_device(find: Callable[[Case, Device], Found]) -> Found | LoopyperfError:
            return _or_error(partial(find, self.case, device)) if isinstance(device, Device) else device

        usual = self._usual(slug)
        estimates, refusals = self._predictions(slug, device, usual)
        roofline, advice = on_device(roofline_at), on_device(advice_at)
        first = next((name for name in (self.first, usual, WITHOUT_FIT, *estimates) if name and name in estimates), "")
        diagnosis = _or_error(partial(self._diagnosed, slug, first, device))
        found = {"roofline": roofline, "advice": advice, "diagnosis": diagnosis}
        known = None if isinstance(device, UnknownDeviceError) else device
        return OnDevice(
            device=slug,
            name=slug if known is None else known.name,
            first=first,
            estimates=estimates,
            refusals=refusals,
            clock=None if known is None else known.clock,
            roofline=None if isinstance(roofline, LoopyperfError) else roofline,
            advice=() if isinstance(advice, LoopyperfError) else advice[1],
            gaps={name: str(error) for name, error in found.items() if isinstance(error, LoopyperfError)},
            diagnosis=None if isinstance(diagnosis, LoopyperfError) else diagnosis,
            cores=None if known is None else known.cores,
        )

    def _diagnosed(self, slug: str, first: str, device: Device | UnknownDeviceError) -> Diagnosis:
        """Return what limits the kernel on *device* by the model that is shown *first*."""
        if not first:
            raise LoopyperfError("no model has an answer")
        if answers_by(self.record, first, slug):
            by = predictor(model=first, fit=self.record)
        else:
            by = predictor(model=first, device=_or_raised(device) if first in DEVICE_MODELS else slug)
        # A fit of a processor's pipelines knows parameters that no description has.
        known = by.parameters if isinstance(by, DevicePredictor) else _or_raised(device)
        return diagnosed(self.case, known, by, findings=self.findings)

    def _predictions(
        self, slug: str, device: Device | UnknownDeviceError, usual: str
    ) -> tuple[dict[str, Estimate], dict[str, str]]:
        """Return model -> what it predicts on a device, and model -> why it has no answer."""
        if self.models is not None:
            return model_predictions(self.models, self.case, slug, device, self.record)
        wanted = dict.fromkeys(name for name in (self.first, usual, WITHOUT_FIT) if name)
        estimates, refusals = dict[str, Estimate](), dict[str, str]()
        for name in wanted:
            estimates, refused = model_predictions([name], self.case, slug, device, self.record)
            refusals |= refused
            if estimates:
                break
        beside, refused = model_predictions([BOUND], self.case, slug, device, self.record)
        return estimates | beside, refusals | refused

    def _usual(self, slug: str) -> str:
        """Return the model that answers on a device where none is named."""
        if self.record is not None and answers_by(self.record, self.record.model, slug):
            return self.record.model
        found = _or_error(lambda: usual_answer(slug)[0])
        if not isinstance(found, Fit):
            return WITHOUT_FIT
        # Of two fits, one of pipelines can say what would be if something were otherwise.
        other = found if found.basis == "pipelines" else _or_error(lambda: find_fit(slug, OF_PIPELINES))
        return other.model if isinstance(other, Fit) and other.basis == "pipelines" else found.model


def _or_raised(device: Device | UnknownDeviceError) -> Device:
    if isinstance(device, UnknownDeviceError):
        raise device
    return device


def _or_error(find: Callable[[], Found]) -> Found | LoopyperfError:
    """Return what *find* finds, or the error that says why it does not."""
    try:
        return find()
    except LoopyperfError as error:
        return error


def paragraphs(about: str) -> list[str]:
    """Return the paragraphs of *about*, which are parted by empty lines, each as one line.

    Where a line is indented, as formulas are, the paragraph keeps its lines.
    """
    found = [block.strip("\n") for block in about.replace("\r\n", "\n").split("\n\n")]
    return [block if _is_formula(block) else " ".join(block.split()) for block in found if block.strip()]


def _is_formula(block: str) -> bool:
    return any(line.startswith((" ", "\t")) for line in block.splitlines())


def notes_on(on: OnDevice) -> dict[str, tuple[str, ...]]:
    """Return sentence -> the models that say it, those of the model that is shown first before all others.

    What the answer of that one has in its first line, its interval and what it leaves out, is not among them.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(on.estimates, key=lambda name: name != on.first):
        estimate = on.estimates[name]
        headline = () if name == on.first else tuple(_headline(estimate))
        for sentence in dict.fromkeys((*headline, *_sentences(estimate))):
            found[sentence] = (*found.get(sentence, ()), name)
    return found


def _headline(estimate: Estimate) -> Iterator[str]:
    """Yield what the first line of an answer has beside the time and what most of it is for."""
    if estimate.left_out:
        yield estimate.without.strip(" ()")
    if estimate.interval is not None:
        low, high = (duration(float(end)) for end in estimate.interval)
        yield f"{in_percent(LEVEL)} interval: {low} to {high}"


def _sentences(estimate: Estimate) -> Iterator[str]:
    yield from (f"or: {each}" for each in estimate.alternatives)
    for array in estimate.unsure:
        yield f"it is unsure whether the compiler keeps the private array {array} in registers"
    yield from estimate.notes
