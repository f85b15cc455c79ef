"""Compare two run times: :func:`diff`, and the :class:`Difference` that it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, cast

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.explain.difference_cause import (
    BYTES,
    SECONDS,
    SHARE,
    Pair,
    Side,
    access_pairs,
    line_pairs,
    resident_pairs,
    why,
)
from loopyperf.explain.explain import explain
from loopyperf.kernel import Program
from loopyperf.models.catalog import find_model
from loopyperf.predict.compare import device_for, usual_model
from loopyperf.predict.fitted import record_of
from loopyperf.stages.case import merged_sizes
from loopyperf.stages.compile import Compiler
from loopyperf.units import SHORTEST, duration, number_of

SMALL_CHANGE = 0.01
"""share of the longer run time; lines and resources with a smaller difference are not shown"""

MOST_ROWS = 7
"""maximum number of quantities per heading in a terminal"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two compared kernels."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    typical: Mapping[str, Any]
    """the given typical iteration counts and condition shares, by name"""
    device: str
    """short name of the device"""
    seconds: float
    """predicted run time"""

    @property
    def called(self) -> str:
        """Return the kernel with its sizes, e.g. ``"product(n=1024)"``."""
        return called(self.kernel, self.sizes, self.typical)


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Tabular):
    """Two run times predicted by the same model, and the differences that explain them."""

    _DERIVED = ("before", "after", "ratio")

    model: str
    """model that predicted the run times"""
    compared: tuple[Compared, Compared]
    """the two kernels, in the given order"""
    why: str
    """speed ratio and its cause, as a sentence without its period"""
    lines: tuple[Pair, ...]
    """cost of each source line; the seconds of each side add up to its run time"""
    resources: tuple[Pair, ...] = ()
    """busy time of pipelines and memory levels; empty if a device has no parameters"""
    waiting: tuple[Pair, ...] = ()
    """stall reasons, as shares of stall cycles"""
    residents: tuple[Pair, ...] = ()
    """resident warps per core, registers, spills and grid of the longest launch"""
    traffic: tuple[Pair, ...] = ()
    """bytes moved through each memory level"""
    counters: tuple[Pair, ...] = ()
    """executed warp instructions, and requests, sectors and wavefronts per array"""
    notes: tuple[str, ...] = ()
    """assumptions of the predictions"""

    @property
    def before(self) -> float:
        """Return the run time of the first kernel, in seconds."""
        return self.compared[0].seconds

    @property
    def after(self) -> float:
        """Return the run time of the second kernel, in seconds."""
        return self.compared[1].seconds

    @property
    def ratio(self) -> float:
        """Return the speedup of the second kernel: the first run time over the second."""
        return self.before / self.after if self.after else 1.0

    @property
    def labels(self) -> tuple[str, str]:
        """Return two labels: names, devices or sizes, whichever differ, or else ``"before"`` and ``"after"``."""
        one, other = self.compared
        sizes = [dict(side.sizes) for side in self.compared]
        apart = [name for name in sizes[0] if name in sizes[1] and sizes[0][name] != sizes[1][name]]
        if one.kernel != other.kernel:
            return one.kernel, other.kernel
        if one.device != other.device:
            return one.device, other.device
        if apart:
            first, second = (", ".join(f"{name}={side[name]}" for name in apart) for side in sizes)
            return first, second
        return "before", "after"

    @property
    def inputs(self) -> str:
        """Return the compared kernels and devices, e.g. ``"product(n=1024) on nvidia-v100, model pipeline"``."""
        one, other = self.compared
        if one.device != other.device:
            names = f"{one.called} on {one.device} and {'' if one.called == other.called else f'{other.called} '}"
            return f"{names}on {other.device}, model {self.model}"
        names = one.called if one.called == other.called else f"{one.called} and {other.called}"
        return f"{names} on {one.device}, model {self.model}"

    @property
    def quantities(self) -> dict[str, tuple[Pair, ...]]:
        """Return the other compared quantities by heading."""
        return {
            "stall reasons (share of stall cycles)": self.waiting,
            "occupancy of the longest launch": self.residents,
            "memory traffic": self.traffic,
            "counters": self.counters,
        }

    def report_text(self) -> ReportText:
        """Return both run times, the cause, and the parts that differ by at least 1 % of the run time or of each."""
        least = SMALL_CHANGE * max(self.before, self.after)
        costs = {"busy time (share of peak)": self.resources, "source": self.lines}
        tables: list[Table] = []
        more: list[str] = []
        folded = 0
        for name, pairs in {**costs, **self.quantities}.items():
            is_cost = name in costs
            shown = [pair for pair in pairs if (abs(pair.change) >= least if is_cost else pair.is_noteworthy)]
            rows = [(pair.name, *pair.words, *([signed(pair.change)] if is_cost else [])) for pair in shown]
            most = None if is_cost else MOST_ROWS
            tables.append(Table((name, *self.labels, *(["change"] if is_cost else [])), rows[:most]))
            folded += len(pairs) - len(shown)
            more += [f"{number_of(len(rows[most:]), 'row')} more: {name}"] if most and rows[most:] else []
        return ReportText(
            question=self.inputs,
            answer=f"{duration(self.before)} vs. {duration(self.after)}, {self.why}",
            tables=[table for table in tables if table.rows],
            remarks=[*more, *([f"{number_of(folded, 'row')} with differences below 1 % not shown"] if folded else [])],
            notes=self.notes,
            alone=f"{duration(self.before)} {duration(self.after)}",
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each source line with its seconds on both sides."""
        return [
            {"source": pair.source, "line": pair.name, "before": pair.before, "after": pair.after}
            for pair in self.lines
        ]


def signed(seconds: float) -> str:
    """Return *seconds* as a duration with its sign; empty for zero and for rounding errors."""
    sign = "+" if seconds > 0 else "\N{MINUS SIGN}"
    return f"{sign}{duration(abs(seconds))}" if abs(seconds) >= SHORTEST else ""


SIDES = 2


def diff(
    before: Program,
    after: Program | None = None,
    /,
    *,
    device: DeviceChoice | Sequence[DeviceChoice] | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Difference:
    """Compare the run times of two programs, two sizes or two devices, and explain the difference.

    Parameters
    ----------
    before : loopy.TranslationUnit
        First program.
    after : loopy.TranslationUnit, optional
        Second program. By default, *before* is compared with itself at other sizes or on another device.
    device : str, path or Device, or two of them, optional
        Device of both programs, or a pair, e.g. ``["nvidia-v100", "nvidia-a100"]``.
    model : str, optional
        A name in :data:`loopyperf.MODELS`. The default is the model of *fit*, or the default of
        :func:`loopyperf.estimate`; for two devices with different defaults, ``"pipeline"``.
    fit : Fit, ResidualModel or path, optional
        A fit for the model.
    compiler : {"model", "nvrtc", "auto"}
        Source of register counts, as in :func:`loopyperf.estimate`.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int or pair of int
        Values of integer parameters, or pairs, e.g. ``n=(1024, 2048)``. None in a pair means that the program does not
        have this parameter.

    Returns
    -------
    Difference
        Both run times in seconds, the cause of the difference in a sentence, and the differences by line, resource,
        cause of waiting, memory level and counter. What the model does not predict is simulated, and scaled to its
        times.

    Raises
    ------
    ParameterError
        Nothing differs, or a pair does not have two values.
    LoopyperfError
        Any error of :func:`loopyperf.explain`.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.diff(knl, device="nvidia-titan-v", n=(2**24, 2**25))
    >>> round(found.ratio, 1)
    0.5
    >>> print(found.why)  # doctest: +ELLIPSIS
    2 times as long: DRAM busy for ...
    """
    named = merged_sizes(parameters, sizes)
    devices = _pair_of_devices(device)
    both = {name: _pair_of_sizes(name, value) for name, value in named.items()}
    if (
        after is None
        and devices[0] is devices[1]
        and not any(isinstance(value, list | tuple) for value in named.values())
    ):
        raise ParameterError("nothing to compare; pass a second kernel, two devices, or two sizes, e.g. n=(1024, 2048)")
    record = None if fit is None else record_of(fit)
    usual = dict.fromkeys([usual_model(device_for(choice, record)[0], record) for choice in devices])
    name = find_model(model or (next(iter(usual)) if len(usual) == 1 else WITHOUT_FIT)).name
    pair = (before, before if after is None else after)
    own = [{size: values[side] for size, values in both.items() if values[side] is not None} for side in (0, 1)]

    def side(place: int, name: str) -> Side:
        explanation = explain(
            pair[place],
            device=devices[place],
            models=[name],
            fit=record,
            compiler=compiler,
            findings=False,
            typical=typical,
            parameters=own[place],
        )
        return Side(explanation, explanation.devices[0])

    try:
        sides = side(0, name), side(1, name)
    except LoopyperfError:
        if not (model is fit is None) or name == WITHOUT_FIT:
            raise
        sides = side(0, WITHOUT_FIT), side(1, WITHOUT_FIT)  # the default fit has no weights for the kernel
    return _difference(*sides)


def _difference(before: Side, after: Side) -> Difference:
    sides = before, after
    notes = [note for side in sides for note in side.on.estimate.notes]
    compared = [
        Compared(of.kernel, dict(of.sizes), dict(of.typical), side.on.device, side.seconds)
        for side in sides
        for of in (side.explanation,)
    ]
    found = Difference(
        model=before.on.first,
        compared=(compared[0], compared[1]),
        why=why(before, after),
        lines=line_pairs(before, after),
        notes=tuple(dict.fromkeys(notes)),
    )
    if not (before.launches and after.launches):
        return found
    notes += [note for side in sides if side.on.diagnosis for note in side.on.diagnosis.remarks]
    resources = sorted({*before.busy, *after.busy}, key=lambda name: -max(before.share(name), after.share(name)))
    counters = [access_pairs(before, after, access) for access in {**before.accesses, **after.accesses}]
    return replace(
        found,
        resources=tuple(_busy_time(before, after, name) for name in resources),
        waiting=_pairs(before.waits, after.waits, SHARE),
        residents=resident_pairs(before, after),
        traffic=_pairs(before.moved, after.moved, BYTES),
        counters=(
            Pair("instructions executed", before.instructions(), after.instructions()),
            *(pair for pairs in counters for pair in pairs.values()),
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _pairs(before: Mapping[Any, float], after: Mapping[Any, float], unit: str) -> tuple[Pair, ...]:
    return tuple(Pair(str(name), before.get(name), after.get(name), unit) for name in {**before, **after})


def _busy_time(before: Side, after: Side, resource: str) -> Pair:
    name = (before if resource in before.busy else after).terms.resource(resource)
    one, other = (side.busy.get(resource, 0.0) for side in (before, after))
    return Pair(name, one, other, SECONDS, (before.share(resource), after.share(resource)))


def _pair_of_devices(device: DeviceChoice | Sequence[DeviceChoice] | None) -> Sequence[DeviceChoice | None]:
    if device is None or isinstance(device, str | PathLike | Device):
        return device, device
    found = list(device)
    if len(found) not in (1, SIDES):
        raise ParameterError(f"expected one or two devices, got {len(found)}")
    return found * (SIDES // len(found))


def _pair_of_sizes(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple):
        return value, value
    pair = cast("Sequence[Any]", value)
    if len(pair) != SIDES:
        raise ParameterError(f"size {name!r} must be one value or a pair, got {len(pair)} values")
    return pair[0], pair[1]
