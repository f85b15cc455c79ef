"""The tables of the first screen of an explanation: how full each resource is, and what would help."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import Vocabulary
from loopyperf.display import Table
from loopyperf.explain.diagnosis import FULL, Diagnosis
from loopyperf.explain.findings import Finding
from loopyperf.explain.review import AccessReview, LaunchReview, Residents
from loopyperf.units import amount, duration, in_percent, listed, number_of

WIDTH = 24
"""characters of a bar that is full"""
EIGHTHS = " ▏▎▍▌▋▊▉"
"""parts of a character that bars end with"""
NAMED = 2
"""lines that a finding names, at most"""
WASTEFUL = 1.05
"""times the fewest: from then on both numbers are shown"""
SMALL = 0.01
"""of its peak: resources that are less busy are not shown"""
UNEVEN = 0.95
"""of the time: where cores have work for less, that is shown"""


# {{{ how full each resource is


def bar(share: float) -> str:
    """Return a bar for *share* of all, from 0 to 1."""
    eighths = round(8 * WIDTH * min(1.0, max(0.0, share)))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def bars(review: LaunchReview, diagnosis: Diagnosis) -> Table:
    """Return how full each resource is while a launch runs, and how many warps reside."""
    words = diagnosis.words
    name = f", {review.name}" if len(diagnosis.launches) > 1 else ""
    rows = [(each.name, bar(each.share), in_percent(each.share), each.note) for each in shares_of_peak(review, words)]
    return Table((f"share of peak{name}", "", "", ""), rows, text=2, last=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """How full a resource is."""

    name: str
    """in the words for the device"""
    share: float
    """of its peak, from 0 to 1"""
    note: str = ""
    """what there is to say beside it"""
    binds: bool = False
    """whether it is what bounds"""


def shares_of_peak(review: LaunchReview, words: Vocabulary) -> Iterator[Bar]:
    """Yield how full each resource is while a launch runs, how many cores have work, and how many warps reside."""
    for resource, share in review.utilization.items():
        binds = resource == review.busiest and share >= FULL
        if share >= SMALL and resource != Pipeline.BARRIER:  # warps that wait are counted as waiting
            yield Bar(words.resource(resource), share, "◀ binds" if binds else "", binds)
    if review.balance < UNEVEN:
        idle = f"◀ idle for {in_percent(1 - review.balance)} of the time"
        yield Bar(f"{words.core}s with work", review.balance, idle)
    if words.has_occupancy:
        yield Bar("occupancy", review.residents.share, occupancy_in_words(review.residents, words))


def waiting_in_words(review: LaunchReview, words: Vocabulary) -> str:
    """Return for what warps wait, the greatest share first; empty where that is not known."""
    if review.waiting is None:
        return ""
    shares = [f"{cause} {in_percent(share)}" for cause, share in review.waiting.total.items() if share >= SMALL]
    return f"{words.warp}s wait for: {', '.join(shares)}" if shares else ""


def occupancy_in_words(residents: Residents, words: Vocabulary) -> str:
    """Return how many warps reside, what limits them, and what one more group would need."""
    here = f"{amount(round(residents.warps, 1))} of {residents.slots} {words.warp}s"
    if residents.is_full:
        return f"{here}: full"
    if residents.limited_by == ("grid",):
        return f"{here}: the grid has no more groups"
    limit = " and ".join(residents.limited_by)
    return f"{here} ({number_of(residents.groups, 'group')}), limited by {limit}{_next_step(residents)}"


def _next_step(residents: Residents) -> str:
    """Return what one group more would need."""
    groups = number_of(residents.fitting + 1, "group")
    if residents.fewer_registers is not None:
        return f": {residents.registers}, where {groups} need {residents.fewer_registers}"
    if residents.less_local_memory is not None:
        return f": {groups} need {residents.less_local_memory:,} B each"
    return ""


# }}}


def findings_table(findings: Sequence[Finding], diagnosis: Diagnosis) -> Table:
    """Return changes with the time after each, how many times as fast that is, and how to do it in Loopy."""
    rows: list[tuple[str, str, str]] = []
    for number, each in enumerate(findings, 1):
        of_launch = f" ({each.launch})" if len(diagnosis.launches) > 1 else ""
        rows.append((f"{number}. {each.change}{of_launch}", duration(each.seconds), f"{each.speedup:.2f}×"))
        rows += [(f"   {line}", "", "") for line in (*reasons(each, diagnosis), *each.recipe.how)]
    return Table(("what would help (each alone)", "time", "speedup"), rows)


def reasons(finding: Finding, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield in one line the evidence for a change, unless the cause has it; its source lines; and the next bound."""
    why = "" if finding.evidence in diagnosis.cause else finding.evidence
    where = f"at {listed(finding.lines, NAMED)}" if finding.lines else ""
    if clause := "; ".join(filter(None, (why, where, finding.then))):
        yield clause


def accesses_table(review: LaunchReview, words: Vocabulary) -> Table:
    """Return what each access of a launch asks of memory: sectors, wavefronts, and what caches have of it."""
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
    return Table(("line", "access", "memory", f"{words.sector}s (fewest)", words.wavefronts, *hits), rows, text=3)


def _of_fewest(number: float, fewest: float) -> str:
    """Return a number with the fewest that there could be, where that is less."""
    return f"{number:.3g} ({fewest:.3g})" if number > WASTEFUL * fewest else f"{number:.3g}"


def _hit_rate(access: AccessReview, cache: str) -> str:
    rate = access.hit_rate(cache) if access.kind == "load" else None
    return "" if rate is None else in_percent(rate)
