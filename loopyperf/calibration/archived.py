"""Measurements and observations from an archive, and fits to them."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.fit import Measured, observe, prior_fit, regularized_toward
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations, possible
from loopyperf.calibration.problem import Observation
from loopyperf.compiler.cuda_code import for_cuda
from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import check_options
from loopyperf.device.description import Device
from loopyperf.device.device_library import a_processor, description_or_none
from loopyperf.errors import CalibrationError
from loopyperf.kernel import Program
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.kernel_files import KernelFile, configurations_of, measurement_kernels
from loopyperf.measurement.records import Run
from loopyperf.models.catalog import find_fitted_model


def measured_device(environment: Environment) -> Device | None:
    """Return the device parameters for fits of *environment*'s device: its own, or those of all processors."""
    return description_or_none(environment.slug) or (a_processor() if environment.is_processor else None)


def fit_recording(
    recording: Recording,
    files: Sequence[KernelFile],
    counting: Counting = "executed",
    model: str | None = None,
    prior: FitChoice | None = None,
) -> tuple[Fit, ...]:
    """Fit each model to all measurements of an archive, and return the fits, the one that generalizes best first.

    *model* restricts the fits to one model. With *prior*, only pipelines are fitted, with weights regularized toward
    the prior's, as in :func:`loopyperf.fit`. Raises :class:`CalibrationError` if there is nothing to fit, and the
    errors of :func:`check_fitting` and :func:`loopyperf.calibration.fit.prior_fit`.
    """
    check_fitting(model, counting)
    believed = prior_fit(prior, model)
    rows, further = fitted_observations(recording, files, counting)
    origin = provenance(recording, counting)
    if believed is not None:
        origin = msgspec.structs.replace(
            origin, source=f"{origin.source}; regularized toward the fit of {believed.slug}"
        )
        return fit_observations(origin, rows, regularized_toward(believed, rows), further)
    return fit_observations(origin, rows, possible(rows, model), further)


def check_fitting(model: str | None, counting: Counting) -> None:
    """Check the options of a fit before anything is measured.

    :raises UnknownModelError: the model is not fitted.
    :raises ParameterError: *counting* is invalid.
    """
    check_options(counting)
    if model is not None:
        find_fitted_model(model)


