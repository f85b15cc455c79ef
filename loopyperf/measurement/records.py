"""The records of a measurement archive, each one line of JSON: a run, then its measurements.

The first field of a line is its record type. A :class:`Run` carries the schema version, which applies to the lines up
to the next run.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from math import inf
from typing import Annotated, Literal, NamedTuple, Self
from uuid import uuid4

import msgspec
import numpy as np

from loopyperf.errors import ArchiveError, MeasurementError, ModelInputError, brief, later_schema
from loopyperf.files import Whole
from loopyperf.measurement.environment import DeviceLimits, Environment, Sizes, incompatibilities
from loopyperf.measurement.protocol import Protocol, Summary
from loopyperf.models.sampling import SampledProgram

# {{{ records


SCHEMA = 3
"""schema that this version reads and writes"""

Kind = Literal["probe", "measurement", "yardstick"]
"""a short run to learn how long a size takes; a measurement for fits; a run of the reference kernel"""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Key(NamedTuple):
    """Identity of a measurement: records with equal keys are of the same kernel at the same sizes."""

    kernel_class: str
    label: str
    sizes: tuple[tuple[str, int], ...]
    kind: Kind

    @classmethod
    def of(cls, kernel_class: str, label: str, sizes: Sizes, kind: Kind) -> Self:
        """Return the key of a kernel at *sizes*, whose order is irrelevant."""
        return cls(kernel_class, label, tuple(sorted((name, int(value)) for name, value in sizes.items())), kind)


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="record"):
    """A measuring session: environment, limits and protocol."""

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
        """Return the differences of *other* from this run that prevent combining their samples."""
        fields = incompatibilities(self.environment, other.environment)
        reasons = [(name, getattr(self.environment, name), getattr(other.environment, name)) for name in fields]
        rules = self.protocol.differences(other.protocol)
        reasons += [(f"protocol.{name}", getattr(self.protocol, name), getattr(other.protocol, name)) for name in rules]
        return tuple(f"{name} is {received!r:.60} instead of {recorded!r:.60}" for name, recorded, received in reasons)


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="measurement", tag_field="record"):
    """Raw samples of one kernel at one size."""

    run: str
    """:attr:`Run.id` of its run, which has the protocol"""
    kernel_class: str
    """``NAME`` of the kernel file"""
    label: str
    """label of the configuration"""
    sizes: dict[str, Size]
    kind: Kind
    samples: Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1)]
    """wall-clock seconds of each run, in order"""
    device_samples: tuple[Seconds, ...] | None = None
    """seconds of as many runs by the device's clock, without the launch; None where the backend has no such clock. On
    OpenCL they are the same runs, on CUDA others (:class:`loopyperf.measurement.backends.backend.MeasuredTimes`)"""
    attempt: Annotated[int, msgspec.Meta(ge=1)] = 1
    """1 for the first measurement, 2 for its first repeat after the device was slow, and so on"""
    yardstick: Seconds | None = None
    """seconds of the reference kernel before or after, the longer of the two; None without a reference kernel"""
    taken: datetime
    """UTC time of the last sample"""

    @property
    def key(self) -> Key:
        """Return the measurement's key."""
        return Key.of(self.kernel_class, self.label, self.sizes, self.kind)

    def summary(self, protocol: Protocol) -> Summary:
        """Return minimum, median and spread of the wall-clock samples that count by *protocol*, that of its run.

        Raises :class:`MeasurementError` for a probe, which has too few samples.
        """
        return protocol.summary(self.samples)


