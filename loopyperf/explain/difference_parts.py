"""The parts of a difference: one side with its totals, and each line, resource and quantity on both sides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log

from loopyperf.device.vocabulary import ISSUE, Vocabulary
from loopyperf.explain.explanation import Explanation, LineCost, OnDevice
from loopyperf.explain.review import STALLS, LaunchReview, StallReason
from loopyperf.explain.source_view import SourceLine
from loopyperf.units import duration, in_percent, prefixed

NOTEWORTHY = 0.01
"""relative difference; quantities that differ by less are not shown"""
SHARE, BYTES, SECONDS, NUMBER = "share", "B", "s", ""
REQUESTS, SECTORS, WAVEFRONTS = "requests", "sectors", "wavefronts"

# {{{ a quantity on both sides


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity on both sides of a comparison."""

    name: str
    """name of the quantity"""
    before: float | None
    """value on the first side; None if it does not apply"""
    after: float | None
    """value on the second side; None if it does not apply"""
    unit: str = NUMBER
    """``"share"``, ``"B"``, ``"s"``, another unit that takes prefixes, or empty for a plain number"""

    @property
    def is_noteworthy(self) -> bool:
        """Return whether the values differ by more than 1 % of the larger one; shares by more than 0.01."""
        if self.before is None or self.after is None:
            return bool(self.before or self.after)
        whole = 1.0 if self.unit == SHARE else max(abs(self.before), abs(self.after))
        return abs(self.after - self.before) > NOTEWORTHY * whole

    @property
    def growth(self) -> float:
        """Return the logarithm of the second value over the first; finite for zeros and missing values."""
        return log((self.after or 1e-30) / (self.before or 1e-30))

    @property
    def words(self) -> tuple[str, str]:
        """Return both values as text; empty for None."""
        return self._in_words(self.before), self._in_words(self.after)

    @property
    def clause(self) -> str:
        """Return the change in words, e.g. ``"1 instead of 8 wavefronts per load of b"``."""
        before, after = (words or "no" for words in self.words)
        return f"{after} instead of {before} {self.name}".rstrip()

    def _in_words(self, number: float | None) -> str:
        if number is None:
            return ""
        if self.unit == SHARE:
            return in_percent(number)
        if self.unit == SECONDS:
            return duration(number)
        if self.unit == NUMBER and float(number).is_integer() and number < 1e6:
            return f"{number:,.0f}"
        return prefixed(number, self.unit).strip()


@dataclass(frozen=True, slots=True)
class ResourcePair:
    """The busy time of a pipeline or memory level on both sides."""

    resource: str
    """name in the device parameters"""
    name: str
    """display name, e.g. ``"load/store (shared memory, L1)"``"""
    before: float
    """busy time of the first side: its work over the peak throughput, in seconds"""
    after: float
    """busy time of the second side, in seconds"""
    before_share: float
    """utilization of the first side: share of peak while its launches execute"""
    after_share: float
    """the same of the second side"""

    @property
    def change(self) -> float:
        """Return the busy time of the second side minus that of the first, in seconds."""
        return self.after - self.before

    @property
    def words(self) -> tuple[str, str]:
        """Return both values as text, e.g. ``"46.2 ms (97 %)"``."""
        pairs = ((self.before, self.before_share), (self.after, self.after_share))
        before, after = (f"{duration(busy)} ({in_percent(share)})" if busy else "" for busy, share in pairs)
        return before, after


