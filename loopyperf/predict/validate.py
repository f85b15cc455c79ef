"""Validation: predicted and measured run times of kernels that no fit has used."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any, overload

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.calibration.archived import measured_kernels, observed, pace
from loopyperf.calibration.choice import FitChoice, chosen_fit
from loopyperf.calibration.fit import Measured
from loopyperf.calibration.fit_library import other_backends
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.device.device_library import is_one_device
from loopyperf.display import ReportText, Table, Tabular, fields_of, plain
from loopyperf.errors import LoopyperfError, LoopyperfWarning, MeasurementError, UnknownDeviceError, unanswered
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.campaign import EMPTY_KERNEL, ProgressReport, keep, measure, report_stage, unfinished_archive
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.kernel_files import KernelFile, measurement_kernels, unseen_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.result import LEVEL
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import on_wall_clock
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case
from loopyperf.units import in_percent

PATIENT = Protocol(longest_run=0.2)
"""There are few test kernels, and each needs four sizes, so a slow kernel may take longer than in a calibration. The
state of the caches is that of the fit."""


@dataclass(frozen=True, slots=True, repr=False)
class Validation(Tabular, Sequence[Prediction]):
    """Predicted and measured run times by kernel and size: a sequence of :class:`Prediction`.

    :func:`loopyperf.validate` returns it. Printing it gives the errors by kernel.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> validation = lpp.validate("opencl")                             # doctest: +SKIP
    >>> max(prediction.error for prediction in validation)              # doctest: +SKIP
    """

    _OMITTED = ("observations", "fit")

    predictions: tuple[Prediction, ...]
    """one prediction for each kernel and size"""
    observations: tuple[Observation, ...]
    """the measurements, in the same order"""
    device: str
    """short name of the device of the predictor"""
    model: str
    """name of the model"""
    fit: Fit | None
    """fit of the model; None if it is not fitted"""
    noise_floor: float | None
    """relative variation of repeated measurements; None if unknown
    (:attr:`loopyperf.measurement.archive.Recording.noise_floor`)"""
    slowdown: float | None
    """time of the same work on the device now, relative to when the fit was made; None if unknown"""
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])
    """kernel -> reason why it has no prediction"""

    @overload
    def __getitem__(self, place: int) -> Prediction: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, place: int | slice) -> Prediction | tuple[Prediction, ...]:
        """Return the prediction at *place*, or a tuple of predictions for a slice."""
        return self.predictions[place]

    def __len__(self) -> int:
        """Return the number of predictions."""
        return len(self.predictions)

    def report_text(self) -> ReportText:
        """Return the error of each kernel and of all kernels, as in the paper's Table 1, with the noise floor."""
        accuracy, sizes = assess(self.predictions), Counter(prediction.kernel for prediction in self.predictions)
        inside = (
            ""
            if accuracy.coverage is None
            else f", {in_percent(accuracy.coverage)} inside the {in_percent(LEVEL)} interval"
        )
        rows = [(kernel, str(sizes[kernel]), in_percent(error)) for kernel, error in accuracy.per_kernel.items()]
        return ReportText(
            question=f"{len(self)} measurements on {self.device}, model {self.model}",
            answer=f"{in_percent(accuracy.cross_kernel)} error (geometric mean){inside}",
            tables=[Table(("kernel", "sizes", "error"), rows)],
            remarks=[*self._remarks(), *unanswered(self.refusals)],
        )

    def _remarks(self) -> Iterator[str]:
        """Yield remarks on the noise floor, on the present speed of the device, and on the fit's own validation."""
        floors = (self.noise_floor, None if self.fit is None else self.fit.noise_floor)
        now, then = ("unknown" if floor is None else in_percent(floor, 1) for floor in floors)
        before = "" if self.fit is None else f" ({then} when the fit was made)"
        yield f"noise floor: {now}{before}; no model can be more accurate"
        if self.slowdown is not None and abs(self.slowdown - 1) > Protocol().slow:
            # Relative to the predictions, which are of the device's speed when the fit was made.
            longer = exp(fmean(log(prediction.measured / prediction.predicted) for prediction in self.predictions))
            yield (
                f"the same work takes {self.slowdown:.2f} times as long as when the fit was made (clock, other load), "
                + (
                    "which explains a part of the errors; measure again, or calibrate again if this persists"
                    if (longer > 1) == (self.slowdown > 1)
                    else f"but these kernels take {longer:.2f} times as long as predicted: the errors are the fit's"
                )
            )
        if self.fit is not None and self.fit.verdict:
            yield f"the fit's own {self.fit.verdict}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each kernel and size: measured and predicted seconds, the interval, and relative errors."""
        return [
            {
                "kernel": prediction.kernel,
                **prediction.sizes,
                "measured": prediction.measured,
                "predicted": prediction.predicted,
                "low": None if prediction.interval is None else prediction.interval[0],
                "high": None if prediction.interval is None else prediction.interval[1],
                "error": prediction.error,
            }
            for prediction in self.predictions
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the validation as plain values that JSON can hold; errors are dimensionless, times in seconds."""
        noise_floor = None if self.fit is None else self.fit.noise_floor
        return {**fields_of(self), "accuracy": plain(assess(self.predictions)), "noise_floor_of_fit": noise_floor}


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
    """Measure test kernels on a device, and compare the times with predictions.

    Parameters
    ----------
    backend : str or Backend
        ``"opencl"``, ``"cuda"`` or an open backend.
    device : str, optional
        Part of the device's name.
    fit : Fit, str or os.PathLike, optional
        The fit to validate, or the path of its file. Default: the fit for the device, preferably of the same backend.
    predictor : Predictor, optional
        The predictor to validate instead of a fit (see :func:`loopyperf.predictor`); it need not be fitted.
    kernels : str or os.PathLike, optional
        Folder of kernel files. Default: the bundled test kernels.
    archive : str or os.PathLike, optional
        File for the raw samples. Default: a file in the user data folder; an interrupted validation is resumed, and a
        finished one is kept under its date.
    protocol : Protocol, optional
        Numbers of runs, and which samples count (:class:`loopyperf.measurement.protocol.Protocol`). Default: kernels
        may take longer than in a calibration, and the state of the caches is that of the fit.
    progress : callable, optional
        Called with a :class:`loopyperf.measurement.campaign.Progress` before each kernel configuration and before the
        predictions.

    Returns
    -------
    Validation
        Predicted and measured seconds by kernel and size. Kernels without a prediction are in ``refusals``.

    Warns
    -----
    LoopyperfWarning
        *fit* or *predictor* is for another device.

    Raises
    ------
    BackendError, MeasurementError, ArchiveError, KernelFileError
        As in :func:`loopyperf.calibrate`.
    UnknownDeviceError, FitFileError, ParameterError, MissingNumberError
        As in :func:`loopyperf.estimate`.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> print(lpp.validate("opencl"))                                   # doctest: +SKIP
    """
    machine = opened(backend, device)
    chosen, record = _chosen(machine.environment, fit, predictor)
    tested = unseen_kernels(kernels)
    path = unfinished_archive(machine, "validation") if archive is None else Path(archive)
    recording = measure(machine, with_empty_kernel(tested), path, protocol or PATIENT, progress)
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
    """Return the validation for the measurements in *archive*, without a device; see :func:`validate`.

    Raises :class:`MeasurementError` if the archive has none of the kernels.
    """
    recording = read_archive(archive)
    tested = unseen_kernels(kernels)
    if not {file.name for file in tested} & {each.kernel_class for each in recording.standing}:
        measured = ", ".join(sorted({each.kernel_class for each in recording.standing}))
        raise MeasurementError(
            f"{archive} has no measurements of these kernels, only of {measured or 'none'}; give the folder of the "
            "measured kernels"
        )
    return recorded_predictions(recording, tested, *_chosen(recording.runs[-1].environment, fit, predictor))


def recorded_predictions(
    recording: Recording, files: Sequence[KernelFile], predictor: Predictor, fit: Fit | None
) -> Validation:
    """Return predicted and measured times for every recorded measurement of *files*.

    *fit* is the fit of the predictor. If no kernel has a prediction, the predictor's error is raised.
    """
    names = {file.name for file in files}
    relevant = Recording(recording.runs, tuple(m for m in recording.standing if m.kernel_class in names))
    found: list[Prediction] = []
    refused: dict[str, LoopyperfError] = {}

    def answered() -> Iterator[Measured]:
        for row in measured_kernels(relevant, files):
            try:
                estimate = on_wall_clock(predictor.predict(Case(row.kernel, row.sizes)), predictor)
                interval = estimate.interval and (float(estimate.interval[0]), float(estimate.interval[1]))
                found.append(Prediction(row.kernel_class, row.sizes, float(estimate), row.seconds, interval))
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


def _chosen(environment: Environment, fit: FitChoice | None, given: Predictor | None) -> tuple[Predictor, Fit | None]:
    """Return the *given* predictor, else that of *fit*, else that of the best fit for the device; and its whole fit.

    A predictor keeps only the parts of a fit that it needs for predictions.
    """
    slug = environment.slug
    record = chosen_fit(None, None, fit) if fit is not None else None if given else _fit_for(slug, environment.backend)
    chosen = given_or_named(given, fit=record, alternatives=False)
    if not is_one_device(chosen.device, slug):
        warnings.warn(
            f"the predictor is for {chosen.device!r}, but the kernels are measured on {slug!r}; the errors include the "
            "difference between the devices",
            LoopyperfWarning,
            stacklevel=3,
        )
    return chosen, record or chosen.fit


def _fit_for(slug: str, backend: str) -> Fit:
    try:
        fit = chosen_fit(None, slug, None)
    except UnknownDeviceError as error:
        raise UnknownDeviceError(
            f"no fit for {slug!r}, the measured device; make one with `loopyperf calibrate`, or give the path of a fit "
            "file"
        ) from error
    return chosen_fit(None, slug, None, backend) if backend in other_backends(fit) else fit


def with_empty_kernel(files: tuple[KernelFile, ...]) -> tuple[KernelFile, ...]:
    """Return *files* with the empty kernel, whose launch time determines the smallest sizes worth measuring."""
    if any(file.name == EMPTY_KERNEL for file in files):
        return files
    bundled = measurement_kernels()
    return (*(file for file in bundled if file.name == EMPTY_KERNEL), *files)
