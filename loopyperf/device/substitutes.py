"""What is assumed where a description lacks a number that models need, and as what: never more than one step.

A number of the same device comes first, where the hardware has one reason for both (:data:`AS_HERE`); then that of the
nearest relative that states it: of the vendor, with warps of that size, and of the nearest generation. A compute
capability (``"8.6"``) or a name of LLVM's (``"gfx90a"``) is a number, and generations lie as far apart as these.
Throughputs keep their ratio to ``f32``, and bandwidths of caches that all cores share theirs to ``DRAM``. What tells
one product from the next is never assumed: its cores, its clock, ``throughput.f32`` and the bandwidth of ``DRAM``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, log
from typing import TypeVar

from loopyperf.device.description import (
    LATENCY_FIELDS,
    AnyPart,
    CoreLimits,
    Device,
    InstructionTiming,
    LatencyField,
    Limit,
    MemoryLevel,
    Throughput,
)
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.device.lambdas import BYTES, DRAM, LOAD_LOCAL, bandwidth, bytes_per_cycle, level_latency
from loopyperf.device.parts import Lanes, Per, RegisterAllocation, Row, Substitute
from loopyperf.errors import MissingNumberError

Completed = TypeVar("Completed", bound=AnyPart)
LOCAL = "local"
LIMITS: tuple[Limit, ...] = ("warps", "groups", "registers", "register_unit", "local_memory", "local_memory_unit")
"""of a core, that every occupancy needs; beside these one that depends on what registers are allocated to"""
ROWS: Mapping[Row, str] = {
    "f32": "add f32",
    "f64": "fma f64",
    "special": "special f32",
    "integer_add": "add i32",
    "integer_multiply": "mul i32",
    "shift": "shift i32",
    "compare": "compare i32",
    "logic": "logic i32",
    "convert": "convert f32",
}
"""row of the throughput table -> the instruction that stands for it"""
AS_HERE: Mapping[str, str] = {
    "add i32": "add f32",
    "mul i32": "add f32",
    "shift i32": "add f32",
    "compare i32": "add f32",
    "logic i32": "add f32",
    "convert f32": "special f32",
}
"""instruction -> the one of the same device whose Λ it has: other results of the same lanes"""
MADE_OF: Mapping[str, tuple[int, str]] = {
    "add i64": (2, "add i32"),
    "mul i64": (4, "mul i32"),
    "shift i64": (2, "shift i32"),
    "logic i64": (2, "logic i32"),
    "compare i64": (2, "compare i32"),
    "min/max i64": (2, "compare i32"),
    "add f16": (1, "add f32"),
    "mul f16": (1, "mul f32"),
    "fma f16": (1, "fma f32"),
    "compare f64": (1, "add f64"),
    "min/max f64": (1, "add f64"),
}
"""instruction of no row of the throughput table -> how many of which it takes as long as"""
BARRIER = "barrier"
BARRIER_ISSUE = 1
"""cycles"""
GEFORCE_BLACKWELL = 12.0
"""compute capability of the successors of the GeForce cards of capability 8.9, and no relatives of 9.0 and 10.0"""


FOR_DOUBLES = (6.0, 7.0, 8.0, 9.0, 10.0, 10.3)
"""compute capabilities of chips that are built for double precision: from Pascal on they are a line of their own"""


def lacking(device: Device) -> tuple[str, ...]:
    """Return what the description of *device* lacks that is never assumed: without it no model of a device answers."""
    dram = next((level for level in device.memory if level.name == DRAM), None)
    stated = {
        "cores": device.cores,
        "clock": device.clock,
        "throughput.f32": device.resting_on("issue", "add", "f32"),
        f"memory.{DRAM}.bandwidth": dram and bandwidth(dram),
    }
    return tuple(name for name, number in stated.items() if not number)


@lru_cache(maxsize=256)
def completed(device: Device) -> Device:
    """Return *device* with what models need and its description lacks, as far as that can be assumed.

    Each number that is assumed is an :class:`Substitute` one, whose source says as what. A processor has no relatives.
    """
    return _Completion(device).device()


# {{{ relatives


def relatives(device: Device) -> Iterator[Device]:
    """Yield the bundled descriptions, the nearest to *device* first: of its vendor, its generation, its size."""
    position = _position(device)

    def distance(other: Device) -> tuple[bool, bool, bool, float, float, str]:
        is_strange = other.vendor.casefold() != device.vendor.casefold()
        is_wide = device.warp_size is not None and other.warp_size != device.warp_size
        there = _target(other.target)
        apart = 0.0 if is_strange or position is None else abs(there - position)
        is_other_line = not is_strange and (there in FOR_DOUBLES) is not (position in FOR_DOUBLES)
        return is_strange, is_wide, is_other_line, apart, _sizes_apart(device, other), other.slug

    yield from sorted(_bundled(), key=distance)


@lru_cache(maxsize=1)
def _bundled() -> tuple[Device, ...]:
    return tuple(load_description(path) for path in sorted(BUNDLED.glob("*.toml")))


def _position(device: Device) -> float | None:
    """Return where the generation of *device* lies among those of its vendor; None where nothing tells."""
    told = _target(device.target)
    if told < inf:
        return told
    same = [each for each in _bundled() if each.vendor.casefold() == device.vendor.casefold()]
    named = [each for each in same if each.architecture.casefold() == device.architecture.casefold()]
    return max((_target(each.target) for each in named or same), default=None)


def _target(target: str) -> float:
    """Return a compute capability, or LLVM's name of an AMD device, as a number; infinity for anything else."""
    try:
        number = int(target[3:], 16) if target.startswith("gfx") else float(target)
    except ValueError:
        return inf
    return 8.9 + number - GEFORCE_BLACKWELL if GEFORCE_BLACKWELL <= number < 13 else number


