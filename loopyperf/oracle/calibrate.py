"""From a device to a fit: measure the measurement kernels, count them, fit the weights, keep everything."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from loopyperf.calibration.fit_files import save_fit
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import make_fit
from loopyperf.calibration.library import user_fits
from loopyperf.calibration.problem import Observation, pose_problem
from loopyperf.calibration.solver import solve
from loopyperf.calibration.validation import cross_validate
from loopyperf.counts.execution import Counting
from loopyperf.errors import CalibrationError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.configuration import Configuration
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, configurations_of, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Measurement
from loopyperf.oracle.analysis import count
from loopyperf.oracle.campaign import ProgressReport, keep, measure, opened, unfinished_archive
from loopyperf.properties.counted_kernel import KernelCounts

MODEL = "linear"
"""the model that is calibrated"""


def calibrate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    kernels: Path | None = None,
    archive: Path | None = None,
    save: Path | None = None,
    protocol: Protocol | None = None,
    counting: Counting = "executed",
    non_negative: bool | None = None,
    progress: ProgressReport | None = None,
) -> Fit:
    """Return the linear model's weights for a device, from measurements taken now.

    Every raw sample goes into *archive* (by default in the user data folder, where an interrupted calibration is
    resumed and a finished one is kept under its date); the fit is saved to *save* (by default where
    :func:`loopyperf.estimate` finds it). *kernels* is a folder of kernel files, by default the bundled measurement
    kernels. *non_negative* says whether weights may be negative; by default whichever generalises better.

    Raises :class:`BackendError` without a device, :class:`MeasurementError` for a kernel that computes something
    wrong, :class:`IncompatibleRunsError` for an archive of another device or protocol.
    """
    machine = opened(backend, device)
    files = load_kernel_files(kernels or bundled_folder("measurement_kernels"))
    path = archive or unfinished_archive(machine, "calibration")
    fit = fit_recording(measure(machine, files, path, protocol, progress), files, counting, non_negative)
    save_fit(fit, save or user_fits() / fit.slug / f"{fit.model}.json")
    if archive is None:
        keep(path)
    return fit


def fit_recording(
    recording: Recording,
    files: Sequence[KernelFile],
    counting: Counting = "executed",
    non_negative: bool | None = None,
) -> Fit:
    """Return the fit of the linear model to everything that an archive holds.

    Plain or non-negative least squares; unless stated, whichever better predicts kernel classes that it was not fitted
    to. Raises :class:`CalibrationError` where there is nothing to fit.
    """
    problem = pose_problem(observations(recording, files, counting))
    validated = cross_validate(problem)
    chosen = validated.better == "non-negative" if non_negative is None else non_negative
    solution = solve(problem, non_negative=chosen)
    return make_fit(_provenance(recording, counting), problem, solution, validated)


# {{{ from measurements to observations


def observations(recording: Recording, files: Iterable[KernelFile], counting: Counting) -> list[Observation]:
    """Return the measurements of an archive with the properties of what was measured, counted now from *files*.

    The seconds are the wall clock's. Of what was measured several times because the device was slow, the best take is
    there, once.

    Raises :class:`CalibrationError` for a measurement of a kernel that *files* do not have.
    """
    if not recording.runs:
        raise CalibrationError("the archive holds no run; measure first, with `loopyperf calibrate`")
    run = recording.runs[-1]
    configurations = {(file.name, c.label): c for file in files for c in configurations_of(file, run.limits)}
    counted: dict[tuple[str, str], KernelCounts] = {}
    found: list[Observation] = []
    for measurement in recording.standing:
        key = (measurement.kernel_class, measurement.label)
        if key not in counted:
            counted[key] = count(_configuration(configurations, key).build(), counting)
        found.append(_observation(measurement, counted[key], run.protocol))
    return found


def _configuration(known: Mapping[tuple[str, str], Configuration], key: tuple[str, str]) -> Configuration:
    if key not in known:
        raise CalibrationError(
            f"the archive has measurements of {key[0]!r}, configuration {key[1]!r}, which the kernel files do not "
            "have; give the folder of kernels that were measured"
        )
    return known[key]


def _observation(measurement: Measurement, counted: KernelCounts, protocol: Protocol) -> Observation:
    properties = counted.properties()
    sizes = measurement.sizes
    return Observation(
        kernel_class=measurement.kernel_class,
        label=measurement.label,
        sizes=sizes,
        properties=dict(zip(properties, properties.totals.at(sizes), strict=True)),
        seconds=protocol.measured_time(measurement.samples),
    )


def _provenance(recording: Recording, counting: Counting) -> Provenance:
    run = recording.runs[-1]
    empty = [m for m in recording.standing if m.kernel_class == EMPTY_KERNEL]
    return Provenance(
        model=MODEL,
        device=run.environment.device,
        slug=run.environment.slug,
        driver=run.environment.driver,
        backend=run.environment.backend,
        versions=run.environment.versions,
        protocol={name: rule for name, rule in msgspec.to_builtins(run.protocol).items() if rule is not None},
        counting=counting,
        created=datetime.now(UTC),
        source="loopyperf calibrate",
        launch_overhead=min((run.protocol.measured_time(m.samples) for m in empty), default=None),
        noise_floor=recording.noise_floor,
    )


# }}}
