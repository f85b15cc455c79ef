"""The profile of an application: its kernels and transfers by call site, measured here and predicted on devices."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from loopyperf.applications.projection import Answered
from loopyperf.applications.record import Item, Record, Work
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.predict.predictor import Predictor
from loopyperf.units import duration, in_percent, prefixed

SHOWN = 15
"""rows of the table; the others are summed in one"""


@dataclass(frozen=True, slots=True)
class HostLink:
    """The link between the host and a device."""

    name: str = "PCIe 4.0 x16"
    """as tables show it"""
    bandwidth: float = 25e9
    """bytes per second that large transfers reach"""
    latency: float = 10e-6
    """seconds that a transfer takes at least"""

    def seconds(self, size: float) -> float:
        """Return the seconds of a transfer of *size* bytes."""
        return self.latency + size / self.bandwidth


@dataclass(frozen=True, slots=True)
class Projected:
    """The predicted time of a row on one device."""

    device: str
    """short name"""
    seconds: float | None
    """seconds of all calls; None without a prediction"""
    bound: str
    """what costs most; ``"link"`` for transfers"""
    interval: tuple[float, float] | None
    """prediction interval of :attr:`seconds` (80 %), if the model has one"""
    reason: str
    """why there is no prediction"""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A kernel or a kind of transfer at one call site."""

    _DERIVED: ClassVar[tuple[str, ...]] = ("intensity",)

    name: str
    """name of the kernel, or the direction of transfers"""
    work: Work
    """kind of work"""
    site: str
    """innermost call in the application: ``"file.py:12 function"``; empty without one"""
    sizes: Sequence[Mapping[str, int]]
    """distinct sizes"""
    calls: int
    """number of calls"""
    bytes: int
    """bytes of all transfers, or of the arrays of kernels that are not Loopy's"""
    here: float | None
    """seconds on the device that executed it, all calls; None if unknown"""
    flops: float | None
    """floating-point operations of all calls; None if they cannot be counted"""
    accessed: float | None
    """bytes of all accesses of global memory, of all calls; None if they cannot be counted"""
    on: Sequence[Projected]
    """one entry for each device"""

    @property
    def intensity(self) -> float | None:
        """Return the floating-point operations per byte accessed."""
        return self.flops / self.accessed if self.flops is not None and self.accessed else None

    @property
    def called(self) -> str:
        """Return the name with the sizes, or with their range."""
        names = dict.fromkeys(name for each in self.sizes for name in each)
        ranges = {name: sorted({each[name] for each in self.sizes if name in each}) for name in names}
        words = {name: f"{many[0]:,}..{many[-1]:,}" for name, many in ranges.items() if len(many) > 1}
        if not words:
            return called(self.name, {name: many[0] for name, many in ranges.items()}) if ranges else self.name
        return f"{self.name}({', '.join(f'{n}={words.get(n, many[0])}' for n, many in ranges.items())})"


@dataclass(frozen=True, slots=True)
class Whole:
    """The time of the whole application on one device, in seconds."""

    device: str
    """short name; ``"here"`` where it was measured"""
    kernels: float
    """predicted kernels"""
    transfers: float
    """over the link"""
    unknown: float
    """kernels without a prediction, at their measured time here"""
    first: float
    """host time of the first call of each kernel, in which Loopy and the compiler generate code"""
    host: float
    """the rest of the wall-clock time here: the host, and waiting"""

    @property
    def on_device(self) -> float:
        """Return the seconds of predicted kernels and transfers."""
        return self.kernels + self.transfers

    @property
    def seconds(self) -> float:
        """Return the sum of all parts."""
        return self.on_device + self.unknown + self.first + self.host


