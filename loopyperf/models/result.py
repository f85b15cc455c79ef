"""Result of a model: an :class:`Estimate` whose breakdown adds up to its time.

The last section encodes a model's result for one size as JSON and decodes it without loss. Numbers are the shortest
decimals that identify a float64. Integers stay integers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.display import (
    Note,
    NoteKind,
    ReportText,
    Table,
    Tabular,
    abridged,
    apart,
    called,
    fields_of,
    kind_of,
    note_from_json,
    note_to_json,
    plain,
)
from loopyperf.models.workload import LAUNCHES, LAUNCHING
from loopyperf.units import amount, duration, in_percent, listed, number_of, ratio_in_words, unit_cost

Seconds = float | NDArray[np.floating[Any]]
"""A run time, or an array of run times over sizes."""


def total(costs: Sequence[Seconds]) -> Seconds:
    """Return the sum of *costs*: correctly rounded for scalars; of arrays, which broadcast, added in order."""
    is_batch = np.ndarray in set(map(type, costs))
    return sum(costs) if is_batch else math.fsum(cast("Sequence[float]", costs))


LEVEL = 0.8
"""Probability that a run time lies in its prediction interval."""
DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Half-width of a normal distribution's interval with that probability, in standard deviations."""
MAX_NAMED = 2
"""Maximum number of omissions, or of large costs, that a headline names."""
NOTHING = "nothing"
"""Bound of an estimate without costs."""
Columns = Literal["counts", "overlapping", "pipelines", "core", "samples"]
"""Meaning of the rows of an estimate: counts of the whole kernel; the same with overlapping costs, each of which
contributes a part of the time; modeled busy seconds of pipelines, which overlap as well; executions on the core with
most groups; groups that were timed, and the others."""
HEADINGS: Mapping[Columns, tuple[str, str, str, str]] = {
    "counts": ("property", "count", "each", "time"),
    "overlapping": ("property", "count", "each alone", "attributed time"),
    "pipelines": ("pipeline", "modeled busy time", "factor", "attributed time"),
    "core": ("pipeline", "executions on a core", "each", "time"),
    "samples": ("property", "count", "each", "time"),
}
Clock = Literal["device", "wall"]
"""Clock of a run time: the device's, from the start of one of many consecutive launches to the start of the next, or
the wall clock, with the launch and the wait on the host."""
CLOCKS: Mapping[Clock, str] = {
    "device": "device time, without the wait on the host",
    "wall": "wall-clock time, with launch and wait on the host",
}
WIDE_RATIO = 2.0
"""Ratio of an interval's end to the prediction from which the interval is also shown as a factor."""
BOUND_SHARE = 0.5
"""Share of the run time from which a property counts as its bound."""
APART_RATIO = 1.5
"""Ratio of the run times of two placements of private arrays, above which headlines show both."""


def no_interval(reason: str) -> Note:
    """Return the note that there is no prediction interval, with the *reason*."""
    return Note(NoteKind.NO_INTERVAL, f"no prediction interval: {reason}")


class BreakdownRow(msgspec.Struct, frozen=True):
    """The cost of one property in one instruction. (An estimate has many; a struct is created five times as fast.)"""

    property: str
    """Property or pipeline."""
    source: str
    """Instruction id, barrier or launch; empty if a batch of sizes is not attributed to instructions."""
    count: Any
    """Number of units; an array for a batch."""
    weight: float | None
    """Seconds per unit; None if the row merges instructions or sizes whose units differ in cost."""
    seconds: Seconds
    """Time of all units; an array for a batch."""


@dataclass(frozen=True, slots=True)
class PropertyCost:
    """Cost of all units of a property."""

    property: str
    """Property or pipeline."""
    count: Any
    """Number of units; an array for a batch."""
    each: float | None
    """Seconds per unit; None if it differs between instructions or between sizes."""
    seconds: Seconds
    """Time of all units; an array for a batch."""

    def in_words(self, columns: Columns) -> tuple[str, str, str, str]:
        """Return the table cells of the property: name, count, unit cost and time; ranges for a batch.

        If *columns* is ``"pipelines"``, the count is a busy time and the unit cost is a factor on it.
        """
        are_times = columns == "pipelines" and self.property != LAUNCHES
        measure = duration if are_times else amount
        cost = _factor if are_times else unit_cost
        each = "varies" if self.each is None else cost(self.each)
        return self.property, _range(self.count, measure), each, _range(self.seconds, duration)


