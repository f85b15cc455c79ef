"""The records of a measurement archive, each one line of JSON: which run, then what it measured.

A line's first field says which record it is. A :class:`Run` carries the schema version; the lines after it, up to the
next run, are of that schema. Those of an earlier one are brought up to date as they are read
(:mod:`loopyperf.measurement.upgrades`).
"""

from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Literal, NamedTuple, Self
from uuid import uuid4

import msgspec

from loopyperf.errors import ArchiveError, MeasurementError, ModelInputError
from loopyperf.measurement.configuration import Limits, Sizes
from loopyperf.measurement.environment import Environment, incompatibilities
from loopyperf.measurement.protocol import Protocol, Summary
from loopyperf.measurement.upgrades import upgraded
from loopyperf.models.sampling import SampledProgram

SCHEMA = 3
"""The schema that this version writes, and the latest that it reads."""

Kind = Literal["probe", "measurement", "yardstick"]
"""a short look at how long a size takes; what fits are made from; the kernel that tells how fast the device is"""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Key(NamedTuple):
    """What was measured: two records with equal keys are of the same kernel at the same sizes."""

    kernel_class: str
    label: str
    sizes: tuple[tuple[str, int], ...]
    kind: Kind

    @classmethod
    def of(cls, kernel_class: str, label: str, sizes: Sizes, kind: Kind) -> Self:
        """Return the key of a kernel at *sizes*, in whatever order these stand."""
        return cls(kernel_class, label, tuple(sorted((name, int(value)) for name, value in sizes.items())), kind)


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="record"):
    """A session in which measurements were taken: where, and by which rules."""

    schema: int = SCHEMA
    written_by: str
    """version of loopyperf"""
    id: str
    started: datetime
    """in UTC"""
    environment: Environment
    limits: Limits
    protocol: Protocol

    @classmethod
    def start(cls, environment: Environment, limits: Limits, protocol: Protocol) -> Self:
        """Return a run that starts now."""
        return cls(
            written_by=metadata.version("loopyperf"),
            id=uuid4().hex,
            started=datetime.now(UTC),
            environment=environment,
            limits=limits,
            protocol=protocol,
        )

    def differences(self, other: "Run") -> tuple[str, ...]:
        """Return in what *other* differs from this run so that their samples must not stand side by side."""
        fields = incompatibilities(self.environment, other.environment)
        reasons = [(name, getattr(self.environment, name), getattr(other.environment, name)) for name in fields]
        rules = self.protocol.differences(other.protocol)
        reasons += [(f"protocol.{name}", getattr(self.protocol, name), getattr(other.protocol, name)) for name in rules]
        return tuple(f"{name} is {received!r} instead of {recorded!r}" for name, recorded, received in reasons)


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="measurement", tag_field="record"):
    """The raw samples of one kernel at one size."""

    run: str
    """the :attr:`Run.id` it belongs to, which has the protocol"""
    kernel_class: str
    """the ``NAME`` of the kernel file"""
    label: str
    """the label of the configuration"""
    sizes: dict[str, Size]
    kind: Kind
    samples: Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1)]
    """wall-clock seconds of every run, in order"""
    device_samples: tuple[Seconds, ...] | None = None
    """seconds of as many runs by the device's clock, without the launch; None where the backend cannot tell. On OpenCL
    they are the same runs, on CUDA others (:class:`loopyperf.measurement.backends.interface.Timing`)"""
    attempt: Annotated[int, msgspec.Meta(ge=1)] = 1
    """2 if it was measured again because the device was slow the first time, and so on"""
    yardstick: Seconds | None = None
    """seconds that the yardstick took before or after, whichever was longer; None where there is none"""
    clock: float | None = None
    """Hz of the device's cores, about then; None where it cannot be read"""
    temperature: float | None = None
    """of the device in °C, about then; None where it cannot be read"""
    taken: datetime
    """when the last sample was in, in UTC"""

    @property
    def key(self) -> Key:
        """Return what was measured."""
        return Key.of(self.kernel_class, self.label, self.sizes, self.kind)

    def summary(self, protocol: Protocol) -> Summary:
        """Return minimum, median and spread of the wall-clock samples that count by *protocol*, that of its run.

        Raises :class:`MeasurementError` for a probe, whose samples are too few.
        """
        return protocol.summary(self.samples)


class Sampled(msgspec.Struct, frozen=True, kw_only=True, tag="sampled", tag_field="record"):
    """What the first groups of a measured kernel took, from which the sampled model tells what all of them take."""

    run: str
    """the :attr:`Run.id` it belongs to"""
    kernel_class: str
    label: str
    sizes: dict[str, Size]
    programs: Annotated[tuple[SampledProgram, ...], msgspec.Meta(min_length=1)]
    """the kernel's device programs, each with its samples, Psat, all its groups, and the work of those and of these"""
    launching: Seconds
    """that the host takes beside what the device's clock tells"""
    taken: datetime
    """when the last sample was in, in UTC"""

    @property
    def key(self) -> Key:
        """Return under which key the measurement of all groups stands."""
        return Key.of(self.kernel_class, self.label, self.sizes, "measurement")

    @property
    def is_whole(self) -> bool:
        """Return whether all groups were run, as fewer would not tell: then there is nothing to learn from."""
        return all(each.samples.is_whole for each in self.programs)


Record = Run | Measurement | Sampled


class _Header(msgspec.Struct):
    """What a record of any schema has."""

    schema: int = SCHEMA
    written_by: str = "a later version"


def encode(record: Record) -> bytes:
    """Return *record* as one line, line feed included.

    Raises :class:`ArchiveError` for what could not be read back, a sample that is not a number for instance.
    """
    try:
        line = msgspec.json.encode(record)
    except TypeError as error:
        raise ArchiveError(f"a record that JSON cannot hold: {error}; received {record}") from error
    if decode(line) != record:
        raise ArchiveError(f"a record that does not survive being written: {record}")
    return line + b"\n"


def decode(line: bytes) -> Record:
    """Return the record that *line* holds, brought up to the current schema.

    Raises :class:`ArchiveError` if it is not a record, or of a later schema.
    """
    try:
        header = msgspec.json.decode(line, type=_Header)
        _check_schema(header)
        if header.schema < SCHEMA:
            document = msgspec.json.decode(line, type=dict[str, object])
            return msgspec.convert(upgraded(document, header.schema), Record)
        return msgspec.json.decode(line, type=Record)
    except (ValueError, RecursionError, MeasurementError, ModelInputError) as error:  # msgspec's errors are the first
        raise ArchiveError(
            f"not a record of a measurement archive ({error!s:.300}); give another archive path"
        ) from error


def _check_schema(header: _Header) -> None:
    if header.schema > SCHEMA:
        raise ArchiveError(
            f"written by loopyperf {header.written_by} with schema {header.schema}, and this version reads up to "
            f"schema {SCHEMA}; install that version: pip install 'loopyperf>={header.written_by}'"
        )