@dataclass(frozen=True, slots=True, repr=False)
class ApplicationProfile(Tabular):
    """What an application executed, and how long it would take on other devices."""

    _ROWS: ClassVar[str] = "rows"
    _DERIVED: ClassVar[tuple[str, ...]] = ("covered",)
    _OMITTED: ClassVar[tuple[str, ...]] = ("record", "predictions")

    name: str
    """command line of the application"""
    measured_on: str
    """name of the devices that executed it; empty if nothing was executed"""
    seconds: float
    """wall-clock seconds that were recorded"""
    devices: Sequence[str]
    """short names of the devices of the predictions"""
    link: HostLink
    """link of the predicted transfers"""
    rows: Sequence[ProfileRow]
    """by decreasing predicted time on the first device, those without a prediction by their measured one"""
    wholes: Sequence[Whole]
    """the whole application on each device"""
    here: Whole
    """the whole application where it was measured"""
    notes: Sequence[str]
    """what is incomplete"""
    record: Record
    """all launches and transfers in order, with their call chains"""
    predictions: Mapping[int, Answered]
    """item of the record -> prediction on each device"""

    def seconds_of(self, item: int, place: int) -> float | None:
        """Return the seconds of one execution of *item* on the device number *place*; None without a prediction."""
        described = self.record.items[item]
        if described.work == "transfer":
            return self.link.seconds(described.size)
        return self.predictions[item].on[place].seconds

    @property
    def covered(self) -> float:
        """Return the share of the measured kernel time that is predicted on the first device."""
        kernels = [each for each in self.rows if each.work != "transfer" and each.here]
        known = sum(each.here or 0 for each in kernels if each.on and each.on[0].seconds is not None)
        whole = sum(each.here or 0 for each in kernels)
        return known / whole if whole else 1.0

    def report_text(self) -> ReportText:
        """Return the table of kernels, the table of the whole application, and what is not known."""
        first = self.wholes[0]
        has_run = bool(self.measured_on)
        answer = f"{duration(first.seconds)} predicted on {first.device}"
        if has_run:
            answer = f"{duration(self.seconds)} on {self.measured_on}, {answer}"
        tables = [self.kernels_table(), *([self.whole_table()] if has_run else [])]
        return ReportText(
            self.name, answer, tables, remarks=self._remarks(), notes=self.notes, alone=duration(first.seconds)
        )

    def kernels_table(self, most: int = SHOWN) -> Table:
        """Return the table of kernels and transfers; rows after the first *most* are summed."""
        shown, others = self.rows[:most], self.rows[most:]
        one = len(self.devices) == 1
        headings = ["kernel", "call site", "calls", "here"]
        headings += [self.devices[0], "share", "speed-up"] if one else list(self.devices)
        headings += ["bound by"]
        rows = [self._cells(row) for row in shown]
        if others:
            rows.append(self._sum(others))
        return Table(headings, rows, text=2, last=1)

    def _cells(self, row: ProfileRow) -> tuple[str, ...]:
        here = "–" if row.here is None else duration(row.here)
        first = row.on[0]
        bounds = list(dict.fromkeys(each.bound for each in row.on if each.bound))
        last = " / ".join(bounds) or "not predicted"
        if len(self.devices) > 1:
            times = tuple("–" if each.seconds is None else duration(each.seconds) for each in row.on)
            return (row.called, row.site, f"{row.calls:,}", here, *times, last)
        if first.seconds is None:
            return (row.called, row.site, f"{row.calls:,}", here, "–", "–", "–", last)
        speedup = "–" if row.here is None or not first.seconds else f"{row.here / first.seconds:.3g}"
        share = in_percent(first.seconds / self.wholes[0].on_device)
        times = (duration(first.seconds), share, speedup)
        return (row.called, row.site, f"{row.calls:,}", here, *times, last)

    def _sum(self, rows: Sequence[ProfileRow]) -> tuple[str, ...]:
        here = sum(each.here or 0 for each in rows)
        totals = [sum(each.on[place].seconds or 0 for each in rows) for place in range(len(self.devices))]
        cells = (f"{len(rows)} others", "", f"{sum(each.calls for each in rows):,}", duration(here) if here else "–")
        if len(totals) > 1:
            return (*cells, *map(duration, totals), "")
        return (*cells, duration(totals[0]), in_percent(totals[0] / self.wholes[0].on_device), "", "")

    def whole_table(self) -> Table:
        """Return the table of the whole application: its parts here and on each device."""
        columns = [self.here, *self.wholes]
        parts = [
            ("predicted kernels", [each.kernels for each in columns]),
            ("other kernels, as here", [each.unknown for each in columns]),
            (f"transfers, {self.link.name}", [each.transfers for each in columns]),
            ("first calls, as here", [each.first for each in columns]),
            ("host, as here", [each.host for each in columns]),
            ("whole", [each.seconds for each in columns]),
        ]
        rows = [(name, *map(duration, seconds)) for name, seconds in parts if any(seconds)]
        ratios = [f"{self.here.seconds / each.seconds:.3g}" if each.seconds else "–" for each in columns]
        return Table(("part", "here", *self.devices), [*rows, ("speed-up of the whole", *ratios)])

    def _remarks(self) -> list[str]:
        remarks: list[str] = []
        largest = max(self.rows, key=lambda row: row.on[0].seconds or 0.0, default=None)
        if largest is not None and largest.on[0].seconds:
            whole = self.wholes[0]
            shares = [in_percent(largest.on[0].seconds / each) for each in (whole.on_device, whole.seconds)]
            remarks.append(
                f"largest on {whole.device}: {largest.name}, {shares[0]} of the device's time, {shares[1]} of the whole"
            )
        if self.measured_on and any(each.here for each in self.rows):
            remarks.append(f"{in_percent(self.covered)} of the measured kernel time is predicted")
        reasons: dict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if row.on[0].reason:
                reasons[row.on[0].reason].append(row.name)
        remarks += [f"not predicted: {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in reasons.items()]
        return remarks


def profile_of(
    record: Record, predictors: Sequence[Predictor], found: Mapping[int, Answered], link: HostLink
) -> ApplicationProfile:
    """Return the profile of *record* with the predictions *found* of each item."""
    devices = [each.device for each in predictors]
    rows = [_row(record, name, site, counts, devices, found, link) for (name, site), counts in _by_site(record).items()]
    rows.sort(key=lambda row: (row.on[0].seconds is None, -(row.on[0].seconds or row.here or 0.0)))
    here = _here(record, rows)
    return ApplicationProfile(
        name=" ".join([PurePath(word).name for word in record.start.command[:1]] + record.start.command[1:])
        or "planned kernels",
        measured_on=", ".join(each.name for each in record.devices),
        seconds=record.seconds,
        devices=devices,
        link=link,
        rows=rows,
        wholes=[_whole(rows, here, place, device) for place, device in enumerate(devices)],
        here=here,
        notes=_notes(record, predictors),
        record=record,
        predictions=found,
    )


@dataclass
class _Seen:
    calls: int = 0
    seconds: float = 0.0
    timed: int = 0


def _by_site(record: Record) -> dict[tuple[str, str], dict[int, _Seen]]:
    """Return (name, call site) -> item -> its calls there."""
    found: dict[tuple[str, str], dict[int, _Seen]] = {}
    for item, site, _, _, seconds in record.events:
        seen = found.setdefault((record.items[item].name, site_name(record, site)), {}).setdefault(item, _Seen())
        seen.calls += 1
        if seconds is not None:
            seen.seconds += seconds
            seen.timed += 1
    return found


def site_name(record: Record, site: int) -> str:
    """Return the innermost call of a site in a few words; empty for none."""
    frames = record.sites[site].frames if site >= 0 else []
    if not frames:
        return ""
    function, path, line = frames[-1]
    return f"{PurePath(path).name}:{line}" + ("" if function == "<module>" else f" {function}")


def _row(
    record: Record,
    name: str,
    site: str,
    counts: Mapping[int, _Seen],
    devices: Sequence[str],
    found: Mapping[int, Answered],
    link: HostLink,
) -> ProfileRow:
    items = [record.items[number] for number in counts]
    seen = list(counts.values())
    timed, calls = sum(each.timed for each in seen), sum(each.calls for each in seen)
    named = [{name: size for name, size in item.sizes.items() if name not in item.layout} for item in items]
    sizes = [each for each in named if each]
    return ProfileRow(
        name=name,
        work=items[0].work,
        site=site,
        sizes=list({tuple(each.items()): each for each in sizes}.values()),
        calls=calls,
        bytes=sum(item.size * each.calls for item, each in zip(items, seen, strict=True)),
        flops=_total([found[item.number].flops for item in items], seen),
        accessed=_total([found[item.number].accessed for item in items], seen),
        here=sum(each.seconds for each in seen) * calls / timed if timed else None,  # a few launches may lack a time
        on=[_projected(place, device, items, seen, found, link) for place, device in enumerate(devices)],
    )


def _total(values: Sequence[float | None], seen: Sequence[_Seen]) -> float | None:
    """Return the sum of *values* over all calls; None if one is unknown."""
    known = [(value, each.calls) for value, each in zip(values, seen, strict=True) if value is not None]
    return sum(value * calls for value, calls in known) if len(known) == len(values) else None


def _projected(
    place: int,
    device: str,
    items: Sequence[Item],
    seen: Sequence[_Seen],
    found: Mapping[int, Answered],
    link: HostLink,
) -> Projected:
    if items[0].work == "transfer":
        seconds = sum(link.seconds(item.size) * each.calls for item, each in zip(items, seen, strict=True))
        return Projected(device, seconds, "link", None, "")
    each_of = [found[item.number].on[place] for item in items]
    reasons = [each.reason for each in each_of if each.seconds is None]
    if reasons:
        return Projected(device, None, "", None, reasons[0])
    calls = [each.calls for each in seen]
    total = sum((each.seconds or 0.0) * number for each, number in zip(each_of, calls, strict=True))
    intervals = [each.interval for each in each_of]
    ends = None
    if None not in intervals:
        pairs = [(pair, number) for pair, number in zip(intervals, calls, strict=True) if pair is not None]
        ends = (sum(pair[0] * number for pair, number in pairs), sum(pair[1] * number for pair, number in pairs))
    costs: defaultdict[str, float] = defaultdict(float)
    for each, number in zip(each_of, calls, strict=True):
        costs[each.bound] += (each.seconds or 0.0) * number
    return Projected(device, total, max(costs, key=costs.__getitem__), ends, "")


def _here(record: Record, rows: Iterable[ProfileRow]) -> Whole:
    kernels = sum(row.here or 0.0 for row in rows if row.work != "transfer" and row.on[0].seconds is not None)
    unknown = sum(row.here or 0.0 for row in rows if row.work != "transfer" and row.on[0].seconds is None)
    transfers = sum(row.here or 0.0 for row in rows if row.work == "transfer")
    first = _first_calls(record)
    host = max(0.0, record.seconds - kernels - unknown - transfers - first)
    return Whole("here", kernels, transfers, unknown, first, host)


def _first_calls(record: Record) -> float:
    """Return by how much the host took longer for the first call of each item than for its fastest one."""
    by_item: dict[int, list[float]] = defaultdict(list)
    for item, _, _, host, _ in sorted(record.events, key=lambda event: event[2]):
        if record.items[item].work == "kernel":
            by_item[item].append(host)
    return sum(host[0] - min(host) if len(host) > 1 else host[0] for host in by_item.values())


def _whole(rows: Sequence[ProfileRow], here: Whole, place: int, device: str) -> Whole:
    kernels = sum(row.on[place].seconds or 0.0 for row in rows if row.work != "transfer")
    transfers = sum(row.on[place].seconds or 0.0 for row in rows if row.work == "transfer")
    unknown = sum(row.here or 0.0 for row in rows if row.work != "transfer" and row.on[place].seconds is None)
    return replace(here, device=device, kernels=kernels, transfers=transfers, unknown=unknown)


def _notes(record: Record, predictors: Sequence[Predictor]) -> list[str]:
    notes: list[str] = list(dict.fromkeys(note for each in predictors for note in each.notes))
    if record.start.command:
        if record.end is None:
            notes.append(
                f"the record ends after {duration(record.seconds)}: the process was killed or left by os._exit"
            )
        elif record.end.how != "complete":
            notes.append(f"the record ends after {duration(record.seconds)}: {record.end.how}")
    if record.end is not None:
        notes += record.end.notes
    if (record.start.ranks or 1) > 1:
        notes.append(f"MPI rank {record.start.rank} of {record.start.ranks} is profiled")
    untimed = sum(1 for *_, seconds in record.events if seconds is None)
    if untimed and record.start.command:
        notes.append(f"{untimed:,} of {len(record.events):,} calls have no time here; their queue gives none")
    moved = sum(record.items[item].size for item, *_ in record.events if record.items[item].work == "transfer")
    if moved:
        notes.append(f"{prefixed(moved, 'B')} are transferred")
    return notes
