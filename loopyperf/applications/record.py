"""The record of an application: each distinct kernel with its sizes, and each launch and transfer in order.

A record is a file of JSON Lines that is appended to while the application runs, so that it is readable however the
application ends. The first line is a :class:`Start`; the last one is an :class:`End`, unless the process was killed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from loopyperf.errors import LoopyperfError

SUFFIX = ".lpp"
"""ending of the names of record files"""
FORMAT = 1

Work = Literal["kernel", "elementwise", "other kernel", "transfer"]
"""what an item is: a Loopy program, elementwise arithmetic of pyopencl, another kernel (e.g. a reduction or scan of
pyopencl), or a copy between host and device"""


class RecordError(LoopyperfError):
    """A file is not a record of an application, or cannot be read."""


# {{{ lines of the file


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The process that was recorded."""

    format: int
    """version of the format of the file"""
    command: list[str]
    """words of its command line"""
    began: str
    """date and time, in the format of ISO 8601"""
    versions: dict[str, str]
    """package -> version"""
    rank: int | None = None
    """MPI rank; None outside of MPI"""
    ranks: int | None = None
    """number of MPI ranks"""


class Array(msgspec.Struct, frozen=True):
    """An argument array of a call."""

    shape: list[int]
    """extents of its axes"""
    strides: list[int]
    """in bytes"""
    dtype: str
    """as :attr:`numpy.dtype.str`"""


class RecordedDevice(msgspec.Struct, frozen=True, tag="device"):
    """A device on which the application executed kernels."""

    number: int
    """its place in the record"""
    name: str
    """as its driver calls it"""


class ProgramLine(msgspec.Struct, frozen=True, tag="program"):
    """A Loopy program."""

    number: int
    """its place in the record"""
    name: str
    """name of its entry point"""
    text: str
    """the program by ``program_text.py``; empty if it has no plain form"""
    problem: str = ""
    """why it has none"""


class Item(msgspec.Struct, frozen=True, tag="item"):
    """A kind of work that the application did any number of times: a program at given sizes, or a transfer."""

    number: int
    """its place in the record"""
    work: Work
    """kind of work"""
    name: str
    """name of the kernel; of a transfer its direction, e.g. ``"host to device"``"""
    program: int | None = None
    """number of its program; None if it is not Loopy's"""
    sizes: dict[str, int] = {}
    """values of its integer arguments, including those that Loopy finds from the shapes of arrays"""
    layout: list[str] = []
    """those of :attr:`sizes` that are strides and offsets of arrays"""
    arrays: dict[str, Array] = {}
    """argument arrays by name"""
    size: int = 0
    """bytes of a transfer, or of the arrays of a kernel that is not Loopy's"""
    problem: str = ""
    """why the sizes are unknown"""


class CallSite(msgspec.Struct, frozen=True, tag="site"):
    """A chain of calls in the application, the outermost first."""

    number: int
    """its place in the record"""
    frames: list[tuple[str, str, int]]
    """(function, file, line) of each call"""


class Events(msgspec.Struct, frozen=True, tag="events"):
    """What happened next; one entry of each list per event."""

    items: list[int]
    """number of the :class:`Item`"""
    sites: list[int]
    """number of the :class:`CallSite`"""
    begins: list[float]
    """seconds since the start at which the host began the call"""
    host: list[float]
    """seconds that the host spent in the call"""
    device: list[float | None]
    """seconds that the device was busy; None if the device gives no times"""


class End(msgspec.Struct, frozen=True, tag="end"):
    """How the recording ended."""

    seconds: float
    """wall-clock seconds since the start"""
    how: str
    """``"complete"``, or what stopped the application"""
    notes: list[str] = []
    """what was not recorded"""


Line = Start | RecordedDevice | ProgramLine | Item | CallSite | Events | End

# }}}


class Event(NamedTuple):
    """A launch or transfer."""

    item: int
    """number of the :class:`Item`"""
    site: int
    """number of the :class:`CallSite`; -1 for none"""
    begin: float
    """seconds since the start at which the host began the call"""
    host: float
    """seconds that the host spent in the call"""
    device: float | None
    """seconds that the device was busy; None if the device gives no times"""


@dataclass
class Record:
    """What an application executed, in order."""

    start: Start
    """the process"""
    programs: list[ProgramLine] = field(default_factory=list[ProgramLine])
    """distinct programs"""
    items: list[Item] = field(default_factory=list[Item])
    """distinct work: programs at sizes, other kernels, transfers"""
    sites: list[CallSite] = field(default_factory=list[CallSite])
    """distinct call chains"""
    devices: list[RecordedDevice] = field(default_factory=list[RecordedDevice])
    """devices that executed kernels"""
    events: list[Event] = field(default_factory=list[Event])
    """launches and transfers"""
    end: End | None = None
    """None if the process stopped without a word"""

    @property
    def seconds(self) -> float:
        """Return the wall-clock seconds that were recorded; until the last event if the end is missing."""
        if self.end is not None:
            return self.end.seconds
        return max((begin + host for _, _, begin, host, _ in self.events), default=0.0)

    def add(self, line: Line) -> None:
        """Add the next line of the file; raises :class:`RecordError` if it does not follow the lines before it."""
        match line:
            case ProgramLine():
                _append(self.programs, line)
            case Item():
                _append(self.items, line)
            case CallSite():
                _append(self.sites, line)
            case RecordedDevice():
                _append(self.devices, line)
            case Events():
                columns = (line.items, line.sites, line.begins, line.host, line.device)
                self.events += (Event(*values) for values in zip(*columns, strict=True))
            case End():
                self.end = line
            case Start():
                raise RecordError("a second start")


def _append(lines: list[Any], line: Any) -> None:
    if line.number != len(lines):
        raise RecordError(f"{line.__struct_config__.tag} {line.number} after {len(lines) - 1}")
    lines.append(line)


def read_record(path: Path) -> Record:
    """Return the record in the file *path*; a last line that is cut off is left out.

    Raises :class:`RecordError` if it is not a record.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    try:
        found = [msgspec.json.decode(line, type=Line) for line in _whole(lines)]
        start, *others = found
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordError(f"{path} is not a record of `loopyperf profile`: {error}") from error
    if not isinstance(start, Start) or start.format != FORMAT:
        raise RecordError(f"{path} is not a record of this version of loopyperf; record the application again")
    record = Record(start)
    try:
        for line in others:
            record.add(line)
    except (RecordError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {error}") from error
    return record


def _whole(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines that were written to their end; a process that is killed may leave part of one."""
    yield from (line for line in lines if line.endswith(b"\n") and line.strip())


def array_bytes(arrays: Mapping[str, Array]) -> int:
    """Return the bytes of all elements of *arrays*."""
    return sum(np.dtype(array.dtype).itemsize * prod(array.shape) for array in arrays.values())
