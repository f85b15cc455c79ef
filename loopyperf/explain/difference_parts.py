"""The parts of a difference: source lines, resources and other quantities, each for both sides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopyperf.explain.difference_side import AccessSum, Side, Sums
from loopyperf.explain.explanation import LineCost
from loopyperf.explain.source_view import SourceLine
from loopyperf.units import duration, in_percent, prefixed

NOTEWORTHY = 0.01
"""relative difference; quantities that differ by less are not shown"""
SHARE, BYTES, NUMBER = "share", "B", ""


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
    """``"share"``, ``"B"``, or empty for a plain number"""

    @property
    def is_noteworthy(self) -> bool:
        """Return whether the values differ by more than 1 % of the larger one; shares by more than 0.01."""
        if self.before is None or self.after is None:
            return bool(self.before or self.after)
        whole = 1.0 if self.unit == SHARE else max(abs(self.before), abs(self.after))
        return abs(self.after - self.before) > NOTEWORTHY * whole

    @property
    def words(self) -> tuple[str, str]:
        """Return both values as text; empty for None."""
        return self._in_words(self.before), self._in_words(self.after)

    def _in_words(self, number: float | None) -> str:
        if number is None:
            return ""
        if self.unit == SHARE:
            return in_percent(number)
        if self.unit == BYTES:
            return prefixed(number, "B")
        return f"{number:,.0f}" if float(number).is_integer() and number < 1e6 else prefixed(number, "").strip()


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
    def words(self) -> tuple[str, str]:
        """Return both values as text, e.g. ``"46.2 ms (97 %)"``."""
        return _busy(self.before, self.before_share), _busy(self.after, self.after_share)


@dataclass(frozen=True, slots=True)
class LinePair:
    """The cost of a source line on both sides."""

    DERIVED = ("change",)

    line: SourceLine
    """line of the first side, or of the second if only that has it"""
    other: SourceLine | None
    """matching line of the second side; None if only one side has the line"""
    before: float | None
    """seconds on the first side; None if only the second side has the line"""
    after: float | None
    """seconds on the second side; None if only the first side has the line"""

    @property
    def change(self) -> float:
        """Return the cost on the second side minus that on the first, in seconds."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the text of the line, and that of the other side if it differs."""
        return tuple(dict.fromkeys(each.text for each in (self.line, self.other) if each is not None))

    @property
    def words(self) -> tuple[str, str]:
        """Return both times as text; empty if a side does not have the line."""
        before, after = ("" if each is None else duration(each) for each in (self.before, self.after))
        return before, after


def _busy(seconds: float, share: float) -> str:
    return f"{duration(seconds)} ({in_percent(share)})" if seconds else ""


# {{{ matched lines


def line_pairs(before: Side, after: Side) -> tuple[LinePair, ...]:
    """Return the lines of both sides: those of the first in order, then those that only the second has.

    Instructions are matched by id, and the remaining ones by the array that they assign; other lines by text.
    """
    partners = _matched(before.lines, after.lines)
    matched = set(partners.values())
    found = [_line_pair(each, after.lines[partners[place]] if place in partners else None)
             for place, each in enumerate(before.lines)]  # fmt: skip
    rest = [LinePair(each.line, None, None, each.seconds) for place, each in enumerate(after.lines)
            if place not in matched]  # fmt: skip
    return tuple(each for each in (*found, *rest) if each.line.source)


def _line_pair(cost: LineCost, other: LineCost | None) -> LinePair:
    if other is None:
        return LinePair(cost.line, None, cost.seconds, None)
    return LinePair(cost.line, other.line, cost.seconds, other.seconds)


