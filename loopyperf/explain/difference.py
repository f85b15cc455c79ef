"""Compare two run times: :func:`diff`, and the :class:`Difference` that it returns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, cast

from loopyperf.calibration.choice import WITHOUT_FIT, FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.explain import difference_parts as parts
from loopyperf.explain.difference_cause import why
from loopyperf.explain.difference_parts import LinePair, Pair, ResourcePair, Side
from loopyperf.explain.explain import explain
from loopyperf.explain.explanation import Explanation
from loopyperf.files import without_folders, write_file
from loopyperf.kernel import Program
from loopyperf.models.catalog import find_model
from loopyperf.predict.compare import device_for, usual_model
from loopyperf.predict.fitted import record_of
from loopyperf.stages.case import merged_sizes
from loopyperf.stages.compile import Compiler
from loopyperf.units import SHORTEST, duration, number_of

SMALL = 0.01
"""share of the longer run time; lines and resources with a smaller difference are not shown"""

SHOWN = 7
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
    lines: tuple[LinePair, ...]
    """cost of each source line; the seconds of each side add up to its run time"""
    resources: tuple[ResourcePair, ...] = ()
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
        sizes = [dict(each.sizes) for each in self.compared]
        apart = [name for name in sizes[0] if name in sizes[1] and sizes[0][name] != sizes[1][name]]
        if one.kernel != other.kernel:
            return one.kernel, other.kernel
        if one.device != other.device:
            return one.device, other.device
        if apart:
            first, second = (", ".join(f"{name}={each[name]}" for name in apart) for each in sizes)
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

    # {{{ which differences to show

    @property
    def _least(self) -> float:
        return SMALL * max(self.before, self.after)

    @property
    def shown_resources(self) -> tuple[ResourcePair, ...]:
        """Return the resources whose busy times differ by at least 1 % of the run time."""
        return tuple(pair for pair in self.resources if abs(pair.after - pair.before) >= self._least)

    @property
    def shown_lines(self) -> tuple[LinePair, ...]:
        """Return the lines whose costs differ by at least 1 % of the run time."""
        return tuple(pair for pair in self.lines if abs(pair.change) >= self._least)

    @property
    def quantities(self) -> dict[str, tuple[Pair, ...]]:
        """Return the other compared quantities by heading."""
        return {
            "stall reasons (share of stall cycles)": self.waiting,
            "occupancy of the longest launch": self.residents,
            "memory traffic": self.traffic,
            "counters": self.counters,
        }

    @property
    def shown_quantities(self) -> dict[str, tuple[Pair, ...]]:
        """Return the quantities that differ by more than 1 %, by heading."""
        shown = {name: tuple(pair for pair in pairs if pair.is_noteworthy) for name, pairs in self.quantities.items()}
        return {name: pairs for name, pairs in shown.items() if pairs}

    @property
    def folded(self) -> int:
        """Return the number of rows that are not shown because they differ by less."""
        every = len(self.resources) + len(self.lines) + sum(map(len, self.quantities.values()))
        shown = len(self.shown_resources) + len(self.shown_lines) + sum(map(len, self.shown_quantities.values()))
        return every - shown

    # }}}

    def report_text(self) -> ReportText:
        """Return both run times, the cause of the difference, and the parts that differ."""
        long = {name: len(pairs) - SHOWN for name, pairs in self.shown_quantities.items() if len(pairs) > SHOWN}
        remarks = [f"{number_of(number, 'row')} more: {name}" for name, number in long.items()]
        if self.folded:
            remarks.append(f"{number_of(self.folded, 'row')} with differences below 1 % not shown")
        shown = {name: pairs[:SHOWN] for name, pairs in self.shown_quantities.items()}
        return ReportText(
            question=self.inputs,
            answer=f"{duration(self.before)} vs. {duration(self.after)}, {self.why}",
            tables=list(self._tables(self.shown_resources, self.shown_lines, shown)),
            remarks=remarks,
            notes=self.notes,
            alone=f"{duration(self.before)} {duration(self.after)}",
        )

    def _tables(
        self, resources: Sequence[ResourcePair], lines: Sequence[LinePair], quantities: Mapping[str, Sequence[Pair]]
    ) -> Iterator[Table]:
        for heading, pairs in (("busy time (share of peak)", resources), ("source", lines)):
            rows = [(each.name, *each.words, signed(each.change)) for each in pairs]
            if rows:
                yield Table((heading, *self.labels, "change"), rows)
        for heading, pairs in quantities.items():
            if pairs:
                yield Table((heading, *self.labels), [(each.name, *each.words) for each in pairs])

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each source line with its seconds on both sides."""
        return [
            {"source": pair.line.source, "line": pair.line.text, "before": pair.before, "after": pair.after}
            for pair in self.lines
        ]

    def html(self) -> str:
        """Return a self-contained HTML page with all quantities of both kernels side by side."""
        title = " and ".join(dict.fromkeys(escape(each.kernel) for each in self.compared))
        report = replace(
            self.report_text(),
            tables=list(self._tables(self.resources, self.lines, self.quantities)),
            remarks=(),
            notes=list(map(without_folders, self.notes)),
        )
        return PAGE.format(title=title, style=STYLE.read_text(encoding="utf-8"), report=report.html())

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the HTML page to *path* and return its path; raises :class:`ParameterError` if writing fails."""
        return write_file("the page", path, self.html())


STYLE = Path(__file__).parent / "template" / "page.css"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: difference</title>
<link rel="icon" href="data:,">
<style>
{style}.loopyperf table {{ display: block; overflow-x: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{report}
</body>
</html>
"""


