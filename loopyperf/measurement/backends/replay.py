"""Backend that replays a recorded archive, for measuring, calibrating and testing without a device."""

import os
from collections import defaultdict
from pathlib import Path

from loopyperf.errors import ArchiveError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.records import Key, Measurement

Place = tuple[int, int]
"""index of the next repeat of a case, and of its next sample"""


class ReplayBackend:
    """Backend that returns the samples of *archive* in order, with the recorded ``environment`` and ``limits``.

    It reproduces a campaign of the same kernels by the same protocol sample by sample.

    Raises :class:`ArchiveError` if the archive cannot be read or holds no run.
    """

    def __init__(self, archive: str | os.PathLike[str]) -> None:
        """Read the archive, which may be compressed."""
        self._path = Path(archive)
        recording = read_archive(self._path)
        if not recording.runs:
            raise ArchiveError(f"archive {archive} has no run to replay; use another archive path")
        self.environment, self.limits = recording.runs[-1].environment, recording.runs[-1].limits
        self._recorded: dict[Key, list[Measurement]] = defaultdict(list)
        for measurement in recording.measurements:
            self._recorded[_of_any_kind(measurement.key)].append(measurement)
        self._places: dict[Key, Place] = {}

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the next *runs* recorded samples of *case*, in recording order, its probe included.

        A repeat with fewer remaining samples is skipped; the first repeat follows the last. Raises
        :class:`MeasurementError` if no repeat has *runs* samples.
        """
        key = _of_any_kind(case.key("measurement"))
        takes = self._recorded[key]
        if not any(len(take.samples) >= runs for take in takes):
            held = " and ".join(str(len(take.samples)) for take in takes)
            raise MeasurementError(
                f"{runs} runs of {case} were requested, but {self._path} has {held or 'none'}; "
                "replay it with the protocol and kernels of the recording"
            )
        number, begin = self._places.get(key, (0, 0))
        while len(takes[number].samples) < begin + runs:
            number, begin = (number + 1) % len(takes), 0
        self._places[key] = number, begin + runs
        take, part = takes[number], slice(begin, begin + runs)
        return MeasuredTimes(take.samples[part], take.device_samples and take.device_samples[part])


def _of_any_kind(key: Key) -> Key:
    return key._replace(kind="measurement")
