"""A recorded archive in place of a device: measuring, calibrating and testing without one."""

from pathlib import Path

from loopyperf.errors import ArchiveError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.interface import Case
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.environment import Environment


class ReplayBackend:
    """Answers with the samples that *archive* holds; its environment and limits are the recorded ones.

    Raises :class:`ArchiveError` if the archive cannot be read or holds no run.
    """

    def __init__(self, archive: Path | str) -> None:
        """Read the archive, compressed or not."""
        self._path = Path(archive)
        recording = read_archive(self._path)
        if not recording.runs:
            raise ArchiveError(f"{archive} holds no run: there is nothing to replay")
        self._run = recording.runs[-1]
        self._completed = recording.completed

    @property
    def environment(self) -> Environment:
        """Return where the samples were taken."""
        return self._run.environment

    @property
    def limits(self) -> Limits:
        """Return the limits of the device that they were taken on."""
        return self._run.limits

    def time(self, case: Case, runs: int) -> tuple[float, ...]:
        """Return the recorded seconds of the measurement or probe of *case* that has *runs* samples.

        Raises :class:`MeasurementError` if there is none.
        """
        recorded = [self._completed.get(case.key("measurement")), self._completed.get(case.key("probe"))]
        samples = [record.samples for record in recorded if record is not None]
        for candidate in samples:
            if len(candidate) == runs:
                return candidate
        held = " and ".join(str(len(candidate)) for candidate in samples)
        raise MeasurementError(
            f"{runs} runs of {case} were asked for, and {self._path} holds {held or 'none'}; "
            "replay it with the protocol and the kernels that it was recorded with"
        )
