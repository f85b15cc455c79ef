"""Predicting kernels that were never fitted, and measuring them: how good a fit is."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

from msgspec import structs

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.calibration.archived import measured_kernels, observed, pace
from loopyperf.calibration.choice import FitChoice, chosen_fit
from loopyperf.calibration.fit import Measured
from loopyperf.calibration.fit_library import other_backends
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.device.device_library import is_one_device
from loopyperf.display import ReportText, Table, Tabular
from loopyperf.errors import LoopyperfError, LoopyperfWarning, MeasurementError, UnknownDeviceError, unanswered
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.campaign import EMPTY_KERNEL, ProgressReport, keep, measure, report_stage, unfinished_archive
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.kernel_files import KernelFile, measurement_kernels, unseen_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case
from loopyperf.units import in_percent

PATIENT = Protocol(longest_run=0.2)
"""The test kernels are few, and each is to be seen at four sizes: a slow one may take longer than in a calibration.
The caches are as they were when the fit was made."""


@dataclass(frozen=True, slots=True, repr=False)
class Validation(Tabular, Sequence[Prediction]):
    """Predicted run times beside measured ones, by kernel and size: a sequence of :class:`Prediction`."""

    predictions: tuple[Prediction, ...]
    """one for each kernel and size"""
    observations: tuple[Observation, ...]
    """what was predicted and measured, in the same order (:func:`loopyperf.explain.plots.plot_residuals`)"""
    device: str
    """short name of the device of the predictor"""
    model: str
    """name of the model that predicted"""
    fit: Fit | None
    """what it predicted by; None where it is not fitted"""
    noise_floor: float | None
    """by how much the times of these measurements differ though the device does the same, relative; None where nothing
    told (:attr:`loopyperf.measurement.archive.Recording.noise_floor`)"""
    slowdown: float | None
    """how many times as long the device takes for the same work as when the fit was made; None if not known"""
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])
    """kernel -> why it has no prediction"""

    @overload
    def __getitem__(self, place: int) -> Prediction: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, place: int | slice) -> Prediction | tuple[Prediction, ...]:
        """Return the prediction at *place*, or those there."""
        return self.predictions[place]

    def __len__(self) -> int:
        """Return how many predictions there are."""
        return len(self.predictions)

    def report_text(self) -> ReportText:
        """Return the error of each kernel and of all, as the paper's Table 1 has them, beside the noise floor."""
        accuracy, sizes = assess(self.predictions), Counter(each.kernel for each in self.predictions)
        inside = (
            ""
            if accuracy.coverage is None
            else f", {in_percent(accuracy.coverage)} in their {in_percent(LEVEL)} interval"
        )
        rows = [(kernel, str(sizes[kernel]), in_percent(error)) for kernel, error in accuracy.per_kernel.items()]
        return ReportText(
            question=f"{len(self)} measurements on {self.device}, model {self.model}",
            answer=f"{in_percent(accuracy.cross_kernel)} off (geometric mean){inside}",
            tables=[Table(("kernel", "sizes", "error"), rows)],
            remarks=[*self._remarks(), *unanswered(self.refusals)],
        )

    def _remarks(self) -> Iterator[str]:
        """Yield what the errors have to be seen beside: how well times repeat, and how fast the device is just now."""
        floors = (self.noise_floor, None if self.fit is None else self.fit.noise_floor)
        here, then = ("not known" if floor is None else in_percent(floor, 1) for floor in floors)
        before = "" if self.fit is None else f", when the fit was made {then}"
        yield f"noise floor: {here}{before}; no model predicts times better than they repeat"
        if self.slowdown is not None and abs(self.slowdown - 1) > Protocol().slow:
            yield (
                f"the same work takes {self.slowdown:.2f} times as long as when the fit was made: the device is "
                f"{'slower' if self.slowdown > 1 else 'faster'} now, by its clock or by who else uses it, and so are "
                "all measured times; measure again, or calibrate again if it stays so"
            )
        validated = None if self.fit is None else self.fit.cross_validation
        if self.fit is not None and validated is not None:
            kept = self.fit.candidate
            worst = max(validated.classes, key=lambda row: row.errors.get(kept, 0.0))
            yield (
                f"on {len(validated.compared)} kernel classes that it was not fitted to, the fit is off by "
                f"{in_percent(validated.errors[kept])} (geometric mean), most on {worst.kernel_class!r}, "
                f"{in_percent(worst.errors[kept])}"
            )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each kernel and size: seconds measured and predicted, the interval, and relative errors."""
        return [
            {
                "kernel": each.kernel,
                **each.sizes,
                "measured": each.measured,
                "predicted": each.predicted,
                "low": None if each.interval is None else each.interval[0],
                "high": None if each.interval is None else each.interval[1],
                "error": each.error,
            }
            for each in self.predictions
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the validation as plain values that JSON can hold; errors are dimensionless, times in seconds."""
        accuracy = assess(self.predictions)
        return {
            "device": self.device,
            "model": self.model,
            "predictions": [
                {**asdict(each), "error": each.error, "is_inside": each.is_inside} for each in self.predictions
            ],
            "accuracy": asdict(accuracy),
            "noise_floor": self.noise_floor,
            "noise_floor_of_fit": None if self.fit is None else self.fit.noise_floor,
            "slowdown": self.slowdown,
            "refusals": dict(self.refusals),
        }


