"""The records of a measurement archive, each one line of JSON: which run, then what it measured.

A line's first field says which record it is. A :class:`Run` carries the schema version; the lines after it, up to the
next run, are of that schema. Those of an earlier one are brought up to date as they are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from math import inf
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, Self, cast
from uuid import uuid4

import msgspec
import numpy as np

from loopyperf.errors import ArchiveError, MeasurementError, ModelInputError
from loopyperf.measurement.environment import DeviceLimits, Environment, Sizes, incompatibilities
from loopyperf.measurement.protocol import Protocol, Summary
from loopyperf.models.sampling import SampledProgram

# {{{ records of earlier schemas as the current one has them
#
# So that archives from before are read and resumed.
#
# Schema 2 added rules to the protocol, and to a measurement what may be absent: the device's own samples, its clock and
# temperature, the yardstick and which attempt it was. Schema 3 added samples, lines that no earlier archive has. Only
# the line of a run changes.


Document = dict[str, object]
"""A line of an archive, as JSON has it."""


def upgrade_1_to_2(run: Document) -> Document:
    """Return a run of schema 1 with what its protocol did without saying so.

    All runs were made whatever they took, with warm caches, in the order of the kernel files; there was no yardstick.
    """
    protocol = run.get("protocol", {})
    if not isinstance(protocol, dict):
        raise ArchiveError(f"protocol is an object; received {protocol!r:.80}")
    protocol = cast("Document", protocol)
    fixed = {
        "fewest": _number(protocol, "runs", 30) - _number(protocol, "dropped", 4),
        "caches": "warm",
        "seed": None,
        "yardstick_runs": 0,
        "repeats": 0,
    }
    return {**run, "schema": 2, "protocol": {**protocol, **fixed}}


def upgrade_2_to_3(run: Document) -> Document:
    """Return a run of schema 2, after which there were no samples."""
    return {**run, "schema": 3}


UPGRADES: Mapping[int, Callable[[Document], Document]] = MappingProxyType({1: upgrade_1_to_2, 2: upgrade_2_to_3})
"""For each earlier schema, the function that makes its run one of the next."""


def upgraded(run: Document, schema: int) -> Document:
    """Return the line of a *run* of an earlier *schema* as one of the current schema.

    Raises :class:`ArchiveError` for a schema that never was.
    """
    if schema not in UPGRADES:
        raise ArchiveError(f"no loopyperf has written schema {schema}; the first one was {min(UPGRADES)}")
    while schema in UPGRADES:
        run = UPGRADES[schema](run)
        schema += 1
    return run


def _number(protocol: Document, name: str, default: int) -> int:
    value = protocol.get(name, default)
    if not isinstance(value, int):
        raise ArchiveError(f"protocol.{name} is a whole number; received {value!r}")
    return value


# }}}


# {{{ records


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
    limits: DeviceLimits
    protocol: Protocol

    @classmethod
    def start(cls, environment: Environment, limits: DeviceLimits, protocol: Protocol) -> Self:
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
    they are the same runs, on CUDA others (:class:`loopyperf.measurement.backends.backend.MeasuredTimes`)"""
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


# }}}


# {{{ which of several takes of a measurement stands: those of a slow device were repeated


class Takes:
    """Probes and measurements by what was measured, each as often as it was taken; without those of yardsticks."""

    def __init__(self, measurements: Iterable[Measurement] = ()) -> None:
        """Begin with *measurements*, in the order in which they were taken."""
        self._taken: dict[Key, list[Measurement]] = {}
        self._standing: dict[Key, Measurement] = {}
        for measurement in measurements:
            self.add(measurement)

    def add(self, measurement: Measurement) -> None:
        """Take note of *measurement*."""
        if measurement.kind == "yardstick":
            return
        taken = self._taken.setdefault(measurement.key, [])
        taken.append(measurement)
        self._standing[measurement.key] = standing(taken)

    def of(self, key: Key) -> Sequence[Measurement]:
        """Return all takes of *key*, in the order in which they were taken; empty if there is none."""
        return tuple(self._taken.get(key, ()))

    @property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return the take that stands of each measurement and probe, by what was measured."""
        return MappingProxyType(self._standing)


def standing(taken: Sequence[Measurement]) -> Measurement:
    """Return the one of *taken* during which the device was fastest, by the yardstick; the latest of equal ones."""
    return min(reversed(taken), key=lambda each: inf if each.yardstick is None else each.yardstick)


# }}}


# {{{ how much the times of a device differ though it does the same
#
# Told by a kernel that is timed again and again.
#
# A shared processor is slower while its neighbours work, a GPU once it has become warm: phases of milliseconds to
# minutes, in which every run is slow and no minimum helps. The *yardstick* is a short kernel that always does the same.


USUAL = 25
"""percentile of the yardstick's times that is usual: a device may be slow for most of a campaign"""
WITHIN = (16, 84)
"""percentiles a standard deviation below and above the median, of what is distributed normally"""


def usual(seconds: Sequence[float]) -> float:
    """Return the seconds that the yardstick takes on a device that nothing slows down, from all that it took."""
    return float(np.percentile(seconds, USUAL))


def noise_floor(seconds: Sequence[float]) -> float | None:
    """Return the standard deviation of the yardstick's *seconds*, relative to their median; None for less than two.

    By quantiles, which a few outliers do not change: no model predicts times better than they repeat.
    """
    if len(seconds) < 2:
        return None
    low, middle, high = np.percentile(seconds, [WITHIN[0], 50, WITHIN[1]])
    return float((high - low) / 2 / middle)


def reference_times(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the seconds of each time that the yardstick was taken, at the size that it was taken at last."""
    taken = [each for each in measurements if each.kind == "yardstick"]
    return tuple(min(each.samples) for each in taken if each.sizes == taken[-1].sizes)


def around(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the seconds of the yardstick around each of *measurements*, the longer of before and after.

    Of the takes that stand, these tell how much what is fitted differs for the device's sake: what was measured in a
    slow phase and then again is not among them.
    """
    return tuple(each.yardstick for each in measurements if each.yardstick is not None)


# }}}
