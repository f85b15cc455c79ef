"""One kernel on several devices at once: each is given as many groups as make all of them end together (Dao).

With W the work of all groups, a device that takes T seconds for all of it, of which c whatever it is given, takes

    t(w) = c + (T − c)·w/W

for the work w. All end at the t at which Σ w(t) = W; a device that would not have begun by then is given nothing.
Groups go to the devices in their order, the first axis of the grid fastest; where groups differ, they are told from
the counts.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from loopyperf.calibration.fit_library import without_fit
from loopyperf.counts.first_groups import Grid, first_groups
from loopyperf.counts.property_vector import item_named
from loopyperf.counts.sizes import Typical
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, called
from loopyperf.errors import EngineError, ParameterError, UncountableError
from loopyperf.idg.warps.warp_classes import grid_extent
from loopyperf.kernel import Kernel, Program
from loopyperf.measurement.backends import BACKENDS
from loopyperf.measurement.backends.backend import RunsParts
from loopyperf.models.result import NO_INTERVAL, Estimate
from loopyperf.models.workload import LAUNCHES
from loopyperf.predict.estimate import predictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.sampled import BackendChoice
from loopyperf.stages.case import Case, admitted_sizes, merged_sizes, prepared
from loopyperf.units import duration, in_percent, number_of

FIXED = (LAUNCHES, "launching")
"""what of an estimate does not grow with the groups"""


@dataclass(frozen=True, slots=True, repr=False)
class Split(Shown):
    """Which groups of a kernel each of some devices runs."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    devices: tuple[str, ...]
    """names of the devices, in the order of all that follows"""
    groups: tuple[int, ...]
    """of each device; the first device has the first groups, in the order of the grid's axes, the first fastest"""
    seconds: tuple[float, ...]
    """that each device takes for its groups; 0 for one without any"""
    alone: tuple[float, ...]
    """seconds that each would take for all groups"""
    notes: tuple[str, ...] = ()
    """what was assumed, in sentences"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """device -> what its times lack, where they lack anything (see :attr:`loopyperf.Estimate.left_out`)"""

    @property
    def total_groups(self) -> int:
        """Return the groups of the kernel."""
        return sum(self.groups)

    @property
    def together(self) -> float:
        """Return after how many seconds the last device ends."""
        return max(self.seconds)

    @property
    def ranges(self) -> tuple[range, ...]:
        """Return the groups of each device by their numbers."""
        ends = np.cumsum((0, *self.groups)).tolist()
        return tuple(range(begin, end) for begin, end in pairwise(ends))

    def report_text(self) -> ReportText:
        """Return the groups of each device, and how long it takes for them."""

        def share(groups: int) -> str:
            return in_percent(groups / self.total_groups, 1)

        lacking = ("at least " if device in self.left_out else "" for device in self.devices)
        each = zip(self.devices, self.groups, self.seconds, self.alone, lacking, strict=True)
        rows = [
            (device, f"{groups:,}", share(groups), duration(seconds), f"{lacks}{duration(alone)}")
            for device, groups, seconds, alone, lacks in each
        ]
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on {', '.join(self.devices)}",
            answer=f"{number_of(self.total_groups, 'group')} in {duration(self.together)}",
            tables=[Table(("device", "groups", "share", "time", "alone"), rows)],
            notes=self.notes,
        )


def split(
    program: Program,
    /,
    *,
    devices: Sequence[DeviceChoice | BackendChoice | Predictor],
    model: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Split:
    """Return how many groups of *program* at one size each of *devices* runs, so that all end together.

    Times are those of *model* on each device (see :func:`loopyperf.estimate`). For ``"sampled"``, devices are backends
    to run on, with *arguments*; for ``"learned"``, names of devices, or backends to run on where a learned model
    corrects the sampled one. A device may also be a predictor (see :func:`loopyperf.predictor`). What data costs that
    moves between devices is not in them.

    Raises what estimate raises, and :class:`ParameterError` for no device, for a size that is an array, for a kernel of
    several launches, between which devices would have to wait for each other, and for times below 0, which weights that
    were fitted without bounds may give.
    """
    if isinstance(devices, str) or not isinstance(cast("object", devices), Sequence) or not devices:
        raise ParameterError(f"devices is a list of one device or more; received {devices!r}")
    merged = merged_sizes(parameters, sizes)
    kernel = prepared(program, merged)
    admitted = admitted_sizes(kernel, merged)
    grid = _grid(kernel, admitted)
    case = Case(program, admitted, typical)
    estimates = [_predictor(each, model, arguments).predict(case) for each in devices]
    _check_times(estimates)
    costs = [_fixed(each) for each in estimates]
    totals = [float(each.seconds) for each in estimates]
    shares = shares_that_end_together(costs, totals)
    done, notes = _work_done(kernel, admitted, grid, typical or {})
    groups = _in_groups(done, prod(grid), shares)
    portions = np.diff([done(int(end)) for end in np.cumsum((0, *groups))]).tolist()
    said = (note for each in estimates for note in each.notes if not note.startswith(NO_INTERVAL))
    return Split(
        kernel=kernel.name,
        sizes=dict(merged),
        devices=tuple(each.device for each in estimates),
        groups=groups,
        seconds=tuple(
            cost + (total - cost) * portion if number else 0.0
            for cost, total, portion, number in zip(costs, totals, portions, groups, strict=True)
        ),
        alone=tuple(totals),
        notes=(*notes, *dict.fromkeys(said)),
        typical=dict(typical or {}),
        left_out={each.device: each.left_out for each in estimates if each.left_out},
    )


def shares_that_end_together(fixed: Sequence[float], alone: Sequence[float]) -> tuple[float, ...]:
    """Return the share of the work for each device, which add up to 1.

    *alone* are the seconds that each takes for all of it, of which *fixed* whatever it is given. Raises
    :class:`ParameterError` for times that are negative, or not finite.
    """
    pairs = list(zip(fixed, alone, strict=True))
    if not all(0 <= cost <= total < float("inf") for cost, total in pairs):
        raise ParameterError(
            f"times must be finite and not below their fixed part, which is 0 or more; received {pairs}"
        )
    free = [place for place, (cost, total) in enumerate(pairs) if total == cost]
    if free:
        at_once = min(free, key=lambda place: fixed[place])
        return tuple(float(place == at_once) for place in range(len(pairs)))
    used = sorted(range(len(pairs)), key=lambda place: fixed[place])
    while True:
        paces = {place: 1 / (alone[place] - fixed[place]) for place in used}
        end = (1 + sum(fixed[place] * pace for place, pace in paces.items())) / sum(paces.values())
        if fixed[used[-1]] < end:
            break
        used.pop()
    return tuple((end - cost) * paces[place] if place in paces else 0.0 for place, cost in enumerate(fixed))


def _grid(kernel: Kernel, sizes: Mapping[str, int]) -> Grid:
    """Return the groups along each axis; raises :class:`ParameterError` for none, and for several launches."""
    if len(kernel.launches) != 1 or kernel.launches[0].host_inames:
        raise ParameterError(
            f"kernel {kernel.name!r} is launched several times: devices would have to wait for each other in between; "
            "make a kernel of each launch, and split those"
        )
    (launch,) = kernel.launches
    lengths = {axis: grid_extent(launch, axis, sizes) for axis in launch.group_axes}
    grid = tuple(lengths.get(axis, 1) for axis in range(max(lengths, default=-1) + 1))
    if not prod(grid):
        raise ParameterError(f"at {dict(sizes)} {kernel.name} launches no groups: there is nothing to split")
    return grid


def _check_times(estimates: Sequence[Estimate]) -> None:
    for each in estimates:
        if each.seconds < 0:
            raise ParameterError(
                f"on {each.device}, model {each.model!r} says {duration(float(each.seconds))}, below 0: its fit does "
                f"not apply to such a kernel{without_fit(each.device) or '; leave that device out'}"
            )


def _work_done(
    kernel: Kernel, sizes: Mapping[str, int], grid: Grid, typical: Mapping[str, Any]
) -> tuple[Callable[[int], float], list[str]]:
    """Return what share of the work the first groups do, as a function of their number; and what it leaves out."""
    total, notes = prod(grid), list[str]()
    try:
        first = first_groups(kernel, kernel.launches[0].name, sizes, grid, Typical(typical, item_named))
        every = first.work(grid)
        if every:
            return lambda number: first.work_of_first(number) / every, notes
    except (UncountableError, EngineError) as error:
        notes.append(f"groups are taken to do the same: {error}")
    return lambda number: number / total, notes


def _in_groups(done: Callable[[int], float], total: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the groups of each device, which add up to all: the first of them do as near its *shares* as groups can.

    *done* says what share of the work so many first groups do.
    """
    ends = [0]
    for wanted in np.cumsum(shares)[:-1].tolist():
        below = bisect_right(range(total), wanted, lo=ends[-1], key=done) - 1
        below = max(below, ends[-1])
        nearer = below < total and wanted - done(below) > done(below + 1) - wanted
        ends.append(below + nearer)
    last = max(place for place, share in enumerate(shares) if share > 0)
    ends = [end if place <= last else total for place, end in enumerate(ends)]
    return tuple(np.diff([*ends, total]).tolist())


def _predictor(device: Any, model: str | None, arguments: Mapping[str, Any] | None) -> Predictor:
    """Return the predictor on a device, or on a backend that executes the kernel; *device* may be one itself."""
    if isinstance(device, Predictor):
        return device
    if isinstance(device, RunsParts) or (isinstance(device, str) and device in BACKENDS):
        return predictor(backend=device, model=model, arguments=arguments)
    return predictor(device=device, model=model, arguments=arguments)


def _fixed(answer: Estimate) -> float:
    costs = answer.breakdown.by_property()
    return max(0.0, min(float(answer.seconds), sum(float(costs.get(name, 0.0)) for name in FIXED)))
