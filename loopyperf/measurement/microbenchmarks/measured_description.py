"""A device's parameters from an archive of microbenchmarks, each number with its method of measurement.

A number that could not be determined is absent; :attr:`MeasuredDescription.refusals` has the reason.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from loopyperf.device.description import CoreLimits, Device, InstructionTiming, MemoryLevel, Throughput
from loopyperf.device.lambdas import DRAM
from loopyperf.device.parts import Lanes, Per, Quantity, SharedPipeline
from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.campaign import (
    EMPTY_KERNEL,
    ProgressReport,
    TimeLimit,
    keep,
    measure,
    report_stage,
    unfinished_archive,
)
from loopyperf.measurement.environment import Configuration
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.measurement.microbenchmarks.instruction_benchmarks import (
    LOCAL_LOAD,
    Latencies,
    MeasuredMix,
    Refusal,
    instructions,
    measured_mix,
)
from loopyperf.measurement.microbenchmarks.memory_benchmarks import (
    BANKS,
    CHASE,
    WORD,
    MemoryBenchmarks,
    conflict_cost,
    has_banks,
    memories,
)
from loopyperf.measurement.microbenchmarks.pace import (
    FULL,
    SHORT,
    Core,
    Estimated,
    core_of,
    paces,
    with_smaller_arrays,
)
from loopyperf.measurement.records import Run
from loopyperf.units import listed

# {{{ device parameters


REPORTED = "reported by the driver"
MIX = "instruction mix"
MULTIPLY_ADD = "fma f32"
"""first kind of the mix; the second is the special function"""
DIGITS = 4
"""significant digits of written measurements"""

Numbers = list[tuple[str, Quantity]]


@dataclass(frozen=True, slots=True)
class MeasuredDescription:
    """Measured device parameters."""

    device: Device
    refusals: tuple[Refusal, ...]
    """absent quantities and the reasons"""


def describe(recording: Recording, clock: float | None = None) -> MeasuredDescription:
    """Return the parameters of the device of *recording*, in cycles of *clock* Hz or of the driver's clock.

    Raises :class:`MeasurementError` if nothing was measured or no clock is known.
    """
    return _Description(recording, clock).described()


class _Description:
    def __init__(self, recording: Recording, clock: float | None) -> None:
        self.recording = recording
        self.core: Core = core_of(recording, clock)
        self.run: Run = recording.runs[-1]
        self.given = clock is not None
        self.slug = self.run.environment.slug
        found = instructions(recording, self.core)
        self.latencies = {each.name: each for each in found if isinstance(each, Latencies)}
        self.refusals = [each for each in found if isinstance(each, Refusal)]
        self.memories = memories(recording, self.core)
        if not self.memories and paces(recording, CHASE):
            self.refusals.append(Refusal("caches", "the pointer chase has no constant time at the smallest sizes"))
        self.mix = self._mix()

    def described(self) -> MeasuredDescription:
        environment = self.run.environment
        device = Device(
            slug=self.slug,
            name=environment.device,
            vendor=environment.vendor,
            architecture="not reported by the driver",
            note=self._note(),
            lanes=Lanes.IN_TURN if environment.is_processor else Lanes.TOGETHER,
            pipelines=tuple(self._pipelines()),
            limits=CoreLimits(slug=self.slug, place="limits").stating(**dict(self._limits())),
            throughput=Throughput(slug=self.slug, place="throughput"),
            instructions=tuple(self._instructions()),
            memory=tuple(self._levels()),
        ).stating(**dict(self._own()))
        return MeasuredDescription(device, tuple(self.refusals))

    # {{{ the device's own numbers

    def _own(self) -> Iterator[tuple[str, Quantity]]:
        yield "cores", Quantity(self.core.cores, "cores", REPORTED)
        yield "clock", Quantity(self.core.clock / 1e6, "MHz", "given by the user" if self.given else REPORTED)
        if self.core.warp_size > 1:
            yield "warp_size", Quantity(self.core.warp_size, "work-items", REPORTED)
        if (limit := self._issue_limit()) is not None:
            source = self._source(f"{MIX} of multiply-adds and 1/√x, slope over the number of multiply-adds, {limit}")
            yield "issue_limit", Quantity(_rounded(limit.value), "warp instructions/cycle", source)
        empty = [m for m in self.recording.completed.values() if m.kernel_class == EMPTY_KERNEL]
        taken = [self.run.protocol.measured_time(m.samples) for m in empty if m.kind == "measurement"]
        if taken:
            source = self._source("empty kernel, wall-clock time; without a copy")
            yield "host_wait", Quantity(_rounded(min(taken) * 1e6), "µs", source)

    def _pipelines(self) -> Iterator[tuple[str, SharedPipeline]]:
        if self.mix is not None and self.mix.separate is False:
            yield "sfu", SharedPipeline("alu", self._source(f"{MIX} of multiply-adds and 1/√x"))

    def _limits(self) -> Iterator[tuple[str, Quantity]]:
        limits = self.run.limits
        yield "work_items_per_group", Quantity(limits.group_size, "work-items", REPORTED)
        yield "local_memory_per_group", _size(limits.local_memory, REPORTED)

    def _note(self) -> str:
        words = "Measured by loopyperf microbenchmark; quantities that could not be measured are absent."
        if self.core.warp_size > 1:
            return words
        return (
            f"{words} The driver reports no warp size, so a warp is one work-item, as on a CPU; the times depend "
            "on how the compiler executes several work-items: by vector instructions or in turn."
        )

    # }}}

    # {{{ instructions

    def _instructions(self) -> Iterator[InstructionTiming]:
        for name, found in [*self.latencies.items(), *self._global_loads()]:
            fields = {"issue": found.issue, "completion": found.completion}
            numbers = {
                field: self._cycles(number, found, field) for field, number in fields.items() if number is not None
            }
            if numbers:
                yield InstructionTiming(slug=self.slug, place=f"instructions.{name}").stating(**numbers)
            else:
                self.refusals.append(Refusal(name, f"both latencies are below their errors ({found.how})"))

    def _cycles(self, number: Estimated, found: Latencies, field: str) -> Quantity:
        bound = "upper bound from the smallest number of warps, " if found.at_most and field == "completion" else ""
        return Quantity(_rounded(number.value), "cycles", self._source(f"{found.how}, {bound}{number}"))

    def _global_loads(self) -> Iterator[tuple[str, Latencies]]:
        """Yield loads from DRAM, whose λ follows from a core's share of the bandwidth (Lemeire, section 4.3)."""
        for memory in self.memories:
            if memory.name == DRAM and memory.bandwidth is not None:
                moved = self.core.cores * self.core.warp_size * WORD * self.core.clock
                issue = Estimated(
                    moved / memory.bandwidth.value, moved / memory.bandwidth.value**2 * memory.bandwidth.error
                )
                yield (
                    "load global b32",
                    Latencies("load global b32", issue, memory.level.latency, "pointer chase and streaming from DRAM"),
                )

    def _mix(self) -> MeasuredMix | None:
        taken = paces(self.recording, MIX)
        try:
            each = [self.core.cycles_each(pace) / self.core.warps(pace) for pace in taken]
            return measured_mix([pace.sizes["beta"] for pace in taken], each) if taken else None
        except MeasurementError as error:
            self.refusals.append(Refusal("issue limit", str(error)))
            return None

    def _issue_limit(self) -> Estimated | None:
        multiply_add = self.latencies.get(MULTIPLY_ADD)
        if self.mix is None or multiply_add is None or multiply_add.issue is None:
            return None
        return self.mix.issue_limit(multiply_add.issue)

    # }}}

    # {{{ memories

    def _levels(self) -> Iterator[MemoryLevel]:
        if LOCAL_LOAD in self.latencies:
            yield self._memory("local", Per.CORE, self._local())
        for number, memory in enumerate(self.memories):
            yield self._memory(memory.name, Per.DEVICE if number else Per.CORE, self._level(memory))
        yield from self._reported_memories()

    def _local(self) -> Iterator[tuple[str, Quantity]]:
        found = self.latencies[LOCAL_LOAD]
        if found.completion is not None:
            yield "latency", self._cycles(found.completion, found, "completion")
        if has_banks(conflict_cost(self.recording, self.core)):
            source = self._source("the time of a load grows in proportion to its accesses of a bank, from 1 to 32")
            yield "banks", Quantity(BANKS, "banks", source)
            yield "bank_width", Quantity(WORD, "B", source)

    def _level(self, memory: MemoryBenchmarks) -> Iterator[tuple[str, Quantity]]:
        level = memory.level
        if memory.name == DRAM:
            yield from self._own_memory()
        elif level.holds_not is not None:
            source = f"pointer chase, largest size before the time increases; longer at {level.holds_not} B"
            yield "size", _size(level.holds, self._source(source))
        how = f"pointer chase, random order, index arithmetic included, {level.latency}"
        yield "latency", Quantity(_rounded(level.latency.value), "cycles", self._source(how))
        if memory.bandwidth is not None:
            source = self._source(f"streaming, all cores reading at stride 1, {memory.bandwidth}")
            yield "sustained_bandwidth", Quantity(_rounded(memory.bandwidth.value / 1e9), "GB/s", source)

    def _own_memory(self) -> Iterator[tuple[str, Quantity]]:
        if self.run.limits.memory is not None:
            yield "size", _size(self.run.limits.memory, REPORTED)

    def _reported_memories(self) -> Iterator[MemoryLevel]:
        """Yield memories that only the driver reports; it does not specify the level of its cache."""
        limits = self.run.limits
        if limits.cache is not None:
            numbers: Numbers = [("size", _size(limits.cache, REPORTED))]
            numbers += [("line", Quantity(limits.cache_line, "B", REPORTED))] if limits.cache_line else []
            yield self._memory("cache", Per.DEVICE, numbers)
        if DRAM not in [memory.name for memory in self.memories] and limits.memory is not None:
            yield self._memory(DRAM, Per.DEVICE, self._own_memory())

    def _memory(self, name: str, per: Per, numbers: Iterable[tuple[str, Quantity]]) -> MemoryLevel:
        return MemoryLevel(slug=self.slug, place=f"memory.{name}", per=per).stating(**dict(numbers))

    # }}}

    def _source(self, how: str) -> str:
        environment = self.run.environment
        return f"measured {self.run.started:%Y-%m-%d}, {how}; {environment.backend} driver {environment.driver}"


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _size(nbytes: int, source: str) -> Quantity:
    """Return *nbytes* in the largest unit that divides it."""
    unit, factor = next(
        (name, factor)
        for name, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
        if nbytes % factor == 0
    )
    return Quantity(nbytes // factor, unit, source)


# }}}


KERNELS = "measurement_kernels/microbenchmarks"
"""folder of the kernel files, separate from those used for fits"""
MAX_NAMED = 4
"""maximum number of configurations named in a refusal"""
QUICK_SECONDS = 50.0
"""seconds of measuring in a quick run"""


def microbenchmark(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    clock: float | None = None,
    quick: bool = False,
    progress: ProgressReport | None = None,
) -> MeasuredDescription:
    """Measure a device with microbenchmarks and return its parameters.

    Every raw sample is stored in *archive*, by default in the user data folder, where an interrupted run is resumed and
    a finished archive is kept under its date. *clock* is in Hz, by default the driver's; *quick* uses fewer runs and
    smaller arrays, and takes about a minute: what it has no time for is reported as absent.

    A kernel that does not compile, as with double precision on some devices, or computes a wrong result is reported as
    absent, with the reason.

    Raises :class:`BackendError` without a device, :class:`MeasurementError` if no clock is known or even the empty
    kernel cannot be measured, and :class:`IncompatibleRunsError` for an archive of another device or protocol.
    """
    machine = opened(backend, device)
    files = load_kernel_files(bundled_folder(KERNELS))
    chosen, protocol = (with_smaller_arrays(files), SHORT) if quick else (files, FULL)
    purpose = "quick-microbenchmarks" if quick else "microbenchmarks"
    path = unfinished_archive(machine, purpose) if archive is None else Path(archive)
    failures: list[Refusal] = []

    def on_failure(kernel_class: str, failed: Configuration, error: MeasurementError) -> None:
        failures.append(Refusal(f"{kernel_class}, {failed.label}", str(error)))

    limit = TimeLimit(QUICK_SECONDS) if quick else None
    recording = measure(machine, chosen, path, protocol, progress, on_failure, limit=limit)
    if limit is not None and limit.left_out:
        names = (f"{name} {left.label}" for name, left in limit.left_out)
        failures.append(Refusal(listed(names, MAX_NAMED, "; "), "no time in a quick run"))
    report_stage("evaluating", progress)
    described = describe(recording, clock)
    if archive is None:
        keep(path)
    return replace(described, refusals=(*described.refusals, *failures))


def described_by(archive: str | os.PathLike[str], clock: float | None = None) -> MeasuredDescription:
    """Return the parameters of the device of *archive*, without running anything."""
    recording: Recording = read_archive(archive)
    return describe(recording, clock)
