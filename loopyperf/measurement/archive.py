"""The archive: a file of JSON lines that only ever grows, safe against a process killed at any byte.

Every record is one line, on disk before the next measurement starts. A killed process leaves at most one partial last
line; a line counts once its line feed is there, so that partial line is never believed and is cut off by whoever
appends next. Damage anywhere else is reported, never skipped.
"""

import fcntl
import gzip
import lzma
import os
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self

from loopyperf.errors import ArchiveError, IncompatibleRunsError
from loopyperf.measurement.noise import around, noise_floor
from loopyperf.measurement.records import Key, Measurement, Run, Sampled, decode, encode
from loopyperf.measurement.takes import Takes

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
LINE_START = b'{"record":"'


@dataclass(frozen=True)
class Recording:
    """What an archive holds, in the order in which it was recorded."""

    runs: tuple[Run, ...]
    measurements: tuple[Measurement, ...]
    """all of them: probes, yardsticks, and what was measured again as well"""
    sampled: tuple[Sampled, ...] = ()
    """what the first groups of some of what was measured took"""

    @cached_property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return the probes and measurements that stand, by what was measured; of repeated ones the best take."""
        return Takes(self.measurements).completed

    @property
    def standing(self) -> tuple[Measurement, ...]:
        """Return the measurements that count, each once: no probes, no yardsticks, none that was repeated better."""
        return tuple(each for each in self.completed.values() if each.kind == "measurement")

    @cached_property
    def samples(self) -> Mapping[Key, Sampled]:
        """Return the samples by what was measured; the latest of those taken again."""
        return MappingProxyType(_by_key(self.sampled))

    @property
    def noise_floor(self) -> float | None:
        """Return by how much times differ though the device does the same, relative; None without a yardstick.

        While takes that stand were measured: slow looks whose takes were repeated better do not count.
        """
        return noise_floor(around(self.standing))

    def pace(self, launch: float = 0.0) -> float | None:
        """Return the seconds of a round of the yardstick's loop, in the median; None without a yardstick.

        While takes that stand were measured, and without *launch*, the seconds of an empty kernel. So the paces of two
        campaigns compare, even if they took the yardstick at different sizes.
        """
        times = around(self.standing)
        taken = (each.sizes for each in reversed(self.measurements) if each.kind == "yardstick")
        rounds = next((sizes.get("rounds", 0) for sizes in taken), 0)
        working = statistics.median(times) - launch if times else 0.0
        return working / rounds if rounds and working > 0 else None


def read_archive(path: str | os.PathLike[str]) -> Recording:
    """Return what the archive at *path* holds; it may be compressed by gzip or xz.

    Raises :class:`ArchiveError` naming the line of what cannot be read, and :class:`IncompatibleRunsError` if runs of
    different devices, drivers or protocols were put into one file.
    """
    path = Path(path)
    try:
        content = _decompressed(path.read_bytes())
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArchiveError(
            f"{path} cannot be read: {reason}; give the path of an archive of measurements, as `loopyperf calibrate "
            "--archive PATH` writes one"
        ) from error
    return _parse(content, path)


class Archive:
    """An archive open for appending, under an exclusive lock; a context manager.

    Raises :class:`ArchiveError` if another process appends to the same file, or if the file holds something else, and
    :class:`IncompatibleRunsError` if what it holds was measured on another device or by another protocol than *run*.
    """

    run: Run

    def __init__(self, path: str | os.PathLike[str], run: Run) -> None:
        """Open the archive at *path*, creating it if needed, and record that *run* has started."""
        self.path = path = Path(path)
        self.run = run
        with ExitStack() as cleanup:
            self._file = _open_locked(path)
            cleanup.callback(self._file.close)
            content = self._file.read()
            _check_uncompressed(content, path)
            recording = _parse(content, path)
            _check_same_device_and_protocol(recording.runs[-1:], run, path)
            self._file.truncate(_complete_length(content))
            self._measurements = list(recording.measurements)
            self._samples = _by_key(recording.sampled)
            self._takes = Takes(recording.measurements)
            self._append(encode(run))
            cleanup.pop_all()

    @property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return what this and earlier runs have recorded, by what was measured; of repeated ones the best take."""
        return self._takes.completed

    @property
    def samples(self) -> Mapping[Key, Sampled]:
        """Return the samples that this and earlier runs have recorded, by what was measured."""
        return MappingProxyType(self._samples)

    @property
    def measurements(self) -> Sequence[Measurement]:
        """Return all that this and earlier runs have recorded, in order."""
        return tuple(self._measurements)

    def takes(self, key: Key) -> Sequence[Measurement]:
        """Return each take of what *key* stands for, in order."""
        return self._takes.of(key)

    def append(self, *measurements: Measurement) -> None:
        """Record *measurements*, in this order: when this returns, they are on disk."""
        self._append(b"".join(map(encode, measurements)))
        for measurement in measurements:
            self._measurements.append(measurement)
            self._takes.add(measurement)

    def append_samples(self, sampled: Sampled) -> None:
        """Record the samples of something measured: when this returns, they are on disk."""
        self._append(encode(sampled))
        self._samples[sampled.key] = sampled

    def close(self) -> None:
        """Close the file and let go of the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the archive, open."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the archive."""
        self.close()

    def _append(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:
            # The line may be there in part: nothing may follow it before the next opening cuts it off.
            with suppress(OSError):
                self._file.close()
            raise ArchiveError(f"{self.path} cannot be written: {error}; what was written before is safe") from error


# {{{ bytes on disk


def _open_locked(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be opened: {error.strerror}; give another archive path") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ArchiveError(
            f"{path} is in use: another process is measuring into it; wait for it, or give another archive path"
        ) from error
    except OSError as error:
        file.close()
        raise ArchiveError(f"{path} cannot be locked: {error}; give an archive path on a local disk") from error
    file.seek(0)
    return file


def _decompressed(content: bytes) -> bytes:
    if content.startswith(GZIP_MAGIC):
        return gzip.decompress(content)
    if content.startswith(XZ_MAGIC):
        return lzma.decompress(content)
    return content


def _check_uncompressed(content: bytes, path: Path) -> None:
    if content.startswith((GZIP_MAGIC, XZ_MAGIC)):
        raise ArchiveError(f"{path} is compressed: it can be read, not appended to; unpack it, or give another path")


def _complete_length(content: bytes) -> int:
    return content.rfind(b"\n") + 1


# }}}


# {{{ from bytes to records


def _parse(content: bytes, path: Path) -> Recording:
    complete = _complete_length(content)
    _check_cut_off(content[complete:], path)
    runs: dict[str, Run] = {}
    measurements: list[Measurement] = []
    sampled: list[Sampled] = []
    measured: set[Key] = set()
    for number, line in enumerate(content[:complete].split(b"\n")[:-1], start=1):
        try:
            record = decode(line)
        except ArchiveError as error:
            raise ArchiveError(f"{path}, line {number}: {error}") from error
        if isinstance(record, Run):
            _check_same_device_and_protocol(tuple(runs.values())[:1], record, path)
            runs[record.id] = record
        elif record.run not in runs:
            raise ArchiveError(
                f"{path}, line {number}: belongs to run {record.run!r}, which is not recorded before it; give another "
                "archive path"
            )
        elif isinstance(record, Measurement):
            measurements.append(record)
            measured.add(record.key)
        elif record.key in measured:
            sampled.append(record)
        else:
            raise ArchiveError(
                f"{path}, line {number}: has samples of {record.kernel_class!r}, {record.label!r} at {record.sizes}, "
                "which is not measured before it; give another archive path"
            )
    return Recording(tuple(runs.values()), tuple(measurements), tuple(sampled))


def _by_key(sampled: Iterable[Sampled]) -> dict[Key, Sampled]:
    return {each.key: each for each in sampled}


def _check_cut_off(partial_line: bytes, path: Path) -> None:
    # Somebody else's file must not lose its last line.
    if partial_line[: len(LINE_START)] != LINE_START[: len(partial_line)]:
        raise ArchiveError(
            f"{path} is not a measurement archive: it ends in {partial_line[:40]!r}; give another archive path"
        )


def _check_same_device_and_protocol(earlier: tuple[Run, ...], run: Run, path: Path) -> None:
    for other in earlier:
        differences = other.differences(run)
        if differences:
            raise IncompatibleRunsError(
                f"{path}: the runs started {other.started:%Y-%m-%d %H:%M} and {run.started:%Y-%m-%d %H:%M} must not be "
                f"mixed, in the later one {', '.join(differences)}; give another archive path"
            )


# }}}
