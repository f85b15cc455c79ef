"""Append-only measurement archives in JSON Lines format that survive a process killed at any byte.

An archive may come from an untrusted source. At most :data:`MAX_ARCHIVE_BYTES` bytes of it are decompressed, so that a
small file that expands to gigabytes is rejected before it fills the memory.

Each record is one line and is on disk before the next measurement starts. A killed process leaves at most one partial
last line. A line is valid only if it ends in a line feed, so readers ignore a partial last line and the next writer
truncates it. Damage anywhere else raises an error and is never skipped.
"""

import fcntl
import gzip
import lzma
import os
import statistics
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from io import BufferedRandom, BufferedReader, BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from loopyperf.errors import ArchiveError, IncompatibleRunsError, MeasurementError
from loopyperf.files import os_reason
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.records import (
    Decision,
    Key,
    Measurement,
    Run,
    Sampled,
    around,
    decode,
    encode,
    noise_floor,
    standing,
)

PACKED: Mapping[bytes, Callable[[Any], AbstractContextManager[Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""first bytes of a compressed archive -> function that opens it"""
LONGEST_MAGIC = max(map(len, PACKED))
"""largest number of these bytes"""
MAX_ARCHIVE_BYTES = 48 * 2**20
"""maximum size of an archive after decompression, in bytes: about 80,000 measurements"""
LINE_START = b'{"record":"'


@dataclass(frozen=True)
class Recording:
    """Contents of an archive, in recording order."""

    runs: tuple[Run, ...]
    measurements: tuple[Measurement, ...]
    """all measurements: probes, reference kernels and superseded repeats included"""
    sampled: tuple[Sampled, ...] = ()
    """samples of the first groups of some of the measured kernels"""
    decisions: tuple[Decision, ...] = ()
    """decisions of tunings"""

    @cached_property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return probes and measurements by key, the best repeat of each."""
        repeats: dict[Key, list[Measurement]] = {}
        for measurement in self.measurements:
            if measurement.kind != "yardstick":
                repeats.setdefault(measurement.key, []).append(measurement)
        return {key: standing(taken) for key, taken in repeats.items()}

    @property
    def standing(self) -> tuple[Measurement, ...]:
        """Return the best repeat of each measurement, without probes and reference kernels."""
        return tuple(each for each in self.completed.values() if each.kind == "measurement")

    @cached_property
    def samples(self) -> Mapping[Key, Sampled]:
        """Return the samples by key, the latest of each."""
        return MappingProxyType(_by_key(self.sampled))

    @property
    def noise_floor(self) -> float | None:
        """Return the relative standard deviation of the reference kernel's time; None without a reference kernel.

        Only reference times around the best repeats count, not those around superseded repeats.
        """
        return noise_floor(around(self.standing))

    def pace(self, launch: float = 0.0) -> float | None:
        """Return the median seconds per round of the reference kernel's loop; None without a reference kernel.

        Only reference times around the best repeats count. *launch*, the seconds of an empty kernel, is subtracted, so
        results of two campaigns are comparable even if they ran the reference kernel at different sizes.
        """
        times = around(self.standing)
        taken = (each.sizes for each in reversed(self.measurements) if each.kind == "yardstick")
        rounds = next((sizes.get("rounds", 0) for sizes in taken), 0)
        working = statistics.median(times) - launch if times else 0.0
        return working / rounds if rounds and working > 0 else None


def read_archive(path: str | os.PathLike[str]) -> Recording:
    """Return the contents of the archive at *path*, which may be compressed with gzip or xz.

    Raises :class:`ArchiveError` with the number of the unreadable line, and :class:`IncompatibleRunsError` if the file
    has runs of different devices, drivers or protocols.
    """
    path = Path(path)
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    with file:
        return _read(file, path)[0]


class Archive:
    """An archive open for appending, under an exclusive lock; a context manager.

    Raises :class:`ArchiveError` if another process has the file open for appending or if the file is not an archive,
    and :class:`IncompatibleRunsError` if its runs used another device or protocol than *run*.
    """

    run: Run

    def __init__(self, path: str | os.PathLike[str], run: Run) -> None:
        """Open the archive at *path*, creating it if needed, and record the start of *run*."""
        self.path = path = Path(path)
        self.run = run
        with ExitStack() as cleanup:
            self._file = _open_locked(path)
            cleanup.callback(self._file.close)
            if self._file.peek(LONGEST_MAGIC).startswith(tuple(PACKED)):
                raise ArchiveError(f"{path} is compressed and cannot be appended to; decompress it or use another path")
            recording, self._bytes = _read(self._file, path)
            _check_same_device_and_protocol(recording.runs[-1:], run, path)
            self._file.truncate(self._bytes)
            self._measurements = list(recording.measurements)
            self._samples = _by_key(recording.sampled)
            self.decisions = list(recording.decisions)
            """decisions of tunings, of this and earlier runs"""
            self._repeats: dict[Key, list[Measurement]] = defaultdict(list)
            for measurement in recording.measurements:
                self._repeats[measurement.key].append(measurement)
            self._completed = dict(recording.completed)
            self._append(encode(run))
            cleanup.pop_all()

    @property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return probes and measurements of this and earlier runs by key, the best repeat of each."""
        return MappingProxyType(self._completed)

    @property
    def samples(self) -> Mapping[Key, Sampled]:
        """Return the samples of this and earlier runs by key."""
        return MappingProxyType(self._samples)

    @property
    def measurements(self) -> Sequence[Measurement]:
        """Return all measurements of this and earlier runs, in order."""
        return tuple(self._measurements)

    def takes(self, key: Key) -> Sequence[Measurement]:
        """Return all repeats of *key*, in order."""
        return tuple(self._repeats.get(key, ()))

    def append(self, *measurements: Measurement) -> None:
        """Record *measurements* in this order and return when they are on disk."""
        self._append(b"".join(map(encode, measurements)))
        for measurement in measurements:
            self._measurements.append(measurement)
            if measurement.kind != "yardstick":
                self._repeats[measurement.key].append(measurement)
                self._completed[measurement.key] = standing(self._repeats[measurement.key])

    def append_decision(self, decision: Decision) -> None:
        """Record *decision* and return when it is on disk."""
        self._append(encode(decision))
        self.decisions.append(decision)

    def append_samples(self, sampled: Sampled) -> None:
        """Record *sampled* and return when it is on disk."""
        self._append(encode(sampled))
        self._samples[sampled.key] = sampled

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the open archive."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the archive."""
        self.close()

    def _append(self, lines: bytes) -> None:
        self._bytes += len(lines)
        if self._bytes > MAX_ARCHIVE_BYTES:
            raise ArchiveError(
                f"{self.path} would be too large to read: more than {MAX_ARCHIVE_BYTES:,} bytes; use another path"
            )
        try:
            self._file.write(lines)
            self._file.flush()
            os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:
            # The line may be on disk in part; close the file so that nothing is appended before it is truncated.
            with suppress(OSError):
                self._file.close()
            raise ArchiveError(f"cannot write {self.path}: {error}; earlier records are safe") from error


# {{{ bytes on disk


def _open_locked(path: Path) -> BufferedRandom:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except (OSError, ValueError) as error:
        raise ArchiveError(f"cannot open {path}: {os_reason(error)}; use another archive path") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ArchiveError(
            f"{path} is in use by another measuring process; wait for it or use another archive path"
        ) from error
    except OSError as error:
        file.close()
        raise ArchiveError(f"cannot lock {path}: {error}; use an archive path on a local disk") from error
    file.seek(0)
    return file


def _read(file: BufferedReader | BufferedRandom, path: Path) -> tuple[Recording, int]:
    """Return the contents of *file* from its position on, and the number of bytes in complete lines."""
    magic = file.peek(LONGEST_MAGIC)
    try:
        opener = next((each for start, each in PACKED.items() if magic.startswith(start)), nullcontext)
        with opener(file) as unpacked:
            content = unpacked.read(MAX_ARCHIVE_BYTES + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(path, error) from error
    if len(content) > MAX_ARCHIVE_BYTES:
        raise _unreadable(path, OSError(f"more than {MAX_ARCHIVE_BYTES:,} bytes after decompression"))
    return _parse(BytesIO(content), path)


def _unreadable(path: Path, error: Exception) -> ArchiveError:
    return ArchiveError(
        f"cannot read {path}: {os_reason(error)}; pass a measurement archive, e.g. from `loopyperf calibrate "
        "--archive PATH`"
    )


# }}}


# {{{ parsing


def _parse(lines: Iterable[bytes], path: Path) -> tuple[Recording, int]:
    """Return the recorded contents of *lines*, and the number of bytes in complete lines."""
    complete = 0
    runs: dict[str, Run] = {}
    measurements: list[Measurement] = []
    sampled: list[Sampled] = []
    decisions: list[Decision] = []
    measured: set[Key] = set()
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            if line[: len(LINE_START)] != LINE_START[: len(line)]:  # a file of another kind must not be truncated
                raise ArchiveError(
                    f"{path} is not a measurement archive: it ends in {line[:40]!r}; use another archive path"
                )
            break
        complete += len(line)
        try:
            record = decode(line)
        except ArchiveError as error:
            raise ArchiveError(f"{path}, line {number}: {error}") from error
        if isinstance(record, Run):
            _check_same_device_and_protocol(tuple(runs.values())[:1], record, path)
            if record.id in runs:
                raise ArchiveError(f"{path}, line {number}: run {record.id!r:.80} appears twice")
            runs[record.id] = record
        elif record.run not in runs:
            raise ArchiveError(
                f"{path}, line {number}: run {record.run!r:.80} has no earlier record; use another archive path"
            )
        elif isinstance(record, Measurement):
            measurements.append(record)
            measured.add(record.key)
        elif isinstance(record, Decision):
            decisions.append(record)
        elif record.key in measured:
            sampled.append(record)
        else:
            raise ArchiveError(
                f"{path}, line {number}: no measurement precedes the samples of {record.kernel_class!r:.80}, "
                f"{record.label!r:.80}; use another archive path"
            )
    return Recording(tuple(runs.values()), tuple(measurements), tuple(sampled), tuple(decisions)), complete


def _by_key(sampled: Iterable[Sampled]) -> dict[Key, Sampled]:
    return {each.key: each for each in sampled}


def _check_same_device_and_protocol(earlier: tuple[Run, ...], run: Run, path: Path) -> None:
    for other in earlier:
        differences = other.differences(run)
        if differences:
            raise IncompatibleRunsError(
                f"{path}: runs started {other.started:%Y-%m-%d %H:%M} and {run.started:%Y-%m-%d %H:%M} cannot share an "
                f"archive: {', '.join(differences)}; use another archive path"
            )


# }}}


# {{{ the backend that replays an archive, for measuring, calibrating and testing without a device


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


# }}}
