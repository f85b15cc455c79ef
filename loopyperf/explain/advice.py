"""What would make this kernel faster? Changes that are simulated, and GPUPerf's advice beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, overload

from loopy.diagnostic import LoopyError

from loopyperf.calibration.choice import chosen_device
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, called, plain
from loopyperf.errors import LoopyperfError, MissingNumberError, UnknownDeviceError, one_line
from loopyperf.explain.diagnosis import NOTHING, Diagnosis, diagnosed
from loopyperf.explain.findings import Finding
from loopyperf.explain.first_screen import bars, findings_table
from loopyperf.kernel import Program
from loopyperf.models.literature.gpuperf import Analysis, Inputs, Parameters
from loopyperf.models.literature.gpuperf_advice import Advice, Benefit, advice_on
from loopyperf.models.result import Estimate
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import SIMULATED
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, one_size
from loopyperf.stages.stages import found_on_device, profiled_name
from loopyperf.units import duration


@dataclass(frozen=True, slots=True)
class AppliedFinding:
    """The kernel after a finding's change, which Loopy has made."""

    change: str
    """what was changed"""
    estimate: Estimate | None
    """of the changed kernel; None where there is none"""
    refusal: str = ""
    """why there is none"""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values that JSON can hold."""
        return {
            "change": self.change,
            "seconds": None if self.estimate is None else float(self.estimate),
            "refusal": self.refusal,
        }


@dataclass(frozen=True, slots=True, repr=False)
class AdviceOnKernel(Shown, Sequence[Advice]):
    """What would make a kernel faster. As a sequence, it has what GPUPerf says of each launch."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    diagnosis: Diagnosis
    """what limits the kernel"""
    launches: tuple[Advice, ...]
    """by GPUPerf, one for each device program, in the order of the program; empty where the device lacks a number"""
    variants: tuple[AppliedFinding, ...] = ()
    """the kernel after each change that Loopy could make, where that was wanted"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the changes that would help, each with the time after it, the greatest gain first."""
        return self.diagnosis.findings

    @overload
    def __getitem__(self, place: int) -> Advice: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Advice, ...]: ...
    def __getitem__(self, place: int | slice) -> Advice | tuple[Advice, ...]:
        """Return what GPUPerf says of the launch at *place*, or of those there."""
        return self.launches[place]

    def __len__(self) -> int:
        """Return of how many launches GPUPerf says something."""
        return len(self.launches)

    def report_text(self) -> ReportText:
        """Return the cause, and what would help; below, what Loopy could make of it."""
        diagnosis = self.diagnosis
        tables = [bars(diagnosis.longest, diagnosis)] if diagnosis.launches else []
        tables += [findings_table(diagnosis.findings, diagnosis)] if diagnosis.findings else []
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, model {diagnosis.model}",
            answer=f"{duration(diagnosis.seconds)}, {diagnosis.cause}",
            tables=[*tables, *self._tried()],
            remarks=[] if diagnosis.findings else [NOTHING],
        )

    def _tried(self) -> Iterator[Table]:
        """Yield the variants that Loopy could make, each with its estimate."""
        rows = [
            (each.change, each.refusal, "", "")
            if each.estimate is None
            else (
                each.change,
                each.estimate.most_of_it,
                duration(float(each.estimate)),
                f"{self.diagnosis.seconds / float(each.estimate):.2f}×",
            )
            for each in self.variants
        ]
        if rows:
            yield Table(("applied by Loopy", "", "time", "speedup"), rows, text=2)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            **self.diagnosis.to_dict(),
            "variants": [each.to_dict() for each in self.variants],
            "gpuperf": [each.to_dict() for each in self.launches],
        }


def advise(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    predictor: Predictor | None = None,
    apply: bool = False,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> AdviceOnKernel:
    """Return what would make *program* faster: changes, each with the seconds that the kernel takes after it.

    Each is a change of this kernel, simulated by the model ``"pipeline"`` on *device*, or by *predictor* (see
    :func:`loopyperf.predictor`): in ``findings``, the greatest gain first, with the reason, the lines that it concerns
    and how to do it in Loopy. At most eight changed programs are simulated. With *apply*, changes that Loopy can make
    by itself are made, and ``variants`` has the estimate of each changed kernel.

    As a sequence, the answer has GPUPerf's advice on each launch (Sim, section 3). Sizes are single integers; other
    options are those of :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`KernelError`, :class:`UncountableError`, :class:`ParameterError`, :class:`UnknownDeviceError`,
    :class:`MissingNumberError` and :class:`OccupancyError` as :func:`loopyperf.estimate` does.
    """
    described = chosen_device(device) if predictor is None else _device_of(predictor)
    by = given_or_named(predictor, device=None if predictor else described, model=None if predictor else SIMULATED)
    case = Case(program, one_size(parameters, sizes), typical)
    diagnosis = diagnosed(case, described, by)
    try:
        kernel, launches = advice_at(case, described)
    except MissingNumberError:
        kernel, launches = profiled_name(case, described), ()
    variants = tuple(_variants(case, diagnosis, by)) if apply else ()
    return AdviceOnKernel(kernel, dict(case.sizes), described.slug, diagnosis, launches, variants, dict(typical or {}))


def _device_of(predictor: Predictor) -> Device:
    if predictor.device_parameters is None:
        raise UnknownDeviceError(f"{predictor.device!r} has no device parameters; changes cannot be simulated on it")
    return predictor.device_parameters


def _variants(case: Case, diagnosis: Diagnosis, predictor: Predictor) -> Iterator[AppliedFinding]:
    """Yield the kernel of *case* after each change that Loopy can make by itself."""
    for each in diagnosis.findings:
        if not each.recipe.calls:
            continue
        try:
            changed = each.recipe.applied_to(case.kernel)
            yield AppliedFinding(each.change, predictor.predict(replace(case, kernel=changed)))
        except (LoopyperfError, LoopyError) as error:
            yield AppliedFinding(each.change, None, one_line(error))


Number = int | float
_Written = tuple[str, Number, dict[str, Number], dict[str, Number], tuple[Benefit, ...], tuple[str, ...]]
ADVICE: ResultKind[tuple[str, tuple[_Written, ...]]] = json_result_kind("advice", 256, tuple[str, tuple[_Written, ...]])
"""the kernel's name, and the fields of each advice; of its analysis, the inputs that are stated and the parameters"""


def advice_at(case: Case, device: Device) -> tuple[str, tuple[Advice, ...]]:
    """Return the name of the kernel of *case*, and the advice on each of its launches; see :func:`advise`."""
    kernel, launches = found_on_device(ADVICE, case, device, _written)
    return kernel, tuple(
        Advice(launch, clock, Analysis(Inputs(**inputs), Parameters(**parameters)), benefits, scattered)
        for launch, clock, inputs, parameters, benefits, scattered in launches
    )


def _written(kernel: TimedProgram) -> tuple[str, tuple[_Written, ...]]:
    return kernel.kernel, tuple(
        (
            each.launch,
            each.clock,
            {name: number for name, number in asdict(each.analysis.inputs).items() if number is not None},
            asdict(each.analysis.parameters),
            each.benefits,
            each.scattered,
        )
        for each in map(advice_on, kernel.launches)
    )
