"""Splitting of one kernel between several devices so that all finish at the same time (Dao).

W is the work of all groups. A device takes T seconds for all of it, of which c is a fixed cost. For the work w it takes

    t(w) = c + (T − c)·w/W

All devices finish at the t for which Σ w(t) = W. A device with c ≥ t gets no work. Groups go to the devices in order,
the first axis of the grid fastest. If groups differ in work, the counts determine the work of each.
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
from loopyperf.counts.sizes import Typical
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import NoteKind, ReportText, Table, Tabular, called, without
from loopyperf.errors import EngineError, ParameterError, UncountableError
from loopyperf.idg.warp_classes import grid_extent
from loopyperf.kernel import Kernel, Program
from loopyperf.measurement.backends import BACKENDS
from loopyperf.measurement.backends.backend import RunsParts
from loopyperf.models.workload import LAUNCHES
from loopyperf.predict.estimate import predictor
from loopyperf.predict.predictor import Predictor
from loopyperf.predict.sampled import BackendChoice
from loopyperf.stages.case import Case, admitted_sizes, merged_sizes, prepared
from loopyperf.units import duration, in_percent, number_of

FIXED = (LAUNCHES, "launching")
"""parts of an estimate that do not grow with the number of groups"""


@dataclass(frozen=True, slots=True, repr=False)
class Split(Tabular):
    """The groups of a kernel that each of several devices runs; :func:`loopyperf.split` returns it.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> devices = ["nvidia-titan-v", "nvidia-titan-v"]
    >>> halves = lpp.split(knl, n=2**20, devices=devices, model="roofline")
    >>> halves.groups
    (2048, 2048)
    >>> halves.ranges[1]
    range(2048, 4096)
    """

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    devices: tuple[str, ...]
    """short names of the devices; the following tuples have the same order"""
    groups: tuple[int, ...]
    """numbers of groups; the first device runs the first groups (the first axis of the grid varies fastest)"""
    seconds: tuple[float, ...]
    """times for these groups; 0 for a device without groups"""
    alone: tuple[float, ...]
    """times for all groups, in seconds"""
    notes: tuple[str, ...] = ()
    """notes on assumptions"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """typical values that were given (:func:`loopyperf.count`)"""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """device -> what its times do not include (see :attr:`loopyperf.Estimate.left_out`)"""

    @property
    def total_groups(self) -> int:
        """Return the number of groups of the kernel."""
        return sum(self.groups)

    @property
    def together(self) -> float:
        """Return the time in seconds until the last device finishes."""
        return max(self.seconds)

    @property
    def ranges(self) -> tuple[range, ...]:
        """Return the numbers of each device's groups as a range."""
        ends = np.cumsum((0, *self.groups)).tolist()
        return tuple(range(start, end) for start, end in pairwise(ends))

    def report_text(self) -> ReportText:
        """Return a table of groups and times by device."""

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
    """Split the groups of *program* between *devices* so that all of them finish at the same time.

    The times do not include data transfers between devices.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel; it must have a single launch.
    devices : sequence
        Devices as in :func:`loopyperf.estimate`, backends to run on, or predictors (:func:`loopyperf.predictor`). For
        ``"sampled"``, give backends; for ``"learned"``, give device names, or backends if the residual model corrects
        ``"sampled"``.
    model : str, optional
        Model that predicts the time on each device, as in :func:`loopyperf.estimate`.
    arguments, typical, parameters, **sizes
        As in :func:`loopyperf.estimate`; each size is one integer.

    Returns
    -------
    Split
        Numbers of groups and times in seconds for each device.

    Raises
    ------
    ParameterError
        There is no device, a size is an array, the kernel has several launches, or a predicted time is negative.
    LoopyperfError
        Other errors as in :func:`loopyperf.estimate`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.split(knl, n=2**20, devices=["nvidia-titan-v", "nvidia-v100"], model="roofline")
    >>> found.total_groups
    4096
    >>> found.together < min(found.alone)
    True
    """
    if isinstance(devices, str) or not isinstance(cast("object", devices), Sequence) or not devices:
        raise ParameterError(f"devices must be a list of one or more devices, got {devices!r:.80}")
    merged = merged_sizes(parameters, sizes)
    kernel = prepared(program, merged)
    admitted = admitted_sizes(kernel, merged)
    grid = _grid(kernel, admitted)
    case = Case(program, admitted, typical)
    estimates = [_predictor(each, model, arguments).predict(case) for each in devices]
    for each in estimates:
        if each.seconds < 0:
            raise ParameterError(
                f"on {each.device}, model {each.model!r} predicts {duration(float(each.seconds))}, below 0: its fit "
                f"does not apply to this kernel{without_fit(each.device) or '; drop that device'}"
            )
    totals = [float(each.seconds) for each in estimates]
    by_part = [each.breakdown.by_property() for each in estimates]
    fixed = [sum(float(costs.get(name, 0.0)) for name in FIXED) for costs in by_part]
    costs = [max(0.0, min(total, cost)) for total, cost in zip(totals, fixed, strict=True)]
    shares = shares_that_end_together(costs, totals)
    done, notes = _work_done(kernel, admitted, grid, typical or {})
    groups = _in_groups(done, prod(grid), shares)
    portions = np.diff([done(int(end)) for end in np.cumsum((0, *groups))]).tolist()
    copied = (note for each in estimates for note in without(each.notes, NoteKind.NO_INTERVAL))
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
        notes=(*notes, *dict.fromkeys(copied)),
        typical=dict(typical or {}),
        left_out={each.device: each.left_out for each in estimates if each.left_out},
    )


