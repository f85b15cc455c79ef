"""Explain in one sentence why two run times differ: name the quantity that changed the slower kernel's bottleneck.

Both kernels are sides of a comparison (:class:`Side`); each quantity of both sides is a :class:`Pair`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import ISSUE, LOAD_STORE, LOCAL_MEMORY, Vocabulary
from loopyperf.explain.diagnosis import FULL
from loopyperf.explain.explanation import Explanation, LineCost, OnDevice
from loopyperf.explain.review import BUSY_STALLS, STALLS, LaunchReview, StallReason
from loopyperf.explain.source_view import SourceLine
from loopyperf.units import duration, in_percent, prefixed, ratio_in_words

NOTEWORTHY = 0.01
"""relative difference; quantities that differ by less are not shown"""
SHARE, BYTES, SECONDS, NUMBER = "share", "B", "s", ""
REQUESTS, SECTORS, WAVEFRONTS = "requests", "sectors", "wavefronts"
LOG_APART = log(1.05)
"""log ratio below which two quantities count as equal"""
RESOURCE_EXPLAINS = 0.5
"""least log ratio of amounts over log ratio of busy times; below it, the device's speed explains the change"""
CLOSE_RATE = 1.25
"""ratio within which cores and clocks explain a difference in throughput"""
EQUAL_TIMES = 0.01
"""share of the longer run time; times with a smaller difference count as equal"""
EXPLAINS = 0.5
"""share of the difference; a quantity that changed by more explains it"""
A_THIRD = 1 / 3
"""share of the difference; with no saturated resource, a wait that changed by more explains it"""
HINTS = 0.1
"""share of the difference; a quantity that changed by less does not explain it"""
WAIT_WORDS: dict[StallReason, str] = {
    "memory latency": "for memory",
    "dependency": "for results of other instructions",
    "barrier": "at barriers",
    "issue limit": "for an issue slot",
}

# {{{ quantities of both sides


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity on both sides of a comparison."""

    name: str
    """name of the quantity, or text of a source line with its instruction ids"""
    before: float | None
    """value on the first side; None if it does not apply"""
    after: float | None
    """value on the second side; None if it does not apply"""
    unit: str = NUMBER
    """``"share"``, ``"B"``, ``"s"``, another unit that takes prefixes, or empty for a plain number"""
    shares: tuple[float, float] | None = None
    """for the busy time of a resource, its utilization on both sides: share of peak while the launches execute"""
    source: str = ""
    """for the cost of a line, its id: that on the first side, or on the second if only that has the line"""

    @property
    def change(self) -> float:
        """Return the second value minus the first; a missing value counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def is_noteworthy(self) -> bool:
        """Return whether the values differ by more than 1 % of the larger one; shares by more than 0.01."""
        if self.before is None or self.after is None:
            return bool(self.before or self.after)
        whole = 1.0 if self.unit == SHARE else max(abs(self.before), abs(self.after))
        return abs(self.change) > NOTEWORTHY * whole

    @property
    def growth(self) -> float:
        """Return the logarithm of the second value over the first; finite for zeros and missing values."""
        return log((self.after or 1e-30) / (self.before or 1e-30))

    @property
    def words(self) -> tuple[str, str]:
        """Return both values as text, a busy time with its share, e.g. ``"46.2 ms (97 %)"``; empty for None."""
        before, after = (self._in_words(self.before), self._in_words(self.after))
        if self.shares is None:
            return before, after
        one, other = map(in_percent, self.shares)
        return f"{before} ({one})" if self.before else "", f"{after} ({other})" if self.after else ""

    @property
    def clause(self) -> str:
        """Return the change in words, e.g. ``"1 instead of 8 wavefronts per load of b"``."""
        before, after = (words or "no" for words in self.words)
        return f"{after} instead of {before} {self.name}".rstrip()

    def _in_words(self, number: float | None) -> str:
        if number is None:
            return ""
        if self.unit == SHARE:
            return in_percent(number)
        if self.unit == SECONDS:
            return duration(number)
        if self.unit == NUMBER and float(number).is_integer() and number < 1e6:
            return f"{number:,.0f}"
        return prefixed(number, self.unit).strip()


