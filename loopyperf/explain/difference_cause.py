"""Explain in one sentence why two run times differ: name the quantity that changed the slower kernel's bottleneck."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import LOAD_STORE, LOCAL_MEMORY
from loopyperf.explain.diagnosis import FULL
from loopyperf.explain.difference_side import AccessSum, Side, Sums
from loopyperf.explain.review import LaunchReview, StallReason
from loopyperf.explain.waiting import BUSY
from loopyperf.units import duration, in_percent, listed, number_of, prefixed, ratio_in_words

RATIO_APART = 1.05
"""ratio below which two quantities count as equal"""
BESIDE = 0.5
"""share of the largest effect; accesses with a larger share are named too"""
RESOURCE_EXPLAINS = 0.5
"""least log ratio of amounts over log ratio of busy times; below it, the device's speed explains the change"""
CLOSE = 1.25
"""ratio within which cores and clocks explain a difference in throughput"""
NOTHING = AccessSum(0.0, 0.0, 0.0, is_local=False, reached={})
REQUESTS, SECTORS, WAVEFRONTS, REACHED = "requests", "sectors", "wavefronts", "reached"


def differ(one: float, other: float) -> bool:
    """Return whether two quantities differ by more than :data:`RATIO_APART`."""
    return max(one, other) > RATIO_APART * min(one, other)


def many(number: float) -> str:
    """Return *number* with a prefix, e.g. ``"1.05 M"``; ``"no"`` for 0."""
    return "no" if not number else prefixed(number, "").strip()