def _factor(number: float) -> str:
    return f"{ratio_in_words(number)} times"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Rows whose sum is the estimate."""

    rows: tuple[BreakdownRow, ...]
    """Rows; their seconds add up to the estimate."""

    @property
    def seconds(self) -> Seconds:
        """Return the sum of the seconds of all rows."""
        return total([row.seconds for row in self.rows])

    def by_property(self) -> dict[str, Seconds]:
        """Return property -> seconds; the values add up to the estimate."""
        return self._grouped(lambda row: row.property)

    def by_source(self) -> dict[str, Seconds]:
        """Return instruction, barrier or launch -> seconds; the values add up to the estimate."""
        return self._grouped(lambda row: row.source)

    def costs(self) -> tuple[PropertyCost, ...]:
        """Return the cost of each property, largest magnitude first; a batch is ranked by its sum over all sizes."""
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
    """Run time of a kernel if an uncertain assumption does not hold."""

    seconds: Seconds
    """Run time; an array for a batch."""
    arrays: tuple[str, ...]
    """Private arrays that the compiler may or may not keep in registers."""
    assumption: str
    """The alternative assumption, e.g. ``"the private array acc is in registers"``."""
    reason: str
    """Why the assumption is uncertain."""

    def __str__(self) -> str:
        return f"{_range(self.seconds, duration)} if {self.assumption} (uncertain: {self.reason})"


@dataclass(frozen=True, slots=True)
class ModelTime:
    """A model's time and the rows that add up to it."""

    seconds: Seconds
    breakdown: Breakdown
    unfitted: tuple[str, ...] = ()
    """Columns that the kernel has but the fit has no weight for: counts cost 0, pipelines have the factor 1."""
    notes: tuple[str, ...] = ()
    """Assumptions."""
    interval: tuple[Seconds, Seconds] | None = None
    """Prediction interval, if the model has one."""
    unsure: tuple[str, ...] = ()
    """Private arrays that may or may not be registers."""
    alternatives: tuple[Alternative, ...] = ()
    """Times if they are placed otherwise."""
    left_out: tuple[str, ...] = ()
    """Non-negligible work that the time does not include; the time is a lower bound then."""
    columns: Columns = "counts"
    """Meaning of the rows."""

    @classmethod
    def of(cls, rows: Iterable[BreakdownRow], **others: Any) -> "ModelTime":
        """Return the time that *rows* add up to, with other fields by name."""
        breakdown = Breakdown(tuple(rows))
        return cls(breakdown.seconds, breakdown, **others)

    @property
    def executing(self) -> float:
        """Return the time without launch costs, in seconds, for a single size."""
        return sum(float(row.seconds) for row in self.breakdown.rows if row.property not in LAUNCHING)


def clipped(interval: tuple[Seconds, Seconds] | None, seconds: float, least: float) -> tuple[Seconds, Seconds] | None:
    """Return the *interval* around *seconds* without the part below a lower bound of *least* seconds."""
    return None if interval is None else (max(float(interval[0]), min(least, seconds)), interval[1])


EXPLANATION = ("breakdown", "interval", "notes", "unsure", "alternatives", "left_out")
"""Fields of an estimate that explain its seconds."""