@dataclass(frozen=True)
class Side:
    """A kernel at its sizes on one device, with totals over its launches; they are empty without device parameters."""

    explanation: Explanation
    on: OnDevice
    """one of the explanation's devices, with its estimates"""

    @property
    def seconds(self) -> float:
        """Return the run time in seconds."""
        return float(self.on.estimate)

    @cached_property
    def lines(self) -> list[LineCost]:
        """Return the cost of each source line; the costs add up to the run time."""
        return [cost for cost in self.explanation.lines(self.on) if cost.line.source]

    @property
    def launches(self) -> tuple[LaunchReview, ...]:
        """Return the reviews of all launches."""
        return () if self.on.diagnosis is None else self.on.diagnosis.launches

    @property
    def longest(self) -> LaunchReview:
        """Return the longest launch; there must be one."""
        return max(self.launches, key=lambda launch: launch.seconds)

    @property
    def terms(self) -> Vocabulary:
        """Return the device's terms; the device must have parameters."""
        assert self.on.diagnosis is not None
        return self.on.diagnosis.words

    @cached_property
    def executing(self) -> float:
        """Return the seconds of all launches, without launch overhead."""
        return sum(launch.seconds for launch in self.launches)

    @cached_property
    def busy(self) -> dict[str, float]:
        """Return the busy time of each pipeline or memory level: its utilization times the time, longest first."""
        busy = defaultdict[str, float](float)
        for launch in self.launches:
            for resource, share in launch.utilization.items():
                busy[resource] += share * launch.seconds
        return dict(sorted(busy.items(), key=lambda item: -item[1]))

    @property
    def busiest(self) -> str:
        """Return the pipeline or memory level with the longest busy time; empty if there is none."""
        return next(iter(self.busy), "")

    def share(self, resource: str) -> float:
        """Return the utilization of *resource* while the launches execute, from 0 to 1."""
        return self.busy.get(resource, 0.0) / self.executing if self.executing else 0.0

    @cached_property
    def idle(self) -> float:
        """Return the seconds for which the mean core is idle."""
        return sum(launch.seconds * (1 - launch.balance) for launch in self.launches)

    @cached_property
    def waits(self) -> dict[StallReason, float]:
        """Return each stall reason with its share of stall cycles; empty if unknown for a launch."""
        if not self.executing or any(launch.waiting is None for launch in self.launches):
            return {}
        return {
            cause: sum(launch.waits_for(cause) * launch.seconds for launch in self.launches) / self.executing
            for cause in STALLS
        }

    @cached_property
    def moved(self) -> dict[str, float]:
        """Return the bytes moved through each memory level, the nearest level first."""
        moved = defaultdict[str, float](float)
        for launch in self.launches:
            for level, nbytes in launch.traffic.moved.items():
                moved[level] += nbytes
        return dict(moved)

    def work(self, resource: str) -> dict[tuple[str, str], float]:
        """Return (line, access) -> busy seconds of *resource*.

        All lines with the same access share the key ("", access); other instructions have the key (line, "").
        """
        work = defaultdict[tuple[str, str], float](float)
        for launch in self.launches:
            for each in launch.work:
                if each.resource == resource:
                    work["" if each.access else each.line, each.access] += each.share * launch.seconds
        return dict(work)

    def instructions(self, resource: str = ISSUE) -> float:
        """Return the warp instructions executed on *resource*."""
        return sum(work.instructions for launch in self.launches for work in launch.work if work.resource == resource)

    @property
    def launching(self) -> float:
        """Return the launch overhead in seconds; 0 without device parameters."""
        return max(0.0, self.seconds - self.executing) if self.launches else 0.0

    @property
    def lanes(self) -> float:
        """Return the mean number of work-items per warp."""
        warps = sum(launch.warps for launch in self.launches)
        work_items = sum(launch.work_items * launch.groups * launch.times for launch in self.launches)
        return work_items / warps if warps else 1.0

    @cached_property
    def accesses(self) -> dict[str, dict[str, float]]:
        """Return the totals by direction and array, e.g. ``"load b"``, in the order of the reviews.

        Each has the number of requests, the mean sectors and wavefronts per request, and by memory level the share of
        the sectors that reach it.
        """
        totals: dict[str, defaultdict[str, float]] = {}
        for launch in self.launches:
            for access in launch.accesses:
                total = totals.setdefault(f"{access.kind} {access.array}", defaultdict(float))
                requests = access.executions * launch.warps
                total[REQUESTS] += requests
                total[SECTORS] += requests * access.sectors
                total[WAVEFRONTS] += requests * access.wavefronts
                for level, share in access.reached.items():
                    total[level] += requests * access.sectors * share
        for total in totals.values():
            for name in total.keys() - {REQUESTS, SECTORS}:
                total[name] /= total[REQUESTS if name == WAVEFRONTS else SECTORS] or 1.0
            total[SECTORS] /= total[REQUESTS] or 1.0
        return {name: dict(total) for name, total in totals.items()}


