"""A :class:`Difference`: two run times, their parts side by side, and why one is longer, as plain values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, cast

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, called, plain
from loopyperf.errors import ParameterError
from loopyperf.explain import difference_parts as parts
from loopyperf.explain.difference_cause import why
from loopyperf.explain.difference_parts import LinePair, Pair, ResourcePair
from loopyperf.explain.difference_side import Side
from loopyperf.explain.explain import explain
from loopyperf.explain.explanation import Explanation
from loopyperf.files import write_file
from loopyperf.kernel import Program
from loopyperf.models.catalog import find_model
from loopyperf.predict.estimate import record_of
from loopyperf.predict.on_device import SIMULATED
from loopyperf.stages.case import merged_sizes
from loopyperf.units import SHORTEST, duration, number_of

SMALL = 0.01
"""of the longer run time: lines and resources that differ by less are folded"""

SHOWN = 7
"""quantities below one heading in a terminal, at most"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two that are compared."""

    kernel: str
    """its name"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    typical: Mapping[str, Any]
    """what was given of what the source does not tell"""
    device: str
    """short name of the device"""
    seconds: float
    """run time"""

    @property
    def called(self) -> str:
        """Return the kernel with its sizes, e.g. ``"product(n=1024)"``."""
        return called(self.kernel, self.sizes, self.typical)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Shown):
    """Two run times by the same model, and what differs between them."""

    model: str
    """whose run times these are"""
    compared: tuple[Compared, Compared]
    """the two, in the order in which they were given"""
    why: str
    """how many times as fast the second one is, and what changed, in a sentence without its period"""
    lines: tuple[LinePair, ...]
    """what each line of the source costs; the seconds of each side add up to its run time"""
    resources: tuple[ResourcePair, ...] = ()
    """how busy pipelines and memory levels are; empty where a device has no parameters"""
    waiting: tuple[Pair, ...] = ()
    """for what warps wait, in shares of all waiting"""
    residents: tuple[Pair, ...] = ()
    """warps that reside on a core, registers, spills, and the grid, of the longest launch"""
    traffic: tuple[Pair, ...] = ()
    """bytes that are moved by way of each memory level"""
    counters: tuple[Pair, ...] = ()
    """instructions that warps execute, and the requests of each array with their sectors and wavefronts"""
    notes: tuple[str, ...] = ()
    """what was assumed, in sentences"""

    @property
    def before(self) -> float:
        """Return the run time of the first one, in seconds."""
        return self.compared[0].seconds

    @property
    def after(self) -> float:
        """Return the run time of the second one, in seconds."""
        return self.compared[1].seconds

    @property
    def ratio(self) -> float:
        """Return how many times as fast the second one is: its run time goes so often into that of the first."""
        return self.before / self.after if self.after else 1.0

    @property
    def labels(self) -> tuple[str, str]:
        """Return what tells the two apart: names, devices or sizes; ``"before"`` and ``"after"`` where none do."""
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
        """Return what is compared, e.g. ``"product(n=1024) on nvidia-v100, twice, model pipeline"``."""
        one, other = self.compared
        if one.device != other.device:
            names = f"{one.called} on {one.device} and {'' if one.called == other.called else f'{other.called} '}"
            return f"{names}on {other.device}, model {self.model}"
        names = one.called if one.called == other.called else f"{one.called} and {other.called}"
        return f"{names} on {one.device}, model {self.model}"

    # {{{ what is worth showing

    @property
    def least(self) -> float:
        """Return the seconds that a part has to differ by to be shown."""
        return SMALL * max(self.before, self.after)

    @property
    def shown_resources(self) -> tuple[ResourcePair, ...]:
        """Return the resources that are busier on one side by a hundredth of the run time."""
        return tuple(each for each in self.resources if abs(each.after - each.before) >= self.least)

    @property
    def shown_lines(self) -> tuple[LinePair, ...]:
        """Return the lines whose costs differ by a hundredth of the run time."""
        return tuple(each for each in self.lines if abs(each.change) >= self.least)

    @property
    def quantities(self) -> dict[str, tuple[Pair, ...]]:
        """Return heading -> the other quantities below it."""
        return {
            "share of all waiting": self.waiting,
            "residents of the longest launch": self.residents,
            "moved": self.traffic,
            "counters": self.counters,
        }

    @property
    def shown_quantities(self) -> dict[str, tuple[Pair, ...]]:
        """Return heading -> the quantities that differ by a hundredth."""
        shown = {name: tuple(each for each in every if each.is_noteworthy) for name, every in self.quantities.items()}
        return {name: every for name, every in shown.items() if every}

    @property
    def folded(self) -> int:
        """Return how many rows differ by less and are not shown."""
        every = len(self.resources) + len(self.lines) + sum(map(len, self.quantities.values()))
        shown = len(self.shown_resources) + len(self.shown_lines) + sum(map(len, self.shown_quantities.values()))
        return every - shown

    # }}}

    def report_text(self) -> ReportText:
        """Return both run times and why they differ, and below that the parts that differ."""
        long = {name: len(every) - SHOWN for name, every in self.shown_quantities.items() if len(every) > SHOWN}
        remarks = [f"{number_of(number, 'row')} more: {name}" for name, number in long.items()]
        if self.folded:
            remarks.append(f"{number_of(self.folded, 'row')} with differences below 1 %")
        return ReportText(
            question=self.inputs,
            answer=f"{duration(self.before)}, then {duration(self.after)}, {self.why}",
            tables=list(self._tables()),
            remarks=remarks,
            notes=self.notes,
        )

    def _tables(self) -> Iterator[Table]:
        resources = [(each.name, *each.words, signed(each.after - each.before)) for each in self.shown_resources]
        if resources:
            yield Table(("busy (share of peak)", *self.labels, "change"), resources)
        lines = [(_named(each), *each.words, signed(each.change)) for each in self.shown_lines]
        if lines:
            yield Table(("source", *self.labels, "change"), lines)
        for heading, pairs in self.shown_quantities.items():
            yield Table((heading, *self.labels), [(each.name, *each.words) for each in pairs[:SHOWN]])

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain values that JSON can hold."""
        return {
            "model": self.model,
            "compared": [each.to_dict() for each in self.compared],
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "why": self.why,
            "lines": [{**asdict(each), "change": each.change} for each in self.lines],
            "resources": _plain(self.resources),
            "waiting": _plain(self.waiting),
            "residents": _plain(self.residents),
            "traffic": _plain(self.traffic),
            "counters": _plain(self.counters),
            "notes": list(self.notes),
        }

    def html(self) -> str:
        """Return a page with both side by side: one HTML document that needs no network; requires the extra report."""
        # Pages need Jinja2, which is an extra: without it, everything but the page works.
        return import_module("loopyperf.explain.page").page_of_difference(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to *path* and return that; raises :class:`ParameterError` where it cannot be written."""
        return write_file("the page", path, self.html())


def _plain(pairs: Iterable[Pair | ResourcePair]) -> list[dict[str, Any]]:
    return [asdict(each) for each in pairs]


def signed(seconds: float) -> str:
    """Return *seconds* with their sign in words; empty for none, and for what is left by rounding."""
    sign = "+" if seconds > 0 else "\N{MINUS SIGN}"
    return f"{sign}{duration(abs(seconds))}" if abs(seconds) >= SHORTEST else ""


def _named(pair: LinePair) -> str:
    """Return the text of a line with its id, and which side alone has it."""
    ids = dict.fromkeys(each.source for each in (pair.line, pair.other) if each and each.kind == "instruction")
    return "  ".join([pair.texts[0], *(f"{{id={each}}}" for each in ids)])


def difference_of(before: Side, after: Side) -> Difference:
    """Return what differs between two sides; raises :class:`ParameterError` where their models differ."""
    if before.on.first != after.on.first:
        raise ParameterError(
            f"the run times are of two models, {before.on.first!r} and {after.on.first!r}; name one with model=..."
        )
    found = Difference(
        model=before.on.first,
        compared=(_compared(before), _compared(after)),
        why=why(before, after),
        lines=parts.line_pairs(before, after),
        notes=tuple(dict.fromkeys(_notes((before, after)))),
    )
    one, other = before.sums, after.sums
    if one is None or other is None:
        return found
    return replace(
        found,
        resources=parts.resource_pairs(one, other),
        waiting=parts.waiting_pairs(one, other),
        residents=parts.resident_pairs(one, other),
        traffic=parts.traffic_pairs(one, other),
        counters=parts.counter_pairs(one, other),
    )


def _compared(side: Side) -> Compared:
    return Compared(side.kernel, dict(side.sizes), dict(side.explanation.typical), side.on.device, side.seconds)


def _notes(sides: Sequence[Side]) -> Iterator[str]:
    """Yield what was assumed, and by which model resources are busy where that is another."""
    for side in sides:
        yield from side.estimate.notes
        if side.sums is not None and side.sums.diagnosis.model != side.on.first:
            yield (
                f"{side.on.first} knows no pipelines: how busy they are, and what warps wait for, is by the model "
                f"{side.sums.diagnosis.model}"
            )


TWO = 2


def diff(
    before: Program | Explanation,
    after: Program | Explanation | None = None,
    /,
    *,
    device: DeviceChoice | Sequence[DeviceChoice] | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Difference:
    """Return what differs between the run times of two programs, in seconds, and why.

    *after* is another variant; where it is left out, *before* is compared with itself at other sizes or on another
    device. What differs is a pair: ``n=(1024, 2048)``, ``device=["nvidia-v100", "nvidia-a100"]``; what is no pair holds
    for both. None in a pair of sizes is a size that this program does not have. The model is ``"pipeline"``, or that of
    *fit*; with one that knows no pipelines, how busy these are is by the simulator.

    Two explanations (:func:`loopyperf.explain`) can be compared as well, each on one device, or one on two devices.

    Raises :class:`ParameterError` where nothing differs or a pair has not two values, and what
    :func:`loopyperf.explain` raises.
    """
    named = merged_sizes(parameters, sizes)
    if isinstance(before, Explanation) or isinstance(after, Explanation):
        _check_only_explanations(before, after, {"device": device, "model": model, "fit": fit, "typical": typical})
        return _of_explanations(before, after, named)
    devices = _pair_of_devices(device)
    both = {name: _pair_of_sizes(name, value) for name, value in named.items()}
    if (
        after is None
        and devices[0] is devices[1]
        and not any(isinstance(each, list | tuple) for each in named.values())
    ):
        raise ParameterError("nothing differs: give a second kernel, two devices or two sizes, e.g. n=(1024, 2048)")
    name = find_model(model or (SIMULATED if fit is None else record_of(fit).model)).name
    sides: list[Side] = []
    for place, program in enumerate((before, before if after is None else after)):
        own = {size: pair[place] for size, pair in both.items() if pair[place] is not None}
        explanation = explain(
            program, device=devices[place], models=[name], fit=fit, findings=False, typical=typical, parameters=own
        )
        sides.append(Side(explanation, explanation.devices[0]))
    return difference_of(*sides)


def _pair_of_devices(device: DeviceChoice | Sequence[DeviceChoice] | None) -> Sequence[DeviceChoice | None]:
    if device is None or isinstance(device, str | PathLike | Device):
        return device, device
    found = list(device)
    if len(found) not in (1, TWO):
        raise ParameterError(f"device is one device or two, received {len(found)}")
    return found * (TWO // len(found))


def _pair_of_sizes(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple):
        return value, value
    pair = cast("Sequence[Any]", value)
    if len(pair) != TWO:
        raise ParameterError(f"{name} is one size or a pair of two, received {len(pair)} values")
    return pair[0], pair[1]


# {{{ two explanations


def _check_only_explanations(before: object, after: object, options: Mapping[str, object]) -> None:
    """Raise :class:`ParameterError` for options beside explanations, and for one beside a program."""
    if not (isinstance(before, Explanation) and isinstance(after, Explanation | None)):
        raise ParameterError("give two programs or two explanations, not one of each")
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ParameterError(f"explanations have their device, model and sizes; drop {', '.join(given)}")


def _of_explanations(before: object, after: object, sizes: Mapping[str, Any]) -> Difference:
    if sizes:
        raise ParameterError(f"explanations have their device, model and sizes; drop {', '.join(sizes)}")
    given = [cast("Explanation", each) for each in (before, after) if each is not None]
    sides = [Side(each, on) for each in given for on in each.devices]
    if len(sides) != TWO:
        raise ParameterError(
            f"a difference is between two: give two explanations of one device each, or one of two devices; received "
            f"{number_of(len(given), 'explanation')} of {number_of(len(sides), 'device')}"
        )
    return difference_of(*sides)


# }}}
