"""Predicting kernels that were never fitted, and measuring them: how good a fit is."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.errors import LoopyperfWarning
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.models import find_fitted_model
from loopyperf.models.interface import Shares
from loopyperf.oracle.calibrate import MODEL, observations
from loopyperf.oracle.campaign import ProgressReport, keep, measure, opened, unfinished_archive
from loopyperf.oracle.choice import FitChoice, chosen_fit

PATIENT = Protocol(longest_run=0.2)
"""The test kernels are few, and each is to be seen at four sizes: a slow one may take longer than in a calibration.
The caches are as they were when the fit was made."""


def validate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    fit: FitChoice | None = None,
    kernels: Path | None = None,
    archive: Path | None = None,
    protocol: Protocol | None = None,
    progress: ProgressReport | None = None,
) -> tuple[Prediction, ...]:
    """Return predicted and measured run times of the test kernels on a device, by kernel and size.

    *fit* is by default the one for the device; *kernels* a folder of kernel files, by default the bundled test
    kernels; *archive* where the raw samples go, by default in the user data folder, where an interrupted validation is
    resumed and a finished one is kept under its date.

    Warns if *fit* was made for another device.

    Raises what :func:`loopyperf.calibrate` and :func:`loopyperf.estimate` raise.
    """
    machine = opened(backend, device)
    chosen = _chosen_fit(machine, fit)
    tested = load_kernel_files(kernels or bundled_folder("test_kernels"))
    path = archive or unfinished_archive(machine, "validation")
    recording = measure(machine, with_empty_kernel(tested), path, protocol or _patient(chosen), progress)
    found = predictions(recording, tested, chosen)
    if archive is None:
        keep(path)
    return found


def predictions(recording: Recording, files: Sequence[KernelFile], fit: Fit) -> tuple[Prediction, ...]:
    """Return the time of the fit's model beside the measured one for every recorded measurement of *files*."""
    model = find_fitted_model(fit.model)
    names = {file.name for file in files}
    relevant = Recording(recording.runs, tuple(m for m in recording.standing if m.kernel_class in names))
    return tuple(
        Prediction(
            kernel=row.kernel_class,
            sizes=row.sizes,
            predicted=float(model.time(fit.weights, _whole(row.properties)).seconds),
            measured=row.seconds,
        )
        for row in observations(relevant, files, fit.counting)
    )


def _whole(properties: Mapping[str, int]) -> Shares:
    """Return counts that are not attributed to instructions in the form that models take."""
    return {name: {"": number} for name, number in properties.items()}


def _patient(fit: Fit) -> Protocol:
    return structs.replace(PATIENT, caches="cold") if fit.protocol.get("caches") == "cold" else PATIENT


def _chosen_fit(machine: Backend, fit: FitChoice | None) -> Fit:
    slug = machine.environment.slug
    if fit is None:
        return chosen_fit(MODEL, slug, None)
    chosen = chosen_fit(MODEL, None, fit)
    if chosen.slug != slug:
        warnings.warn(
            f"the fit is for {chosen.slug!r}, the kernels are measured on {slug!r}: the errors say how alike the two "
            "devices are, not how good the fit is",
            LoopyperfWarning,
            stacklevel=3,
        )
    return chosen


def with_empty_kernel(files: tuple[KernelFile, ...]) -> tuple[KernelFile, ...]:
    """Return *files* with the kernel whose launch says from which size on the others are worth measuring."""
    if any(file.name == EMPTY_KERNEL for file in files):
        return files
    bundled = load_kernel_files(bundled_folder("measurement_kernels"))
    return (*(file for file in bundled if file.name == EMPTY_KERNEL), *files)
