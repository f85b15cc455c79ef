"""What an archive of measurements tells: rows for fits, what fits are told of them, and the fits that come of that."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from loopyperf.calibration.accuracy import PLAIN
from loopyperf.calibration.choice import FitChoice, measured_device
from loopyperf.calibration.fit import Measured, drawn_to, observe, prior_fit
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import possible
from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import check_options
from loopyperf.counts.property_vector import PAPER_PROPERTIES
from loopyperf.errors import CalibrationError, ParameterError
from loopyperf.kernel import Program
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends.cuda_program import for_cuda
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.environment import Configuration
from loopyperf.measurement.kernel_files import KernelFile, configurations_of, measurement_kernels
from loopyperf.measurement.records import Run
from loopyperf.models.catalog import find_fitted_model


def fit_recording(
    recording: Recording,
    files: Sequence[KernelFile],
    counting: Counting = "executed",
    model: str | None = None,
    non_negative: bool | None = None,
    prior: FitChoice | None = None,
) -> tuple[Fit, ...]:
    """Return a fit of each model to everything that an archive holds, the one that generalises best first.

    Of *model* alone, if one is named; *non_negative* says whether the linear model's weights may be negative. With
    *prior*, weights of pipelines are drawn to its, as :func:`loopyperf.fit` does, and nothing else is fitted. Raises
    :class:`CalibrationError` where there is nothing to fit, and what :func:`check_fitting` and
    :func:`loopyperf.calibration.fit.prior_fit` raise.
    """
    check_fitting(model, counting, non_negative)
    believed = prior_fit(prior, model)
    rows, further = fitted_observations(recording, files, counting)
    origin = provenance(recording, counting)
    if believed is not None:
        said = msgspec.structs.replace(origin, source=f"{origin.source}; drawn to the fit of {believed.slug}")
        return fit_observations(said, rows, drawn_to(believed, rows), PAPER_PROPERTIES, further)
    left = (
        each
        for each in possible(rows, model)
        if non_negative is None or each.model != "linear" or (each.name != PLAIN) == non_negative
    )
    return fit_observations(origin, rows, tuple(left), PAPER_PROPERTIES, further)


def check_fitting(model: str | None, counting: Counting, non_negative: bool | None) -> None:
    """Raise for what cannot be fitted, whatever is measured.

    :raises UnknownModelError: the model is not fitted.
    :raises ParameterError: there is no such counting, or the sign of weights is asked for of a model that has none
        below 0.
    """
    check_options(counting, None, "refuse")
    if model is not None and not find_fitted_model(model).is_weighted_sum and non_negative is not None:
        raise ParameterError(
            f"weights of the model {model!r} are never negative: whether they may be is asked of the linear model; "
            "leave it out"
        )


def load_observations(
    archive: str | os.PathLike[str], *, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> list[Observation]:
    """Return the observation of each measurement in *archive*, as a fit and ``plot_residuals`` take them.

    *kernels* is the folder of kernel files that were measured, by default the bundled ones; they are counted now.
    Raises what :func:`load_measurements` raises, and what counting does.
    """
    files = measurement_kernels(kernels)
    return observations(read_archive(archive), files, counting)


def load_measurements(
    archive: str | os.PathLike[str], *, kernels: str | os.PathLike[str] | None = None
) -> list[Measured]:
    """Return the measurements in *archive* as rows for :func:`loopyperf.fit`, together with others taken elsewhere.

    Those of which the archive has samples come with them, for :func:`loopyperf.train`. *kernels* is the folder of
    kernel files that were measured, by default the bundled ones. What the unified model has no property for is left
    out. Raises :class:`CalibrationError` for measurements of kernels that are not there, and :class:`ArchiveError` for
    a file that is not an archive.
    """
    files = measurement_kernels(kernels)
    return measured_kernels(within_the_model(read_archive(archive), files), files)


def observations(recording: Recording, files: Iterable[KernelFile], counting: Counting) -> list[Observation]:
    """Return the measurements of an archive with the properties of what was measured, counted now from *files*.

    The seconds are the wall clock's. Of what was measured several times because the device was slow, the best take is
    there, once.

    Raises :class:`CalibrationError` for a measurement of a kernel that *files* do not have.
    """
    return observed(measured_kernels(recording, files), recording, counting)


def observed(rows: Iterable[Measured], recording: Recording, counting: Counting) -> list[Observation]:
    """Return the properties of what was measured in *recording*, with the times of *rows*."""
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
    """Return what fits to an archive are made from and judged on, and what only fits of pipelines are told besides.

    The latter are the measurements whose time depends on something that no property stands for; there are none if any
    measurement lacks pipelines. Raises as :func:`observations` does.
    """
    rows = observations(within_the_model(recording, files), files, counting)
    if not all(row.pipelines for row in rows):
        return rows, []
    further = observations(within_the_model(recording, files, but=True), files, counting)
    return rows, [row for row in further if row.pipelines]


def measured_kernels(recording: Recording, files: Iterable[KernelFile]) -> list[Measured]:
    """Return the measurements of an archive with what was measured, built from *files*; raises as observations do.

    They come with their samples, but for what was run as a whole.
    """
    run = _run(recording)
    configurations = {(file.name, c.label): c for file in files for c in configurations_of(file, run.limits)}
    built: dict[tuple[str, str], Program] = {}
    found: list[Measured] = []
    for measurement in recording.standing:
        key = (measurement.kernel_class, measurement.label)
        if key not in built:
            unit = _configuration(configurations, key).build()
            built[key] = for_cuda(unit) if run.environment.backend == "cuda" else unit  # what it was compiled as
        seconds = run.protocol.measured_time(measurement.samples)
        row = Measured(built[key], measurement.sizes, seconds, *key)
        sampled = recording.samples.get(measurement.key)
        if sampled is not None and not sampled.is_whole:
            row = replace(row, samples=sampled.programs, launching=sampled.launching)
        found.append(row)
    return found


def _run(recording: Recording) -> Run:
    if not recording.runs:
        raise CalibrationError("the archive holds no run; measure first, with `loopyperf calibrate`")
    return recording.runs[-1]


def within_the_model(recording: Recording, files: Iterable[KernelFile], *, but: bool = False) -> Recording:
    """Return *recording* without the configurations whose time hangs on what the unified model has no property for.

    Or with just these, which are all *but* what it explains.
    """
    if not recording.runs:
        return recording
    limits = recording.runs[-1].limits
    beyond = {(file.name, c.label) for file in files for c in configurations_of(file, limits) if c.beyond}
    left = tuple(m for m in recording.measurements if ((m.kernel_class, m.label) in beyond) == but)
    return replace(recording, measurements=left)


def _configuration(known: Mapping[tuple[str, str], Configuration], key: tuple[str, str]) -> Configuration:
    if key not in known:
        raise CalibrationError(
            f"the archive has measurements of {key[0]!r}, configuration {key[1]!r}, which the kernel files do not "
            "have; give the folder of kernels that were measured"
        )
    return known[key]


def provenance(recording: Recording, counting: Counting) -> Provenance:
    """Return where what is fitted to an archive comes from."""
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
    """Return the seconds of the fastest empty kernel in an archive, None if there is none."""
    protocol = _run(recording).protocol
    empty = (m for m in recording.standing if m.kernel_class == EMPTY_KERNEL)
    return min((protocol.measured_time(m.samples) for m in empty), default=None)


def pace(recording: Recording) -> float | None:
    """Return the seconds of a round of the yardstick's loop in an archive (:meth:`Recording.pace`)."""
    return recording.pace(launch_overhead(recording) or 0.0)
