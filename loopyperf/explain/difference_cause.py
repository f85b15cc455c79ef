"""Why two run times differ, in one sentence: the quantity that changed what holds the slower one up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import LOAD_STORE, LOCAL_MEMORY
from loopyperf.explain.diagnosis import FULL
from loopyperf.explain.difference_side import AccessSum, Side, Sums
from loopyperf.explain.review import LaunchReview, Wait
from loopyperf.explain.waiting import BUSY
from loopyperf.units import duration, in_percent, listed, number_of, prefixed

RATIO_APART = 1.05
"""times: quantities that differ by less are about the same"""
BESIDE = 0.5
"""of the largest effect: an access with as much is named too"""
RESOURCE_EXPLAINS = 0.5
"""of the change, as a power of it: an amount that changed by more explains it, else the device is faster"""
CLOSE = 1.25
"""times: within so much, cores and clocks explain how much faster a device is"""
NOTHING = AccessSum(0.0, 0.0, 0.0, is_local=False, reached={})
REQUESTS, SECTORS, WAVEFRONTS, REACHED = "requests", "sectors", "wavefronts", "reached"


def differ(one: float, other: float) -> bool:
    """Return whether two quantities are further apart than what is about the same."""
    return max(one, other) > RATIO_APART * min(one, other)


def many(number: float) -> str:
    """Return how many there are, of more than a thousand with a prefix, e.g. ``"1.05 M"``; ``"no"`` for none."""
    return "no" if not number else prefixed(number, "").strip()


@dataclass(frozen=True)
class ResourceCause:
    """What changed the work of one resource between two kernels."""

    before: Side
    after: Side
    first: Sums
    """of *before*"""
    second: Sums
    """of *after*"""
    slow: Sums
    """one of the two: that of the slower one"""
    resource: str

    def quantity(self) -> str:
        """Return the quantity that changed most, in a clause; empty where none tells why."""
        key = max(self._effects, key=lambda key: self._effects[key], default=None)
        if key is None:
            return ""
        _, access = key
        clause, factor = self._of_accesses(access) if access else self._of_instructions()
        if self.before.on.device == self.after.on.device:
            return clause if log(factor) * log(self._busy_ratio) > 0 else ""
        # Warps of two devices may have unlike numbers of lanes, and their caches have unlike sizes.
        if log(_ratio(*self._amounts)) / log(self._busy_ratio) < RESOURCE_EXPLAINS:
            return self._rate()
        return clause if log(factor) * log(self._busy_ratio) > 0 else self._in_amounts()

    @cached_property
    def _amounts(self) -> tuple[float, float]:
        """Return what the resource does after and before: bytes of a memory, else instructions of work-items."""
        now, then = (each.moved.get(self.resource, 0.0) for each in (self.second, self.first))
        if now and then:
            return now, then
        now, then = (each.instructions(self.resource) * each.lanes for each in (self.second, self.first))
        return now, then

    @property
    def _unit(self) -> str:
        is_memory = all(each.moved.get(self.resource) for each in (self.first, self.second))
        return "B" if is_memory else " instructions of work-items"

    def _amount_in_words(self, amount: float) -> str:
        return prefixed(amount, "B") if self._unit == "B" else f"{many(amount)}{self._unit}"

    def _in_amounts(self) -> str:
        now, then = map(self._amount_in_words, self._amounts)
        return f"it {'moves' if self._unit == 'B' else 'executes'} {now}, not {then}"

    @cached_property
    def _effects(self) -> dict[tuple[str, str], float]:
        """Return line and access -> the seconds by which it keeps the resource busier in the slower one."""
        fast = self.first if self.slow is self.second else self.second
        slow, other = (each.work.get(self.resource, {}) for each in (self.slow, fast))
        return {key: slow.get(key, 0.0) - other.get(key, 0.0) for key in dict.fromkeys((*slow, *other))}

    @property
    def _busy_ratio(self) -> float:
        return _ratio(*(each.busy.get(self.resource, 0.0) for each in (self.second, self.first)))

    # {{{ accesses

    def _of_accesses(self, access: str) -> tuple[str, float]:
        """Return what changed of *access*, of others that changed alike too, and by which factor."""
        name, factor, numbers = self._factor(access)
        greatest = self._effects["", access]
        others = [each for (_, each), effect in self._effects.items() if each and effect >= BESIDE * greatest]
        alike = [each for each in others if self._is_like(each, name, numbers)]
        return self._in_words(name, alike, numbers), factor

    def _is_like(self, access: str, name: str, numbers: tuple[float, float]) -> bool:
        own, _, others = self._factor(access)
        pairs = zip(numbers, others, strict=True)
        return own == name and not any(differ(one, other) for one, other in pairs)

    def _factor(self, access: str) -> tuple[str, float, tuple[float, float]]:
        """Return what of *access* changed most, by which factor, and how much there is after and before."""
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
            return f"{many(now)} {_accesses(accesses)}, not {many(then)}"
        if name == REACHED:
            return (
                f"{in_percent(now)} of the sectors of {_accesses(accesses)} go by way of {self.resource}, "
                f"not {in_percent(then)}"
            )
        words, verb = self.slow.diagnosis.words, "fall" if now < then else "rise"
        what = f"{words.sector}s" if name == SECTORS else words.wavefronts
        return f"{what} of {_arrays(accesses)} {verb} from {then:.3g} to {now:.3g} per access"

    # }}}

    def _of_instructions(self) -> tuple[str, float]:
        """Return how many instructions the resource executes, the line with most of the difference, and the factor."""
        now, then = (each.instructions(self.resource) for each in (self.second, self.first))
        line = max(self._effects, key=lambda key: self._effects[key])[0]
        lines = [each.instructions(self.resource, line) for each in (self.second, self.first)]
        most = abs(lines[0] - lines[1]) > abs(now - then) / 2 and all(lines)
        clause = f"{many(now)} instructions{f', most of them of {line},' if most else ','} not {many(then)}"
        return clause if differ(now, then) else "", _ratio(now, then)

    def _rate(self) -> str:
        """Return how fast the resource is on each of two devices."""
        busy = [each.busy.get(self.resource, 0.0) for each in (self.second, self.first)]
        rates = [amount / seconds for amount, seconds in zip(self._amounts, busy, strict=True)]
        cycles = [(side.on.cores or 0) * (side.on.clock or 0.0) for side in (self.after, self.before)]
        faster = _ratio(*rates) / _ratio(*cycles)
        if self._unit != "B" and 1 / CLOSE < faster < CLOSE:
            return clocks(self.before, self.after)
        now, then = map(self._amount_in_words, rates)
        if self._unit == "B":
            return f"it moves {now}/s, not {then}/s"
        return f"it executes {now} in a second, not {then.removesuffix(self._unit)}"


def clocks(before: Side, after: Side) -> str:
    """Return how many cores the devices of both have, and their clocks; empty where that is unknown."""
    numbers = [(side.on.cores, side.on.clock, side.sums) for side in (after, before)]
    return ", not ".join(
        f"{cores} {sums.diagnosis.words.core}s at {clock / 1e9:.3g} GHz"
        for cores, clock, sums in numbers
        if cores and clock and sums is not None
    )


def _ratio(now: float, then: float) -> float:
    """Return how many times as much there is now; of nothing it is many or few times, not infinitely many."""
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
"""of the longer time: run times that differ by less are about the same"""
EXPLAINS = 0.5
"""of the difference: what changed by more explains it"""
A_THIRD = 1 / 3
"""of the difference: waiting for so much explains it where no resource is full, before one that is less than full"""
HINTS = 0.1
"""of the difference: what changed by less does not explain it"""
APART = 0.05
"""of all waiting: shares that differ by less are about the same"""
WAITED: dict[Wait, str] = {
    "memory latency": "for memory",
    "dependency": "for results of other instructions",
    "barrier": "at barriers",
    "issue": "for an issue slot",
}


def why(before: Side, after: Side) -> str:
    """Return how many times as fast *after* is as *before*, and what changed, in a sentence without its period."""
    slow, fast = (before, after) if before.seconds >= after.seconds else (after, before)
    if slow.seconds - fast.seconds <= SAME * slow.seconds:
        return "no difference" if slow.seconds == fast.seconds else "the times differ by less than 1 %"
    if fast.seconds <= 0:
        return _costliest_line(before, after)
    times = slow.seconds / fast.seconds
    factor = f"{times:.2g}" if 1.95 < times < 100 else f"{times:.3g}"
    head = f"{factor} times as fast" if slow is before else f"takes {factor} times as long"
    return f"{head}: {_clause(before, after, slow, fast)}"


def _clause(before: Side, after: Side, slow: Side, fast: Side) -> str:
    sums = [each.sums for each in (before, after, slow, fast)]
    first, second, slower, faster = sums
    if first is None or second is None or slower is None or faster is None:
        return _costliest_line(before, after)
    cause = _Cause(before, after, first, second, slower, faster, slow.seconds - fast.seconds)
    return next(filter(None, cause.clauses()), "") or _costliest_line(before, after)


def _costliest_line(before: Side, after: Side) -> str:
    """Return the line of the source whose cost changed most; empty where there are no lines."""
    costs = [{each.line.source or each.line.text: each.seconds for each in side.lines} for side in (before, after)]
    names = dict.fromkeys(name for each in costs for name in each)
    if not names:
        return "no line of the source tells why"
    line = max(names, key=lambda name: abs(costs[1].get(name, 0.0) - costs[0].get(name, 0.0)))
    then, now = (each.get(line, 0.0) for each in costs)
    return f"most of the difference is in {line}, which takes {duration(now)}, not {duration(then)}"


@dataclass(frozen=True)
class _Cause:
    """The steps from what differs between two kernels to the one quantity that explains it."""

    before: Side
    after: Side
    first: Sums
    """of *before*"""
    second: Sums
    """of *after*"""
    slow: Sums
    """of the slower one"""
    fast: Sums
    gap: float
    """seconds between the two"""

    def clauses(self) -> Iterator[str]:
        """Yield what explains the difference, or nothing, the surest first."""
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
        return f"{of(self.second)}, not {of(self.first)}"

    def _launching(self) -> str:
        """Return that launching differs, and how many launches there are."""
        then, now = self.before.launching, self.after.launching
        if not self._explains(max(then, now), min(then, now)) or (then > now) != (self.slow is self.first):
            return ""
        if not then and self.before.on.device != self.after.on.device:
            return (
                f"launching takes {duration(now)} on {self.after.on.device}, and is unknown for {self.before.on.device}"
            )
        numbers = [sum(launch.times for launch in each.launches) for each in (self.second, self.first)]
        number = f": {number_of(numbers[0], 'launch')}, not {numbers[1]:,}" if numbers[0] != numbers[1] else ""
        return f"launching takes {duration(now)}, not {duration(then)}{number}"

    def _idle(self) -> str:
        """Return that cores have no work for another part of the time, and how many groups there are."""
        if not self._explains(self.slow.idle, self.fast.idle):
            return ""
        core = self.slow.diagnosis.words.core
        shares = self._sentence(lambda each: in_percent(each.idle / each.executing))
        grids = [_grid(each.diagnosis.longest) for each in (self.second, self.first)]
        if grids[0] != grids[1]:
            return f"{core}s are idle for {shares} of the time: {grids[0]}, not {grids[1]}"
        cores = f": {grids[0]} on {self.after.on.cores} {core}s, not {self.before.on.cores}"
        return (
            f"{core}s are idle for {shares} of the time{cores if self.after.on.cores != self.before.on.cores else ''}"
        )

    def _binding(self) -> str:
        """Return that the resource that binds the slower one is busy for another time, and what changed that."""
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
            binding = self.fast.diagnosis.words.resource(self.fast.busiest)
            then = f"; now {binding} {'bind' if binding.endswith('s') else 'binds'}"
        return f"{named} {_is(named)} busy for {times}{f': {quantity}' if quantity else ''}{then}"

    def _of_another(self, named: str) -> str:
        """Return that another resource binds the faster one, which does nothing on the one *named*."""
        where = ["in the slower one", "in the faster one"]
        if self.before.on.device != self.after.on.device:
            where = [f"on {(self.before if each is self.first else self.after).on.device}"
                     for each in (self.slow, self.fast)]  # fmt: skip
        other = self.fast.diagnosis.words.resource(self.fast.busiest)
        times = [duration(each.busy[each.busiest]) for each in (self.slow, self.fast)]
        return f"{named} {_is(named)} busy for {times[0]} {where[0]}, {other} for {times[1]} {where[1]}"

    # {{{ where no resource explains it

    def _waiting(self, part: float) -> str:
        """Return what the warps of the slower one wait for longer, by so large a *part* of the difference, and why."""
        lost: dict[Wait, float] = {
            cause: share * self.slow.executing - self.fast.waits.get(cause, 0.0) * self.fast.executing
            for cause, share in self.slow.waits.items()
            if cause not in BUSY
        }
        if not lost or not self._explains(max(lost.values()), 0.0, part):
            return ""
        warp = self.slow.diagnosis.words.warp
        cause = max(lost, key=lambda cause: lost[cause])
        if self._fewer_barriers("") and lost.get("barrier", 0.0) > EXPLAINS * lost[cause]:
            cause = "barrier"  # warps at a barrier hide no latency of others: these waits follow
        detail = next(filter(None, self._details(cause, "they")), "")
        shares = f"for {self._sentence(lambda each: in_percent(each.waits.get(cause, 0.0)))} of all waiting"
        if self.slow.waits[cause] - self.fast.waits.get(cause, 0.0) < APART:
            shares = f"in both, {in_percent(self.slow.waits[cause])} of all waiting"
        return f"{warp}s wait {WAITED[cause]} {shares}{f': {detail}' if detail else ''}"

    def _details(self, cause: Wait | None, warps: str) -> Iterator[str]:
        """Yield what may change how long *warps* wait for *cause*, the likeliest first."""
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
        """Return how many barriers *warps* execute where the slower one has more."""
        return self._fewer(f"{warps} execute", "barriers", lambda each: each.instructions(Pipeline.BARRIER))

    def _fewer(self, does: str, what: str, of: Callable[[Sums], float]) -> str:
        """Return how many there are of something of which the slower one has more; empty where it has not."""
        slow, fast = of(self.slow), of(self.fast)
        if not differ(slow, fast) or slow < fast:
            return ""
        return f"{does} {many(of(self.second))} {what}, not {many(of(self.first))}"

    def _residents(self) -> str:
        """Return how many warps reside where the slower one has fewer, and the registers that limit them."""
        slow, fast = (each.diagnosis.longest.residents for each in (self.slow, self.fast))
        if not differ(slow.share, fast.share) or slow.share > fast.share:
            return ""
        then, now = (each.diagnosis.longest.residents for each in (self.first, self.second))
        reside = f"{now.warps} of {now.slots} {self.slow.diagnosis.words.warp}s reside, not {then.warps}"
        reside += f" of {then.slots}" if then.slots != now.slots else ""
        if slow.registers != fast.registers and "registers" in slow.limited_by:
            numbers = now.spilled or "none", then.spilled or "none"
            spilled = f", and {numbers[0]} spilled, not {numbers[1]}" if now.spilled != then.spilled else ""
            return f"{reside}: {now.registers} registers in a work-item, not {then.registers}{spilled}"
        limits = [" and ".join(each.limited_by) for each in (now, then)]
        return f"{reside}: limited by {limits[0]}, not {limits[1]}" if limits[0] != limits[1] else reside

    # }}}


def _is(named: str) -> str:
    return "are" if named.endswith("s") else "is"


def _grid(review: LaunchReview) -> str:
    return f"{number_of(review.groups, 'group')} of {review.work_items:,} work-items"
