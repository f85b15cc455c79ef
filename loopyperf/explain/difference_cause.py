"""Explain in one sentence why two run times differ: name the quantity that changed the slower kernel's bottleneck."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log

from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import LOAD_STORE, LOCAL_MEMORY
from loopyperf.explain.diagnosis import FULL
from loopyperf.explain.difference_parts import (
    BYTES,
    NUMBER,
    REQUESTS,
    SECONDS,
    SECTORS,
    SHARE,
    WAVEFRONTS,
    Pair,
    Side,
    access_pairs,
)
from loopyperf.explain.review import BUSY, StallReason
from loopyperf.units import duration, ratio_in_words

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


def why(before: Side, after: Side) -> str:
    """Return the speed ratio of *after* to *before* and its cause, as a sentence without its period."""
    slow, fast = (before, after) if before.seconds >= after.seconds else (after, before)
    if slow.seconds - fast.seconds <= EQUAL_TIMES * slow.seconds:
        return "no difference" if slow.seconds == fast.seconds else "difference below 1 %"
    if fast.seconds <= 0:
        return _costliest_line(before, after)
    cause = ""
    if before.launches and after.launches:
        cause = next(filter(None, _Cause(before, after, slow, fast).clauses()), "")
    factor = ratio_in_words(slow.seconds / fast.seconds)
    return f"{factor} times as {'fast' if slow is before else 'long'}: {cause or _costliest_line(before, after)}"


def _costliest_line(before: Side, after: Side) -> str:
    """Return a clause with the source line whose cost changed most."""
    costs = [{each.line.source or each.line.text: each.seconds for each in side.lines} for side in (before, after)]
    pairs = [Pair(name, costs[0].get(name, 0.0), costs[1].get(name, 0.0), SECONDS) for name in {**costs[0], **costs[1]}]
    if not pairs:
        return "no source line accounts for it"
    line = max(pairs, key=lambda pair: abs((pair.after or 0.0) - (pair.before or 0.0)))
    return f"most of the difference is in {line.name}, which takes {line.words[1]} instead of {line.words[0]}"


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
        yield self._launching()
        yield self._idle()
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

    def _is_more(self, pair: Pair) -> bool:
        """Return whether the slower kernel has more of a quantity."""
        return (pair.growth if self.slow is self.after else -pair.growth) > LOG_APART

    def _launching(self) -> str:
        if not self._explains(self.slow.launching, self.fast.launching):
            return ""
        overhead = self._pair("launch overhead", lambda side: side.launching or None, SECONDS)
        launches = self._pair("launches", lambda side: sum(launch.times for launch in side.launches))
        return _joined(overhead, *([launches] if launches.is_noteworthy else []))

    def _idle(self) -> str:
        """Return the change in idle time of the cores, with the grids or numbers of cores."""
        if not self._explains(self.slow.idle, self.fast.idle):
            return ""
        cores = f"{self.slow.terms.core}s"
        idle = self._pair("of the time", lambda side: side.idle / side.executing, SHARE)
        causes = (
            self._pair("groups", lambda side: side.longest.groups),
            self._pair("work-items per group", lambda side: side.longest.work_items),
            self._pair(cores, lambda side: side.on.cores),
        )
        changed = [pair for pair in causes if pair.is_noteworthy]
        return f"{cores} idle for {_joined(idle, *changed)}"

    # {{{ the busiest resource of the slower kernel

    def _binding(self) -> str:
        """Return the change in busy time of the slower kernel's bottleneck, and what changed it."""
        resource = self.slow.busiest
        if not resource or not self._explains(self.slow.busy[resource], self.fast.busy.get(resource, 0.0)):
            return ""
        named = self.slow.terms.resource(resource)
        if resource not in self.fast.busy and self.fast.busy:
            return ", ".join(
                f"{side.terms.resource(side.busiest)} busy for {duration(side.busy[side.busiest])} "
                f"{f'on {side.on.device}' if self._across_devices else f'in the {which} kernel'}"
                for which, side in (("slower", self.slow), ("faster", self.fast))
            )
        busy = self._pair("", lambda side: side.busy.get(resource), SECONDS)
        quantity = self._quantity(resource, busy.growth)
        bound = ""
        if self.fast is self.after and self.fast.busiest != resource and self.fast.share(self.fast.busiest) >= FULL:
            bound = f"; now bound by {self.fast.terms.resource(self.fast.busiest)}"
        return f"{named} busy for {': '.join(filter(None, [busy.clause, quantity]))}{bound}"

    def _quantity(self, resource: str, growth: float) -> str:
        """Return what changed the busy time of *resource* by *growth*, as a clause; empty if nothing does."""
        slow, fast = (side.work.get(resource, {}) for side in (self.slow, self.fast))
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
        sides = [side.accesses.get(access) for side in (self.before, self.after)]
        if not all(each and each.requests for each in sides):
            return pairs[REQUESTS]
        if resource not in (LOAD_STORE, LOCAL_MEMORY):
            pairs.pop(WAVEFRONTS, None)
            name = f"of the {self.slow.terms.sector}s of {pairs[REQUESTS].name} reach {resource}"
            pairs[resource] = self._pair(name, lambda side: side.accesses[access].reached.get(resource), SHARE)
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
        before = (amount.before or 0.0) / self.before.busy[resource]
        after = (amount.after or 0.0) / self.after.busy[resource]
        if amount.unit == BYTES:
            return Pair("", before, after, "B/s").clause
        rate = Pair("work-item instructions per second", before, after)
        cycles = self._pair("", lambda side: (side.on.cores or 0) * (side.on.clock or 0.0))
        return self._clocks() if abs(rate.growth - cycles.growth) < log(CLOSE_RATE) else rate.clause

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
            if cause not in BUSY
        }
        if not lost or not self._explains(max(lost.values()), 0.0, part):
            return ""
        cause = max(lost, key=lambda cause: lost[cause])
        if self._is_more(self._barriers()) and lost.get("barrier", 0.0) > EXPLAINS * lost[cause]:
            cause = "barrier"  # warps at a barrier do not hide latency, so the other waits follow from barriers
        shares = self._pair("of stall cycles", lambda side: side.waits.get(cause, 0.0), SHARE)
        detail = next(self._details(cause), "")
        return (
            f"{self.slow.terms.warp}s wait {WAIT_WORDS[cause]} for {': '.join(filter(None, [shares.clause, detail]))}"
        )

    def _details(self, cause: StallReason | None) -> Iterator[str]:
        """Yield quantities that may change how long warps wait for *cause*, the most likely first."""
        if cause == "barrier" and self._is_more(self._barriers()):
            yield self._barriers().clause
        if self._is_more(self._pair("", lambda side: 1 / (side.longest.residents.share or 1.0))):
            warps = self._pair(f"resident {self.before.terms.warp}s", lambda side: side.longest.residents.warps)
            registers = self._pair("registers per work-item", lambda side: side.longest.residents.registers)
            is_limit = "registers" in self.slow.longest.residents.limited_by and registers.is_noteworthy
            yield _joined(warps, *([registers] if is_limit else []))
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
    """Return the change of a quantity and of those that explain it."""
    return ": ".join(filter(None, [whole.clause, ", ".join(pair.clause for pair in details)]))
