"""The :class:`Explanation` of a kernel's run time on one or several devices, as plain values and as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from textwrap import wrap
from typing import Any

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import Vocabulary
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import unanswered
from loopyperf.explain.diagnosis import FULL, Diagnosis
from loopyperf.explain.findings import Finding
from loopyperf.explain.review import BUSY_STALLS, LaunchReview, Residents
from loopyperf.explain.roofline_chart import Roofline
from loopyperf.explain.source_view import SourceLine
from loopyperf.models.result import Estimate
from loopyperf.models.workload import LATENCY
from loopyperf.predict.compare import below_roofline, is_below
from loopyperf.predict.on_device import BOUND
from loopyperf.units import duration, in_percent, listed, number_of, prefixed

NOWHERE = "not attributed to a line"
"""label of costs without a source line"""


@dataclass(frozen=True, slots=True)
class LineCost:
    """The cost of a source line."""

    line: SourceLine
    """line of the listing"""
    parts: Mapping[str, float]
    """seconds by property, largest first"""

    @property
    def seconds(self) -> float:
        """Return the sum of all parts, in seconds."""
        return sum(self.parts.values())


def line_costs(
    estimate: Estimate, listing: Sequence[SourceLine], reviews: Sequence[LaunchReview] = ()
) -> Iterator[LineCost]:
    """Yield the cost of each line of *listing* in *estimate*; an instruction with several lines costs at its first.

    Latency is attributed to the lines that wait, if *reviews* of the launches know them, or else to the launch.
    """
    of_source: dict[str, dict[str, float]] = {}
    stalls = {f"launch of {review.name}": _stalls(review, listing) for review in reviews}
    for row in estimate.breakdown.rows:
        where = stalls.get(row.source, {}) if row.property == LATENCY else {}
        for source, share in (where or {row.source or NOWHERE: 1.0}).items():
            parts = of_source.setdefault(source, {})
            parts[row.property] = parts.get(row.property, 0.0) + float(row.seconds) * share
    for line in listing:
        parts = of_source.pop(line.source, {})
        yield LineCost(line, {name: parts[name] for name in sorted(parts, key=lambda name: -abs(parts[name]))})


def _stalls(review: LaunchReview, listing: Sequence[SourceLine]) -> dict[str, float]:
    """Return each line's share of the waiting, without waiting for busy pipelines, whose time counts elsewhere."""
    known = {line.source for line in listing}
    if review.waiting is None:
        return {}
    found = {
        source: sum(share for cause, share in waits.items() if cause not in BUSY_STALLS)
        for source, waits in review.waiting.by_source.items()
        if source in known
    }
    every = sum(found.values())
    return {source: share / every for source, share in found.items() if share} if every else {}


def with_others(listing: Sequence[SourceLine], estimates: Iterable[Estimate]) -> tuple[SourceLine, ...]:
    """Return *listing* plus a line for each other source of costs in *estimates*, so that costs add up."""
    known = {line.source for line in listing}
    sources = (row.source or NOWHERE for estimate in estimates for row in estimate.breakdown.rows)
    others = dict.fromkeys(source for source in sources if source not in known)
    return (*listing, *(SourceLine("other", 0, source, source) for source in others))


SMALL_COST = 0.01
"""share of the run time; a smaller cost of a line is not shown"""
LEAST_STALLS = 0.01
"""share of stall cycles; a line with a smaller share is not marked as waiting"""
ONLY_CAUSE = 0.95
"""share of a line's stall cycles from which a cause counts as the only one"""
MOST_FINDINGS = 3
"""maximum number of findings on the first screen"""


