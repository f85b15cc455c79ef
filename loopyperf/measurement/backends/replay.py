"""A recorded archive in place of a device: measuring, calibrating and testing without one."""

import os
from collections import defaultdict
from pathlib import Path

from loopyperf.errors import ArchiveError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.environment import DeviceLimits, Environment
from loopyperf.measurement.records import Key, Measurement

Place = tuple[int, int]
"""which take of a case comes next, and from which of its samples on"""


class ReplayBackend:
    """Answers with the samples that *archive* holds, in order; its environment and limits are the recorded ones.

    A campaign of the same kernels by the same protocol is repeated sample by sample.

    Raises :class:`ArchiveError` if the archive cannot be read or holds no run.
    """

    def __init__(self, archive: str | os.PathLike[str]) -> None:
        """Read the archive, compressed or not."""
        self._path = Path(archive)
        recording = read_archive(self._path)
        if not recording.runs:
            raise ArchiveError(f"{archive} holds no run: there is nothing to replay")
        self._run = recording.runs[-1]
        self._recorded: dict[Key, list[Measurement]] = defaultdict(list)
        for measurement in recording.measurements:
            self._recorded[_of_any_kind(measurement.key)].append(measurement)
        self._places: dict[Key, Place] = {}

    @property
    def environment(self) -> Environment:
        """Return where the samples were taken."""
        return self._run.environment

    @property
    def limits(self) -> DeviceLimits:
        """Return the limits of the device that they were taken on."""
        return self._run.limits

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the next *runs* recorded samples of *case*, of its probe first if that was taken first.

        A take that has fewer left is passed over; after the last one comes the first one again. Raises
        :class:`MeasurementError` if no take has so many samples.
        """
        key = _of_any_kind(case.key("measurement"))
        takes = self._recorded[key]
        if not any(len(take.samples) >= runs for take in takes):
            held = " and ".join(str(len(take.samples)) for take in takes)
            raise MeasurementError(
                f"{runs} runs of {case} were asked for, and {self._path} holds {held or 'none'}; "
                "replay it with the protocol and the kernels that it was recorded with"
            )
        number, begin = self._places.get(key, (0, 0))
        while len(takes[number].samples) < begin + runs:
            number, begin = (number + 1) % len(takes), 0
        self._places[key] = number, begin + runs
        return _part(takes[number], slice(begin, begin + runs))

    def empty_caches(self) -> None:
        """Do nothing: the samples of an archive are what they are."""


def _of_any_kind(key: Key) -> Key:
    return key._replace(kind="measurement")


def _part(take: Measurement, runs: slice) -> MeasuredTimes:
    device = None if take.device_samples is None else take.device_samples[runs]
    return MeasuredTimes(take.samples[runs], device)
