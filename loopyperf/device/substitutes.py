"""Assumed values of device parameters that models need and a device file lacks; none is derived in more than one step.

A value of the same device comes first, if both have the same cause in the hardware (:data:`AS_HERE`); otherwise the
value of the nearest relative that has one: a device of the same vendor and warp size, and of the nearest generation. A
device file without caches gets those of its nearest relative, if that has any. A
compute capability (``"8.6"``) or an LLVM name (``"gfx90a"``) is converted to a number, and differences of these numbers
measure the distance between generations. Throughputs keep their ratio to ``f32``, and bandwidths of caches that all
cores share keep theirs to ``DRAM``. Parameters that distinguish products are never assumed: cores, clock,
``throughput.f32`` and the bandwidth of ``DRAM``.
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
    MemoryLevel,
    Throughput,
)
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.device.lambdas import BYTES, DRAM, LOAD_LOCAL, bandwidth, bytes_per_cycle, level_latency
from loopyperf.device.parts import Lanes, Per, RegisterAllocation, Row, Substitute
from loopyperf.errors import MissingNumberError
from loopyperf.units import ratio_in_words

Completed = TypeVar("Completed", bound=AnyPart)
LOCAL = "local"
LIMITS = ("warps", "groups", "registers", "register_unit", "local_memory", "local_memory_unit")
"""limits of a core that the occupancy needs, besides ``warp_unit`` or ``partitions``"""
ROWS: Mapping[Row, str] = {
    "f32": "add f32",
    "f64": "fma f64",
    "f16": "fma f16",
    "special": "special f32",
    "integer_add": "add i32",
    "integer_multiply": "mul i32",
    "shift": "shift i32",
    "compare": "compare i32",
    "logic": "logic i32",
    "convert": "convert f32",
}
"""row of the throughput table -> its representative instruction"""
AS_HERE: Mapping[str, str] = {
    "fma f16": "fma f32",
    "add i32": "add f32",
    "mul i32": "add f32",
    "shift i32": "add f32",
    "compare i32": "add f32",
    "logic i32": "add f32",
    "convert f32": "special f32",
}
"""instruction -> the instruction of the same device with the same Λ, since the same units execute both"""
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
    "atomic i64": (1, "atomic i32"),
}
"""instruction without a row in the throughput table -> number and name of the instructions that take as long"""
ATOMICS = ("atomic i32", "atomic f32", "atomic f64")
"""atomic updates of an element"""
STRUCTURE = ("size", "line", "sector", "partitions", "lines_per_cycle")
"""numbers of a cache that do not depend on clocks"""
ON_LAUNCH = ("launch_overhead", "host_wait")
"""numbers of a launch, similar on all devices of a vendor"""
BARRIER = "barrier"
BARRIER_ISSUE = 1
"""cycles"""
GEFORCE_BLACKWELL = 12.0
"""compute capability of GeForce Blackwell, the successor of capability 8.9, not a relative of 9.0 and 10.0"""


FIRST_WITH_HALVES = 5.3
"""first compute capability with half-precision arithmetic; compilers convert to single precision before"""
FOR_DOUBLES = (6.0, 7.0, 8.0, 9.0, 10.0, 10.3)
"""compute capabilities of chips built for double precision, a product line of their own since Pascal"""


def lacking(device: Device) -> tuple[str, ...]:
    """Return the names of missing parameters that are never assumed, and without which no device model can predict."""
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
    """Return *device* with assumed values, where possible, for missing parameters that models need.

    Each assumed number is a :class:`Substitute`, whose source states the origin. Processors have no relatives.
    """
    return _Completion(device).device()


# {{{ relatives


def relatives(device: Device) -> Iterator[Device]:
    """Yield the bundled devices, nearest to *device* first, by vendor, generation and size."""
    position = _position(device)

    def distance(other: Device) -> tuple[bool, bool, bool, float, float, str]:
        is_other_vendor = other.vendor.casefold() != device.vendor.casefold()
        is_other_width = device.warp_size is not None and other.warp_size != device.warp_size
        there = _target(other.target)
        apart = 0.0 if is_other_vendor or position is None else abs(there - position)
        is_other_line = not is_other_vendor and (there in FOR_DOUBLES) is not (position in FOR_DOUBLES)
        return is_other_vendor, is_other_width, is_other_line, apart, _sizes_apart(device, other), other.slug

    yield from sorted(_bundled(), key=distance)


@lru_cache(maxsize=1)
def _bundled() -> tuple[Device, ...]:
    return tuple(load_description(path) for path in sorted(BUNDLED.glob("*.toml")))


def _position(device: Device) -> float | None:
    """Return the generation of *device* as a number; None if it cannot be determined."""
    generation = _target(device.target)
    if generation < inf:
        return generation
    same = [each for each in _bundled() if each.vendor.casefold() == device.vendor.casefold()]
    named = [each for each in same if each.architecture.casefold() == device.architecture.casefold()]
    return max((_target(each.target) for each in named or same), default=None)


def _target(target: str) -> float:
    """Return a compute capability, or the LLVM name of an AMD device, as a number; infinity for anything else."""
    try:
        number = int(target[3:], 16) if target.startswith("gfx") else float(target)
    except ValueError:
        return inf
    return 8.9 + number - GEFORCE_BLACKWELL if GEFORCE_BLACKWELL <= number < 13 else number


def _sizes_apart(one: Device, other: Device) -> float:
    """Return the absolute logarithm of the ratio of peak f32 performance; 0 if it is not known."""
    try:
        return abs(log(one.peak_flops("f32") / other.peak_flops("f32")))
    except MissingNumberError:
        return 0.0


# }}}


class _Completion:
    """Completes the numbers of one device part by part; later parts use the completed earlier ones."""

    def __init__(self, device: Device) -> None:
        self.given = device
        self.taken: dict[str, Device] = {}
        """instruction -> the relative that provided its Λ"""

    @cached_property
    def relatives(self) -> tuple[Device, ...]:
        """Return other devices, nearest first; loaded only if a number is needed from them."""
        return tuple(relatives(self.given)) if self.given.lanes == Lanes.TOGETHER else ()

    def device(self) -> Device:
        """Return the device with all parts completed."""
        if self.given.lanes == Lanes.TOGETHER:
            self.given = self._stating(self.given, "warp_size", lambda other: other.needed("warp_size"))
            self.given = replace(self.given, limits=self._limits())
            self.given = replace(self.given, throughput=self._throughputs())
            self.given = replace(self.given, memory=tuple(self._levels()))
            for name in ON_LAUNCH:
                self.given = self._stating(self.given, name, lambda other, name=name: other.needed(name))
        for name in ROWS.values():
            self._complete(name)
        self._complete_barrier()
        for name in ATOMICS:
            self._complete_update(name)
        for name, (times, other) in MADE_OF.items():
            self._make(name, times, other)
        return self.given

    # {{{ limits and throughputs

    def _limits(self) -> CoreLimits:
        limits = self.given.limits
        by_group = self.given.register_allocation == RegisterAllocation.GROUP
        names = (*LIMITS, "warp_unit" if by_group else "partitions")
        for name in names:
            limits = self._stating(limits, name, lambda other, name=name: other.limits.needed(name))
        return limits

    def _throughputs(self) -> Throughput:
        throughput = self.given.throughput
        f32 = throughput.f32
        for row, instruction in ROWS.items():
            if f32 is None or row == "f32" or self.given.resting_on("issue", *instruction.split()):
                continue
            if row == "f16" and self.given.vendor == "NVIDIA" and (_position(self.given) or 0) < FIRST_WITH_HALVES:
                continue
            found = self._first(lambda other, row=row: other.throughput.needed(row) / other.throughput.needed("f32"))
            if found:
                ratio, other = found
                share = "as f32" if ratio == 1 else f"{Fraction(ratio).limit_denominator(999)} of f32"
                as_what = f"{share}, as on {other.slug}"
                throughput = _with(throughput, row, ratio * f32, as_what)
        return throughput

    # }}}

    # {{{ memory

    def _levels(self) -> list[MemoryLevel]:
        """Return the memory levels, completed from the farthest on: no cache is assumed to be slower than the next."""
        found: list[MemoryLevel] = []
        most = inf
        for level in reversed(self._with_caches()):
            found.insert(0, self._level(level, inf if level.name == LOCAL else most))
            most = min(most, self._known_latency(found[0]) or inf)
        return found

    def _with_caches(self) -> list[MemoryLevel]:
        """Return the memory levels, and those caches of the nearest relative of whose scope the file has none."""
        near = list(self.given.memory)
        if all(level.name != LOCAL for level in near):
            near.insert(0, MemoryLevel(slug=self.given.slug, place=f"memory.{LOCAL}", per=Per.CORE))
        nearest = next(iter(self.relatives))
        absent = {*Per} - {level.per for level in near if level.name not in (LOCAL, DRAM)}
        for level in (each for each in nearest.memory if each.name not in (LOCAL, DRAM) and each.per in absent):
            farther = [
                at
                for at, each in enumerate(near)
                if each.name == DRAM or (each.per, level.per) == (Per.DEVICE, Per.CORE)
            ]
            near.insert(min(farther, default=len(near)), self._cache(level, f"as on {nearest.slug}"))
        return near

    def _cache(self, level: MemoryLevel, as_what: str) -> MemoryLevel:
        """Return an assumed cache with the structure of *level*, without latency and bandwidths."""
        known = [(name, each) for name, each in level.known() if name in STRUCTURE]
        same = {name: Substitute(each.value, each.unit, as_what) for name, each in known}
        cache = MemoryLevel(
            slug=self.given.slug, place=level.place, per=level.per, holds_local_memory=level.holds_local_memory
        )
        return cache.stating(**same)

    def _level(self, level: MemoryLevel, most: float) -> MemoryLevel:
        if level.name not in (LOCAL, DRAM):
            level = self._stating(level, "size", lambda other: _like(other, level).needed("size"))
        if not self._known_latency(level):
            level = self._stating(level, "latency", lambda other: min(most, _latency(other, level)))
        timed_loads = level.name == LOCAL and self.given.resting_on("issue", *LOAD_LOCAL)
        if level.name == DRAM or bandwidth(level) or timed_loads:
            return level
        if level.per == Per.CORE:
            return self._stating(level, "bandwidth_per_core", lambda other: _of_core(other, level))
        return self._of_all_cores(level)

    def _known_latency(self, level: MemoryLevel) -> float | None:
        """Return the known latency of a level, preferably from measured loads; None if unknown."""
        try:
            return _latency(self.given, level)
        except MissingNumberError:
            return level.latency

    def _of_all_cores(self, level: MemoryLevel) -> MemoryLevel:
        """Return *level*, shared by all cores, with a bandwidth in the same ratio to DRAM's as on a relative."""
        here = self._first(lambda _: _of_dram(self.given))
        found = self._first(lambda other: _of_device(other, _like(other, level)) / _of_dram(other))
        if here is None or found is None:
            return level
        as_what = f"{ratio_in_words(found[0])} times that of DRAM, as on {found[1].slug}"
        return _with(level, "sustained_bandwidth", found[0] * here[0], as_what)

    # }}}

    # {{{ instructions

    def _complete(self, name: str) -> None:
        """Set the completion latency of the instruction *name*, unless one in its row has one."""
        kind, dtype = name.split()
        if self.given.resting_on("completion", kind, dtype):
            return
        here = AS_HERE.get(name)
        stated = self.given.resting_on("completion", *here.split()) if here else None
        if here and stated and not isinstance(stated, Substitute):
            self._state(name, "completion", stated.value, f"as {here!r}")
            return
        # Latencies with the same cause come from the same device.
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
                self._state(BARRIER, "completion", local, "as local memory")

    def _complete_update(self, name: str) -> None:
        """Set the time of the atomic update *name*."""
        found = self._first(lambda other: other.issue_latency(*name.split()))
        if found and not self.given.resting_on("issue", *name.split()):
            self._state(name, "issue", found[0], f"as on {found[1].slug}")

    def _make(self, name: str, times: int, other: str) -> None:
        for field in LATENCY_FIELDS:
            latency = self.given.issue_latency if field == "issue" else self.given.completion_latency
            if not self.given.resting_on(field, *name.split()):
                with suppress(MissingNumberError):
                    self._state(name, field, times * latency(*other.split()), f"{times} times {other!r}")

    def _state(self, name: str, field: LatencyField, value: float, as_what: str) -> None:
        """Set a latency of the instruction *name*."""
        others = [instruction for instruction in self.given.instructions if instruction.name != name]
        own = [instruction for instruction in self.given.instructions if instruction.name == name]
        one = own[0] if own else InstructionTiming(slug=self.given.slug, place=f"instructions.{name}")
        self.given = replace(self.given, instructions=(*others, _with(one, field, value, as_what)))

    # }}}

    def _stating(self, part: Completed, name: str, read: Callable[[Device], float]) -> Completed:
        """Return *part* with the number *name*, by *read* from the nearest relative that has it if *part* lacks it."""
        found = None if part.source(name) else self._first(read)
        return part if found is None else _with(part, name, found[0], f"as on {found[1].slug}")

    def _first(
        self, read: Callable[[Device], float], others: Iterable[Device] | None = None
    ) -> tuple[float, Device] | None:
        """Return the value that *read* finds on the nearest relative (or the first of *others*), and that device."""
        for other in self.relatives if others is None else others:
            try:
                return read(other), other
            except MissingNumberError:
                continue
        return None