class _ExplainedLater:
    """An object whose explanation is computed on first access: a search reads many times, but few explanations."""

    __slots__ = ("_explain",)
    _explain: Callable[[], ModelTime]

    def __getattr__(self, name: str) -> Any:
        """Compute the missing fields; Python calls this only for attributes that are not set."""
        if name not in EXPLANATION:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        answer = self._explain()
        for each in EXPLANATION:
            object.__setattr__(self, each, getattr(answer, each))
        return getattr(answer, name)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Estimate(_ExplainedLater, Tabular):
    """Predicted run time of a kernel, with a breakdown.

    An estimate converts to ``float`` (seconds) for a single size. If a size is an array, the estimate is a batch:
    :attr:`seconds` is an array of the broadcast shape, and so are the counts and seconds of the breakdown.

    Printing an estimate shows the time, its interval, the costs and the notes.

    Examples
    --------
    >>> import loopy as lp
    >>> import loopyperf as lpp
    >>> import numpy as np
    >>> scaled = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), ...],
    ...     name="scaled",
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> scaled = lp.split_iname(scaled, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> estimate = lpp.estimate(scaled, n=2**24, device="nvidia-titan-v", model="roofline")
    >>> estimate.bound
    'DRAM'
    >>> estimate.breakdown.seconds == estimate.seconds
    True
    """

    kernel: str
    """Name of the kernel."""
    sizes: Mapping[str, Any]
    """Kernel parameters: name -> value; arrays for a batch."""
    device: str
    """Slug of the device, e.g. ``"nvidia-v100"``."""
    model: str
    """Name of the model, e.g. ``"pipeline"``."""
    counting: str
    """Counting method: ``"executed"`` or ``"paper"`` (:func:`loopyperf.count`)."""
    seconds: Seconds
    """Run time in seconds; an array of the sizes' broadcast shape for a batch."""
    breakdown: Breakdown
    """Rows whose seconds add up to the run time."""
    interval: tuple[Seconds, Seconds] | None = None
    """Prediction interval of the run time in seconds (80 %), if the model has one."""
    notes: tuple[str, ...] = ()
    """Assumptions, and limitations of the fit."""
    unsure: tuple[str, ...] = ()
    """Private arrays that the compiler may or may not keep in registers."""
    alternatives: tuple[Alternative, ...] = ()
    """Run times if they are placed otherwise."""
    left_out: tuple[str, ...] = ()
    """Non-negligible work that the run time does not include. The run time is a lower bound then and has no
    interval."""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Typical values, given by the caller, of quantities that the source does not determine."""
    columns: Columns = "counts"
    """Meaning of the rows of the breakdown."""
    clock: Clock = "wall"
    """Clock of the run time. Models of the device predict device time; fits, and samples, wall-clock time."""

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
        """Return an estimate of *seconds* that calls *explain* for its explanation on first access."""
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
        state(estimate, "clock", "wall")
        state(estimate, "_explain", explain)
        return estimate

    def __float__(self) -> float:
        return float(self.seconds)

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is the same estimate, at all sizes of a batch. (Estimates are not hashable.)"""
        return self.to_dict() == other.to_dict() if isinstance(other, Estimate) else NotImplemented

    @property
    def place(self) -> tuple[bool, float]:
        """Return the sort key among estimates.

        Incomplete and negative run times come last.
        """
        seconds = float(self.seconds)
        return seconds < 0 or bool(self.left_out), seconds

    @property
    def is_unsure(self) -> bool:
        """Return whether the run time depends on an uncertain placement of private arrays."""
        return bool(self.unsure)

    @property
    def bound(self) -> str:
        """Return the property that costs most (in a batch, over all sizes), ``"nothing"`` if all costs are 0."""
        return next(iter(self._costs()), NOTHING)

    def _costs(self) -> dict[str, float]:
        """Return the cost of each property, in a batch over all sizes, largest first; empty if all are 0."""
        costs = {name: float(np.sum(seconds)) for name, seconds in self.breakdown.by_property().items()}
        return dict(sorted(costs.items(), key=lambda cost: -cost[1])) if any(costs.values()) else {}

    @property
    def most_of_it(self) -> str:
        """Return what bounds the run time, e.g. ``"bound by DRAM"``, or its two largest parts if none is a half."""
        costs, whole = self._costs(), float(np.sum(self.seconds))
        largest = list(costs)[:MAX_NAMED]
        if not largest:
            return "all costs are 0"
        if len(largest) < MAX_NAMED or costs[largest[0]] >= BOUND_SHARE * whole:
            return f"bound by {largest[0]}"
        return f"mostly {' and '.join(f'{name} ({in_percent(costs[name] / whole)})' for name in largest)}"

    @property
    def inputs(self) -> str:
        """Return the inputs of the estimate, e.g. ``"matmul(n=4096) on nvidia-v100, model pipeline"``."""
        return f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, model {self.model}"

    @property
    def why_no_interval(self) -> str:
        """Return the note that there is no prediction interval; empty if there is none."""
        return next((note for note in self.notes if kind_of(note) == NoteKind.NO_INTERVAL), "")

    def report_text(self) -> ReportText:
        """Return the report: run time, costs, alternatives and notes."""
        return ReportText(
            question=self.inputs,
            answer=self._answer(),
            tables=[
                *([self.sizes_table()] if np.ndim(self.seconds) == 1 and np.size(self.seconds) else []),
                *([self.parts_table()] if np.size(self.seconds) and self.breakdown.rows else []),
            ],
            remarks=[CLOCKS[self.clock], *(f"or: {alternative}" for alternative in self.alternatives)],
            notes=self.notes,
            alone=self.alone,
        )

    @property
    def alone(self) -> str:
        """Return the run time in a few characters, with the alternatives that differ much as a range."""
        return self._words(_range(np.hstack([self.seconds, *self._far_apart]), duration))

    def sizes_table(self) -> Table:
        """Return a table of the run time at each size of a one-dimensional batch; of many sizes, the first and last."""
        shape = np.shape(self.seconds)
        columns = {
            name: [amount(int(value)) for value in np.broadcast_to(values, shape)]
            for name, values in self.sizes.items()
            if np.ndim(values)
        }
        times = {"time": self.seconds, **dict(zip(("from", "to"), self.interval or (), strict=False))}
        columns |= {name: [duration(float(each)) for each in np.broadcast_to(times[name], shape)] for name in times}
        rows = list(zip(*columns.values(), strict=True))
        return Table(tuple(columns), abridged(rows, lambda row: row), text=0)

    def parts_table(self) -> Table:
        """Return a table of the cost of each property and its share of the run time; one row sums those below 1 %.

        For a batch, cells are ranges over sizes, and a property has a row if its share is 1 % or more at any size.
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
        """Return the rows of the breakdown with their shares of the run time; for a batch, the rows of each size.

        ``weight`` is in seconds per unit (for pipelines of a fit, in seconds per second of modeled busy time);
        ``share`` is 1 for the whole run time.
        """
        if not isinstance(self.seconds, np.ndarray):
            return [_record(row, self.seconds) for row in self.breakdown.rows]
        shape = self.seconds.shape
        sizes = {name: np.broadcast_to(size, shape) for name, size in self.sizes.items()}
        return [
            {**{name: plain(size[at]) for name, size in sizes.items()}, **_record(row, self.seconds, at)}
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
        """Return the run time for display, with its omissions and its interval, if it has one."""
        return f"{self.time_in_words}{self.without}{self._between()}"

    @property
    def time_in_words(self) -> str:
        """Return the run time for display, e.g. ``"281 ms"``, or ``"at least 281 ms"`` if it omits work.

        For a batch, return the range. Alternatives that differ by more than :data:`APART_RATIO` times follow, as in
        ``"651 ms or 35.7 ms"``.
        """
        return self._words(" or ".join(_range(each, duration) for each in (self.seconds, *self._far_apart)))

    @property
    def _far_apart(self) -> list[Seconds]:
        """Return the alternative run times that differ much from the prediction, at any size of a batch."""
        times = (alternative.seconds for alternative in self.alternatives)
        own = self.seconds
        return [time for time in times if np.any(np.maximum(time, own) > APART_RATIO * np.minimum(time, own))]

    def _words(self, words: str) -> str:
        least = "at least " if self.left_out and words else ""
        return f"{'from ' if ' to ' in words else ''}{least}{words}"

    @property
    def without(self) -> str:
        """Return the omissions for display, e.g. ``" (without f32 pow)"``; empty if there are none."""
        return f" (without {listed(self.left_out, MAX_NAMED)})" if self.left_out else ""

    def without_sources(self) -> "Estimate":
        """Return the estimate with one row for each property, like that of a batch; a search keeps thousands."""
        costs = {cost.property: cost for cost in self.breakdown.costs()}
        found = (costs[name] for name in self.breakdown.by_property())
        rows = (BreakdownRow(cost.property, "", cost.count, cost.each, cost.seconds) for cost in found)
        return replace(self, breakdown=Breakdown(tuple(rows)))

    def _between(self) -> str:
        """Return the interval for display; for a batch, from the lowest end to the highest one."""
        if self.interval is None:
            return ""
        low, high = (duration(float(end(each))) for end, each in zip((np.min, np.max), self.interval, strict=True))
        what = f"{in_percent(LEVEL)} interval"
        if isinstance(self.seconds, np.ndarray):
            return f" ({in_percent(LEVEL)} intervals span {low} to {high})"
        return f" ({what}: {low} to {high}{self._factor()})"

    def _factor(self) -> str:
        """Return the factor between the prediction and the interval's farther end, from :data:`WIDE_RATIO`."""
        if self.interval is None or not (least := min(map(float, self.interval))) > 0:
            return ""
        factor = max(float(self.interval[1]) / float(self.seconds), float(self.seconds) / least)
        return f", within a factor of {ratio_in_words(factor)}" if factor >= WIDE_RATIO else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values for JSON; arrays become lists."""
        return {**fields_of(self), "breakdown": plain(self.breakdown.rows)}


def _share(part: Seconds, whole: Seconds) -> Seconds:
    """Return the share of *part* in *whole*; NaN if the whole is not above 0."""
    wholes = np.asarray(whole, float)
    shares = np.divide(part, wholes, out=np.full(wholes.shape, np.nan), where=wholes > 0)
    return shares if isinstance(whole, np.ndarray) else float(shares)


def _share_in_words(share: Seconds) -> str:
    known = np.atleast_1d(share)
    known = known[~np.isnan(known)]
    return _range(known, in_percent) if known.size else ""


def _record(row: BreakdownRow, whole: Seconds, at: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a *row* as a record with its share of the *whole* time; for a batch, at the index *at*."""

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
    """Return the value that all *weights* have in common, None if they differ."""
    found = set(weights)
    return found.pop() if len(found) == 1 else None


