"""The parts of a difference: lines, pipelines and memory levels, and other quantities, each of both sides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopyperf.explain.difference_side import AccessSum, Side, Sums
from loopyperf.explain.explanation import LineCost
from loopyperf.explain.source_view import SourceLine
from loopyperf.units import duration, in_percent, prefixed

NOTEWORTHY = 0.01
"""of the number: quantities that differ by less are folded"""
SHARE, BYTES, NUMBER = "share", "B", ""


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity of both sides."""

    name: str
    """what it is of"""
    before: float | None
    """the number of the first side; None where it has no such thing"""
    after: float | None
    """the number of the second side; None where it has no such thing"""
    unit: str = NUMBER
    """``"share"``, ``"B"``, or empty for a plain number"""

    @property
    def is_noteworthy(self) -> bool:
        """Return whether both differ by more than a hundredth: of the larger one, of a share of all of it."""
        if self.before is None or self.after is None:
            return bool(self.before or self.after)
        whole = 1.0 if self.unit == SHARE else max(abs(self.before), abs(self.after))
        return abs(self.after - self.before) > NOTEWORTHY * whole

    @property
    def words(self) -> tuple[str, str]:
        """Return both numbers as displays have them, an empty one where there is no such thing."""
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
    """How busy a pipeline or memory level is on both sides."""

    resource: str
    """its name in a device's description"""
    name: str
    """what it is called, e.g. ``"shared memory and L1"``"""
    before: float
    """seconds in which the device's peak would do the work of the first side"""
    after: float
    """the same of the second side"""
    before_share: float
    """of the device's peak that the first side takes while its launches execute"""
    after_share: float
    """the same of the second side"""

    @property
    def words(self) -> tuple[str, str]:
        """Return both as displays have them: seconds, and the share of the peak."""
        return _busy(self.before, self.before_share), _busy(self.after, self.after_share)


@dataclass(frozen=True, slots=True)
class LinePair:
    """A line of the source on both sides, by the model that is shown."""

    line: SourceLine
    """of the first side if it has it"""
    other: SourceLine | None
    """the line of the second side that it is matched with; None where only one side has it"""
    before: float | None
    """seconds; None where only the second side has it"""
    after: float | None
    """seconds; None where only the first side has it"""

    @property
    def change(self) -> float:
        """Return by how many seconds the second side takes longer for it."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the text of the line, and that of the other side where it is another."""
        return tuple(dict.fromkeys(each.text for each in (self.line, self.other) if each is not None))

    @property
    def words(self) -> tuple[str, str]:
        """Return both times as displays have them, an empty one where a side has no such line."""
        before, after = ("" if each is None else duration(each) for each in (self.before, self.after))
        return before, after


def _busy(seconds: float, share: float) -> str:
    return f"{duration(seconds)} ({in_percent(share)})" if seconds else ""


# {{{ lines, matched


def line_pairs(before: Side, after: Side) -> tuple[LinePair, ...]:
    """Return the lines of both sides in the order of the first, those that only the second has below.

    Instructions are matched by their id, those that are left by the array that they assign; other lines by their text.
    """
    partners = _matched(before.lines, after.lines)
    taken = set(partners.values())
    found = [_line_pair(each, after.lines[partners[place]] if place in partners else None)
             for place, each in enumerate(before.lines)]  # fmt: skip
    rest = [LinePair(each.line, None, None, each.seconds) for place, each in enumerate(after.lines)
            if place not in taken]  # fmt: skip
    return tuple(each for each in (*found, *rest) if each.line.source)


def _line_pair(cost: LineCost, other: LineCost | None) -> LinePair:
    if other is None:
        return LinePair(cost.line, None, cost.seconds, None)
    return LinePair(cost.line, other.line, cost.seconds, other.seconds)


def _matched(lines: Sequence[LineCost], others: Sequence[LineCost]) -> dict[int, int]:
    """Return the places of *lines* -> the places of their partners among *others*."""
    found: dict[int, int] = {}
    for key in (_by_id, _by_assigned):
        taken = set(found.values())
        free: dict[tuple[str, str], list[int]] = {}
        for place, each in enumerate(others):
            if place not in taken and key(each.line):
                free.setdefault((each.line.kind, key(each.line)), []).append(place)
        for place, each in enumerate(lines):
            places = free.get((each.line.kind, key(each.line)), []) if place not in found else []
            if places:
                found[place] = places.pop(0)
    return found


def _by_id(line: SourceLine) -> str:
    return line.source


def _by_assigned(line: SourceLine) -> str:
    """Return the array that an instruction assigns; of launches and barriers, all are alike."""
    if line.kind == "instruction":
        return line.text.rpartition(": ")[2].split(" = ")[0].split("[")[0] if " = " in line.text else ""
    return line.kind if line.kind in ("launch", "barrier") else ""


# }}}


# {{{ what launches do


def resource_pairs(before: Sums, after: Sums) -> tuple[ResourcePair, ...]:
    """Return how busy each pipeline and memory level is, those that are busiest on either side first."""
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
    """Return for what warps wait, in shares of all waiting; empty where that is not known of either side."""
    causes = dict.fromkeys((*before.waits, *after.waits))
    return tuple(Pair(str(cause), before.waits.get(cause), after.waits.get(cause), SHARE) for cause in causes)


def resident_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return how many warps of the longest launch reside on a core, its registers, spills and grid."""
    words, (one, other) = before.diagnosis.words, (each.diagnosis.longest for each in (before, after))
    pairs = (
        (f"{words.warp}s that reside", one.residents.warps, other.residents.warps, NUMBER),
        ("occupancy", one.residents.share, other.residents.share, SHARE),
        ("registers in a work-item", one.residents.registers, other.residents.registers, NUMBER),
        ("registers spilled", one.residents.spilled, other.residents.spilled, NUMBER),
        ("groups", one.groups, other.groups, NUMBER),
        ("work-items in a group", one.work_items, other.work_items, NUMBER),
        (f"{words.core}s with work", one.balance, other.balance, SHARE),
    )
    return tuple(Pair(*each) for each in pairs)


def traffic_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return the bytes that are moved by way of each memory level, the nearest first."""
    levels = dict.fromkeys((*before.moved, *after.moved))
    return tuple(Pair(level, before.moved.get(level), after.moved.get(level), BYTES) for level in levels)


def counter_pairs(before: Sums, after: Sums) -> tuple[Pair, ...]:
    """Return the instructions that warps execute, and of each array's accesses the requests, sectors, wavefronts."""
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