def validate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    fit: FitChoice | None = None,
    predictor: Predictor | None = None,
    kernels: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
    protocol: Protocol | None = None,
    progress: ProgressReport | None = None,
) -> Validation:
    """Return predicted and measured run times of the test kernels on a device, by kernel and size, in seconds.

    *backend* is ``"opencl"``, ``"cuda"`` or an open one, *device* a part of the device's name. *fit* is by default the
    one for the device, through the same backend if there is one; *predictor* takes its place (see
    :func:`loopyperf.predictor`), and need not be fitted. *kernels* is a folder of kernel files, by default the
    bundled test kernels; *archive* where the raw samples go, by default in the user data folder, where an interrupted
    validation is resumed and a finished one is kept under its date. *protocol* says how often each kernel runs and
    which samples count (:class:`loopyperf.measurement.protocol.Protocol`); by default kernels may take longer than in a
    calibration, and caches are as when the fit was made. *progress* is called with a
    :class:`loopyperf.measurement.campaign.Progress` before each kernel configuration and before the predictions.

    Warns if *fit* or *predictor* is of another device. Kernels that are refused are in :attr:`Validation.refusals`.

    Raises what :func:`loopyperf.calibrate` and :func:`loopyperf.estimate` raise.
    """
    machine = opened(backend, device)
    chosen, record = _chosen(machine.environment, fit, predictor)
    tested = unseen_kernels(kernels)
    path = unfinished_archive(machine, "validation") if archive is None else Path(archive)
    recording = measure(machine, with_empty_kernel(tested), path, protocol or _patient(record), progress)
    report_stage("predicting", progress)
    found = recorded_predictions(recording, tested, chosen, record)
    if archive is None:
        keep(path)
    return found


def validated_by(
    archive: str | os.PathLike[str],
    *,
    fit: FitChoice | None = None,
    predictor: Predictor | None = None,
    kernels: str | os.PathLike[str] | None = None,
) -> Validation:
    """Return what :func:`validate` returns, of what *archive* holds of the kernels; no device is needed.

    Raises :class:`MeasurementError` if it holds none of them.
    """
    recording = read_archive(archive)
    tested = unseen_kernels(kernels)
    if not {file.name for file in tested} & {each.kernel_class for each in recording.standing}:
        measured = ", ".join(sorted({each.kernel_class for each in recording.standing}))
        raise MeasurementError(
            f"{archive} has no measurements of these kernels, only of {measured or 'none'}; give the "
            "folder of kernels that were measured"
        )
    return recorded_predictions(recording, tested, *_chosen(recording.runs[-1].environment, fit, predictor))


def recorded_predictions(
    recording: Recording, files: Sequence[KernelFile], predictor: Predictor, fit: Fit | None
) -> Validation:
    """Return the predicted time beside the measured one for every recorded measurement of *files*.

    *fit* is what the predictor was made of. Raises what it raises where it refuses all kernels.
    """
    names = {file.name for file in files}
    relevant = Recording(recording.runs, tuple(m for m in recording.standing if m.kernel_class in names))
    found: list[Prediction] = []
    refused: dict[str, LoopyperfError] = {}

    def answered() -> Iterator[Measured]:
        for row in measured_kernels(relevant, files):
            try:
                found.append(_prediction(row, predictor.predict(Case(row.kernel, row.sizes))))
            except LoopyperfError as error:
                refused[row.kernel_class] = error
            else:
                yield row

    rows = tuple(observed(answered(), recording, "executed" if fit is None else fit.counting))
    if refused and not rows:
        raise next(iter(refused.values()))
    now = pace(recording)
    return Validation(
        predictions=tuple(found),
        observations=rows,
        device=predictor.device,
        model=predictor.model,
        fit=fit,
        noise_floor=recording.noise_floor,
        slowdown=None if now is None or fit is None or fit.pace is None else now / fit.pace,
        refusals={name: str(error) for name, error in refused.items()},
    )


def _prediction(row: Measured, estimate: Estimate) -> Prediction:
    stated = None if estimate.interval is None else (float(estimate.interval[0]), float(estimate.interval[1]))
    return Prediction(row.kernel_class, row.sizes, float(estimate), row.seconds, stated)


def _patient(fit: Fit | None) -> Protocol:
    is_cold = fit is not None and fit.protocol.get("caches") == "cold"
    return structs.replace(PATIENT, caches="cold") if is_cold else PATIENT


def _chosen(environment: Environment, fit: FitChoice | None, given: Predictor | None) -> tuple[Predictor, Fit | None]:
    """Return the predictor that is *given*, else that of *fit*, else that of the best fit for the device; and its fit.

    A predictor keeps of a fit only what it predicts with.
    """
    slug = environment.slug
    record = chosen_fit(None, None, fit) if fit is not None else None if given else _fit_for(slug, environment.backend)
    chosen = given_or_named(given, fit=record, alternatives=False)
    if not is_one_device(chosen.device, slug):
        warnings.warn(
            f"the predictor is for {chosen.device!r}, the kernels are measured on {slug!r}: the errors say how alike "
            "the two devices are, not how good the predictor is",
            LoopyperfWarning,
            stacklevel=3,
        )
    return chosen, record or chosen.fit


def _fit_for(slug: str, backend: str) -> Fit:
    try:
        fit = chosen_fit(None, slug, None)
    except UnknownDeviceError as error:
        raise UnknownDeviceError(
            f"there is no fit for {slug!r}, on which the kernels are measured: make one with `loopyperf calibrate`, or "
            "give the path of a fit file"
        ) from error
    return chosen_fit(None, slug, None, backend) if backend in other_backends(fit) else fit


def with_empty_kernel(files: tuple[KernelFile, ...]) -> tuple[KernelFile, ...]:
    """Return *files* with the kernel whose launch says from which size on the others are worth measuring."""
    if any(file.name == EMPTY_KERNEL for file in files):
        return files
    bundled = measurement_kernels()
    return (*(file for file in bundled if file.name == EMPTY_KERNEL), *files)