def resident_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return resident warps per core, registers, spills and grid of the longest launch."""
    one, other = before.longest, after.longest
    return (
        Pair(f"resident {before.terms.warp}s", one.residents.warps, other.residents.warps),
        Pair("occupancy", one.residents.share, other.residents.share, SHARE),
        Pair("registers per work-item", one.residents.registers, other.residents.registers),
        Pair("spilled registers", one.residents.spilled, other.residents.spilled),
        Pair("groups", one.groups, other.groups),
        Pair("work-items per group", one.work_items, other.work_items),
        Pair(f"{before.terms.core}s with work", one.balance, other.balance, SHARE),
    )


def access_pairs(before: Side, after: Side, access: str) -> dict[str, Pair]:
    """Return requests, sectors and wavefronts of an *access*, e.g. ``"load b"``; the last two unless they are 0."""
    kind, array = access.split(" ", 1)
    names = {
        REQUESTS: f"{kind}s of {array}",
        SECTORS: f"{before.terms.sector}s per {kind} of {array}",
        WAVEFRONTS: f"{before.terms.wavefronts} per {kind} of {array}",
    }
    one, other = (side.accesses.get(access, {}) for side in (before, after))
    pairs = {key: Pair(name, one.get(key), other.get(key)) for key, name in names.items()}
    return {key: pair for key, pair in pairs.items() if key == REQUESTS or pair.before or pair.after}


def line_pairs(before: Side, after: Side) -> tuple[Pair, ...]:
    """Return the costs of the lines of both sides: those of the first in order, then those that only the second has.

    Instructions are matched by id, and the remaining ones by the array that they assign; other lines by text.
    """
    partners: list[LineCost | None] = [None for _ in before.lines]
    rest = after.lines
    for key in (_source, _assigned):
        for row, cost in enumerate(before.lines):
            if partners[row] is None and (wanted := key(cost.line)):
                alike = (each for each in rest if each.line.kind == cost.line.kind and key(each.line) == wanted)
                partners[row] = next(alike, None)
                rest = [cost for cost in rest if cost is not partners[row]]
    pairs = [*zip(before.lines, partners, strict=True), *((None, cost) for cost in rest)]
    return tuple(_line_pair(cost, other) for cost, other in pairs)


def _source(line: SourceLine) -> str:
    return line.source


def _assigned(line: SourceLine) -> str:
    """Return the array that an instruction assigns; for launches and barriers the kind, so that any two match."""
    if line.kind == "instruction":
        return line.text.rpartition(": ")[2].split(" = ")[0].split("[")[0] if " = " in line.text else ""
    return line.kind if line.kind in ("launch", "barrier") else ""


def _line_pair(cost: LineCost | None, other: LineCost | None) -> Pair:
    lines = [each.line for each in (cost, other) if each]
    ids = dict.fromkeys(line.source for line in lines if line.kind == "instruction")
    name = "  ".join([lines[0].text, *(f"{{id={source}}}" for source in ids)])
    return Pair(name, cost and cost.seconds, other and other.seconds, SECONDS, source=lines[0].source)


# }}}


def why(before: Side, after: Side) -> str:
    """Return the speed ratio of *after* to *before* and its cause, as a sentence without its period."""
    slow, fast = (before, after) if before.seconds >= after.seconds else (after, before)
    if slow.seconds - fast.seconds <= EQUAL_TIMES * slow.seconds:
        return "no difference" if slow.seconds == fast.seconds else "difference below 1 %"
    line = max(line_pairs(before, after), key=lambda pair: abs(pair.change))
    times = [duration(seconds or 0.0) for seconds in (line.after, line.before)]
    cause = f"most of the difference is in {line.source}, which takes {times[0]} instead of {times[1]}"
    if fast.seconds <= 0:
        return cause
    if before.launches and after.launches:
        cause = next(filter(None, _Cause(before, after, slow, fast).clauses()), cause)
    factor = ratio_in_words(slow.seconds / fast.seconds)
    return f"{factor} times as {'fast' if slow is before else 'long'}: {cause}"


@dataclass(frozen=True)
class _Cause:
    """Finds the one quantity that explains the difference between two kernels, both with launches."""

    before: Side
    after: Side
    slow: Side
    """the slower one of the two"""
    fast: Side

    def clauses(self) -> Iterator[str]:
        """Yield explanations, the most reliable first; an empty string where one does not apply."""
        if self._explains(self.slow.launching, self.fast.launching):
            overhead = self._pair("launch overhead", lambda side: side.launching or None, SECONDS)
            yield _joined(overhead, self._pair("launches", lambda side: sum(launch.times for launch in side.launches)))
        if self._explains(self.slow.idle, self.fast.idle):
            cores, residents = f"{self.slow.terms.core}s", self._residents()
            idle = self._pair("of the time", lambda side: side.idle / side.executing, SHARE)
            number = self._pair(cores, lambda side: side.on.cores)
            yield f"{cores} idle for {_joined(idle, residents['groups'], residents['work-items per group'], number)}"
        if self.slow.share(self.slow.busiest) < FULL:
            yield self._waiting(A_THIRD)
        yield self._binding()
        yield self._waiting(HINTS)
        yield next(self._details(None), "")

    @property
    def _across_devices(self) -> bool:
        return self.before.on.device != self.after.on.device

    def _explains(self, of_slow: float, of_fast: float, part: float = EXPLAINS) -> bool:
        return of_slow - of_fast >= part * (self.slow.seconds - self.fast.seconds)

    def _pair(self, name: str, of: Callable[[Side], float | None], unit: str = NUMBER) -> Pair:
        return Pair(name, of(self.before), of(self.after), unit)

    def _residents(self) -> dict[str, Pair]:
        return {pair.name: pair for pair in resident_pairs(self.before, self.after)}

    def _is_more(self, pair: Pair) -> bool:
        """Return whether the slower kernel has more of a quantity."""
        return (pair.growth if self.slow is self.after else -pair.growth) > LOG_APART

    # {{{ the busiest resource of the slower kernel

    def _binding(self) -> str:
        """Return the change in busy time of the slower kernel's bottleneck, and what changed it."""
        resource = self.slow.busiest
        if not resource or not self._explains(self.slow.busy[resource], self.fast.busy.get(resource, 0.0)):
            return ""
        if resource not in self.fast.busy and self.fast.busy:
            return ", ".join(
                f"{side.terms.resource(side.busiest)} busy for {duration(side.busy[side.busiest])} "
                f"{f'on {side.on.device}' if self._across_devices else f'in the {which} kernel'}"
                for which, side in (("slower", self.slow), ("faster", self.fast))
            )
        busy = self._pair("", lambda side: side.busy.get(resource), SECONDS)
        cause = ": ".join(filter(None, [busy.clause, self._quantity(resource, busy.growth)]))
        bound = ""
        if self.fast is self.after and self.fast.busiest != resource and self.fast.share(self.fast.busiest) >= FULL:
            bound = f"; now bound by {self.fast.terms.resource(self.fast.busiest)}"
        return f"{self.slow.terms.resource(resource)} busy for {cause}{bound}"

    def _quantity(self, resource: str, growth: float) -> str:
        """Return what changed the busy time of *resource* by *growth*, as a clause; empty if nothing does."""
        slow, fast = self.slow.work(resource), self.fast.work(resource)
        effects = {key: slow.get(key, 0.0) - fast.get(key, 0.0) for key in {**slow, **fast}}
        if not effects:
            return ""
        access = max(effects, key=lambda key: effects[key])[1]
        instructions = self._pair("instructions", lambda side: side.instructions(resource))
        quantity = self._of_access(resource, access, growth > 0) if access else instructions
        clause = quantity.clause if quantity.growth * growth > 0 and abs(quantity.growth) > LOG_APART else ""
        if not self._across_devices:
            return clause
        # Warps of two devices may have different numbers of lanes, and their caches different sizes.
        amount = self._amount(resource)
        if amount.growth / growth < RESOURCE_EXPLAINS:
            return self._throughput(resource, amount)
        return clause or amount.clause

    def _of_access(self, resource: str, access: str, grows: bool) -> Pair:
        """Return the quantity of *access* that changed most in the direction of the busy time of *resource*."""
        pairs = access_pairs(self.before, self.after, access)
        if not all(side.accesses.get(access, {}).get(REQUESTS) for side in (self.before, self.after)):
            return pairs[REQUESTS]
        if resource not in (LOAD_STORE, LOCAL_MEMORY):
            pairs.pop(WAVEFRONTS, None)
            name = f"of the {self.slow.terms.sector}s of {pairs[REQUESTS].name} reach {resource}"
            pairs[resource] = self._pair(name, lambda side: side.accesses[access].get(resource), SHARE)
        # An array in local memory on one side only has no sectors there.
        comparable = {name: pair for name, pair in pairs.items() if name == resource or (pair.before and pair.after)}
        along = {name: pair.growth if grows else -pair.growth for name, pair in comparable.items()}
        most = max(along, key=lambda name: along[name])
        if most == WAVEFRONTS and along.get(SECTORS, 0.0) > LOG_APART:
            most = SECTORS  # the wavefronts of global memory follow from these
        return pairs[most]

    def _amount(self, resource: str) -> Pair:
        """Return the work of *resource*: bytes of a memory level, else work-item instructions."""
        moved = self._pair(f"through {resource}", lambda side: side.moved.get(resource), BYTES)
        if moved.before and moved.after:
            return moved
        return self._pair("work-item instructions", lambda side: side.instructions(resource) * side.lanes)

    def _throughput(self, resource: str, amount: Pair) -> str:
        """Return the throughput of *resource* on the two devices, or the cores and clocks that explain it."""
        is_memory = amount.unit == BYTES
        rate = Pair(
            "" if is_memory else "work-item instructions per second",
            (amount.before or 0.0) / self.before.busy[resource],
            (amount.after or 0.0) / self.after.busy[resource],
            "B/s" if is_memory else NUMBER,
        )
        cycles = self._pair("", lambda side: (side.on.cores or 0) * (side.on.clock or 0.0))
        is_explained = not is_memory and abs(rate.growth - cycles.growth) < log(CLOSE_RATE)
        return self._clocks() if is_explained else rate.clause

    def _clocks(self) -> str:
        """Return the number of cores and the clocks of both devices; empty if unknown."""
        return " instead of ".join(
            f"{side.on.cores} {side.terms.core}s at {side.on.clock / 1e9:.3g} GHz"
            for side in (self.after, self.before)
            if side.on.cores and side.on.clock
        )

    # }}}

    # {{{ if no resource explains it

    def _waiting(self, part: float) -> str:
        """Return the wait that grew by at least *part* of the difference in the slower kernel, and why."""
        lost: dict[StallReason, float] = {
            cause: share * self.slow.executing - self.fast.waits.get(cause, 0.0) * self.fast.executing
            for cause, share in self.slow.waits.items()
            if cause not in BUSY_STALLS
        }
        if not lost or not self._explains(max(lost.values()), 0.0, part):
            return ""
        cause = max(lost, key=lambda cause: lost[cause])
        if self._is_more(self._barriers()) and lost.get("barrier", 0.0) > EXPLAINS * lost[cause]:
            cause = "barrier"  # warps at a barrier do not hide latency, so the other waits follow from barriers
        shares = self._pair("of stall cycles", lambda side: side.waits.get(cause, 0.0), SHARE)
        why = ": ".join(filter(None, [shares.clause, next(self._details(cause), "")]))
        return f"{self.slow.terms.warp}s wait {WAIT_WORDS[cause]} for {why}"

    def _details(self, cause: StallReason | None) -> Iterator[str]:
        """Yield quantities that may change how long warps wait for *cause*, the most likely first."""
        if cause == "barrier" and self._is_more(self._barriers()):
            yield self._barriers().clause
        if self._is_more(self._pair("", lambda side: 1 / (side.longest.residents.share or 1.0))):
            residents = self._residents()
            is_limit = "registers" in self.slow.longest.residents.limited_by
            registers = [residents["registers per work-item"]] if is_limit else []
            yield _joined(residents[f"resident {self.before.terms.warp}s"], *registers)
        instructions = self._pair("instructions executed", lambda side: side.instructions())
        if self._is_more(instructions):
            yield instructions.clause
        if cause == "memory latency":
            for level in reversed(self.slow.moved):
                if level in self.fast.moved and self._is_more(self._amount(level)):
                    yield self._amount(level).clause
        if self._across_devices and self._clocks():
            yield self._clocks()

    def _barriers(self) -> Pair:
        return self._pair("barriers", lambda side: side.instructions(Pipeline.BARRIER))

    # }}}


def _joined(whole: Pair, *details: Pair) -> str:
    """Return the change of a quantity, and those of the others that differ."""
    return ": ".join(filter(None, [whole.clause, ", ".join(pair.clause for pair in details if pair.is_noteworthy)]))
