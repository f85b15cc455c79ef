"""Predicting kernels that were never fitted, and measuring them: how good a fit is."""

from collections.abc import Mapping
from pathlib import Path

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.linear import Shares, linear_time
from loopyperf.oracle.calibrate import ProgressReport, archive_folder, measure, observations
from loopyperf.oracle.choice import chosen_fit


def validate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    fit: Fit | Path | None = None,
    kernels: Path | None = None,
    archive: Path | None = None,
    protocol: Protocol | None = None,
    progress: ProgressReport | None = None,
) -> tuple[Prediction, ...]:
    """Return predicted and measured run times of the test kernels on a device, by kernel and size.

    *fit* is by default the one for the device; *kernels* a folder of kernel files, by default the bundled test
    kernels; *archive* where the raw samples go, by default a file of its own in the user data folder.

    Raises what :func:`loopyperf.calibrate` and :func:`loopyperf.estimate` raise.
    """
    machine = open_backend(backend, device=device) if isinstance(backend, str) else backend
    weights = fit if isinstance(fit, Fit) else chosen_fit("linear", machine.environment.slug, fit)
    tested = load_kernel_files(kernels or bundled_folder("test_kernels"))
    path = archive or archive_folder(machine) / "validation.jsonl"
    if archive is None:
        path.unlink(missing_ok=True)
    measure(machine, [*_empty_kernel(), *tested], path, protocol or Protocol(), progress)
    return predictions(read_archive(path), tested, weights)


def predictions(recording: Recording, files: tuple[KernelFile, ...], fit: Fit) -> tuple[Prediction, ...]:
    """Return the linear model's time beside the measured one for every recorded measurement of *files*."""
    names = {file.name for file in files}
    relevant = Recording(recording.runs, tuple(m for m in recording.measurements if m.kernel_class in names))
    return tuple(
        Prediction(
            kernel=row.kernel_class,
            sizes=row.sizes,
            predicted=float(linear_time(fit.weights, _whole(row.properties)).seconds),
            measured=row.seconds,
        )
        for row in observations(relevant, files, fit.counting)
    )


def _whole(properties: Mapping[str, int]) -> Shares:
    """Return counts that are not attributed to instructions in the form that models take."""
    return {name: {"": number} for name, number in properties.items()}


def _empty_kernel() -> tuple[KernelFile, ...]:
    """Return the kernel whose launch says from which size on the others are worth measuring."""
    files = load_kernel_files(bundled_folder("measurement_kernels"))
    return tuple(file for file in files if file.name == EMPTY_KERNEL)
