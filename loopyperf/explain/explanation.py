"""An :class:`Explanation`: what there is to say of a kernel's time on some devices, as plain values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from loopyperf.display import ReportText, Shown, Table, called, plain
from loopyperf.errors import unanswered
from loopyperf.explain.diagnosis import NOTHING, Diagnosis
from loopyperf.explain.first_screen import bars, findings_table, waiting_in_words
from loopyperf.explain.review import LaunchReview
from loopyperf.explain.roofline_chart import Roofline
from loopyperf.explain.source_view import KernelCode, SourceLine
from loopyperf.explain.waiting import BUSY
from loopyperf.models.literature.gpuperf_advice import UNMODELLED, Advice
from loopyperf.models.result import Estimate
from loopyperf.models.workload import LATENCY
from loopyperf.predict.compare import below_roofline, is_below
from loopyperf.units import duration, in_percent, number_of

NOWHERE = "not told apart by source"
"""what a row without a source is called"""


@dataclass(frozen=True, slots=True)
class LineCost:
    """What a line costs."""

    line: SourceLine
    """of the listing"""
    parts: Mapping[str, float]
    """property -> seconds, the largest first"""

    @property
    def seconds(self) -> float:
        """Return the seconds of all parts together."""
        return sum(self.parts.values())


def line_costs(
    estimate: Estimate, listing: Sequence[SourceLine], reviews: Sequence[LaunchReview] = ()
) -> Iterator[LineCost]:
    """Yield what each line of *listing* costs in *estimate*; a source that has several lines costs at its first.

    The time in which results are waited for is that of the lines which wait, where *reviews* of launches know these;
    else it stands at the launch.
    """
    of_source: dict[str, dict[str, float]] = {}
    stalls = {f"launch of {each.name}": _stalls(each, listing) for each in reviews}
    for row in estimate.breakdown.rows:
        where = stalls.get(row.source, {}) if row.property == LATENCY else {}
        for source, share in (where or {row.source or NOWHERE: 1.0}).items():
            parts = of_source.setdefault(source, {})
            parts[row.property] = parts.get(row.property, 0.0) + float(row.seconds) * share
    for line in listing:
        parts = of_source.pop(line.source, {})
        yield LineCost(line, {name: parts[name] for name in sorted(parts, key=lambda name: -abs(parts[name]))})


def _stalls(review: LaunchReview, listing: Sequence[SourceLine]) -> dict[str, float]:
    """Return line -> its share of the waiting of warps, but for pipelines: these are busy meanwhile."""
    known = {line.source for line in listing}
    if review.waiting is None:
        return {}
    found = {
        source: sum(share for cause, share in waits.items() if cause not in BUSY)
        for source, waits in review.waiting.by_source.items()
        if source in known
    }
    every = sum(found.values())
    return {source: share / every for source, share in found.items() if share} if every else {}


def with_others(listing: Sequence[SourceLine], estimates: Iterable[Estimate]) -> tuple[SourceLine, ...]:
    """Return *listing* with a line for each source that *estimates* have and it does not, so that costs add up."""
    known = {line.source for line in listing}
    sources = (row.source or NOWHERE for each in estimates for row in each.breakdown.rows)
    others = dict.fromkeys(source for source in sources if source not in known)
    return (*listing, *(SourceLine("other", 0, source, source) for source in others))


BOUND = "roofline"
"""the model that is evaluated beside the one that is shown"""
WAITED = 0.01
"""of all waiting: what less is waited for is not shown"""
SHOWN = 3
"""findings on the first screen"""


@dataclass(frozen=True, slots=True, repr=False)
class OnDevice(Shown):
    """What there is to say of a kernel on one device."""

    device: str
    """its short name"""
    name: str
    """its full name; the short one without device parameters"""
    first: str
    """the model that is shown first: the one that was asked for, if it has an answer"""
    estimates: Mapping[str, Estimate]
    """by model, one at least"""
    refusals: Mapping[str, str]
    """model -> why it has no answer"""
    clock: float | None
    """of a core, in Hz; None without device parameters"""
    roofline: Roofline | None
    """the launches under the roofs of the device; None where :attr:`gaps` says why"""
    advice: tuple[Advice, ...]
    """of each launch"""
    gaps: Mapping[str, str]
    """``"roofline"``, ``"advice"`` or ``"diagnosis"`` -> why there is none"""
    diagnosis: Diagnosis | None = None
    """what limits the kernel, and what would make it faster; None where :attr:`gaps` says why"""
    cores: int | None = None
    """of the device; None without device parameters"""

    @property
    def estimate(self) -> Estimate:
        """Return the estimate that is shown first."""
        return self.estimates[self.first]

    @property
    def cause(self) -> str:
        """Return why the kernel takes so long, in a sentence without its period."""
        return self.estimate.most_of_it if self.diagnosis is None else self.diagnosis.cause

    @property
    def has_timeline(self) -> bool:
        """Return whether it is known what the warps of the longest launch do."""
        return (
            self.diagnosis is not None and bool(self.diagnosis.launches) and self.diagnosis.longest.waiting is not None
        )

    @property
    def least(self) -> float:
        """Return the seconds of the roofline, a bound of what it sees alone; -infinity where there is none.

        Those of the model, which has what launching takes, where it was asked.
        """
        if "roofline" in self.estimates:
            return float(self.estimates["roofline"])
        return -inf if self.roofline is None else sum(launch.seconds for launch in self.roofline.launches)

    @property
    def beyond_advice(self) -> str:
        """Return a sentence on what most of the time is for, where GPUPerf, whose advice it is, does not model that."""
        bound = self.estimate.bound
        if not self.advice or bound not in UNMODELLED:
            return ""
        return f"most of the time of {self.first} is for {bound}, which GPUPerf does not model: try {UNMODELLED[bound]}"

    def is_under_the_roof(self, model: str) -> bool:
        """Return whether *model* says less than the roofline."""
        return is_below(self.estimates[model], self.least)

    @property
    def under_the_roof(self) -> str:
        """Return a sentence on the models that say less than the roofline; empty where there are none."""
        return below_roofline(self.estimates, self.least)

    def report_text(self) -> ReportText:
        """Return the first screen: the time and its cause, how full each resource is, and what would help."""
        shown, diagnosis = self.estimate, self.diagnosis
        tables: list[Table] = []
        if diagnosis is not None and diagnosis.launches:
            tables = [bars(diagnosis.longest, diagnosis), findings_table(diagnosis.findings[:SHOWN], diagnosis)]
        return ReportText(
            question=f"{called(shown.kernel, shown.sizes, shown.typical)} on {self.called}, model {self.first}",
            answer=f"{shown.time_and_interval}, {self.cause}",
            tables=[table for table in tables if table.rows],
            remarks=[
                *(f"or: {each}" for each in shown.alternatives),
                *self._beside_findings(),
                *self._other_models(),
                *unanswered(self.refusals),
            ],
            notes=shown.notes,
        )

    def waits_at(self, line: str) -> str:
        """Return what the warps wait for at a *line* of the source, and its share of all waiting; empty for little."""
        launches = () if self.diagnosis is None or not line else self.diagnosis.launches
        for launch in launches:
            waits = None if launch.waiting is None else launch.waiting.by_source.get(line)
            if waits is not None and sum(waits.values()) >= WAITED:
                cause = max(waits, key=lambda cause: waits[cause])
                return f"{cause} {in_percent(sum(waits.values()))}"
        return ""

    @property
    def called(self) -> str:
        """Return its full name, and its short one where that is another."""
        return self.name if self.name == self.device else f"{self.name} ({self.device})"

    def _beside_findings(self) -> Iterator[str]:
        """Yield what warps wait for, and what there is beside the findings on the first screen."""
        if self.diagnosis is not None and self.diagnosis.model != self.first:
            by, seconds = self.diagnosis.model, duration(self.diagnosis.seconds)
            yield f"shares and changes are those of {by}, by which it takes {seconds}: {self.first} knows no pipelines"
        if self.diagnosis is not None and self.diagnosis.launches:
            yield from filter(None, [waiting_in_words(self.diagnosis.longest, self.diagnosis.words)])
        if self.diagnosis is not None and not self.diagnosis.findings:
            yield NOTHING
        elif self.diagnosis is not None and len(self.diagnosis.findings) > SHOWN:
            yield f"{number_of(len(self.diagnosis.findings) - SHOWN, 'finding')} more that would help less"

    def _other_models(self) -> Iterator[str]:
        """Yield in a line what the other models say."""
        others = {name: each for name, each in self.estimates.items() if name != self.first}
        if len(others) == 1:
            ((name, other),) = others.items()
            of_it = " of the kernel as it is, a lower bound" if name == BOUND else ""
            yield f"{name}{of_it}: {other.time_in_words}"
        elif others:
            ends = (pick(others, key=lambda name: float(others[name])) for pick in (min, max))
            low, high = (f"{others[name].time_in_words} ({name})" for name in ends)
            yield f"{len(others)} other models: {low} to {high}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values that JSON can hold."""
        return {
            "device": self.device,
            "name": self.name,
            "first": self.first,
            "estimates": {name: each.to_dict() for name, each in self.estimates.items()},
            "refusals": dict(self.refusals),
            "clock": self.clock,
            "cores": self.cores,
            "roofline": None if self.roofline is None else self.roofline.to_dict(),
            "advice": [each.to_dict() for each in self.advice],
            "gaps": dict(self.gaps),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """What there is to say of a kernel's time at one size."""

    kernel: str
    """its name"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    about: str
    """what the kernel is for, in the words of who asked"""
    listing: tuple[SourceLine, ...]
    """its source, and below it what else estimates attribute costs to"""
    devices: tuple[OnDevice, ...]
    """one at least"""
    refusals: Mapping[str, str]
    """device -> why no model has an answer for it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""
    code: KernelCode | None = None
    """that Loopy generates, where it was wanted and there is any"""

    def lines(self, estimate: Estimate) -> tuple[LineCost, ...]:
        """Return what each line of the listing costs by *estimate*, one of those here; they add up to its seconds."""
        return tuple(line_costs(estimate, self.listing))

    def lines_on(self, on: OnDevice) -> tuple[LineCost, ...]:
        """Return what each line costs on a device, by the estimate that is shown: stalls are at the lines that wait."""
        reviews = () if on.diagnosis is None else on.diagnosis.launches
        return tuple(line_costs(on.estimate, self.listing, reviews))

    def report_text(self) -> ReportText:
        """Return the first screen: of the first device, and in a line of each other one."""
        first, *others = self.devices
        screen = first.report_text()
        beside = [f"on {on.name}: {on.estimate.time_in_words}, {on.cause}" for on in others]
        return replace(screen, remarks=[*beside, *screen.remarks, *unanswered(self.refusals)])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "about": self.about,
            "listing": [line.to_dict() for line in self.listing],
            "devices": [each.to_dict() for each in self.devices],
            "refusals": dict(self.refusals),
            "code": None if self.code is None else self.code.to_dict(),
        }
