"""What the parts of an estimate cost, by line of the kernel's listing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopyperf.models.on_device.review import LaunchReview
from loopyperf.models.on_device.waiting import BUSY
from loopyperf.models.result import Estimate
from loopyperf.models.workload import LATENCY
from loopyperf.oracle.explanation.listing import Line

NOWHERE = "not told apart by source"
"""what a row without a source is called"""


@dataclass(frozen=True, slots=True)
class LineCost:
    """What a line costs."""

    line: Line
    """of the listing"""
    parts: Mapping[str, float]
    """property -> seconds, the largest first"""

    @property
    def seconds(self) -> float:
        """Return the seconds of all parts together."""
        return sum(self.parts.values())


def line_costs(estimate: Estimate, listing: Sequence[Line], reviews: Sequence[LaunchReview] = ()) -> Iterator[LineCost]:
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


def _stalls(review: LaunchReview, listing: Sequence[Line]) -> dict[str, float]:
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


def with_others(listing: Sequence[Line], estimates: Iterable[Estimate]) -> tuple[Line, ...]:
    """Return *listing* with a line for each source that *estimates* have and it does not, so that costs add up."""
    known = {line.source for line in listing}
    sources = (row.source or NOWHERE for each in estimates for row in each.breakdown.rows)
    others = dict.fromkeys(source for source in sources if source not in known)
    return (*listing, *(Line("other", 0, source, source) for source in others))
