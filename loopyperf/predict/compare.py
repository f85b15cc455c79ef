"""All models side by side: what each says of a kernel, and why others say nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice, chosen_device, device_or_error
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice, is_one_device
from loopyperf.display import ReportText, Table, Tabular, called, plain
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
from loopyperf.models.result import NAMED, Estimate
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.estimate import predictor, record_of
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, found_once, one_size
from loopyperf.stages.stages import profiled_name, staged, stages_of
from loopyperf.units import duration, listed, number_of

Record = Fit | ResidualModel


def models_named(models: object) -> list[str]:
    """Return the names of the models that are asked, all of them for None.

    Raises :class:`UnknownModelError` for one that there is not, and :class:`ParameterError` where none is named.
    """
    if models is None:
        return list(MODELS)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise ParameterError(f"models is a list of names of models; received {models!r}")
    found = [find_model(str(name)).name for name in cast("Iterable[object]", models)]
    if not found:
        raise ParameterError("models is an empty list: give the name of a model or more, or leave it out for all")
    return found


def record_among(fit: FitChoice | ResidualModel | None, models: Iterable[str]) -> Record | None:
    """Return *fit*, read if it is a path; raises :class:`ParameterError` unless its model is among the *models*."""
    if fit is None:
        return None
    record, named = record_of(fit), list(models)
    if record.model not in named:
        raise ParameterError(
            f"the fit is of the model {record.model!r}, but only {', '.join(named)} are asked; ask it too, or "
            "leave the fit out"
        )
    return record


def answers_by(record: Record | None, model: str, slug: str) -> bool:
    """Return whether *model* answers by *record* on the device of that short name."""
    return record is not None and record.model == model and is_one_device(slug, record.slug)


def device_for(device: DeviceChoice | None, record: Record | None) -> tuple[str, Device | UnknownDeviceError]:
    """Return short name and parameters of *device*, by default that of *record*; the error where it has none."""
    return device_or_error(record.slug if record is not None and device is None else device)


def check_requested(record: Record | None, slugs: Iterable[str]) -> None:
    """Raise :class:`FitFileError` where none of the devices called *slugs* is that of *record*."""
    if record is None:
        return
    asked = list(slugs)
    if not any(is_one_device(slug, record.slug) for slug in asked):
        raise FitFileError(
            f"the fit is for the device {record.slug!r}, but {', '.join(map(repr, asked))} was asked for; "
            "name its device too, or leave the fit out"
        )


def model_predictions(
    models: Iterable[str], case: Case, slug: str, device: Device | UnknownDeviceError, record: Record | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return model -> what it predicts of *case* on a device, and model -> why it has no answer.

    By *record* the model that it is of answers, where it is of this device.
    """
    estimates: dict[str, Estimate] = {}
    refusals: dict[str, str] = {}
    for name in models:
        try:
            if answers_by(record, name, slug):
                asked = predictor(model=name, fit=record)
            else:
                asked = predictor(model=name, device=_or_raised(device) if name in DEVICE_MODELS else slug)
            estimates[name] = asked.predict(case)
        except LoopyperfError as error:
            refusals[name] = str(error)
    return estimates, refusals


def _or_raised(device: Device | UnknownDeviceError) -> Device:
    if isinstance(device, UnknownDeviceError):
        raise device
    return device


ROUNDING = 1e-9
"""share by which times differ that are the same"""


def models_table(estimates: Mapping[str, Estimate], clock: float | None) -> Table:
    """Return the bound and the time of each of *estimates*, by model, and its cycles where a core's *clock* is known.

    Beside the bound stands what else the time may be. The clock is in Hz.
    """
    rows = [(name, f"{each.bound}{_others(each)}", each.time_in_words) for name, each in estimates.items()]
    if clock is None:
        return Table(("model", "bound by", "time"), rows, text=2)
    cycles = (f"{float(each) * clock:,.0f}" for each in estimates.values())
    counted = [(*row, number) for row, number in zip(rows, cycles, strict=True)]
    return Table(("model", "bound by", "time", "cycles"), counted, text=2)


def is_below(estimate: Estimate, least: float) -> bool:
    """Return whether *estimate* is less than the *least* seconds that the roofline says."""
    return float(estimate) < least * (1 - ROUNDING)


def below_roofline(estimates: Mapping[str, Estimate], least: float) -> str:
    """Return a sentence on which of *estimates*, by model, are less than the roofline says; empty where none is.

    The roofline says the *least* seconds; it is a bound of what it sees alone.
    """
    below = [name for name, each in estimates.items() if is_below(each, least)]
    if not below:
        return ""
    verb, who = ("says", "it does") if len(below) == 1 else ("say", "they do")
    left_out = dict.fromkeys(what for name in below for what in estimates[name].left_out)
    without = f", and leave{'s' * (len(below) == 1)} out {listed(left_out, NAMED)}" if left_out else ""
    less = f"{', '.join(below)} {verb} less than the {duration(least)} of the roofline"
    return f"{less}: {who} not see all that the roofline sees{without}"