def load_observations(
    archive: str | os.PathLike[str], *, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> list[Observation]:
    """Count the kernels of an archive and return one observation for each of its measurements.

    Parameters
    ----------
    archive : path
        A measurement archive, which may be compressed with gzip or xz.
    kernels : path, optional
        Folder of the measured kernel files. The default is the bundled measurement kernels.
    counting : {"executed", "paper"}, optional
        How to count operations; see :func:`loopyperf.count`.

    Returns
    -------
    list of Observation
        For each measurement its kernel, sizes, run time in seconds, property counts and, if the device has parameters,
        the busy time of each pipeline in seconds.

    Raises
    ------
    ArchiveError
        *archive* is not a measurement archive.
    CalibrationError
        *kernels* lacks a measured kernel, or the archive has no run.
    KernelFileError
        *kernels* is not a folder of kernel files.
    UncountableError
        A kernel contains a construct without an exact count.

    Examples
    --------
    >>> import loopyperf
    >>> observations = loopyperf.load_observations("calibration.jsonl")  # doctest: +SKIP
    >>> observations[0].seconds, observations[0].properties["launches"]  # doctest: +SKIP
    (1.19e-05, 1)
    """
    files = measurement_kernels(kernels)
    return observations(read_archive(archive), files, counting)


def load_measurements(
    archive: str | os.PathLike[str], *, kernels: str | os.PathLike[str] | None = None
) -> list[Measured]:
    """Return the measurements of an archive as rows for :func:`loopyperf.fit` and :func:`loopyperf.train`.

    Rows of several archives, and rows measured elsewhere, can be combined in a list.

    Parameters
    ----------
    archive : path
        A measurement archive, which may be compressed with gzip or xz.
    kernels : path, optional
        Folder of the measured kernel files. The default is the bundled measurement kernels.

    Returns
    -------
    list of Measured
        For each measurement its kernel, sizes, run time in seconds, and samples if the archive has any. Kernels whose
        time depends on something without a property in the unified model, such as bank conflicts, are omitted.

    Raises
    ------
    ArchiveError
        *archive* is not a measurement archive.
    CalibrationError
        *kernels* lacks a measured kernel, or the archive has no run.
    KernelFileError
        *kernels* is not a folder of kernel files.

    Examples
    --------
    >>> import loopyperf
    >>> rows = loopyperf.load_measurements("calibration.jsonl")  # doctest: +SKIP
    >>> rows[0].kernel_class, rows[0].sizes, rows[0].seconds  # doctest: +SKIP
    ('empty kernel', {'n': 256}, 1.19e-05)
    >>> fit = loopyperf.fit(rows, device="nvidia-h200")  # doctest: +SKIP
    """
    files = measurement_kernels(kernels)
    return measured_kernels(within_the_model(read_archive(archive), files), files)


def observations(recording: Recording, files: Iterable[KernelFile], counting: Counting) -> list[Observation]:
    """Return the measurements of an archive as observations, with properties counted from *files*.

    Times are wall-clock seconds. Of a measurement that was repeated because the device was slow, only the best repeat
    is included.

    Raises :class:`CalibrationError` if *files* lack a measured kernel.
    """
    return observed(measured_kernels(recording, files), recording, counting)


def observed(rows: Iterable[Measured], recording: Recording, counting: Counting) -> list[Observation]:
    """Return *rows*, measured in *recording*, as observations."""
    device = measured_device(_run(recording).environment)
    return [
        observe(
            row.kernel,
            row.sizes,
            row.seconds,
            kernel_class=row.kernel_class,
            label=row.label,
            counting=counting,
            device=device,
        )
        for row in rows
    ]


def fitted_observations(
    recording: Recording, files: Sequence[KernelFile], counting: Counting = "executed"
) -> tuple[list[Observation], list[Observation]]:
    """Return the observations for fitting and validation, and additional ones only for fits of pipelines.

    The latter are measurements whose time depends on something without a property; there are none if any measurement
    lacks pipelines. Raises the errors of :func:`observations`.
    """
    rows = observations(within_the_model(recording, files), files, counting)
    if not all(row.pipelines for row in rows):
        return rows, []
    further = observations(within_the_model(recording, files, but=True), files, counting)
    return rows, [row for row in further if row.pipelines]


def measured_kernels(recording: Recording, files: Iterable[KernelFile]) -> list[Measured]:
    """Return the measurements of an archive with their kernels, built from *files*.

    They include samples, except of kernels that were run completely. Raises the errors of :func:`observations`.
    """
    run = _run(recording)
    configurations = {(file.name, c.label): c for file in files for c in configurations_of(file, run.limits)}
    built: dict[tuple[str, str], Program] = {}
    found: list[Measured] = []
    for measurement in recording.standing:
        key = (measurement.kernel_class, measurement.label)
        if key not in configurations:
            raise CalibrationError(
                f"the kernel files lack {key[0]!r}, configuration {key[1]!r}, of the archive; pass the folder of the "
                "measured kernels"
            )
        if key not in built:
            unit = configurations[key].build()
            built[key] = for_cuda(unit) if run.environment.backend == "cuda" else unit  # the kernel as compiled
        seconds = run.protocol.measured_time(measurement.samples)
        row = Measured(built[key], measurement.sizes, seconds, *key)
        sampled = recording.samples.get(measurement.key)
        if sampled is not None and not sampled.is_whole:
            row = replace(row, samples=sampled.programs, launching=sampled.launching)
        found.append(row)
    return found


def _run(recording: Recording) -> Run:
    if not recording.runs:
        raise CalibrationError("the archive has no run; measure first with `loopyperf calibrate`")
    return recording.runs[-1]


def within_the_model(recording: Recording, files: Iterable[KernelFile], *, but: bool = False) -> Recording:
    """Return *recording* without configurations whose time depends on something that the unified model lacks.

    With *but*, return only these configurations.
    """
    if not recording.runs:
        return recording
    limits = recording.runs[-1].limits
    beyond = {(file.name, c.label) for file in files for c in configurations_of(file, limits) if c.beyond}
    left = tuple(m for m in recording.measurements if ((m.kernel_class, m.label) in beyond) == but)
    return replace(recording, measurements=left)


def provenance(recording: Recording, counting: Counting) -> Provenance:
    """Return the provenance of a fit to an archive."""
    run = recording.runs[-1]
    device = measured_device(run.environment)
    return Provenance(
        model="",
        device=run.environment.device,
        slug=run.environment.slug,
        described_as=device.slug if device is not None and device.slug != run.environment.slug else "",
        driver=run.environment.driver,
        backend=run.environment.backend,
        versions=run.environment.versions,
        protocol={name: rule for name, rule in msgspec.to_builtins(run.protocol).items() if rule is not None},
        counting=counting,
        created=datetime.now(UTC),
        source="loopyperf calibrate",
        launch_overhead=launch_overhead(recording),
        noise_floor=recording.noise_floor,
        pace=pace(recording),
    )


def launch_overhead(recording: Recording) -> float | None:
    """Return the minimum seconds of an empty kernel in an archive, None if there is none."""
    protocol = _run(recording).protocol
    empty = (m for m in recording.standing if m.kernel_class == EMPTY_KERNEL)
    return min((protocol.measured_time(m.samples) for m in empty), default=None)


def pace(recording: Recording) -> float | None:
    """Return the seconds per round of the reference kernel's loop in an archive (:meth:`Recording.pace`)."""
    return recording.pace(launch_overhead(recording) or 0.0)