@dataclass(frozen=True)
class ResourceCause:
    """Finds the quantity that changed the work of one resource between two kernels."""

    before: Side
    after: Side
    first: Sums
    """totals of *before*"""
    second: Sums
    """totals of *after*"""
    slow: Sums
    """totals of the slower kernel, one of the two above"""
    resource: str

    def quantity(self) -> str:
        """Return the quantity that changed most, as a clause; empty if none explains the change."""
        key = max(self._effects, key=lambda key: self._effects[key], default=None)
        if key is None:
            return ""
        _, access = key
        clause, factor = self._of_accesses(access) if access else self._of_instructions()
        if self.before.on.device == self.after.on.device:
            return clause if log(factor) * log(self._busy_ratio) > 0 else ""
        # Warps of two devices may have different numbers of lanes, and their caches different sizes.
        if log(_ratio(*self._amounts)) / log(self._busy_ratio) < RESOURCE_EXPLAINS:
            return self._rate()
        return clause if log(factor) * log(self._busy_ratio) > 0 else self._in_amounts()

    @cached_property
    def _amounts(self) -> tuple[float, float]:
        """Return the work of the resource after and before: bytes of a memory level, else work-item instructions."""
        now, then = (each.moved.get(self.resource, 0.0) for each in (self.second, self.first))
        if now and then:
            return now, then
        now, then = (each.instructions(self.resource) * each.lanes for each in (self.second, self.first))
        return now, then

    @property
    def _unit(self) -> str:
        is_memory = all(each.moved.get(self.resource) for each in (self.first, self.second))
        return "B" if is_memory else " work-item instructions"

    def _amount_in_words(self, amount: float) -> str:
        return prefixed(amount, "B") if self._unit == "B" else f"{many(amount)}{self._unit}"

    def _in_amounts(self) -> str:
        now, then = map(self._amount_in_words, self._amounts)
        return f"it {'moves' if self._unit == 'B' else 'executes'} {now} instead of {then}"

    @cached_property
    def _effects(self) -> dict[tuple[str, str], float]:
        """Return (line, access) -> seconds for which it keeps the resource busy longer in the slower kernel."""
        fast = self.first if self.slow is self.second else self.second
        slow, other = (each.work.get(self.resource, {}) for each in (self.slow, fast))
        return {key: slow.get(key, 0.0) - other.get(key, 0.0) for key in dict.fromkeys((*slow, *other))}

    @property
    def _busy_ratio(self) -> float:
        return _ratio(*(each.busy.get(self.resource, 0.0) for each in (self.second, self.first)))

    # {{{ accesses

    def _of_accesses(self, access: str) -> tuple[str, float]:
        """Return the change of *access*, together with accesses that changed in the same way, and its factor."""
        name, factor, numbers = self._factor(access)
        greatest = self._effects["", access]
        others = [each for (_, each), effect in self._effects.items() if each and effect >= BESIDE * greatest]
        same = [each for each in others if self._has_same_change(each, name, numbers)]
        return self._in_words(name, same, numbers), factor

    def _has_same_change(self, access: str, name: str, numbers: tuple[float, float]) -> bool:
        own, _, others = self._factor(access)
        pairs = zip(numbers, others, strict=True)
        return own == name and not any(differ(one, other) for one, other in pairs)

    def _factor(self, access: str) -> tuple[str, float, tuple[float, float]]:
        """Return the quantity of *access* that changed most, its factor, and its values after and before."""
        then, now = (each.accesses.get(access, NOTHING) for each in (self.first, self.second))
        factors = {name: (_ratio(new, old), (new, old)) for name, new, old in self._quantities(now, then) if new or old}
        if not (then.requests and now.requests):
            return REQUESTS, *factors[REQUESTS]
        is_more = self._effects["", access] > 0 if self.slow is self.second else self._effects["", access] < 0
        along = {name: log(each) if is_more else -log(each) for name, (each, _) in factors.items()}
        name = max(along, key=lambda name: along[name])
        if name == WAVEFRONTS and along.get(SECTORS, 0.0) > log(RATIO_APART):
            name = SECTORS  # the wavefronts of global memory follow from these
        return name, *factors[name]

    def _quantities(self, now: AccessSum, then: AccessSum) -> Iterator[tuple[str, float, float]]:
        yield REQUESTS, now.requests, then.requests
        if not (now.is_local or then.is_local):
            yield SECTORS, now.sectors, then.sectors
        if self.resource in (LOAD_STORE, LOCAL_MEMORY):
            yield WAVEFRONTS, now.wavefronts, then.wavefronts
        else:
            yield REACHED, now.reached.get(self.resource, 0.0), then.reached.get(self.resource, 0.0)

    def _in_words(self, name: str, accesses: list[str], numbers: tuple[float, float]) -> str:
        now, then = numbers
        if name == REQUESTS:
            return f"{many(now)} {_accesses(accesses)} instead of {many(then)}"
        if name == REACHED:
            return (
                f"{in_percent(now)} of the sectors of {_accesses(accesses)} reach {self.resource} "
                f"instead of {in_percent(then)}"
            )
        words, verb = self.slow.diagnosis.words, "fall" if now < then else "rise"
        what = f"{words.sector}s" if name == SECTORS else words.wavefronts
        return f"{what} of {_arrays(accesses)} {verb} from {then:.3g} to {now:.3g} per access"

    # }}}

    def _of_instructions(self) -> tuple[str, float]:
        """Return the change in instructions of the resource, with the line that causes most of it, and its factor."""
        now, then = (each.instructions(self.resource) for each in (self.second, self.first))
        line = max(self._effects, key=lambda key: self._effects[key])[0]
        lines = [each.instructions(self.resource, line) for each in (self.second, self.first)]
        most = abs(lines[0] - lines[1]) > abs(now - then) / 2 and all(lines)
        clause = f"{many(now)} instructions instead of {many(then)}{f', mostly of {line}' if most else ''}"
        return clause if differ(now, then) else "", _ratio(now, then)

    def _rate(self) -> str:
        """Return the throughput of the resource on the two devices."""
        busy = [each.busy.get(self.resource, 0.0) for each in (self.second, self.first)]
        rates = [amount / seconds for amount, seconds in zip(self._amounts, busy, strict=True)]
        cycles = [(side.on.cores or 0) * (side.on.clock or 0.0) for side in (self.after, self.before)]
        faster = _ratio(*rates) / _ratio(*cycles)
        if self._unit != "B" and 1 / CLOSE < faster < CLOSE:
            return clocks(self.before, self.after)
        now, then = map(self._amount_in_words, rates)
        if self._unit == "B":
            return f"it moves {now}/s instead of {then}/s"
        return f"it executes {now} per second instead of {then.removesuffix(self._unit)}"