def _others(estimate: Estimate) -> str:
    return "".join(f", or {duration(float(other.seconds))}" for other in estimate.alternatives)


Refusals = Mapping[str, str]
"""model -> why it has no answer"""
SHOWN = 6
"""occupancies that are printed, at most"""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """What the models say of a kernel at one size on one device."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    clock: float | None
    """of a core, in Hz; None for a device that is not described"""
    estimates: Mapping[str, Estimate]
    """by model, in the order of the table of models"""
    refusals: Refusals
    """model -> why it has no answer, and what to do about it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    @property
    def seconds(self) -> dict[str, float]:
        """Return model -> run time in seconds."""
        return {name: float(each) for name, each in self.estimates.items()}

    @property
    def cycles(self) -> dict[str, float]:
        """Return model -> run time in cycles of a core; empty where its clock is not known."""
        return {} if self.clock is None else {name: seconds * self.clock for name, seconds in self.seconds.items()}

    @property
    def bounds(self) -> dict[str, str]:
        """Return model -> what costs most."""
        return {name: each.bound for name, each in self.estimates.items()}

    def report_text(self) -> ReportText:
        """Return a row for each model that has an answer, and why others have none."""
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}",
            answer=_in_number(self.estimates, self.refusals),
            tables=[models_table(self.estimates, self.clock)] if self.estimates else [],
            remarks=self._remarks(),
        )

    def _remarks(self) -> list[str]:
        """Return which models say less than the roofline, if it has an answer, and why others have none."""
        if not self.estimates:
            # Where there is nothing else to read, reasons are told whole.
            return unanswered(self.refusals, as_said=str)
        roofline = self.estimates.get("roofline")
        below = "" if roofline is None else below_roofline(self.estimates, float(roofline))
        return [*filter(None, [below]), *unanswered(self.refusals)]

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each model that has an answer: seconds, cycles of a core, and what costs most."""
        return [
            {"model": name, "seconds": seconds, "cycles": self.cycles.get(name), "bound": self.bounds[name]}
            for name, seconds in self.seconds.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "clock": self.clock,
            "estimates": {name: each.to_dict() for name, each in self.estimates.items()},
            "refusals": dict(self.refusals),
        }


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OccupancyComparison(Tabular):
    """What the models say of a kernel over how many groups reside on a core at once."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    concurrent_groups: tuple[int, ...]
    """γ"""
    warps: tuple[int, ...]
    """ω: the warps of so many groups of the kernel's longest launch"""
    seconds: Mapping[str, NDArray[np.float64]]
    """model -> run times, in seconds, one for each number of groups"""
    refusals: Refusals
    """model -> why it has no answer, and what to do about it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    def performance(self, standard: str | float = WITHOUT_FIT) -> dict[str, NDArray[np.float64]]:
        """Return model -> performance over the occupancies, 100 where a run takes as long as the *standard*.

        That is seconds, or the model whose run time at the first number of groups it is. In Lemeire, Fig. 17 and 18, it
        is the measured time there. Raises :class:`ParameterError` for a model that has no answer.
        """
        if isinstance(standard, str):
            if standard not in self.seconds:
                raise ParameterError(f"there is no answer of {standard!r}, only of {', '.join(self.seconds) or 'none'}")
            standard = float(self.seconds[standard][0])
        return {name: 100 * standard / times for name, times in self.seconds.items()}

    def __eq__(self, other: object) -> bool:
        """Return whether *other* says the same, at all occupancies; of what has mappings there is no hash."""
        return self.to_dict() == other.to_dict() if isinstance(other, OccupancyComparison) else NotImplemented

    @property
    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Return model -> for each number of warps, it and the performance, in runs of the kernel in a second."""
        return {
            name: [(float(warps), 1 / float(seconds)) for warps, seconds in zip(self.warps, times, strict=True)]
            for name, times in self.seconds.items()
        }

    def report_text(self) -> ReportText:
        """Return the times of each model at some of the occupancies, and why others have none."""
        last = len(self.warps) - 1
        shown = sorted({round(last * step / (SHOWN - 1)) for step in range(SHOWN)})
        times = [(name, *(duration(float(each[place])) for place in shown)) for name, each in self.seconds.items()]
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, by resident warps of a core",
            answer=_in_number(self.seconds, self.refusals),
            tables=[Table(("warps", *(str(self.warps[place]) for place in shown)), times)] if times else [],
            remarks=[*self._not_shown(len(shown)), *unanswered(self.refusals)],
        )

    def _not_shown(self, shown: int) -> Iterator[str]:
        if shown < len(self.warps):
            yield f"not shown: {len(self.warps) - shown} of {number_of(len(self.warps), 'occupancy')}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each model and occupancy: groups and warps that reside on a core, and seconds."""
        occupancies = list(zip(self.concurrent_groups, self.warps, strict=True))
        return [
            {"model": name, "concurrent_groups": groups, "warps": warps, "seconds": seconds}
            for name, times in self.seconds.items()
            for (groups, warps), seconds in zip(occupancies, times.tolist(), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "concurrent_groups": list(self.concurrent_groups),
            "warps": list(self.warps),
            "seconds": {name: times.tolist() for name, times in self.seconds.items()},
            "refusals": dict(self.refusals),
        }


def compare(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Comparison:
    """Return what every model says of *program* at one size on *device*, and why others have no answer.

    *models* names those that are asked; all are otherwise. Models that are fitted answer where there is a fit for the
    device. By *fit*, a fit, a learned model, or the path of one, the model that it is of answers; its device is then
    the one that is meant, and no other is taken. Sizes, *typical* and *parameters* are those of
    :func:`loopyperf.estimate`. Raises what that raises for a kernel, a size, a device or a fit that makes no sense;
    what one model lacks is in :attr:`Comparison.refusals`: its description of the device may lack a number, or there
    may be none, or no fit.
    """
    names, merged = models_named(models), one_size(parameters, sizes)
    record = record_among(fit, names)
    slug, known = device_for(device, record)
    check_requested(record, [slug])
    case = Case(program, merged, typical)
    # What is wrong with the kernel is raised once, before the models are asked.
    kernel = profiled_name(case, known) if isinstance(known, Device) else ""
    estimates, refusals = model_predictions(names, case, slug, known, record)
    if isinstance(known, Device):
        return Comparison(kernel, merged, slug, known.clock, estimates, refusals, dict(typical or {}))
    if not estimates:
        raise known
    kernel = next(iter(estimates.values())).kernel
    return Comparison(kernel, merged, slug, None, estimates, refusals, dict(typical or {}))


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
    """Return what every model of a device says of *program* over how many of its groups reside on a core at once.

    So it is measured: by local memory that a kernel takes and does not use. *concurrent_groups* are from 1 to as many
    as a core has room for, all of these unless stated. Everything else is as for :func:`compare`; models that are
    fitted do not know the occupancy. Raises :class:`OccupancyError` for more groups than there is room for
    and for no number of groups, and what :func:`compare` raises.
    """
    case, described = Case(program, one_size(parameters, sizes), typical), chosen_device(device)
    names = models_named(models)
    asked = described, case.typical, case.sizes, names, concurrent_groups
    kernel, groups, warps, times, refusals = found_once(
        OCCUPANCIES, program, asked, lambda: _at_occupancies(case, described, names, concurrent_groups)
    )
    seconds = {name: np.array(each) for name, each in times.items()}
    stated = dict(typical or {})
    return OccupancyComparison(kernel, case.sizes, described.slug, groups, warps, seconds, dict(refusals), stated)


_Occupancies = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, tuple[float, ...]], dict[str, str]]
OCCUPANCIES: ResultKind[_Occupancies] = json_result_kind("occupancies", 256, _Occupancies)
"""the kernel's name, numbers of groups and of warps, model -> seconds, model -> why it has no answer"""