def _sizes_apart(one: Device, other: Device) -> float:
    """Return how many times as much arithmetic the larger of two devices does, as a logarithm; 0 if not known."""
    try:
        return abs(log(one.peak_flops("f32") / other.peak_flops("f32")))
    except MissingNumberError:
        return 0.0


# }}}


class _Completion:
    """Fills in the numbers of one device, part by part; later parts look at what the earlier ones have become."""

    def __init__(self, device: Device) -> None:
        self.given = device
        self.taken: dict[str, Device] = {}
        """instruction -> the relative whose Λ it has"""

    @cached_property
    def relatives(self) -> tuple[Device, ...]:
        """Return other devices, the nearest first: read only where a number is looked up in them."""
        return tuple(relatives(self.given)) if self.given.lanes == Lanes.TOGETHER else ()

    def device(self) -> Device:
        """Return the device with all parts completed."""
        if self.given.lanes == Lanes.TOGETHER:
            self.given = self._stating(self.given, "warp_size", lambda other: other.needed("warp_size"))
            self.given = replace(self.given, limits=self._limits())
            self.given = replace(self.given, throughput=self._throughputs())
            self.given = replace(self.given, memory=tuple(self._levels()))
        for name in ROWS.values():
            self._complete(name)
        self._complete_barrier()
        for name, (times, other) in MADE_OF.items():
            self._make(name, times, other)
        return self.given

    # {{{ limits and throughputs

    def _limits(self) -> CoreLimits:
        limits = self.given.limits
        by_group = self.given.register_allocation == RegisterAllocation.GROUP
        names: tuple[Limit, ...] = (*LIMITS, "warp_unit" if by_group else "partitions")
        for name in names:
            limits = self._stating(limits, name, lambda other, name=name: other.limits.needed(name))
        return limits

    def _throughputs(self) -> Throughput:
        throughput = self.given.throughput
        f32 = throughput.f32
        for row, instruction in ROWS.items():
            if f32 is None or row == "f32" or self.given.resting_on("issue", *instruction.split()):
                continue
            found = self._first(lambda other, row=row: _ratio(other.throughput, row))
            if found:
                ratio, other = found
                share = "as f32" if ratio == 1 else f"{Fraction(ratio).limit_denominator(999)} of f32"
                as_what = f"{share}, as on {other.slug}"
                throughput = _with(throughput, row, ratio * f32, as_what)
        return throughput

    # }}}

    # {{{ memory

    def _levels(self) -> list[MemoryLevel]:
        """Return the levels of memory, the farthest completed first: no cache is assumed to be slower than the next."""
        near = list(self.given.memory)
        if all(level.name != LOCAL for level in near):
            near.insert(0, MemoryLevel(slug=self.given.slug, place=f"memory.{LOCAL}", per=Per.CORE))
        found: list[MemoryLevel] = []
        most = inf
        for level in reversed(near):
            found.insert(0, self._level(level, inf if level.name == LOCAL else most))
            most = min(most, self._known_latency(found[0]) or inf)
        return found

    def _level(self, level: MemoryLevel, most: float) -> MemoryLevel:
        if not self._known_latency(level):
            level = self._stating(level, "latency", lambda other: min(most, _latency(other, level)))
        timed_loads = level.name == LOCAL and self.given.resting_on("issue", *LOAD_LOCAL)
        if level.name == DRAM or bandwidth(level) or timed_loads:
            return level
        if level.per == Per.CORE:
            return self._stating(level, "bandwidth_per_core", lambda other: _of_core(other, level))
        return self._of_all_cores(level)

    def _known_latency(self, level: MemoryLevel) -> float | None:
        """Return the latency of a level of the device, as loads were timed where they were; None where nothing is."""
        try:
            return _latency(self.given, level)
        except MissingNumberError:
            return level.latency

    def _of_all_cores(self, level: MemoryLevel) -> MemoryLevel:
        """Return *level*, which all cores share, with a bandwidth in the ratio to DRAM's that a relative has."""
        here = self._first(lambda _: _of_dram(self.given))
        found = self._first(lambda other: _of_device(other, _like(other, level)) / _of_dram(other))
        if here is None or found is None:
            return level
        as_what = f"{found[0]:.2g} times that of DRAM, as on {found[1].slug}"
        return _with(level, "sustained_bandwidth", found[0] * here[0], as_what)

    # }}}

    # {{{ instructions

    def _complete(self, name: str) -> None:
        """State the completion of the instruction called *name*, unless one of its row is."""
        kind, dtype = name.split()
        if self.given.resting_on("completion", kind, dtype):
            return
        here = AS_HERE.get(name)
        stated = self.given.resting_on("completion", *here.split()) if here else None
        if here and stated and not isinstance(stated, Substitute):
            self._state(name, "completion", stated.value, f"as {here!r} here")
            return
        # What has one reason comes from one device.
        others = [self.taken[here]] if here in self.taken else self.relatives
        found = self._first(lambda other: other.completion_latency(kind, dtype), others)
        if found is None and here and stated:
            self._state(name, "completion", stated.value, f"as {here!r} {stated.source.removeprefix('as ')}")
        elif found:
            self.taken[name] = found[1]
            self._state(name, "completion", found[0], f"as on {found[1].slug}")

    def _complete_barrier(self) -> None:
        if not self.given.resting_on("issue", BARRIER):
            self._state(BARRIER, "issue", BARRIER_ISSUE, "as any instruction")
        if not self.given.resting_on("completion", BARRIER):
            with suppress(MissingNumberError):
                local = _latency(self.given, self.given.level(LOCAL))
                self._state(BARRIER, "completion", local, "as local memory here")

    def _make(self, name: str, times: int, other: str) -> None:
        for field in LATENCY_FIELDS:
            latency = self.given.issue_latency if field == "issue" else self.given.completion_latency
            if not self.given.resting_on(field, *name.split()):
                with suppress(MissingNumberError):
                    self._state(name, field, times * latency(*other.split()), f"{times} times {other!r} here")

    def _state(self, name: str, field: LatencyField, value: float, as_what: str) -> None:
        """State a latency of the instruction called *name*."""
        others = [each for each in self.given.instructions if each.name != name]
        own = [each for each in self.given.instructions if each.name == name]
        one = own[0] if own else InstructionTiming(slug=self.given.slug, place=f"instructions.{name}")
        self.given = replace(self.given, instructions=(*others, _with(one, field, value, as_what)))

    # }}}

    def _stating(self, part: Completed, name: str, read: Callable[[Device], float]) -> Completed:
        """Return *part* stating *name*: itself if it does, else as the nearest relative of which *read* finds it."""
        found = None if part.source(name) else self._first(read)
        return part if found is None else _with(part, name, found[0], f"as on {found[1].slug}")

    def _first(
        self, read: Callable[[Device], float], others: Iterable[Device] | None = None
    ) -> tuple[float, Device] | None:
        """Return what *read* finds of the nearest relative, or of *others*, that states it, and which that is."""
        for other in self.relatives if others is None else others:
            try:
                return read(other), other
            except MissingNumberError:
                continue
        return None