@dataclass(frozen=True, slots=True)
class LinePair:
    """The cost of a source line on both sides."""

    line: SourceLine
    """the line of the first side, or of the second if only that has it"""
    other: SourceLine | None
    """the matching line of the second side; None if only one side has the line"""
    before: float | None
    """seconds on the first side; None if only the second side has the line"""
    after: float | None
    """seconds on the second side; None if only the first side has the line"""

    @property
    def change(self) -> float:
        """Return the cost on the second side minus that on the first, in seconds."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def name(self) -> str:
        """Return the text of the line with its instruction ids."""
        ids = dict.fromkeys(each.source for each in (self.line, self.other) if each and each.kind == "instruction")
        return "  ".join([self.line.text, *(f"{{id={each}}}" for each in ids)])

    @property
    def words(self) -> tuple[str, str]:
        """Return both times as text; empty if a side does not have the line."""
        before, after = ("" if each is None else duration(each) for each in (self.before, self.after))
        return before, after


# }}}

# {{{ one side


@dataclass(frozen=True, slots=True)
class AccessSum:
    """Totals of all loads, or all stores, of an array in all launches."""

    requests: float
    """warp instructions"""
    sectors: float
    """mean number of sectors per request; 0 for local memory"""
    wavefronts: float
    """mean number of wavefronts (bank passes) per request"""
    reached: Mapping[str, float]
    """memory level -> share of the sectors that reach it"""


@dataclass(frozen=True)
class Side:
    """A kernel at its sizes on one device, with totals over its launches; they are empty without device parameters."""

    explanation: Explanation
    on: OnDevice
    """one of the explanation's devices, with its estimates"""

    @property
    def seconds(self) -> float:
        """Return the run time in seconds."""
        return float(self.on.estimate)

    @cached_property
    def lines(self) -> tuple[LineCost, ...]:
        """Return the cost of each source line; the costs add up to the run time."""
        return self.explanation.lines(self.on)

    @property
    def launches(self) -> tuple[LaunchReview, ...]:
        """Return the reviews of all launches."""
        return () if self.on.diagnosis is None else self.on.diagnosis.launches

    @property
    def longest(self) -> LaunchReview:
        """Return the longest launch; there must be one."""
        return max(self.launches, key=lambda launch: launch.seconds)

    @property
    def terms(self) -> Vocabulary:
        """Return the device's terms; the device must have parameters."""
        assert self.on.diagnosis is not None
        return self.on.diagnosis.words

    @cached_property
    def executing(self) -> float:
        """Return the seconds of all launches, without launch overhead."""
        return sum(launch.seconds for launch in self.launches)

    @cached_property
    def busy(self) -> dict[str, float]:
        """Return the busy time of each pipeline or memory level: its utilization times the time, longest first."""
        found: dict[str, float] = {}
        for each in self.launches:
            for resource, share in each.utilization.items():
                found[resource] = found.get(resource, 0.0) + share * each.seconds
        return {resource: found[resource] for resource in sorted(found, key=lambda name: -found[name])}

    @property
    def busiest(self) -> str:
        """Return the pipeline or memory level with the longest busy time; empty if there is none."""
        return next(iter(self.busy), "")

    def share(self, resource: str) -> float:
        """Return the utilization of *resource* while the launches execute, from 0 to 1."""
        return self.busy.get(resource, 0.0) / self.executing if self.executing else 0.0

    @cached_property
    def idle(self) -> float:
        """Return the seconds for which the mean core is idle."""
        return sum(each.seconds * (1 - each.balance) for each in self.launches)

    @cached_property
    def waits(self) -> dict[StallReason, float]:
        """Return each stall reason with its share of stall cycles; empty if unknown for a launch."""
        if not self.executing or any(launch.waiting is None for launch in self.launches):
            return {}
        return {
            cause: sum(launch.waits_for(cause) * launch.seconds for launch in self.launches) / self.executing
            for cause in STALLS
        }

    @cached_property
    def moved(self) -> dict[str, float]:
        """Return the bytes moved through each memory level."""
        levels = dict.fromkeys(level for each in self.launches for level in each.traffic.moved)
        return {level: sum(each.traffic.moved.get(level, 0.0) for each in self.launches) for level in levels}

    @cached_property
    def work(self) -> dict[str, dict[tuple[str, str], float]]:
        """Return resource -> (line, access) -> busy seconds.

        All lines with the same access share the key ("", access); other instructions have the key (line, "").
        """
        found: dict[str, dict[tuple[str, str], float]] = {}
        for launch in self.launches:
            for each in launch.work:
                parts = found.setdefault(each.resource, {})
                key = ("" if each.access else each.line, each.access)
                parts[key] = parts.get(key, 0.0) + each.share * launch.seconds
        return found

    def instructions(self, resource: str = ISSUE) -> float:
        """Return the warp instructions executed on *resource*."""
        return sum(work.instructions for launch in self.launches for work in launch.work if work.resource == resource)

    @property
    def launching(self) -> float:
        """Return the launch overhead in seconds; 0 without device parameters."""
        return max(0.0, self.seconds - self.executing) if self.launches else 0.0

    @property
    def lanes(self) -> float:
        """Return the mean number of work-items per warp."""
        warps = sum(each.warps for each in self.launches)
        work_items = sum(each.work_items * each.groups * each.times for each in self.launches)
        return work_items / warps if warps else 1.0

    @cached_property
    def accesses(self) -> dict[str, AccessSum]:
        """Return the totals by direction and array, e.g. ``"load b"``, in the order of the reviews."""
        found: dict[str, list[tuple[float, float, float, Mapping[str, float]]]] = {}
        for launch in self.launches:
            for each in launch.accesses:
                row = each.executions * launch.warps, each.sectors, each.wavefronts, each.reached
                found.setdefault(f"{each.kind} {each.array}", []).append(row)
        return {name: _access_sum(rows) for name, rows in found.items()}


def _access_sum(rows: Iterable[tuple[float, float, float, Mapping[str, float]]]) -> AccessSum:
    every = list(rows)
    requests = sum(row[0] for row in every) or 1.0
    sectors = sum(row[0] * row[1] for row in every)
    levels = dict.fromkeys(level for row in every for level in row[3])
    reached = {level: sum(row[0] * row[1] * row[3].get(level, 0.0) for row in every) for level in levels}
    return AccessSum(
        requests=sum(row[0] for row in every),
        sectors=sectors / requests,
        wavefronts=sum(row[0] * row[2] for row in every) / requests,
        reached={level: reaching / (sectors or 1.0) for level, reaching in reached.items()},
    )


