"""The tables of an explanation's first screen: utilization of resources, and suggested changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import Vocabulary
from loopyperf.display import Table
from loopyperf.explain.diagnosis import FULL, Diagnosis
from loopyperf.explain.findings import Finding
from loopyperf.explain.review import AccessReview, LaunchReview, Residents
from loopyperf.units import duration, in_percent, listed, number_of

WIDTH = 24
"""length of a full bar, in characters"""
EIGHTHS = " ▏▎▍▌▋▊▉"
"""fractions of a character at the end of a bar"""
NAMED = 2
"""maximum number of source lines named in a finding"""
WIDEST = 80
"""length of a comment's line"""
COMMENT: Mapping[str, Any] = {"initial_indent": "# ", "subsequent_indent": "# ", "break_on_hyphens": False}
"""options of a comment that is wrapped"""
WASTEFUL = 1.05
"""ratio to the minimum, above which both numbers are shown"""
SMALL = 0.01
"""utilization below which a resource is not shown"""
UNEVEN = 0.95
"""load balance below which idle cores are shown"""


# {{{ utilization of resources


def bar(share: float) -> str:
    """Return a text bar for a *share* from 0 to 1."""
    eighths = round(8 * WIDTH * min(1.0, max(0.0, share)))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def bars(review: LaunchReview, diagnosis: Diagnosis) -> Table:
    """Return the table of the utilization of each resource during a launch, and of the occupancy."""
    words = diagnosis.words
    name = f", {review.name}" if len(diagnosis.launches) > 1 else ""
    rows = [(each.name, bar(each.share), in_percent(each.share), each.note) for each in shares_of_peak(review, words)]
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
        if share >= SMALL and resource != Pipeline.BARRIER:  # barriers are shown as waiting
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
    shares = [f"{cause} {in_percent(share)}" for cause, share in review.waiting.total.items() if share >= SMALL]
    return f"{words.warp} stall reasons: {', '.join(shares)}" if shares else ""


def occupancy_in_words(residents: Residents, words: Vocabulary) -> str:
    """Return the resident warps, what limits them, and what one more group would need."""
    here = f"{residents.warps_in_words} of {residents.slots} {words.warp}s"
    if residents.is_full:
        return f"{here}: full"
    if residents.limited_by == ("grid",):
        return f"{here} on average: the grid has no more groups"
    limit = " and ".join(residents.limited_by)
    return f"{here} ({number_of(residents.groups, 'group')}), limited by {limit}{_next_step(residents)}"


def _next_step(residents: Residents) -> str:
    """Return what one more group would need."""
    groups = number_of(residents.fitting + 1, "group")
    if residents.fewer_registers is not None:
        return f": {residents.registers} per work-item; {groups} fit with at most {residents.fewer_registers}"
    if residents.less_local_memory is not None:
        return f": {groups} fit with at most {residents.less_local_memory:,} B each"
    return ""


# }}}


def findings_table(findings: Sequence[Finding], diagnosis: Diagnosis) -> Table:
    """Return the table of changes with run times and speedups, and with advice on those that Loopy cannot make."""
    rows: list[tuple[str, str, str]] = []
    for number, each in enumerate(findings, 1):
        of_launch = f" ({each.launch})" if len(diagnosis.launches) > 1 else ""
        time, speedup = ("", "") if each.seconds is None else (duration(each.seconds), f"{each.speedup:.2f}×")
        rows.append((f"{number}. {each.change}{of_launch}", time, speedup))
        advice = () if each.recipe.calls else each.recipe.advice
        rows += [(f"   {line}", "", "") for line in (*reasons(each, diagnosis), *advice)]
    return Table(("what would help (each alone)", "time", "speedup"), rows)


def recipes_in_text(findings: Sequence[Finding]) -> list[str]:
    """Return the source of each change that Loopy can make, with a comment that numbers it as in the table."""
    return [
        "\n".join([*wrap(f"change {number}: {each.change}", WIDEST, **COMMENT), each.recipe.source])
        for number, each in enumerate(findings, 1)
        if each.recipe.calls
    ]


def reasons(finding: Finding, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield one line: the evidence (unless the cause has it), the source lines, and the next bottleneck."""
    why = "" if finding.evidence in diagnosis.cause else finding.evidence
    where = f"at {listed(finding.lines, NAMED)}" if finding.lines else ""
    if clause := "; ".join(filter(None, (why, where, finding.then))):
        yield clause


def accesses_table(review: LaunchReview, words: Vocabulary) -> Table:
    """Return the table of a launch's accesses: sectors, wavefronts and cache hit rates."""
    caches = [name for name in review.traffic.moved if any(each.hit_rate(name) is not None for each in review.accesses)]
    rows = [
        (
            each.line,
            f"{each.kind} {each.array}",
            words.local if each.space == MemorySpace.LOCAL else each.space,
            _of_fewest(each.sectors, each.fewest_sectors) if each.sectors else "",
            _of_fewest(each.wavefronts, each.fewest_wavefronts),
            *(_hit_rate(each, cache) for cache in caches),
        )
        for each in review.accesses
    ]
    hits = (f"{cache} hits" for cache in caches)
    return Table(("line", "access", "memory", f"{words.sector}s (minimum)", words.wavefronts, *hits), rows, text=3)


def _of_fewest(number: float, fewest: float) -> str:
    """Return *number*, followed by the minimum in parentheses if that is clearly less."""
    return f"{number:.3g} ({fewest:.3g})" if number > WASTEFUL * fewest else f"{number:.3g}"


def _hit_rate(access: AccessReview, cache: str) -> str:
    rate = access.hit_rate(cache) if access.kind == "load" else None
    return "" if rate is None else in_percent(rate)
