"""Append-only measurement archives in JSON Lines format that survive a process killed at any byte.

An archive may come from an untrusted source. It is decompressed and read line by line, and at most :data:`MOST` bytes
of it, so that a small file that expands to gigabytes is rejected before it fills the memory.

Each record is one line and is on disk before the next measurement starts. A killed process leaves at most one partial
last line. A line is valid only if it ends in a line feed, so readers ignore a partial last line and the next writer
truncates it. Damage anywhere else raises an error and is never skipped.
"""

import errno
import fcntl
import gzip
import lzma
import os
import statistics
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from io import BufferedRandom, BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import IO, Self

from loopyperf.errors import ArchiveError, IncompatibleRunsError
from loopyperf.files import os_reason
from loopyperf.measurement.records import Key, Measurement, Run, Sampled, Takes, around, decode, encode, noise_floor

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
MOST = 48 * 2**20
"""maximum size of an archive after decompression, in bytes: about 80,000 measurements"""
VALUES = 4_000_000
"""maximum number of commas in an archive, which bounds its memory: a number in a list may need 16 times its bytes"""
LONGEST = 2**20
"""maximum length of a line, in bytes"""
CHUNK = 2**18
"""bytes read or decompressed at a time"""
UNPACKING = 256 * 2**20
"""memory limit of decompression, in bytes: the writer of an xz file chooses the size of its dictionary"""
LINE_START = b'{"record":"'


@dataclass(frozen=True)
class Recording:
    """Contents of an archive, in recording order."""

    runs: tuple[Run, ...]
    measurements: tuple[Measurement, ...]
    """all measurements: probes, reference kernels and superseded repeats included"""
    sampled: tuple[Sampled, ...] = ()
    """samples of the first groups of some of the measured kernels"""

    @cached_property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return probes and measurements by key, the best repeat of each."""
        return Takes(self.measurements).completed

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
            _check_uncompressed(self._file.peek(len(XZ_MAGIC)), path)
            recording, self._bytes, self._values = _read(self._file, path)
            _check_same_device_and_protocol(recording.runs[-1:], run, path)
            self._file.truncate(self._bytes)
            self._measurements = list(recording.measurements)
            self._samples = _by_key(recording.sampled)
            self._takes = Takes(recording.measurements)
            self._append(encode(run))
            cleanup.pop_all()

    @property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return probes and measurements of this and earlier runs by key, the best repeat of each."""
        return self._takes.completed

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
        return self._takes.of(key)

    def append(self, *measurements: Measurement) -> None:
        """Record *measurements* in this order and return when they are on disk."""
        self._append(b"".join(map(encode, measurements)))
        for measurement in measurements:
            self._measurements.append(measurement)
            self._takes.add(measurement)

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
        size, values = self._bytes + len(lines), self._values + lines.count(b",")
        if size > MOST or values > VALUES or any(len(line) > LONGEST for line in lines.splitlines()):
            raise ArchiveError(
                f"{self.path} would be too large to read: more than {MOST:,} bytes, {VALUES:,} values or {LONGEST:,} "
                "bytes in a line; use another archive path"
            )
        self._bytes, self._values = size, values
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


def _read(file: BufferedReader | BufferedRandom, path: Path) -> tuple[Recording, int, int]:
    """Return the contents of *file* from its position on, and the numbers of bytes and values in complete lines."""
    try:
        return _parse(_lines(_unpacked(file)), path)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ArchiveError:
    return ArchiveError(
        f"cannot read {path}: {os_reason(error)}; pass a measurement archive, e.g. from `loopyperf calibrate "
        "--archive PATH`"
    )


def _unpacked(file: BufferedReader | BufferedRandom) -> Iterator[bytes]:
    """Yield the decompressed contents of *file* in chunks."""
    magic = file.peek(len(XZ_MAGIC))
    if magic.startswith(XZ_MAGIC):
        return _of_xz(_chunks(file))
    return _chunks(gzip.GzipFile(fileobj=file) if magic.startswith(GZIP_MAGIC) else file)


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK), b"")


def _of_xz(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the decompressed contents of *packed*, chunks of one or more xz streams."""
    decompressor = lzma.LZMADecompressor(memlimit=UNPACKING)
    for chunk in packed:
        more = chunk
        while more or not decompressor.needs_input:
            if decompressor.eof:
                more = (decompressor.unused_data or more).lstrip(b"\0")
                if not more:
                    break
                decompressor = lzma.LZMADecompressor(memlimit=UNPACKING)
            yield decompressor.decompress(more, CHUNK)
            more = b""
    if not decompressor.eof:
        raise EOFError("the file ends before the end-of-stream marker")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of *chunks* with their line feeds, which the last may lack; raises :class:`OSError`."""
    begun, total = b"", 0
    for chunk in chunks:
        total += len(chunk)
        *whole, begun = (begun + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if total > MOST or len(begun) > LONGEST:
            raise OSError(errno.EFBIG, f"more than {MOST:,} bytes after decompression or {LONGEST:,} bytes in a line")
    yield begun


def _check_uncompressed(content: bytes, path: Path) -> None:
    if content.startswith((GZIP_MAGIC, XZ_MAGIC)):
        raise ArchiveError(f"{path} is compressed and cannot be appended to; decompress it or use another path")


# }}}


# {{{ parsing


def _parse(lines: Iterable[bytes], path: Path) -> tuple[Recording, int, int]:
    """Return the recorded contents of *lines*, and the numbers of bytes and values in complete lines."""
    complete = 0
    runs: dict[str, Run] = {}
    measurements: list[Measurement] = []
    sampled: list[Sampled] = []
    measured: set[Key] = set()
    values = looked_up = 0
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            _check_cut_off(line, path)
            break
        complete += len(line)
        values += line.count(b",")
        if values > VALUES:
            raise OSError(errno.EFBIG, f"more than {VALUES:,} values")
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
        else:
            measured.update(each.key for each in measurements[looked_up:])
            looked_up = len(measurements)
            if record.key not in measured:
                raise ArchiveError(
                    f"{path}, line {number}: no measurement precedes the samples of {record.kernel_class!r:.80}, "
                    f"{record.label!r:.80}; use another archive path"
                )
            sampled.append(record)
    return Recording(tuple(runs.values()), tuple(measurements), tuple(sampled)), complete, values


def _by_key(sampled: Iterable[Sampled]) -> dict[Key, Sampled]:
    return {each.key: each for each in sampled}


def _check_cut_off(partial_line: bytes, path: Path) -> None:
    # Do not truncate a file that is not an archive.
    if partial_line[: len(LINE_START)] != LINE_START[: len(partial_line)]:
        raise ArchiveError(
            f"{path} is not a measurement archive: it ends in {partial_line[:40]!r}; use another archive path"
        )


def _check_same_device_and_protocol(earlier: tuple[Run, ...], run: Run, path: Path) -> None:
    for other in earlier:
        differences = other.differences(run)
        if differences:
            raise IncompatibleRunsError(
                f"{path}: runs started {other.started:%Y-%m-%d %H:%M} and {run.started:%Y-%m-%d %H:%M} cannot share an "
                f"archive: {', '.join(differences)}; use another archive path"
            )


# }}}
