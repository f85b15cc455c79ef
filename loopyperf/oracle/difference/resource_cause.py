"""Why a pipeline or memory level is busy for another time: the access or line, and the quantity of it that changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

from loopyperf.device.vocabulary import LOAD_STORE, LOCAL_MEMORY
from loopyperf.oracle.difference.side import Side
from loopyperf.oracle.difference.sums import AccessSum, Sums
from loopyperf.units import in_percent, listed, prefixed

APART = 1.05
"""times: quantities that differ by less are about the same"""
BESIDE = 0.5
"""of the largest effect: an access with as much is named too"""
EXPLAINS = 0.5
"""of the change, as a power of it: an amount that changed by more explains it, else the device is faster"""
CLOSE = 1.25
"""times: within so much, cores and clocks explain how much faster a device is"""
NOTHING = AccessSum(0.0, 0.0, 0.0, is_local=False, reached={})
REQUESTS, SECTORS, WAVEFRONTS, REACHED = "requests", "sectors", "wavefronts", "reached"


def differ(one: float, other: float) -> bool:
    """Return whether two quantities are further apart than what is about the same."""
    return max(one, other) > APART * min(one, other)


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
        if log(_ratio(*self._amounts)) / log(self._busy_ratio) < EXPLAINS:
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
        if name == WAVEFRONTS and along.get(SECTORS, 0.0) > log(APART):
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
        what = f"{words.sector}s" if name == SECTORS else words.passes
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
