"""What every model answers: an :class:`Estimate` whose explanation adds up to it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf import hypertext
from loopyperf.models.exact_sum import Seconds
from loopyperf.units import amount, duration

NAMED = 2
"""things left out that a headline names, at most"""


class Row(msgspec.Struct, frozen=True):
    """One property's cost in one instruction. (Made many times in an estimate, a struct is made five times as fast.)"""

    property: str
    source: str
    """instruction id, barrier or launch; empty where a batch of sizes is not attributed to instructions"""
    count: Any
    weight: float | None
    """seconds per unit; None for several instructions or sizes together whose units do not cost the same"""
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class PropertyCost:
    """What all units of a property cost."""

    property: str
    count: Any
    each: float | None
    """seconds per unit; None where they differ from instruction to instruction, or from size to size"""
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The rows that an estimate is the sum of."""

    rows: tuple[Row, ...]

    def by_property(self) -> dict[str, Seconds]:
        """Return property -> seconds; the values add up to the estimate to the last bit, in a batch in their order."""
        return self._grouped(lambda row: row.property)

    def by_source(self) -> dict[str, Seconds]:
        """Return instruction, barrier or launch -> seconds; adds up like :meth:`by_property`."""
        return self._grouped(lambda row: row.source)

    def costs(self) -> tuple[PropertyCost, ...]:
        """Return what each property costs, the largest first by its magnitude, in a batch of all sizes together."""
        found: list[PropertyCost] = []
        for name, seconds in self.by_property().items():
            rows = [row for row in self.rows if row.property == name]
            found.append(
                PropertyCost(name, sum(row.count for row in rows), common(row.weight for row in rows), seconds)
            )
        return tuple(sorted(found, key=lambda cost: -abs(float(np.sum(cost.seconds)))))

    def _grouped(self, key: Callable[[Row], str]) -> dict[str, Seconds]:
        sums: dict[str, Seconds] = {}
        for row in self.rows:
            name = key(row)
            sums[name] = sums[name] + row.seconds if name in sums else row.seconds
        return sums


@dataclass(frozen=True, slots=True)
class Alternative:
    """The time that a kernel takes if what is unsure of it is not as it likelier is."""

    seconds: Seconds
    arrays: tuple[str, ...]
    """the private arrays of which it is unsure whether the compiler keeps them in registers"""
    assumption: str
    """what is so then, e.g. ``"the private array acc is in registers"``"""
    reason: str
    """why that is unsure, in words"""

    def __str__(self) -> str:
        seconds = self.seconds
        time = _range(seconds).strip() if isinstance(seconds, np.ndarray) else duration(float(seconds))
        return f"{time} if {self.assumption}, which is unsure: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the alternative as plain values that JSON can hold."""
        return {
            "seconds": _plain(self.seconds),
            "arrays": list(self.arrays),
            "assumption": self.assumption,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ModelTime:
    """A model's time with the rows that it is the sum of."""

    seconds: Seconds
    breakdown: Breakdown
    unfitted: tuple[str, ...] = ()
    """properties that the kernel has and the fit has no weight for; they are taken as free"""
    notes: tuple[str, ...] = ()
    """what was assumed, in sentences"""
    interval: tuple[Seconds, Seconds] | None = None
    """a range for the time, where one is stated"""
    unsure: tuple[str, ...] = ()
    """the private arrays of which it is unsure whether they are registers"""
    alternatives: tuple[Alternative, ...] = ()
    """what the time is if they live elsewhere"""
    left_out: tuple[str, ...] = ()
    """what the kernel does, more than a negligible part of all, that is not in the time: it is at least that"""


EXPLANATION = ("breakdown", "interval", "notes", "unsure", "alternatives", "left_out")
"""what an estimate has beside its seconds"""


class _ExplainedLater:
    """Whose explanation is worked out when somebody asks for it: a search reads thousands of times, and few reasons."""

    __slots__ = ("_explain",)
    _explain: Callable[[], ModelTime]

    def __getattr__(self, name: str) -> Any:
        """Fill in what is not there yet; Python asks here for nothing else."""
        if name not in EXPLANATION:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        answer = self._explain()
        for each in EXPLANATION:
            object.__setattr__(self, each, getattr(answer, each))
        return getattr(answer, name)


@dataclass(frozen=True, slots=True)
class Estimate(_ExplainedLater):
    """How long a kernel takes, with the reason why."""

    kernel: str
    sizes: Mapping[str, Any]
    device: str
    model: str
    counting: str
    seconds: Seconds
    """run time; an array in the sizes' broadcast shape where sizes were arrays"""
    breakdown: Breakdown
    interval: tuple[Seconds, Seconds] | None = None
    """a range for the run time, where the model states one"""
    notes: tuple[str, ...] = ()
    """what the estimate leaves out, and what the fit cannot tell"""
    unsure: tuple[str, ...] = ()
    """the private arrays of which it is unsure whether the compiler keeps them in registers"""
    alternatives: tuple[Alternative, ...] = ()
    """what the run time is if they live elsewhere"""
    left_out: tuple[str, ...] = ()
    """what the kernel does, more than a negligible part of all, that is not in the run time: that is at least so long,
    and has no interval"""

    @classmethod
    def explained_later(
        cls,
        kernel: str,
        sizes: Mapping[str, Any],
        device: str,
        model: str,
        counting: str,
        seconds: Seconds,
        explain: Callable[[], ModelTime],
    ) -> "Estimate":
        """Return an estimate of *seconds* that *explain* is asked about when somebody looks: it says the same."""
        estimate = object.__new__(cls)
        state = object.__setattr__
        state(estimate, "kernel", kernel)
        state(estimate, "sizes", sizes)
        state(estimate, "device", device)
        state(estimate, "model", model)
        state(estimate, "counting", counting)
        state(estimate, "seconds", seconds)
        state(estimate, "_explain", explain)
        return estimate

    def __float__(self) -> float:
        return float(self.seconds)

    @property
    def is_unsure(self) -> bool:
        """Return whether the run time depends on something that is unsure, and may be far from what is said."""
        return bool(self.unsure)

    @property
    def bound(self) -> str:
        """Return the property that costs most (in a batch: summed over all sizes)."""
        costs = {name: float(np.sum(seconds)) for name, seconds in self.breakdown.by_property().items()}
        return max(costs, key=lambda name: costs[name], default="nothing")

    def __str__(self) -> str:
        between = "" if isinstance(self.seconds, np.ndarray) else self._between()
        others = "".join(f"\n  or: {each}" for each in self.alternatives)
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"{self._asked()}: {self._times()}{self.without}{between}, most of it for {self.bound}{others}{notes}"

    def _asked(self) -> str:
        sizes = ", ".join(f"{name}={_in_words(value)}" for name, value in self.sizes.items())
        return f"{self.kernel}({sizes}) on {self.device}, model {self.model}"

    def _times(self) -> str:
        batch = f"{self.seconds.size} run times " if isinstance(self.seconds, np.ndarray) else ""
        return f"{batch}{self.time_in_words}".rstrip()

    @property
    def time_in_words(self) -> str:
        """Return the run time as displays have it, e.g. ``"281 ms"``, or ``"at least 281 ms"`` if it lacks something.

        Of a batch it is from the least to the most.
        """
        seconds, at_least = self.seconds, "at least " if self.left_out else ""
        return at_least + (_range(seconds).strip() if isinstance(seconds, np.ndarray) else duration(seconds))

    @property
    def without(self) -> str:
        """Return what the run time leaves out, as displays have it: ``" (without f32 pow)"``, empty for nothing."""
        if not self.left_out:
            return ""
        more = f" and {len(self.left_out) - NAMED} more" if len(self.left_out) > NAMED else ""
        return f" (without {', '.join(self.left_out[:NAMED])}{more})"

    def __repr__(self) -> str:
        # In a terminal, too, it is seconds that are wanted.
        return f"<Estimate {self._asked()}: {self._times()}{self.without}>"

    def _repr_html_(self) -> str:
        rows = [_cells(cost) for cost in self.breakdown.costs()]
        head, *rest = str(self).splitlines()
        table = hypertext.table(("property", "count", "each", "time"), rows, caption=head)
        return hypertext.shown(table, hypertext.lines(line.strip() for line in rest))

    def without_sources(self) -> "Estimate":
        """Return the estimate with one row for each property, as that of a batch has: a search keeps thousands."""
        costs = {cost.property: cost for cost in self.breakdown.costs()}
        found = (costs[name] for name in self.breakdown.by_property())  # in their order the seconds add up exactly
        rows = (Row(cost.property, "", cost.count, cost.each, cost.seconds) for cost in found)
        return replace(self, breakdown=Breakdown(tuple(rows)))

    def _between(self) -> str:
        if self.interval is None:
            return ""
        return f" ({duration(float(self.interval[0]))} to {duration(float(self.interval[1]))})"

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values that JSON can hold; arrays become lists."""
        return {
            "kernel": self.kernel,
            "sizes": {name: _plain(value) for name, value in self.sizes.items()},
            "device": self.device,
            "model": self.model,
            "counting": self.counting,
            "seconds": _plain(self.seconds),
            "bound": self.bound,
            "left_out": list(self.left_out),
            "interval": None if self.interval is None else [_plain(end) for end in self.interval],
            "unsure": list(self.unsure),
            "alternatives": [each.to_dict() for each in self.alternatives],
            "notes": list(self.notes),
            "breakdown": [
                {
                    "property": row.property,
                    "source": row.source,
                    "count": _plain(row.count),
                    "weight": row.weight,
                    "seconds": _plain(row.seconds),
                }
                for row in self.breakdown.rows
            ],
        }


def _range(values: NDArray[np.floating[Any]]) -> str:
    return f" from {duration(float(values.min()))} to {duration(float(values.max()))}" if values.size else ""


def common(weights: Iterable[float | None]) -> float | None:
    """Return what all *weights* are, None where they differ."""
    found = set(weights)
    return found.pop() if len(found) == 1 else None


def _cells(cost: PropertyCost) -> tuple[str, str, str, str]:
    """Return a property, its count, what each costs, and the time of all; in a batch from least to most."""
    counts = np.ravel(cost.count)
    ends = sorted({counts.min(), counts.max()}) if counts.size else ()
    time = _range(cost.seconds).strip() if isinstance(cost.seconds, np.ndarray) else duration(float(cost.seconds))
    each = "differs" if cost.each is None else duration(cost.each)
    return cost.property, " to ".join(map(amount, ends)), each, time


def _in_words(size: Any) -> str:
    if not isinstance(size, np.ndarray):
        return str(size)
    sizes = cast("NDArray[Any]", size)
    return f"{sizes.min()}..{sizes.max()}" if sizes.size else "none"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return cast("NDArray[Any]", value).tolist()
    return cast("np.generic", value).item() if isinstance(value, np.generic) else value