class Sampled(msgspec.Struct, frozen=True, kw_only=True, tag="sampled", tag_field="record"):
    """Times of the first groups of a measured kernel, from which the sampled model predicts its run time."""

    run: str
    """:attr:`Run.id` of its run"""
    kernel_class: str
    label: str
    sizes: dict[str, Size]
    programs: Annotated[tuple[SampledProgram, ...], msgspec.Meta(min_length=1)]
    """the kernel's device programs, each with its samples, Psat, number of groups, and the work of both"""
    launching: Seconds
    """host time in seconds that the device's clock does not include"""
    taken: datetime
    """UTC time of the last sample"""

    @property
    def key(self) -> Key:
        """Return the key of the measurement of all groups."""
        return Key.of(self.kernel_class, self.label, self.sizes, "measurement")

    @property
    def is_whole(self) -> bool:
        """Return whether all groups were run because fewer do not suffice; then there is nothing to learn."""
        return all(program.samples.is_whole for program in self.programs)


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="decision", tag_field="record"):
    """A decision of a tuning: which point was selected, what was expected of it, and why it was not measured."""

    run: str
    """:attr:`Run.id` of its run"""
    space: str
    """identity of the space, the sizes and the function that builds the points"""
    label: str
    """name of the point; its measurement, if there is one, has the same label"""
    predicted: Seconds
    """predicted seconds"""
    regret: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """relative distance from the least time that was possible before this decision; None before any measurement"""
    failure: str = ""
    """reason why the point has no measurement; empty if it has one"""
    kernel: str = ""
    """digest of its program; empty if it could not be built"""
    taken: datetime
    """UTC time"""


Record = Run | Measurement | Sampled | Decision


class _Header(msgspec.Struct):
    """Fields common to the records of all schemas."""

    schema: Whole = SCHEMA
    written_by: str = ""


def encode(record: Record) -> bytes:
    """Return *record* as one line including the line feed.

    Raises :class:`ArchiveError` for a record that could not be read back, such as one with a NaN sample.
    """
    try:
        line = msgspec.json.encode(record)
    except TypeError as error:
        raise ArchiveError(f"cannot write a record as JSON: {error}; got {record}") from error
    if decode(line) != record:
        raise ArchiveError(f"a record changes when written and read back: {record}")
    return line + b"\n"


def decode(line: bytes) -> Record:
    """Return the record of *line*; raises :class:`ArchiveError` if it is not a record or has another schema."""
    try:
        header = msgspec.json.decode(line, type=_Header)
        if header.schema > SCHEMA:
            raise ArchiveError(later_schema("the record", header.schema, SCHEMA, header.written_by))
        if header.schema < SCHEMA:
            raise ArchiveError(f"schema {header.schema} was never released; measure again")
        return msgspec.json.decode(line, type=Record)
    except (ValueError, RecursionError, MeasurementError, ModelInputError) as error:  # msgspec's errors are the first
        raise ArchiveError(
            f"not a record of a measurement archive ({brief(error)}); use another archive path"
        ) from error


# }}}


# {{{ which repeat of a measurement counts: those of a slow device are repeated


def standing(taken: Sequence[Measurement]) -> Measurement:
    """Return the one of *taken* with the fastest reference kernel; the latest of equal ones."""
    return min(reversed(taken), key=lambda each: inf if each.yardstick is None else each.yardstick)


# }}}


# {{{ variation of a device's times under constant work
#
# A kernel that is timed repeatedly shows it.
#
# A shared processor is slower while other processes run, a GPU once it is warm: in phases of milliseconds to minutes
# every run is slow and no minimum helps. The *reference kernel* ("yardstick" in archives) is a short kernel with
# constant work.


USUAL_PERCENTILE = 25
"""percentile of the reference times regarded as usual; low, because a device may be slow for most of a campaign"""
DEVIATION_PERCENTILES = (16, 84)
"""percentiles one standard deviation below and above the median of a normal distribution"""


def usual(seconds: Sequence[float]) -> float:
    """Return the reference kernel's time in seconds on an undisturbed device, from all its times."""
    return float(np.percentile(seconds, USUAL_PERCENTILE))


def noise_floor(seconds: Sequence[float]) -> float | None:
    """Return the standard deviation of the reference times *seconds* relative to their median; None for fewer than two.

    It is estimated from quantiles, which a few outliers do not change. No model predicts times better than they repeat.
    """
    if len(seconds) < 2:
        return None
    low, middle, high = np.percentile(seconds, [DEVIATION_PERCENTILES[0], 50, DEVIATION_PERCENTILES[1]])
    return float((high - low) / 2 / middle)


def reference_times(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the seconds of each reference measurement at the size of the latest one."""
    taken = [each for each in measurements if each.kind == "yardstick"]
    return tuple(min(each.samples) for each in taken if each.sizes == taken[-1].sizes)


def around(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the reference time in seconds around each of *measurements*, the longer of before and after.

    For the repeats that count, these show the device's variation in the fitted data. Superseded measurements of a slow
    phase are not included.
    """
    return tuple(each.yardstick for each in measurements if each.yardstick is not None)


# }}}