def _range(values: Any, in_words: Callable[[float], str]) -> str:
    """Return a number as text, or the minimum and the maximum of an array."""
    if not isinstance(values, np.ndarray):
        return in_words(values)
    ends = (values.min(), values.max()) if values.size else ()
    return " to ".join(dict.fromkeys(map(in_words, ends)))


Number = int | float
Answer = tuple[str, ModelTime]
"""Name of the kernel and a model's result for it."""

# {{{ JSON schema


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
    notes: tuple[Note, ...]
    interval: tuple[Number, Number] | None
    unsure: tuple[str, ...]
    alternatives: tuple[_Alternative, ...]
    left_out: tuple[str, ...]
    columns: Columns


_Answer = tuple[str, _ModelTime]
_decoder = msgspec.json.Decoder(_Answer, dec_hook=note_from_json)

# }}}


def answer_as_json(answer: Answer) -> bytes:
    """Return *answer* as JSON.

    :raises msgspec.ValidationError: if it contains anything but plain numbers and strings.
    """
    plain_answer = msgspec.convert(answer, _Answer, from_attributes=True, dec_hook=note_from_json)
    return msgspec.json.encode(plain_answer, enc_hook=note_to_json)


def read_answer(transcript: bytes) -> Answer:
    """Return the answer encoded by :func:`answer_as_json`.

    :raises msgspec.MsgspecError: for any other input.
    """
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
