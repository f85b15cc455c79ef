"""What the parts of an estimate cost, by line of the kernel's listing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopyperf.models.result import Estimate
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


def line_costs(estimate: Estimate, listing: Sequence[Line]) -> Iterator[LineCost]:
    """Yield what each line of *listing* costs in *estimate*; a source that has several lines costs at its first."""
    of_source: dict[str, dict[str, float]] = {}
    for row in estimate.breakdown.rows:
        parts = of_source.setdefault(row.source or NOWHERE, {})
        parts[row.property] = parts.get(row.property, 0.0) + float(row.seconds)
    for line in listing:
        parts = of_source.pop(line.source, {})
        yield LineCost(line, {name: parts[name] for name in sorted(parts, key=lambda name: -abs(parts[name]))})


def with_others(listing: Sequence[Line], estimates: Iterable[Estimate]) -> tuple[Line, ...]:
    """Return *listing* with a line for each source that *estimates* have and it does not, so that costs add up."""
    known = {line.source for line in listing}
    sources = (row.source or NOWHERE for each in estimates for row in each.breakdown.rows)
    others = dict.fromkeys(source for source in sources if source not in known)
    return (*listing, *(Line("other", 0, source, source) for source in others))