def _matched(lines: Sequence[LineCost], others: Sequence[LineCost]) -> dict[int, int]:
    """Return a mapping from indices of *lines* to indices of the matching *others*."""
    found: dict[int, int] = {}
    for key in (_by_id, _by_assigned):
        matched = set(found.values())
        free: dict[tuple[str, str], list[int]] = {}
        for place, each in enumerate(others):
            if place not in matched and key(each.line):
                free.setdefault((each.line.kind, key(each.line)), []).append(place)
        for place, each in enumerate(lines):
            places = free.get((each.line.kind, key(each.line)), []) if place not in found else []
            if places:
                found[place] = places.pop(0)
    return found


def _by_id(line: SourceLine) -> str:
    return line.source


def _by_assigned(line: SourceLine) -> str:
    """Return the array that an instruction assigns; for launches and barriers the kind, so that any two match."""
    if line.kind == "instruction":
        return line.text.rpartition(": ")[2].split(" = ")[0].split("[")[0] if " = " in line.text else ""
    return line.kind if line.kind in ("launch", "barrier") else ""


# }}}


# {{{ resources and other quantities


def resource_pairs(before: Sums, after: Sums) -> tuple[ResourcePair, ...]:
    """Return the busy times of each pipeline and memory level, the busiest on either side first."""
    names = sorted({*before.busy, *after.busy}, key=lambda name: -max(before.share(name), after.share(name)))
    return tuple(
        ResourcePair(
            resource=name,
            name=(before if name in before.busy else after).diagnosis.words.resource(name),
            before=before.busy.get(name, 0.0),
            after=after.busy.get(name, 0.0),
            before_share=before.share(name),
            after_share=after.share(name),
        )
        for name in names
    )


def waiting_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return the stall reasons, as shares of stall cycles; empty if unknown for both sides."""
    causes = dict.fromkeys((*before.waits, *after.waits))
    return tuple(Pair(str(cause), before.waits.get(cause), after.waits.get(cause), SHARE) for cause in causes)


def resident_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return resident warps per core, registers, spills and grid of the longest launch."""
    words, (one, other) = before.diagnosis.words, (each.diagnosis.longest for each in (before, after))
    pairs = (
        (f"resident {words.warp}s", one.residents.warps, other.residents.warps, NUMBER),
        ("occupancy", one.residents.share, other.residents.share, SHARE),
        ("registers per work-item", one.residents.registers, other.residents.registers, NUMBER),
        ("spilled registers", one.residents.spilled, other.residents.spilled, NUMBER),
        ("groups", one.groups, other.groups, NUMBER),
        ("work-items per group", one.work_items, other.work_items, NUMBER),
        (f"{words.core}s with work", one.balance, other.balance, SHARE),
    )
    return tuple(Pair(*each) for each in pairs)


def traffic_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return the bytes moved through each memory level, the nearest level first."""
    levels = dict.fromkeys((*before.moved, *after.moved))
    return tuple(Pair(level, before.moved.get(level), after.moved.get(level), BYTES) for level in levels)


def counter_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return executed warp instructions, and requests, sectors and wavefronts of each array's accesses."""
    return (Pair("instructions executed", before.instructions(), after.instructions()), *_access_pairs(before, after))


def _access_pairs(before: Sums, after: Sums) -> Iterator[Pair]:
    for access in dict.fromkeys((*before.accesses, *after.accesses)):
        both = [each.accesses.get(access) for each in (before, after)]
        known = [each for each in both if each is not None]
        kind, array = access.split(" ", 1)
        yield _access_pair(f"{kind}s of {array}", both, lambda each: each.requests)
        if any(each.sectors for each in known):
            sector = before.diagnosis.words.sector
            yield _access_pair(f"{sector}s per {kind} of {array}", both, lambda each: each.sectors)
        if any(each.wavefronts for each in known):
            passes = before.diagnosis.words.wavefronts
            yield _access_pair(f"{passes} per {kind} of {array}", both, lambda each: each.wavefronts)


def _access_pair(name: str, both: Sequence[AccessSum | None], of: Callable[[AccessSum], float]) -> Pair:
    before, after = (None if each is None else of(each) for each in both)
    return Pair(name, before, after)


# }}}