def _with(part: Completed, name: str, value: float, as_what: str) -> Completed:
    return part.stating(**{name: Substitute(value, part.declared()[name].unit, as_what)})


def _ratio(throughput: Throughput, row: Row) -> float:
    return throughput.needed(row) / throughput.needed("f32")


# {{{ levels of memory of a device


def _like(device: Device, level: MemoryLevel) -> MemoryLevel:
    """Return the memory of *device* that is called as *level* is, else its nearest cache that as many cores share."""
    named = [each for each in device.memory if each.name == level.name]
    alike = [each for each in device.memory if each.per == level.per and each.name not in (LOCAL, DRAM)]
    found = named or ([] if level.name == LOCAL else alike)
    return found[0] if found else device.level(level.name)


def _latency(device: Device, level: MemoryLevel) -> float:
    """Return the latency on *device* of a level like *level*, as loads were timed where they were."""
    if level.name == LOCAL and device.resting_on("completion", *LOAD_LOCAL):
        return device.completion_latency(*LOAD_LOCAL)
    return level_latency(device, _like(device, level).name)


def _of_core(device: Device, level: MemoryLevel) -> float:
    """Return B/cycle that a core of *device* has of a level like *level*, by a warp's loads where these were timed."""
    if level.name == LOCAL and device.resting_on("issue", *LOAD_LOCAL):
        return BYTES * device.needed("warp_size") / device.issue_latency(*LOAD_LOCAL)
    return bytes_per_cycle(device, _like(device, level))


def _of_dram(device: Device) -> float:
    """Return B/s of device memory: the published peak, which nearly all descriptions have, else what was measured."""
    level = device.level(DRAM)
    return _of_device(device, level) if level.bandwidth is None else level.bandwidth


def _of_device(device: Device, level: MemoryLevel) -> float:
    """Return B/s that all cores have of *level*."""
    return bytes_per_cycle(device, level) * device.needed("cores") * device.needed("clock")


# }}}