def _at_occupancies(
    case: Case, device: Device, names: Sequence[str], concurrent_groups: Sequence[int] | None
) -> _Occupancies:
    found = stages_of(case, device)
    full, described = found.timed, found.timed.device
    if not full.launches:
        raise ParameterError(f"at {case.sizes} {full.kernel} launches no groups, so that none reside at once")
    longest = max(full.launches, key=lambda launch: launch.warps_of_core)
    most = min(launch.execution.concurrent_groups for launch in full.launches)
    asked = tuple(range(1, most + 1)) if concurrent_groups is None else _checked(concurrent_groups)
    kernels = [staged(found.profile, described, concurrent_groups=groups).timed for groups in asked]
    warps = tuple(groups * longest.warps_per_group for groups in asked)
    return full.kernel, asked, warps, *_over_occupancy(names, kernels)


def _over_occupancy(
    names: Iterable[str], kernels: Sequence[TimedProgram]
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Return the seconds of each of *kernels* by the models called *names*, and why others have none."""
    seconds: dict[str, tuple[float, ...]] = {}
    refusals: dict[str, str] = {}
    for name in names:
        model = find_model(name)
        if not isinstance(model, DeviceModel):
            refusals[name] = "not told how many groups reside at once"
            continue
        try:
            seconds[name] = tuple(float(model.time(kernel).seconds) for kernel in kernels)
        except LoopyperfError as error:
            refusals[name] = str(error)
    return seconds, refusals


def _checked(concurrent_groups: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of groups; raises :class:`OccupancyError` where there are none, or others than integers."""
    numbers = np.atleast_1d(np.asarray(concurrent_groups))
    if not numbers.size or numbers.dtype.kind not in "iu":
        raise OccupancyError(f"concurrent_groups must be one integer or more; received {concurrent_groups!r}")
    return tuple(numbers.tolist())


def _in_number(answers: Mapping[str, object], refusals: Refusals) -> str:
    without = f", {len(refusals)} without an answer" if refusals else ""
    return f"{number_of(len(answers), 'model')}{without}"
