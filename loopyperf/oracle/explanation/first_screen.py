"""The tables of the first screen of an explanation: how full each resource is, and what would help."""

from collections.abc import Sequence

from loopyperf.counts.item import MemorySpace
from loopyperf.device.vocabulary import Vocabulary
from loopyperf.models.on_device.review import AccessReview, LaunchReview, Residents
from loopyperf.oracle.explanation.diagnosis import FULL, Diagnosis
from loopyperf.oracle.explanation.findings import Finding
from loopyperf.sheet import Table
from loopyperf.units import duration, in_percent, number_of

WIDTH = 24
"""characters of a bar that is full"""
EIGHTHS = " ▏▎▍▌▋▊▉"
"""parts of a character that bars end with"""
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
    rows = [
        (words.resource(resource), bar(share), in_percent(share), _mark(share) if resource == review.busiest else "")
        for resource, share in review.utilization.items()
        if share >= SMALL
    ]
    if review.balance < UNEVEN:
        idle = f"idle for {in_percent(1 - review.balance)} of the time"
        rows.append((f"{words.core}s with work", bar(review.balance), in_percent(review.balance), idle))
    residents = review.residents
    rows.append(("occupancy", bar(residents.share), in_percent(residents.share), occupancy_in_words(residents, words)))
    return Table((f"share of peak{name}", "", "", ""), rows, text=2, last=1)


def _mark(share: float) -> str:
    """Return what stands beside the busiest resource."""
    return "◀ binds" if share >= FULL else "◀ busiest, not full"


def occupancy_in_words(residents: Residents, words: Vocabulary) -> str:
    """Return how many warps reside, what limits them, and what one more group would need."""
    here = f"{residents.warps} of {residents.slots} {words.warp}s"
    if residents.is_full:
        return f"{here}: full"
    if residents.limited_by == ("grid",):
        return f"{here}: a {words.core} gets no more than {number_of(residents.total, 'group')}"
    limit = " and ".join(residents.limited_by)
    return f"{here}, limited by {limit}{_next_step(residents)}"


def _next_step(residents: Residents) -> str:
    """Return what one group more would need."""
    groups = number_of(residents.fitting + 1, "group")
    if residents.fewer_registers is not None:
        less = residents.registers - residents.fewer_registers
        return f": {residents.registers}; {less} fewer would let {groups} reside"
    if residents.less_local_memory is not None:
        return f"; {residents.less_local_memory:,} B or less would let {groups} reside"
    return ""


# }}}


def findings_table(findings: Sequence[Finding], diagnosis: Diagnosis) -> Table:
    """Return changes with the time after each, how many times as fast that is, and how to do it in Loopy."""
    rows: list[tuple[str, str, str]] = []
    for number, each in enumerate(findings, 1):
        of_launch = f" ({each.launch})" if len(diagnosis.launches) > 1 else ""
        rows.append((f"{number}. {each.change}{of_launch}", duration(each.seconds), f"{each.speedup:.2f}×"))
        rows.append((f"   {each.evidence}", "", ""))
        rows += [(f"   {line}", "", "") for line in each.recipe.how]
    return Table(("what would help", "time", "speedup"), rows)


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
    return Table(("line", "access", "memory", f"{words.sector}s (fewest)", "wavefronts", *hits), rows, text=3)


def _of_fewest(number: float, fewest: float) -> str:
    """Return a number with the fewest that there could be, where that is less."""
    return f"{number:.3g} ({fewest:.3g})" if number > WASTEFUL * fewest else f"{number:.3g}"


def _hit_rate(access: AccessReview, cache: str) -> str:
    rate = access.hit_rate(cache) if access.kind == "load" else None
    return "" if rate is None else in_percent(rate)