@dataclass(frozen=True, slots=True, repr=False)
class OnDevice(Tabular):
    """The explanation of a kernel's run time on one device."""

    device: str
    """short name of the device"""
    name: str
    """full name of the device; the short name without device parameters"""
    first: str
    """the model shown first: the requested one, if it could predict the kernel"""
    estimates: Mapping[str, Estimate]
    """estimates by model, at least one"""
    refusals: Mapping[str, str]
    """reasons for missing estimates, by model"""
    clock: float | None
    """core clock in Hz; None without device parameters"""
    roofline: Roofline | None
    """the launches' rooflines; None if there are none, for the reason in :attr:`gaps`"""
    gaps: Mapping[str, str]
    """reasons for a missing ``"roofline"`` or ``"diagnosis"``"""
    diagnosis: Diagnosis | None = None
    """what limits the kernel, and findings; None if there is none, for the reason in :attr:`gaps`"""
    cores: int | None = None
    """number of cores; None without device parameters"""

    @property
    def estimate(self) -> Estimate:
        """Return the estimate of the model shown first."""
        return self.estimates[self.first]

    @property
    def cause(self) -> str:
        """Return the cause of the run time, as a sentence without its period."""
        return self.estimate.most_of_it if self.diagnosis is None else self.diagnosis.cause

    @property
    def has_stalls(self) -> bool:
        """Return whether the stall reasons of the warps of the longest launch are known."""
        found = self.diagnosis
        return found is not None and bool(found.launches) and found.longest.waiting is not None

    @property
    def least(self) -> float:
        """Return the roofline's lower bound in seconds; -infinity if there is none.

        It includes the launch overhead if the roofline model was evaluated.
        """
        if "roofline" in self.estimates:
            return float(self.estimates["roofline"])
        return -inf if self.roofline is None else sum(launch.seconds for launch in self.roofline.launches)

    @property
    def below_the_bound(self) -> str:
        """Return a remark on a time of the model shown first that is below the roofline; empty if it is not."""
        if not is_below(self.estimate, self.least):
            return ""
        if self.estimate.columns == "pipelines":
            return f"below the roofline of {duration(self.least)}: the fit measured a faster device than is published"
        return below_roofline({self.first: self.estimate}, self.least)

    @property
    def under_the_roof(self) -> str:
        """Return a remark on models that predict less time than the roofline; empty if there are none."""
        return below_roofline(self.estimates, self.least)

    def report_text(self) -> ReportText:
        """Return the first screen: the time, its cause, the utilization of resources, and suggested changes."""
        shown, diagnosis = self.estimate, self.diagnosis
        tables: list[Table] = []
        if diagnosis is not None and diagnosis.launches:
            tables = [bars(diagnosis.longest, diagnosis), findings_table(diagnosis.findings[:MOST_FINDINGS], diagnosis)]
        return ReportText(
            question=f"{called(shown.kernel, shown.sizes, shown.typical)} on {self.called}, model {self.first}",
            answer=f"{shown.time_and_interval}, {self.cause}",
            tables=[table for table in tables if table.rows],
            code=() if diagnosis is None else recipes_in_text(diagnosis.findings)[:1],
            remarks=[
                *(f"or: {alternative}" for alternative in shown.alternatives),
                *self._beside_findings(),
                *self._other_models(),
                *unanswered(self.refusals),
            ],
            notes=shown.notes,
            alone=shown.alone,
        )

    def cost_in_words(self, seconds: float) -> tuple[str, str]:
        """Return the cost of a line and its share of the run time as text; empty below :data:`SMALL_COST`."""
        whole = float(self.estimate.seconds)
        share = seconds / whole if whole else 0.0
        return (duration(seconds), in_percent(share)) if abs(share) >= SMALL_COST else ("", "")

    def waits_at(self, line: str) -> str:
        """Return the share of stalls at a source *line*, and its main cause; empty below :data:`LEAST_STALLS`."""
        launches = () if self.diagnosis is None or not line else self.diagnosis.launches
        for launch in launches:
            waits = None if launch.waiting is None else launch.waiting.by_source.get(line)
            if waits is not None and (every := sum(waits.values())) >= LEAST_STALLS:
                cause = max(waits, key=lambda cause: waits[cause])
                return f"{in_percent(every)}, {'' if waits[cause] >= ONLY_CAUSE * every else 'mostly '}{cause}"
        return ""

    def lanes_at(self, line: str) -> str:
        """Return the mean number of active lanes at a source *line*, e.g. ``"16 lanes"``; empty if all are active."""
        launches = () if self.diagnosis is None else self.diagnosis.launches
        return next((f"{launch.lanes[line]:.3g} lanes" for launch in launches if line in launch.lanes), "")

    def remarks_at(self, line: str) -> str:
        """Return the remarks on a source *line*: its waiting, and its lanes."""
        return ", ".join(filter(None, (self.waits_at(line), self.lanes_at(line))))

    @property
    def called(self) -> str:
        """Return the full name of the device, with its short name if that differs."""
        return self.name if self.name == self.device else f"{self.name} ({self.device})"

    def _beside_findings(self) -> Iterator[str]:
        """Yield remarks on the diagnosing model, on stall reasons, and on findings that are not shown."""
        if self.diagnosis is None:
            return
        yield from self.diagnosis.remarks
        if self.diagnosis.launches:
            yield from filter(None, [waiting_in_words(self.diagnosis.longest, self.diagnosis.words)])
        if not self.diagnosis.findings:
            yield self.diagnosis.no_change
        elif more := self.diagnosis.findings[MOST_FINDINGS:]:
            yield f"{number_of(len(more), 'more finding')} with smaller gains"

    def _other_models(self) -> Iterator[str]:
        """Yield one line on the estimates of the other models."""
        yield from filter(None, [self.below_the_bound])
        others = {name: estimate for name, estimate in self.estimates.items() if name != self.first}
        if len(others) == 1:
            ((name, other),) = others.items()
            time = other.time_in_words
            if not self.below_the_bound:
                # Counts do not know the bound: an interval by a fit of counts may reach below it.
                is_bound = name == BOUND and float((self.estimate.interval or (other,))[0]) >= float(other)
                least = f"at least {time.removeprefix('at least ')} without changes"
                yield f"{name}: {least if is_bound else time}"
        elif others:
            ends = (pick(others, key=lambda name: float(others[name])) for pick in (min, max))
            low, high = (f"{others[name].time_in_words} ({name})" for name in ends)
            yield f"{len(others)} other models: {low} to {high}"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Tabular):
    """The explanation of a kernel's run time at one size, on one or several devices."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    about: str
    """the user's description of the kernel"""
    listing: tuple[SourceLine, ...]
    """source listing, followed by other sources of costs"""
    devices: tuple[OnDevice, ...]
    """explanations by device, at least one"""
    refusals: Mapping[str, str]
    """reasons for missing devices, by device"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """the given typical iteration counts and condition shares, by name"""

    def lines(self, on: OnDevice) -> tuple[LineCost, ...]:
        """Return the cost of each line in the device's shown estimate, to which the costs add up.

        Latency is a cost of the lines that wait.
        """
        reviews = () if on.diagnosis is None else on.diagnosis.launches
        return tuple(line_costs(on.estimate, self.listing, reviews))

    def report_text(self) -> ReportText:
        """Return the first screen of the first device, with one line for each other device."""
        first, *others = self.devices
        screen = first.report_text()
        beside = [f"on {on.name}: {on.estimate.time_in_words}, {on.cause}" for on in others]
        return replace(screen, remarks=[*beside, *screen.remarks, *unanswered(self.refusals)])

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each source line and device, with its seconds and its share of the run time."""
        return [
            {
                "device": on.device,
                "source": cost.line.source,
                "line": cost.line.text,
                "seconds": cost.seconds,
                "share": cost.seconds / float(on.estimate) if float(on.estimate) else None,
            }
            for on in self.devices
            for cost in self.lines(on)
        ]


