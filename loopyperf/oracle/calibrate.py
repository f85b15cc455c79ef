"""From a device to a fit: measure the measurement kernels, count them, fit the weights, keep everything."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.library import save_fits
from loopyperf.counts.execution import Counting
from loopyperf.errors import FitFileError, LoopyperfWarning
from loopyperf.files import why_unwritable
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.kernel_files import KernelFile, measurement_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.oracle.archived import check_fitting, fit_recording
from loopyperf.oracle.measuring import ProgressReport, keep, measure, tell_stage, unfinished_archive
from loopyperf.oracle.sampling_campaign import checked_parts, sample_measured


def calibrate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    kernels: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    protocol: Protocol | None = None,
    counting: Counting = "executed",
    model: str | None = None,
    non_negative: bool | None = None,
    samples: bool = False,
    progress: ProgressReport | None = None,
) -> Fit:
    """Return the fit of a device, in seconds per unit of work, from measurements taken now.

    It is of the model that generalises best, unless *model* names one. Every raw sample goes into *archive* (by default
    in the user data folder, where an interrupted calibration is resumed and a finished one is kept under its date). The
    fit is written to *save*; by default it goes where :func:`loopyperf.estimate` finds it, beside those of other
    backends, and so does a fit of each other model.

    *backend* is ``"opencl"``, ``"cuda"`` or an open one, *device* a part of the device's name. *kernels* is a folder of
    kernel files, by default the bundled ones. *protocol* says how often each kernel runs and which samples count
    (:class:`loopyperf.measurement.protocol.Protocol`), by default as `loopyperf calibrate` does. *non_negative* says
    whether the linear model's weights must not be negative, by default whichever generalises better. With *samples*,
    the first groups of whatever was measured are run too, and recorded for :func:`loopyperf.train`: an archive without
    any gets them, and nothing is measured again; a warning says which kernels have none. *progress* is called with a
    :class:`loopyperf.measurement.campaign.Progress` before each kernel configuration, each sample and the fit.

    Raises :class:`BackendError` without a device, :class:`MeasurementError` for a kernel that computes something
    wrong, :class:`IncompatibleRunsError` for an archive of another device or protocol; and before anything is measured
    :class:`ParameterError` for samples through a backend that runs whole kernels only, for a *non_negative* of a model
    that is not linear and for a counting that there is not, :class:`UnknownModelError` for a model that is not fitted,
    and :class:`FitFileError` where the fit cannot be saved.
    """
    check_fitting(model, counting, non_negative)
    if save is not None and (reason := why_unwritable(Path(save), makes_folders=True)):
        raise FitFileError(f"the fit cannot be written to {save}: {reason}; give another path")
    machine = opened(backend, device)
    files = measurement_kernels(kernels)
    path = unfinished_archive(machine, "calibration") if archive is None else Path(archive)
    afterwards = _sampling(machine, files, progress) if samples else None
    recording = measure(machine, files, path, protocol, progress, afterwards=afterwards)
    tell_stage("fitting", progress)
    fits = fit_recording(recording, files, counting, model, non_negative)
    save_fits(fits, save)
    if archive is None:
        keep(path)
    return fits[0]


def _sampling(
    machine: Backend, files: Sequence[KernelFile], progress: ProgressReport | None
) -> Callable[[Archive], None]:
    """Return a function that takes samples of all that an archive has, and warns of kernels that have none."""
    parts = checked_parts(machine, machine.environment.backend)

    def afterwards(archive: Archive) -> None:
        if said := str(sample_measured(parts, machine, files, archive, progress)):
            warnings.warn(said, LoopyperfWarning, stacklevel=4)

    return afterwards
