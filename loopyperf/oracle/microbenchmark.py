"""From a device to its description: measure the microbenchmarks, or take an archive of them, and evaluate."""

import os
from dataclasses import replace
from pathlib import Path

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.configuration import Configuration
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.measurement.microbenchmarks.description import Described, describe
from loopyperf.measurement.microbenchmarks.instructions import Refusal
from loopyperf.measurement.microbenchmarks.pace import FULL, SHORT, shortened
from loopyperf.oracle.measuring import ProgressReport, keep, measure, tell_stage, unfinished_archive

KERNELS = "measurement_kernels/microbenchmarks"
"""the folder of the kernel files; not in the folder above, from which fits are made"""


def microbenchmark(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    clock: float | None = None,
    quick: bool = False,
    progress: ProgressReport | None = None,
) -> Described:
    """Return the description of a device, from microbenchmarks that are run now.

    Every raw sample goes into *archive* (by default in the user data folder, where an interrupted run is resumed and a
    finished one is kept under its date). *clock* is in Hz, by default what the driver reports; *quick* takes fewer
    runs and smaller arrays.

    A kernel that does not compile, as in double precision on some devices, or computes something wrong, is among what
    is absent, with the reason.

    Raises :class:`BackendError` without a device, :class:`MeasurementError` where no clock is known or not even the
    empty kernel can be measured, :class:`IncompatibleRunsError` for an archive of another device or protocol.
    """
    machine = opened(backend, device)
    files = load_kernel_files(bundled_folder(KERNELS))
    chosen, protocol = (shortened(files), SHORT) if quick else (files, FULL)
    purpose = "quick-microbenchmarks" if quick else "microbenchmarks"
    path = unfinished_archive(machine, purpose) if archive is None else Path(archive)
    failures: list[Refusal] = []

    def on_failure(kernel_class: str, failed: Configuration, error: MeasurementError) -> None:
        failures.append(Refusal(f"{kernel_class}, {failed.label}", str(error)))

    recording = measure(machine, chosen, path, protocol, progress, on_failure)
    tell_stage("evaluating", progress)
    described = describe(recording, clock)
    if archive is None:
        keep(path)
    return replace(described, refusals=(*described.refusals, *failures))


def described_by(archive: str | os.PathLike[str], clock: float | None = None) -> Described:
    """Return the description of the device that *archive* was recorded on; no device is needed."""
    recording: Recording = read_archive(archive)
    return describe(recording, clock)
