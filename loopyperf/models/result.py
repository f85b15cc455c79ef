"""What every model answers: an :class:`Estimate` whose explanation adds up to it.

Costs that add up to the last bit, in every order and in every grouping.

Floating-point sums depend on their order, so a total would differ from the sum of its subtotals. Here the total and
all parts become multiples of one quantum q, the spacing of float64 numbers just above Σᵢ |costᵢ|. Each partial sum is
then a multiple of q below 2^53 q, and a float64 holds these exactly. A part moves by q/2 at most, which is 2⁻⁵² of the
sum of magnitudes; the largest part takes what the others leave.

What a model says of a kernel at one size, written down as JSON and read back to the last bit.

JSON numbers here are the shortest decimals that tell a float64 from all others. Integers stay integers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.display import ReportText, Table, Tabular, apart, called, plain
from loopyperf.models.workload import LAUNCHES, LAUNCHING
from loopyperf.units import amount, duration, in_percent, listed, number_of, unit_cost

Seconds = float | NDArray[np.floating[Any]]
"""one time, or an array of times over sizes"""


def adding_up(costs: Sequence[Seconds]) -> tuple[Seconds, list[Seconds]]:
    """Return the total of *costs*, in their unit, and the costs, adjusted so that they add up to it exactly.

    The total of numbers is correctly rounded to a multiple of the quantum. Arrays broadcast together; they are added
    in their order and returned as they are.
    """
    if any(isinstance(cost, np.ndarray) for cost in costs):
        return _added_in_order(costs), list(costs)
    total, parts = _on_one_grid(cast("Sequence[float]", costs))
    return total, cast("list[Seconds]", parts)


def exact_total(costs: Sequence[float]) -> float:
    """Return the total that :func:`adding_up` returns of numbers, without the parts."""
    return _on_grid_of(costs, map(abs, costs))[0]


def _added_in_order(costs: Sequence[Seconds]) -> Seconds:
    total = costs[0]
    for cost in costs[1:]:
        total = total + cost
    return total


def _on_one_grid(costs: Sequence[float]) -> tuple[float, list[float]]:
    sizes = [abs(cost) for cost in costs]
    rounded, quantum = _on_grid_of(costs, sizes)
    parts = [round(cost / quantum) * quantum for cost in costs]
    if parts:
        parts[sizes.index(max(sizes))] += rounded - sum(parts)
    return rounded, parts


def _on_grid_of(costs: Sequence[float], sizes: Iterable[float]) -> tuple[float, float]:
    """Return the total, and the quantum that it is a multiple of."""
    magnitude = math.fsum(sizes)
    # Room for what all parts together move by.
    quantum = math.ulp(magnitude + (len(costs) + 1) * math.ulp(magnitude))
    return round(math.fsum(costs) / quantum) * quantum, quantum


LEVEL = 0.8
"""the probability with which run times are in their intervals"""
DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""standard deviations that a normal distribution has to either side with that probability"""
NAMED = 2
"""things left out that a headline names, at most"""
NOTHING = "nothing"
"""what most of the time is for where there is none"""
Columns = Literal["counts", "overlapping", "pipelines", "core", "samples"]
"""what is counted in the rows of an estimate: what the whole kernel does; the same, where costs overlap, so that each
has a part of the time; seconds that pipelines are busy by the device's description, which overlap as well; what the
core with most groups executes; groups that were run, and others"""
HEADINGS: Mapping[Columns, tuple[str, str, str, str]] = {
    "counts": ("property", "count", "each", "time"),
    "overlapping": ("property", "count", "each alone", "part of the time"),
    "pipelines": ("pipeline", "busy as described", "takes", "part of the time"),
    "core": ("pipeline", "executions on a core", "each", "time"),
    "samples": ("property", "count", "each", "time"),
}
WIDE = 2.0
"""times as long as predicted: from there on an interval says in words how far it reaches"""
NO_INTERVAL = "no prediction interval: "
"""how a note begins that says why there is none"""


class BreakdownRow(msgspec.Struct, frozen=True):
    """One property's cost in one instruction. (Made many times in an estimate, a struct is made five times as fast.)"""

    property: str
    """what costs: a property, or a pipeline"""
    source: str
    """instruction id, barrier or launch; empty where a batch of sizes is not attributed to instructions"""
    count: Any
    """how much there is of it; an array for a batch"""
    weight: float | None
    """seconds per unit; None for several instructions or sizes together whose units do not cost the same"""
    seconds: Seconds
    """that all of it takes; an array for a batch"""