def signed(seconds: float) -> str:
    """Return *seconds* as a duration with its sign; empty for zero and for rounding errors."""
    sign = "+" if seconds > 0 else "\N{MINUS SIGN}"
    return f"{sign}{duration(abs(seconds))}" if abs(seconds) >= SHORTEST else ""


def difference_of(before: Side, after: Side) -> Difference:
    """Return the difference between two sides; raises :class:`ParameterError` if their models differ."""
    sides = (before, after)
    if before.on.first != after.on.first:
        raise ParameterError(
            f"run times of two models, {before.on.first!r} and {after.on.first!r}, cannot be compared; set model="
        )
    estimated = [note for side in sides for note in side.on.estimate.notes]
    simulated = [
        remark for side in sides if side.on.diagnosis and side.launches for remark in side.on.diagnosis.remarks
    ]
    is_reviewed = before.launches and after.launches
    return Difference(
        model=before.on.first,
        compared=(_compared(before), _compared(after)),
        why=why(before, after),
        lines=parts.line_pairs(before, after),
        resources=parts.resource_pairs(before, after) if is_reviewed else (),
        waiting=parts.waiting_pairs(before, after) if is_reviewed else (),
        residents=parts.resident_pairs(before, after) if is_reviewed else (),
        traffic=parts.traffic_pairs(before, after) if is_reviewed else (),
        counters=parts.counter_pairs(before, after) if is_reviewed else (),
        notes=tuple(dict.fromkeys((*estimated, *simulated))),
    )


def _compared(side: Side) -> Compared:
    of = side.explanation
    return Compared(of.kernel, dict(of.sizes), dict(of.typical), side.on.device, side.seconds)


TWO = 2


def diff(
    before: Program | Explanation,
    after: Program | Explanation | None = None,
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
    before : loopy.TranslationUnit or Explanation
        First program.
    after : loopy.TranslationUnit or Explanation, optional
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

    Notes
    -----
    Two explanations (see :func:`loopyperf.explain`) of one device each can be compared, or one explanation of two
    devices.

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
    if isinstance(before, Explanation) or isinstance(after, Explanation):
        options = {"device": device, "model": model, "fit": fit, "typical": typical, **named}
        return _of_explanations(before, after, [name for name, value in options.items() if value is not None])
    devices = _pair_of_devices(device)
    both = {name: _pair_of_sizes(name, value) for name, value in named.items()}
    if (
        after is None
        and devices[0] is devices[1]
        and not any(isinstance(each, list | tuple) for each in named.values())
    ):
        raise ParameterError("nothing to compare; pass a second kernel, two devices, or two sizes, e.g. n=(1024, 2048)")
    record = None if fit is None else record_of(fit)
    usual = dict.fromkeys([usual_model(device_for(each, record)[0], record) for each in devices])
    name = find_model(model or (next(iter(usual)) if len(usual) == 1 else WITHOUT_FIT)).name
    pair = (before, before if after is None else after)
    own = [{size: values[place] for size, values in both.items() if values[place] is not None} for place in (0, 1)]

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
        return difference_of(side(0, name), side(1, name))
    except LoopyperfError:
        if not (model is fit is None) or name == WITHOUT_FIT:
            raise
    return difference_of(side(0, WITHOUT_FIT), side(1, WITHOUT_FIT))  # the default fit has no weights for the kernel


def _pair_of_devices(device: DeviceChoice | Sequence[DeviceChoice] | None) -> Sequence[DeviceChoice | None]:
    if device is None or isinstance(device, str | PathLike | Device):
        return device, device
    found = list(device)
    if len(found) not in (1, TWO):
        raise ParameterError(f"expected one or two devices, got {len(found)}")
    return found * (TWO // len(found))


def _pair_of_sizes(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple):
        return value, value
    pair = cast("Sequence[Any]", value)
    if len(pair) != TWO:
        raise ParameterError(f"size {name!r} must be one value or a pair, got {len(pair)} values")
    return pair[0], pair[1]


def _of_explanations(before: object, after: object, options: Iterable[str]) -> Difference:
    """Return the difference of one or two explanations, which have two devices in all and take no *options*."""
    if not (isinstance(before, Explanation) and isinstance(after, Explanation | None)):
        raise ParameterError("cannot compare a program with an explanation; pass two programs or two explanations")
    given = ", ".join(options)
    if given:
        raise ParameterError(f"explanations already have a device, model and sizes; drop {given}")
    explanations = [before] if after is None else [before, after]
    sides = [Side(each, on) for each in explanations for on in each.devices]
    if len(sides) != TWO:
        raise ParameterError(
            "pass two explanations of one device each, or one explanation of two devices; got "
            f"{number_of(len(explanations), 'explanation')} of {number_of(len(sides), 'device')}"
        )
    return difference_of(*sides)
