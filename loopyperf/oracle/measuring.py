"""Measuring kernels for a person: on the device that is meant, into an archive that is resumed until it is finished."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from loopyperf.files import user_data
from loopyperf.measurement.archive import Archive, Recording, read_archive
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.campaign import FailureReport, Progress, run_campaign
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Run

ProgressReport = Callable[[Progress], None]

UNFINISHED = "unfinished"
"""stands in the name of an archive that a campaign was interrupted in, and that the next one resumes"""


def tell_stage(stage: str, progress: ProgressReport | None) -> None:
    """Report to *progress*, if it is given, that a *stage* begins whose steps are not counted."""
    if progress is not None:
        progress(Progress(0, 0, "", "", stage))


def unfinished_archive(machine: Backend, purpose: str) -> Path:
    """Return where a person's own measurements for *purpose* go until they are finished; it may not exist.

    A device that OpenCL and CUDA both know has one for each: what one began, the other must not go on with.
    """
    here = machine.environment
    return user_data() / "archives" / here.slug / f"{UNFINISHED}-{here.backend}-{purpose}.jsonl"


def keep(archive: Path) -> None:
    """Let a date take the place of "unfinished" in the name of *archive*, so that the next campaign starts another."""
    finished = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%f}"
    archive.rename(archive.with_name(archive.name.replace(UNFINISHED, finished)))


def measure(
    machine: Backend,
    files: Sequence[KernelFile],
    archive: Path,
    protocol: Protocol | None,
    progress: ProgressReport | None,
    on_failure: FailureReport | None = None,
    afterwards: Callable[[Archive], None] | None = None,
) -> Recording:
    """Return what *archive* holds when *files* have been measured on *machine*; what it has is not run again.

    A kernel that cannot be measured raises :class:`MeasurementError`; with *on_failure* this is called instead, and the
    others are measured. *afterwards* is called with the archive, which is still open, when all are.
    """
    run = Run.start(machine.environment, machine.limits, protocol or Protocol())
    with Archive(archive, run) as records:
        if progress is None:
            run_campaign(machine, files, records, on_failure=on_failure)
        else:
            run_campaign(machine, files, records, progress=progress, on_failure=on_failure)
        if afterwards is not None:
            afterwards(records)
    return read_archive(archive)