@dataclass(frozen=True, slots=True)
class PropertyCost:
    """What all units of a property cost."""

    property: str
    """what costs: a property, or a pipeline"""
    count: Any
    """how much there is of it; an array for a batch"""
    each: float | None
    """seconds per unit; None where they differ from instruction to instruction, or from size to size"""
    seconds: Seconds
    """that all of it takes; an array for a batch"""

    def in_words(self, columns: Columns) -> tuple[str, str, str, str]:
        """Return the property, how much there is of it, what a unit takes, and the time; of a batch from least to most.

        The first is a number of something, or as *columns* say a time of which the second says how many times it takes.
        """
        are_times = columns == "pipelines" and self.property != LAUNCHES
        measure = duration if are_times else amount
        each = "differs" if self.each is None else f"{self.each:.3g} times" if are_times else unit_cost(self.each)
        return self.property, _range(self.count, measure), each, _range(self.seconds, duration)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The rows that an estimate is the sum of."""

    rows: tuple[BreakdownRow, ...]
    """their seconds add up to the estimate"""

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

    def _grouped(self, key: Callable[[BreakdownRow], str]) -> dict[str, Seconds]:
        sums: dict[str, Seconds] = {}
        for row in self.rows:
            name = key(row)
            sums[name] = sums[name] + row.seconds if name in sums else row.seconds
        return sums


@dataclass(frozen=True, slots=True)
class Alternative:
    """The time that a kernel takes if what is unsure of it is not as it likelier is."""

    seconds: Seconds
    """run time; an array for a batch"""
    arrays: tuple[str, ...]
    """the private arrays of which it is unsure whether the compiler keeps them in registers"""
    assumption: str
    """what is so then, e.g. ``"the private array acc is in registers"``"""
    reason: str
    """why that is unsure, in words"""

    def __str__(self) -> str:
        return f"{_range(self.seconds, duration)} if {self.assumption}, which is unsure: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the alternative as plain values that JSON can hold."""
        return {
            "seconds": plain(self.seconds),
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
    """columns that the kernel has and the fit has no weight for: counts are taken as free, pipelines as described"""
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
    columns: Columns = "counts"
    """what is counted in the rows"""

    @property
    def executing(self) -> float:
        """Return the seconds without what launching costs; of a single size."""
        return sum(float(row.seconds) for row in self.breakdown.rows if row.property not in LAUNCHING)


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


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Estimate(_ExplainedLater, Tabular):
    """How long a kernel takes, with the reason why."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name; arrays for a batch"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    model: str
    """name of the model that answers, e.g. ``"pipeline"``"""
    counting: str
    """how work is counted: ``"executed"`` or ``"paper"`` (:func:`loopyperf.count`)"""
    seconds: Seconds
    """run time; an array in the sizes' broadcast shape where sizes were arrays"""
    breakdown: Breakdown
    """what the time is made of: rows whose seconds add up to it"""
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
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell, and the estimate rests on"""
    columns: Columns = "counts"
    """what is counted in the rows of the breakdown"""

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
        typical: Mapping[str, Any] | None = None,
        columns: Columns = "counts",
    ) -> "Estimate":
        """Return an estimate of *seconds* by counts; *explain* is asked when somebody looks, and says the same."""
        estimate = object.__new__(cls)
        state = object.__setattr__
        state(estimate, "kernel", kernel)
        state(estimate, "sizes", sizes)
        state(estimate, "device", device)
        state(estimate, "model", model)
        state(estimate, "counting", counting)
        state(estimate, "seconds", seconds)
        state(estimate, "typical", dict(typical or {}))
        state(estimate, "columns", columns)
        state(estimate, "_explain", explain)
        return estimate

    def __float__(self) -> float:
        return float(self.seconds)

    def __eq__(self, other: object) -> bool:
        """Return whether *other* says the same, at all sizes of a batch; of what has mappings there is no hash."""
        return self.to_dict() == other.to_dict() if isinstance(other, Estimate) else NotImplemented

    @property
    def place(self) -> tuple[bool, float]:
        """Return what it is ordered by among others.

        Those whose run times lack something, or are below 0, stand behind all others.
        """
        seconds = float(self.seconds)
        return seconds < 0 or bool(self.left_out), seconds

    @property
    def is_unsure(self) -> bool:
        """Return whether the run time depends on something that is unsure, and may be far from what is said."""
        return bool(self.unsure)

    @property
    def bound(self) -> str:
        """Return the property that costs most (in a batch: summed over all sizes), ``"nothing"`` if none costs any."""
        costs = {name: float(np.sum(seconds)) for name, seconds in self.breakdown.by_property().items()}
        return max(costs, key=lambda name: costs[name]) if any(costs.values()) else NOTHING

    @property
    def most_of_it(self) -> str:
        """Return in words what most of the time is for."""
        return "nothing in it costs any time" if self.bound == NOTHING else f"bound by {self.bound}"

    @property
    def inputs(self) -> str:
        """Return what it is an answer to, e.g. ``"matmul(n=4096) on nvidia-v100, model pipeline"``."""
        return f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, model {self.model}"

    @property
    def why_no_interval(self) -> str:
        """Return in a clause why there is no interval, as a note says; empty where there is one."""
        said = next((note for note in self.notes if note.startswith(NO_INTERVAL)), "")
        return "" if self.interval is not None else said.removeprefix(NO_INTERVAL)

    def report_text(self) -> ReportText:
        """Return the time, what it is made of, what else it may be, and what was assumed."""
        return ReportText(
            question=self.inputs,
            answer=self._answer(),
            tables=[self.parts_table()] if np.size(self.seconds) and self.breakdown.rows else [],
            remarks=[f"or: {each}" for each in self.alternatives],
            notes=self.notes,
            alone=self.time_in_words,
        )

    def parts_table(self) -> Table:
        """Return what each property costs, in time and as a share of the whole; those below 1 % have one row.

        Of a batch all are from the least to the most, and a property has a row where it is 1 % or more at any size.
        """
        shares = {each.property: _share(each.seconds, self.seconds) for each in self.breakdown.costs()}
        large, small = apart(self.breakdown.costs(), lambda each: np.max(np.abs(shares[each.property])))
        rows = [(*each.in_words(self.columns), _share_in_words(shares[each.property])) for each in large]
        if small:
            seconds = sum(each.seconds for each in small)
            share = _share_in_words(_share(seconds, self.seconds))
            rows.append((number_of(len(small), "other"), "", "", _range(seconds, duration), share))
        return Table((*HEADINGS[self.columns], "share"), rows)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the breakdown, each with its share of the whole time; of a batch, those of each size.

        ``weight`` is in seconds per unit, of pipelines of a fit per second; ``share`` is 1 for the whole.
        """
        if not isinstance(self.seconds, np.ndarray):
            return [_record(row, self.seconds) for row in self.breakdown.rows]
        shape = self.seconds.shape
        sizes = {name: np.broadcast_to(each, shape) for name, each in self.sizes.items()}
        return [
            {**{name: plain(each[at]) for name, each in sizes.items()}, **_record(row, self.seconds, at)}
            for at in np.ndindex(shape)
            for row in self.breakdown.rows
        ]

    def _answer(self) -> str:
        batch = number_of(self.seconds.size, "run time") if isinstance(self.seconds, np.ndarray) else ""
        if not np.size(self.seconds):
            return batch
        return f"{batch} {self.time_and_interval}, {self.most_of_it}".lstrip()

    @property
    def time_and_interval(self) -> str:
        """Return the run time as displays have it, with what it leaves out and its interval, where there is one."""
        return f"{self.time_in_words}{self.without}{self._between()}"

    @property
    def time_in_words(self) -> str:
        """Return the run time as displays have it, e.g. ``"281 ms"``, or ``"at least 281 ms"`` if it lacks something.

        Of a batch it is from the least to the most.
        """
        words = _range(self.seconds, duration)
        least = "at least " if self.left_out and words else ""
        return f"{'from ' if ' to ' in words else ''}{least}{words}"

    @property
    def without(self) -> str:
        """Return what the run time leaves out, as displays have it: ``" (without f32 pow)"``, empty for nothing."""
        return f" (without {listed(self.left_out, NAMED)})" if self.left_out else ""

    def without_sources(self) -> "Estimate":
        """Return the estimate with one row for each property, as that of a batch has: a search keeps thousands."""
        costs = {cost.property: cost for cost in self.breakdown.costs()}
        found = (costs[name] for name in self.breakdown.by_property())  # in their order the seconds add up exactly
        rows = (BreakdownRow(cost.property, "", cost.count, cost.each, cost.seconds) for cost in found)
        return replace(self, breakdown=Breakdown(tuple(rows)))

    def _between(self) -> str:
        """Return the interval, of a batch from the lowest end to the highest one."""
        if self.interval is None:
            return ""
        low, high = (duration(float(end(each))) for end, each in zip((np.min, np.max), self.interval, strict=True))
        what = f"{in_percent(LEVEL)} interval"
        if isinstance(self.seconds, np.ndarray):
            return f" (each in an {what}, from {low} to {high})"
        return f" ({what}: {low} to {high}{self._factor()})"

    def _factor(self) -> str:
        """Return in words how far the interval reaches, where that is so far that its ends alone may pass unnoticed."""
        if self.interval is None or not (least := min(map(float, self.interval))) > 0:
            return ""
        factor = max(float(self.interval[1]) / float(self.seconds), float(self.seconds) / least)
        return f", within a factor of {factor:.2g}" if factor >= WIDE else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values that JSON can hold; arrays become lists."""
        return {
            "kernel": self.kernel,
            "sizes": {name: plain(value) for name, value in self.sizes.items()},
            "device": self.device,
            "model": self.model,
            "typical": plain(self.typical),
            "counting": self.counting,
            "seconds": plain(self.seconds),
            "bound": self.bound,
            "left_out": list(self.left_out),
            "interval": None if self.interval is None else [plain(end) for end in self.interval],
            "unsure": list(self.unsure),
            "alternatives": [each.to_dict() for each in self.alternatives],
            "notes": list(self.notes),
            "columns": self.columns,
            "breakdown": [
                {
                    "property": row.property,
                    "source": row.source,
                    "count": plain(row.count),
                    "weight": row.weight,
                    "seconds": plain(row.seconds),
                }
                for row in self.breakdown.rows
            ],
        }


def _share(part: Seconds, whole: Seconds) -> Seconds:
    """Return which share of the *whole* a *part* is; NaN where the whole is not above 0."""
    wholes = np.asarray(whole, float)
    shares = np.divide(part, wholes, out=np.full(wholes.shape, np.nan), where=wholes > 0)
    return shares if isinstance(whole, np.ndarray) else float(shares)


def _share_in_words(share: Seconds) -> str:
    known = np.atleast_1d(share)
    known = known[~np.isnan(known)]
    return _range(known, in_percent) if known.size else ""


def _record(row: BreakdownRow, whole: Seconds, at: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a *row* of a breakdown of the *whole* time, of a batch that of the size *at* this place."""

    def one(value: Any) -> Any:
        return plain(np.broadcast_to(value, np.shape(whole))[at]) if at else plain(value)

    return {
        "property": row.property,
        "source": row.source,
        "count": one(row.count),
        "weight": row.weight,
        "seconds": one(row.seconds),
        "share": _share(one(row.seconds), one(whole)),
    }


def common(weights: Iterable[float | None]) -> float | None:
    """Return what all *weights* are, None where they differ."""
    found = set(weights)
    return found.pop() if len(found) == 1 else None


def _range(values: Any, in_words: Callable[[float], str]) -> str:
    """Return a number in words, or the least and the most of an array."""
    if not isinstance(values, np.ndarray):
        return in_words(values)
    ends = (values.min(), values.max()) if values.size else ()
    return " to ".join(dict.fromkeys(map(in_words, ends)))


Number = int | float
Answer = tuple[str, ModelTime]
"""the kernel's name, and what a model says of it"""

# {{{ what is written


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    property: str
    source: str
    count: Number
    weight: Number | None
    seconds: Number


class _Alternative(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    seconds: Number
    arrays: tuple[str, ...]
    assumption: str
    reason: str


class _Breakdown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: tuple[_Row, ...]


class _ModelTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Number
    breakdown: _Breakdown
    unfitted: tuple[str, ...]
    notes: tuple[str, ...]
    interval: tuple[Number, Number] | None
    unsure: tuple[str, ...]
    alternatives: tuple[_Alternative, ...]
    left_out: tuple[str, ...]
    columns: Columns


_Answer = tuple[str, _ModelTime]
_decoder = msgspec.json.Decoder(_Answer)

# }}}


def answer_as_json(answer: Answer) -> bytes:
    """Return *answer* as JSON; raises :class:`msgspec.ValidationError` for one that holds other than plain numbers."""
    return msgspec.json.encode(msgspec.convert(answer, _Answer, from_attributes=True))


def read_answer(transcript: bytes) -> Answer:
    """Return the answer that was :func:`answer_as_json`; raises :class:`msgspec.MsgspecError` for anything else."""
    kernel, time = _decoder.decode(transcript)
    rows = (BreakdownRow(row.property, row.source, row.count, row.weight, row.seconds) for row in time.breakdown.rows)
    others = (Alternative(each.seconds, each.arrays, each.assumption, each.reason) for each in time.alternatives)
    return kernel, ModelTime(
        seconds=time.seconds,
        breakdown=Breakdown(tuple(rows)),
        unfitted=time.unfitted,
        notes=time.notes,
        interval=time.interval,
        unsure=time.unsure,
        alternatives=tuple(others),
        left_out=time.left_out,
        columns=time.columns,
    )