def _predictor(device: Any, model: str | None, arguments: Mapping[str, Any] | None) -> Predictor:
    """Return the predictor for *device*: a device, a backend that executes the kernel, or a predictor itself."""
    if isinstance(device, Predictor):
        return device
    runs = isinstance(device, RunsParts) or (isinstance(device, str) and device in BACKENDS)
    where: dict[str, Any] = {"backend" if runs else "device": device}
    return predictor(**where, model=model, arguments=arguments)


def shares_that_end_together(fixed: Sequence[float], alone: Sequence[float]) -> tuple[float, ...]:
    """Return the share of the work for each device; the shares add up to 1.

    *alone* has the seconds that each takes for all of the work, *fixed* the part of them that does not depend on the
    work. Raises :class:`ParameterError` for times that are negative or not finite.
    """
    pairs = list(zip(fixed, alone, strict=True))
    if not all(0 <= cost <= total < float("inf") for cost, total in pairs):
        raise ParameterError(
            f"times must be finite, and at least their fixed part, which must be >= 0; got (fixed, time): {pairs}"
        )
    free = [index for index, (cost, total) in enumerate(pairs) if total == cost]
    if free:
        at_once = min(free, key=lambda place: fixed[place])
        return tuple(float(index == at_once) for index in range(len(pairs)))
    used = sorted(range(len(pairs)), key=lambda place: fixed[place])
    while True:
        paces = {place: 1 / (alone[place] - fixed[place]) for place in used}
        end = (1 + sum(fixed[place] * pace for place, pace in paces.items())) / sum(paces.values())
        if fixed[used[-1]] < end:
            break
        used.pop()
    return tuple((end - cost) * paces[index] if index in paces else 0.0 for index, cost in enumerate(fixed))


def _grid(kernel: Kernel, sizes: Mapping[str, int]) -> Grid:
    """Return the number of groups along each axis; raises :class:`ParameterError` for 0 groups or several launches."""
    if len(kernel.launches) != 1 or kernel.launches[0].host_inames:
        raise ParameterError(
            f"kernel {kernel.name!r} has several launches, between which devices would have to wait for each other; "
            "split a kernel with a single launch"
        )
    (launch,) = kernel.launches
    lengths = {axis: grid_extent(launch, axis, sizes) for axis in launch.group_axes}
    grid = tuple(lengths.get(axis, 1) for axis in range(max(lengths, default=-1) + 1))
    if not prod(grid):
        raise ParameterError(f"kernel {kernel.name!r} launches no groups at {dict(sizes)}; nothing to split")
    return grid


def _work_done(
    kernel: Kernel, sizes: Mapping[str, int], grid: Grid, typical: Mapping[str, Any]
) -> tuple[Callable[[int], float], list[str]]:
    """Return the share of the work in the first groups, as a function of their number; and notes."""
    total, notes = prod(grid), list[str]()
    try:
        first = first_groups(kernel, kernel.launches[0].name, sizes, grid, Typical(typical))
        every = first.work(grid)
        if every:
            return lambda number: first.work_of_first(number) / every, notes
    except (UncountableError, EngineError) as error:
        notes.append(f"assumed equal work in all groups: {error}")
    return lambda number: number / total, notes


def _in_groups(done: Callable[[int], float], total: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the number of groups of each device, with work as close to *shares* as whole groups allow.

    *done* maps a number of first groups to their share of the work. The numbers add up to *total*.
    """
    ends = [0]
    for wanted in np.cumsum(shares)[:-1].tolist():
        below = bisect_right(range(total), wanted, lo=ends[-1], key=done) - 1
        below = max(below, ends[-1])
        nearer = below < total and wanted - done(below) > done(below + 1) - wanted
        ends.append(below + nearer)
    last = max(index for index, share in enumerate(shares) if share > 0)
    ends = [end if index <= last else total for index, end in enumerate(ends)]
    return tuple(np.diff([*ends, total]).tolist())