def clocks(before: Side, after: Side) -> str:
    """Return the number of cores and the clocks of both devices; empty if unknown."""
    numbers = [(side.on.cores, side.on.clock, side.sums) for side in (after, before)]
    return " instead of ".join(
        f"{cores} {sums.diagnosis.words.core}s at {clock / 1e9:.3g} GHz"
        for cores, clock, sums in numbers
        if cores and clock and sums is not None
    )


def _ratio(now: float, then: float) -> float:
    """Return *now* over *then*, with zeros replaced by a tiny number so that the ratio and its logarithm are finite."""
    return (now or 1e-30) / (then or 1e-30)


def _arrays(accesses: list[str]) -> str:
    """Return the arrays of *accesses*, e.g. ``"a and out"``."""
    names = list(dict.fromkeys(each.split(" ", 1)[1] for each in accesses))
    return listed(names, 3) if len(names) > 2 else " and ".join(names)


def _accesses(accesses: list[str]) -> str:
    """Return *accesses* in words, e.g. ``"loads of a and b"``."""
    kinds = {each.split(" ", 1)[0] for each in accesses}
    return f"{kinds.pop()}s of {_arrays(accesses)}" if len(kinds) == 1 else f"accesses of {_arrays(accesses)}"


SAME = 0.01
"""share of the longer run time; times with a smaller difference count as equal"""
EXPLAINS = 0.5
"""share of the difference; a quantity that changed by more explains it"""
A_THIRD = 1 / 3
"""share of the difference; with no saturated resource, a wait that changed by more explains it"""
HINTS = 0.1
"""share of the difference; a quantity that changed by less does not explain it"""
APART = 0.05
"""share of stall cycles; shares with a smaller difference count as equal"""
WAITED: dict[StallReason, str] = {
    "memory latency": "for memory",
    "dependency": "for results of other instructions",
    "barrier": "at barriers",
    "issue limit": "for an issue slot",
}


def why(before: Side, after: Side) -> str:
    """Return the speed ratio of *after* to *before* and its cause, as a sentence without its period."""
    slow, fast = (before, after) if before.seconds >= after.seconds else (after, before)
    if slow.seconds - fast.seconds <= SAME * slow.seconds:
        return "no difference" if slow.seconds == fast.seconds else "difference below 1 %"
    if fast.seconds <= 0:
        return _costliest_line(before, after)
    factor = ratio_in_words(slow.seconds / fast.seconds)
    head = f"{factor} times as fast" if slow is before else f"{factor} times as long"
    return f"{head}: {_clause(before, after, slow, fast)}"


def _clause(before: Side, after: Side, slow: Side, fast: Side) -> str:
    sums = [each.sums for each in (before, after, slow, fast)]
    first, second, slower, faster = sums
    if first is None or second is None or slower is None or faster is None:
        return _costliest_line(before, after)
    cause = _Cause(before, after, first, second, slower, faster, slow.seconds - fast.seconds)
    return next(filter(None, cause.clauses()), "") or _costliest_line(before, after)


def _costliest_line(before: Side, after: Side) -> str:
    """Return a clause with the source line whose cost changed most."""
    costs = [{each.line.source or each.line.text: each.seconds for each in side.lines} for side in (before, after)]
    names = dict.fromkeys(name for each in costs for name in each)
    if not names:
        return "no source line accounts for it"
    line = max(names, key=lambda name: abs(costs[1].get(name, 0.0) - costs[0].get(name, 0.0)))
    then, now = (each.get(line, 0.0) for each in costs)
    return f"most of the difference is in {line}, which takes {duration(now)} instead of {duration(then)}"


