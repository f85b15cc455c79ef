"""The archive: a file of JSON lines that only ever grows, safe against a process killed at any byte.

It may come from anybody. It is read line by line as it is unpacked, and no more than :data:`MOST` bytes of it, so that
a small file that unpacks to gigabytes is refused before they are in memory.

Every record is one line, on disk before the next measurement starts. A killed process leaves at most one partial last
line; a line counts once its line feed is there, so that partial line is never believed and is cut off by whoever
appends next. Damage anywhere else is reported, never skipped.
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
MOST = 512 * 2**20
"""bytes of an archive, unpacked: those of a quarter of a million measurements"""
LONGEST = 16 * 2**20
"""bytes of a line"""
CHUNK = 2**18
"""bytes that are read, or unpacked, at a time"""
UNPACKING = 256 * 2**20
"""bytes that unpacking may take: xz has a dictionary of as many as its writer wanted"""
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
        file = path.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    with file:
        return _read(file, path)[0]


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
            _check_uncompressed(self._file.peek(len(XZ_MAGIC)), path)
            recording, complete = _read(self._file, path)
            _check_same_device_and_protocol(recording.runs[-1:], run, path)
            self._file.truncate(complete)
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


def _open_locked(path: Path) -> BufferedRandom:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{path} cannot be opened: {os_reason(error)}; give another archive path") from error
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


def _read(file: BufferedReader | BufferedRandom, path: Path) -> tuple[Recording, int]:
    """Return what *file* holds from where it stands, and the bytes of its complete lines."""
    try:
        return _parse(_lines(_unpacked(file)), path)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ArchiveError:
    return ArchiveError(
        f"{path} cannot be read: {os_reason(error)}; give the path of an archive of measurements, as `loopyperf "
        "calibrate --archive PATH` writes one"
    )


def _unpacked(file: BufferedReader | BufferedRandom) -> Iterator[bytes]:
    """Yield what *file* holds, unpacked, in chunks."""
    magic = file.peek(len(XZ_MAGIC))
    if magic.startswith(XZ_MAGIC):
        return _of_xz(_chunks(file))
    return _chunks(gzip.GzipFile(fileobj=file) if magic.startswith(GZIP_MAGIC) else file)


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK), b"")


def _of_xz(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what *packed* chunks of xz are: a stream, or several."""
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
        raise EOFError("it ends before its end marker")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of *chunks*, each with its line feed, which the last one may lack; raises :class:`OSError`."""
    begun, total = b"", 0
    for chunk in chunks:
        total += len(chunk)
        *whole, begun = (begun + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if total > MOST or len(begun) > LONGEST:
            raise OSError(errno.EFBIG, f"it has more than {MOST:,} bytes, unpacked, or {LONGEST:,} in a line")
    yield begun


def _check_uncompressed(content: bytes, path: Path) -> None:
    if content.startswith((GZIP_MAGIC, XZ_MAGIC)):
        raise ArchiveError(f"{path} is compressed: it can be read, not appended to; unpack it, or give another path")


# }}}


# {{{ from bytes to records


def _parse(lines: Iterable[bytes], path: Path) -> tuple[Recording, int]:
    """Return what *lines* record, and the bytes of those that are complete."""
    complete = 0
    runs: dict[str, Run] = {}
    measurements: list[Measurement] = []
    sampled: list[Sampled] = []
    measured: set[Key] = set()
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            _check_cut_off(line, path)
            break
        complete += len(line)
        try:
            record = decode(line)
        except ArchiveError as error:
            raise ArchiveError(f"{path}, line {number}: {error}") from error
        if isinstance(record, Run):
            _check_same_device_and_protocol(tuple(runs.values())[:1], record, path)
            if record.id in runs:
                raise ArchiveError(f"{path}, line {number}: run {record.id!r:.80} is recorded twice")
            runs[record.id] = record
        elif record.run not in runs:
            raise ArchiveError(
                f"{path}, line {number}: belongs to run {record.run!r:.80}, which is not recorded before it; give "
                "another archive path"
            )
        elif isinstance(record, Measurement):
            measurements.append(record)
            measured.add(record.key)
        elif record.key in measured:
            sampled.append(record)
        else:
            raise ArchiveError(
                f"{path}, line {number}: has samples of {record.kernel_class!r:.80}, {record.label!r:.80}, "
                "which is not measured before it; give another archive path"
            )
    return Recording(tuple(runs.values()), tuple(measurements), tuple(sampled)), complete


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