# }}}

# {{{ matched lines


def line_pairs(before: Side, after: Side) -> tuple[LinePair, ...]:
    """Return the lines of both sides: those of the first in order, then those that only the second has.

    Instructions are matched by id, and the remaining ones by the array that they assign; other lines by text.
    """
    partners: dict[int, int] = {}
    for key in (_source, _assigned):
        for row, cost in enumerate(before.lines):
            for other_row, other in enumerate(after.lines):
                is_match = (
                    key(cost.line) != "" and cost.line.kind == other.line.kind and key(cost.line) == key(other.line)
                )
                if is_match and row not in partners and other_row not in partners.values():
                    partners[row] = other_row
    pairs: list[LinePair] = []
    for row, cost in enumerate(before.lines):
        other = after.lines[partners[row]] if row in partners else None
        pairs.append(LinePair(cost.line, other and other.line, cost.seconds, other and other.seconds))
    unmatched = (cost for row, cost in enumerate(after.lines) if row not in partners.values())
    pairs += [LinePair(cost.line, None, None, cost.seconds) for cost in unmatched]
    return tuple(pair for pair in pairs if pair.line.source)


def _source(line: SourceLine) -> str:
    return line.source


def _assigned(line: SourceLine) -> str:
    """Return the array that an instruction assigns; for launches and barriers the kind, so that any two match."""
    if line.kind == "instruction":
        return line.text.rpartition(": ")[2].split(" = ")[0].split("[")[0] if " = " in line.text else ""
    return line.kind if line.kind in ("launch", "barrier") else ""


# }}}

# {{{ resources and other quantities


def resource_pairs(before: Side, after: Side) -> tuple[ResourcePair, ...]:
    """Return the busy times of each pipeline and memory level, the busiest on either side first."""
    names = sorted({*before.busy, *after.busy}, key=lambda name: -max(before.share(name), after.share(name)))
    return tuple(
        ResourcePair(
            resource=name,
            name=(before if name in before.busy else after).terms.resource(name),
            before=before.busy.get(name, 0.0),
            after=after.busy.get(name, 0.0),
            before_share=before.share(name),
            after_share=after.share(name),
        )
        for name in names
    )


def waiting_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return the stall reasons, as shares of stall cycles; empty if unknown for both sides."""
    causes = dict.fromkeys((*before.waits, *after.waits))
    return tuple(Pair(str(cause), before.waits.get(cause), after.waits.get(cause), SHARE) for cause in causes)


def resident_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return resident warps per core, registers, spills and grid of the longest launch."""
    one, other = before.longest, after.longest
    return (
        Pair(f"resident {before.terms.warp}s", one.residents.warps, other.residents.warps),
        Pair("occupancy", one.residents.share, other.residents.share, SHARE),
        Pair("registers per work-item", one.residents.registers, other.residents.registers),
        Pair("spilled registers", one.residents.spilled, other.residents.spilled),
        Pair("groups", one.groups, other.groups),
        Pair("work-items per group", one.work_items, other.work_items),
        Pair(f"{before.terms.core}s with work", one.balance, other.balance, SHARE),
    )


def traffic_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return the bytes moved through each memory level, the nearest level first."""
    levels = dict.fromkeys((*before.moved, *after.moved))
    return tuple(Pair(level, before.moved.get(level), after.moved.get(level), BYTES) for level in levels)


def counter_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return executed warp instructions, and requests, sectors and wavefronts of each array's accesses."""
    accesses = dict.fromkeys((*before.accesses, *after.accesses))
    counters = (pair for access in accesses for pair in access_pairs(before, after, access).values())
    return (Pair("instructions executed", before.instructions(), after.instructions()), *counters)


def access_pairs(before: Side, after: Side, access: str) -> dict[str, Pair]:
    """Return requests, sectors and wavefronts of an *access*, e.g. ``"load b"``; the last two unless they are 0."""
    one, other = (side.accesses.get(access) for side in (before, after))
    kind, array = access.split(" ", 1)
    sectors, wavefronts = f"{before.terms.sector}s", before.terms.wavefronts
    pairs = {
        REQUESTS: Pair(f"{kind}s of {array}", one and one.requests, other and other.requests),
        SECTORS: Pair(f"{sectors} per {kind} of {array}", one and one.sectors, other and other.sectors),
        WAVEFRONTS: Pair(f"{wavefronts} per {kind} of {array}", one and one.wavefronts, other and other.wavefronts),
    }
    return {name: pair for name, pair in pairs.items() if name == REQUESTS or pair.before or pair.after}


# }}}