@dataclass(frozen=True)
class _Cause:
    """Finds the one quantity that explains the difference between two kernels."""

    before: Side
    after: Side
    first: Sums
    """totals of *before*"""
    second: Sums
    """totals of *after*"""
    slow: Sums
    """totals of the slower kernel"""
    fast: Sums
    gap: float
    """difference of the run times, in seconds"""

    def clauses(self) -> Iterator[str]:
        """Yield explanations, the most reliable first; an empty string where one does not apply."""
        yield self._launching()
        yield self._idle()
        if self.slow.share(self.slow.busiest) < FULL:
            yield self._waiting(A_THIRD)
        yield self._binding()
        yield self._waiting(HINTS)
        yield next(filter(None, self._details(None, f"{self.slow.diagnosis.words.warp}s")), "")

    def _explains(self, of_slow: float, of_fast: float, part: float = EXPLAINS) -> bool:
        return of_slow - of_fast >= part * self.gap

    def _sentence(self, of: Callable[[Sums], str]) -> str:
        return f"{of(self.second)} instead of {of(self.first)}"

    def _launching(self) -> str:
        """Return the change in launch overhead and in the number of launches."""
        then, now = self.before.launching, self.after.launching
        if not self._explains(max(then, now), min(then, now)) or (then > now) != (self.slow is self.first):
            return ""
        if not then and self.before.on.device != self.after.on.device:
            return (
                f"launch overhead is {duration(now)} on {self.after.on.device}, and unknown on {self.before.on.device}"
            )
        numbers = [sum(launch.times for launch in each.launches) for each in (self.second, self.first)]
        number = f": {number_of(numbers[0], 'launch')} instead of {numbers[1]:,}" if numbers[0] != numbers[1] else ""
        return f"launch overhead is {duration(now)} instead of {duration(then)}{number}"

    def _idle(self) -> str:
        """Return the change in idle time of the cores, with the grids or numbers of cores."""
        if not self._explains(self.slow.idle, self.fast.idle):
            return ""
        core = self.slow.diagnosis.words.core
        shares = self._sentence(lambda each: in_percent(each.idle / each.executing))
        grids = [_grid(each.diagnosis.longest) for each in (self.second, self.first)]
        if grids[0] != grids[1]:
            return f"{core}s are idle for {shares} of the time: {grids[0]} instead of {grids[1]}"
        cores = f": {grids[0]} on {self.after.on.cores} {core}s instead of {self.before.on.cores}"
        return (
            f"{core}s are idle for {shares} of the time{cores if self.after.on.cores != self.before.on.cores else ''}"
        )

    def _binding(self) -> str:
        """Return the change in busy time of the slower kernel's bottleneck, and what changed it."""
        resource = self.slow.busiest
        if not resource or not self._explains(self.slow.busy[resource], self.fast.busy.get(resource, 0.0)):
            return ""
        named = self.slow.diagnosis.words.resource(resource)
        if resource not in self.fast.busy and self.fast.busy:
            return self._of_another(named)
        times = self._sentence(lambda each: duration(each.busy.get(resource, 0.0)))
        quantity = ResourceCause(self.before, self.after, self.first, self.second, self.slow, resource).quantity()
        then = ""
        if self.fast is self.second and self.fast.busiest != resource and self.fast.share(self.fast.busiest) >= FULL:
            then = f"; now bound by {self.fast.diagnosis.words.resource(self.fast.busiest)}"
        return f"{named} {_is(named)} busy for {times}{f': {quantity}' if quantity else ''}{then}"

    def _of_another(self, named: str) -> str:
        """Return the different bottlenecks of the two kernels, if the faster one does not use the one *named*."""
        where = ["in the slower kernel", "in the faster one"]
        if self.before.on.device != self.after.on.device:
            where = [f"on {(self.before if each is self.first else self.after).on.device}"
                     for each in (self.slow, self.fast)]  # fmt: skip
        other = self.fast.diagnosis.words.resource(self.fast.busiest)
        times = [duration(each.busy[each.busiest]) for each in (self.slow, self.fast)]
        return f"{named} {_is(named)} busy for {times[0]} {where[0]}, {other} for {times[1]} {where[1]}"

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
        warp = self.slow.diagnosis.words.warp
        cause = max(lost, key=lambda cause: lost[cause])
        if self._fewer_barriers("") and lost.get("barrier", 0.0) > EXPLAINS * lost[cause]:
            cause = "barrier"  # warps at a barrier do not hide latency, so the other waits follow from barriers
        detail = next(filter(None, self._details(cause, "they")), "")
        shares = f"for {self._sentence(lambda each: in_percent(each.waits.get(cause, 0.0)))} of stall cycles"
        if self.slow.waits[cause] - self.fast.waits.get(cause, 0.0) < APART:
            shares = f"for {in_percent(self.slow.waits[cause])} of stall cycles in both"
        return f"{warp}s wait {WAITED[cause]} {shares}{f': {detail}' if detail else ''}"

    def _details(self, cause: StallReason | None, warps: str) -> Iterator[str]:
        """Yield quantities that may change how long *warps* wait for *cause*, the most likely first."""
        if cause == "barrier":
            yield self._fewer_barriers(warps)
        yield self._residents()
        yield self._fewer(f"{warps} execute", "instructions", lambda each: each.instructions())
        if cause == "memory latency":
            for level in reversed([each for each in self.slow.moved if each in self.fast.moved]):
                slow, fast = (each.moved[level] for each in (self.slow, self.fast))
                if differ(slow, fast) and slow > fast:
                    yield f"{level} moves {self._sentence(lambda each, level=level: prefixed(each.moved[level], 'B'))}"
        if self.before.on.device != self.after.on.device:
            yield clocks(self.before, self.after)

    def _fewer_barriers(self, warps: str) -> str:
        """Return the numbers of barriers that *warps* execute, if the slower kernel has more."""
        return self._fewer(f"{warps} execute", "barriers", lambda each: each.instructions(Pipeline.BARRIER))

    def _fewer(self, does: str, what: str, of: Callable[[Sums], float]) -> str:
        """Return the numbers of *what*, if the slower kernel has more; else an empty string."""
        slow, fast = of(self.slow), of(self.fast)
        if not differ(slow, fast) or slow < fast:
            return ""
        return f"{does} {many(of(self.second))} {what} instead of {many(of(self.first))}"

    def _residents(self) -> str:
        """Return the numbers of resident warps, if the slower kernel has fewer, and what limits them."""
        slow, fast = (each.diagnosis.longest.residents for each in (self.slow, self.fast))
        if not differ(slow.share, fast.share) or slow.share > fast.share:
            return ""
        then, now = (each.diagnosis.longest.residents for each in (self.first, self.second))
        warps = [each.warps_in_words for each in (now, then)]
        resident = f"{warps[0]} of {now.slots} {self.slow.diagnosis.words.warp}s are resident instead of {warps[1]}"
        resident += f" of {then.slots}" if then.slots != now.slots else ""
        if slow.registers != fast.registers and "registers" in slow.limited_by:
            numbers = now.spilled or "none", then.spilled or "none"
            spilled = f", and {numbers[0]} spilled instead of {numbers[1]}" if now.spilled != then.spilled else ""
            return f"{resident}: {now.registers} registers per work-item instead of {then.registers}{spilled}"
        limits = [" and ".join(each.limited_by) for each in (now, then)]
        return f"{resident}: limited by {limits[0]} instead of {limits[1]}" if limits[0] != limits[1] else resident

    # }}}


def _is(named: str) -> str:
    return "are" if named.endswith("s") or " and " in named else "is"


def _grid(review: LaunchReview) -> str:
    return f"{number_of(review.groups, 'group')} of {review.work_items:,} work-items"