def _with(part: Completed, name: str, value: float, as_what: str) -> Completed:
    return part.stating(**{name: Substitute(value, part.declared()[name].unit, as_what)})


# {{{ levels of memory of a device


def _like(device: Device, level: MemoryLevel) -> MemoryLevel:
    """Return the level of *device* with the name of *level*, else its nearest cache shared by as many cores."""
    named = [each for each in device.memory if each.name == level.name]
    alike = [each for each in device.memory if each.per == level.per and each.name not in (LOCAL, DRAM)]
    found = named or ([] if level.name == LOCAL else alike)
    return found[0] if found else device.level(level.name)


def _latency(device: Device, level: MemoryLevel) -> float:
    """Return the latency on *device* of a level similar to *level*, preferably from measured loads."""
    if level.name == LOCAL and device.resting_on("completion", *LOAD_LOCAL):
        return device.completion_latency(*LOAD_LOCAL)
    return level_latency(device, _like(device, level).name)


def _of_core(device: Device, level: MemoryLevel) -> float:
    """Return B/cycle of a core of *device* from a level similar to *level*, preferably from measured loads."""
    if level.name == LOCAL and device.resting_on("issue", *LOAD_LOCAL):
        return BYTES * device.needed("warp_size") / device.issue_latency(*LOAD_LOCAL)
    return bytes_per_cycle(device, _like(device, level))


def _of_dram(device: Device) -> float:
    """Return B/s of device memory: the published peak, which nearly all devices have, else the measured value."""
    level = device.level(DRAM)
    return _of_device(device, level) if level.bandwidth is None else level.bandwidth


def _of_device(device: Device, level: MemoryLevel) -> float:
    """Return B/s of *level* for all cores together."""
    return bytes_per_cycle(device, level) * device.needed("cores") * device.needed("clock")


# }}}