# {{{ tables of the first screen: utilization of resources, suggested changes, and accesses

WIDTH = 24
"""length of a full bar, in characters"""
EIGHTHS = " ▏▎▍▌▋▊▉"
"""fractions of a character at the end of a bar"""
MOST_LINES = 2
"""maximum number of source lines named in a finding"""
WIDEST = 80
"""length of a comment's line"""
COMMENT: Mapping[str, Any] = {"initial_indent": "# ", "subsequent_indent": "# ", "break_on_hyphens": False}
"""options of a comment that is wrapped"""
ABOVE_MINIMUM = 1.05
"""ratio to the minimum, above which both numbers are shown"""
SMALL_UTILIZATION = 0.01
"""utilization below which a resource is not shown"""
UNEVEN = 0.95
"""load balance below which idle cores are shown"""


def bar(share: float) -> str:
    """Return a text bar for a *share* from 0 to 1."""
    eighths = round(8 * WIDTH * min(1.0, max(0.0, share)))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def bars(review: LaunchReview, diagnosis: Diagnosis) -> Table:
    """Return the table of the utilization of each resource during a launch, and of the occupancy."""
    words = diagnosis.words
    name = f", {review.name}" if len(diagnosis.launches) > 1 else ""
    rows = [
        (resource.name, bar(resource.share), in_percent(resource.share), resource.note)
        for resource in shares_of_peak(review, words)
    ]
    return Table((f"share of peak{name}", "", "", ""), rows, text=2, last=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """The utilization of a resource."""

    name: str
    """display name"""
    share: float
    """share of peak, from 0 to 1"""
    note: str = ""
    """remark"""
    binds: bool = False
    """whether it is the bottleneck"""


def shares_of_peak(review: LaunchReview, words: Vocabulary) -> Iterator[Bar]:
    """Yield the utilization of each resource during a launch, the share of busy cores, and the occupancy."""
    for resource, share in review.utilization.items():
        binds = resource == review.busiest and share >= FULL
        if share >= SMALL_UTILIZATION and resource != Pipeline.BARRIER:  # barriers are shown as waiting
            yield Bar(words.resource(resource), share, "◀ bottleneck" if binds else "", binds)
    if review.balance < UNEVEN:
        idle = f"◀ idle for {in_percent(1 - review.balance)} of the time"
        yield Bar(f"{words.core}s with work", review.balance, idle)
    if words.has_occupancy:
        yield Bar("occupancy", review.residents.share, occupancy_in_words(review.residents, words))


def waiting_in_words(review: LaunchReview, words: Vocabulary) -> str:
    """Return the causes of waiting, largest share first; empty if they are unknown."""
    if review.waiting is None:
        return ""
    shares = [
        f"{cause} {in_percent(share)}" for cause, share in review.waiting.total.items() if share >= SMALL_UTILIZATION
    ]
    return f"{words.warp} stall reasons: {', '.join(shares)}" if shares else ""


def occupancy_in_words(residents: Residents, words: Vocabulary) -> str:
    """Return the resident warps, what limits them, and what one more group would need."""
    here = f"{residents.warps_in_words} of {residents.slots} {words.warp}s"
    if residents.is_full:
        return f"{here}: full"
    if residents.limited_by == ("grid",):
        return f"{here} on average: the grid has no more groups"
    limited = f"{here} ({number_of(residents.groups, 'group')}), limited by {' and '.join(residents.limited_by)}"
    if residents.fewer_registers is None:
        return limited
    groups = number_of(residents.fitting + 1, "group")
    return f"{limited}: {residents.registers} per work-item; {groups} fit with at most {residents.fewer_registers}"


def findings_table(findings: Sequence[Finding], diagnosis: Diagnosis) -> Table:
    """Return the table of changes with run times and speedups, and with advice on those that Loopy cannot make."""
    rows: list[tuple[str, str, str]] = []
    for number, finding in enumerate(findings, 1):
        of_launch = f" ({finding.launch})" if len(diagnosis.launches) > 1 else ""
        time, speedup = ("", "") if finding.seconds is None else (duration(finding.seconds), f"{finding.speedup:.2f}×")
        rows.append((f"{number}. {finding.change}{of_launch}", time, speedup))
        advice = () if finding.recipe.calls else finding.recipe.advice
        rows += [(f"   {line}", "", "") for line in (*reasons(finding, diagnosis), *advice)]
    return Table(("what would help (each alone)", "time", "speedup"), rows)


def recipes_in_text(findings: Sequence[Finding]) -> list[str]:
    """Return the source of each change that Loopy can make, with a comment that numbers it as in the table."""
    return [
        "\n".join([*wrap(f"change {number}: {finding.change}", WIDEST, **COMMENT), finding.recipe.source])
        for number, finding in enumerate(findings, 1)
        if finding.recipe.calls
    ]


def reasons(finding: Finding, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield one line: the evidence (unless the cause has it), the source lines, and the next bottleneck."""
    why = "" if finding.evidence in diagnosis.cause else finding.evidence
    where = f"at {listed(finding.lines, MOST_LINES)}" if finding.lines else ""
    if clause := "; ".join(filter(None, (why, where, finding.then))):
        yield clause


def accesses_table(review: LaunchReview, words: Vocabulary) -> Table:
    """Return the table of a launch's accesses: sectors, wavefronts and cache hit rates."""
    caches = [
        name for name in review.traffic.moved if any(access.hit_rate(name) is not None for access in review.accesses)
    ]
    rows = [
        (
            access.line,
            f"{access.kind} {access.array}",
            words.local if access.space == MemorySpace.LOCAL else access.space,
            _of_fewest(access.sectors, access.fewest_sectors) if access.sectors else "",
            _of_fewest(access.wavefronts, access.fewest_wavefronts),
            *(
                "" if access.kind != "load" or (rate := access.hit_rate(cache)) is None else in_percent(rate)
                for cache in caches
            ),
        )
        for access in review.accesses
    ]
    hits = (f"{cache} hits" for cache in caches)
    return Table(("line", "access", "memory", f"{words.sector}s (minimum)", words.wavefronts, *hits), rows, text=3)


def traffic_table(review: LaunchReview, words: Vocabulary) -> Table:
    """Return the table of the bytes that a launch loads from and stores to each memory level."""
    traffic = review.traffic
    rows = [(words.local, prefixed(traffic.local, "B"), "")] if traffic.local else []
    rows += [
        (name, prefixed(traffic.loaded.get(name, 0.0), "B"), prefixed(traffic.stored.get(name, 0.0), "B"))
        for name, moved in traffic.moved.items()
        if moved
    ]
    return Table(("memory level", "loads", "stores"), rows)


def _of_fewest(number: float, fewest: float) -> str:
    """Return *number*, followed by the minimum in parentheses if that is clearly less."""
    return f"{number:.3g} ({fewest:.3g})" if number > ABOVE_MINIMUM * fewest else f"{number:.3g}"


# }}}
