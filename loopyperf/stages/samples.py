"""Taking samples: a kernel's own device programs are run on their first groups, as few as tell what all take.

A sample is a part of the grid that starts where the grid does, so many times Psat in size. A device launches boxes, so
that the first groups in their order, the first axis fastest, are a box only where they end with a row. Where the
longest sample is no longer than a row, samples are the start of a row. Otherwise rows are shortened so that Psat is a
whole number of them, as nearly as can be,

    rows = ⌈Psat / length of the grid⌉,    length = ⌊Psat / rows⌋

and a sample of m·Psat is m times so many rows, of which the same holds along the next axis. So samples are parts of one
another, and less than Psat by less than a group for each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

from loopyperf.counts.first_groups import FirstGroups, first_groups, halo
from loopyperf.counts.sizes import Typical
from loopyperf.device.device_library import description_or_none
from loopyperf.errors import EngineError, LoopyperfError, UncountableError
from loopyperf.kernel import Kernel, Program
from loopyperf.measurement.arguments import array_bytes
from loopyperf.measurement.backends.backend import (
    BenchmarkCase,
    BoundParts,
    DeviceProgram,
    Grid,
    MeasuredTimes,
    RunsParts,
)
from loopyperf.measurement.drift_monitor import NOTHING
from loopyperf.measurement.environment import Sizes
from loopyperf.measurement.protocol import BATCH, MET_AGAIN, Protocol
from loopyperf.models.sampling import SampledProgram, Samples, Work, extrapolated
from loopyperf.stages.case import Case
from loopyperf.stages.stages import timed_kernel
from loopyperf.units import duration, in_percent

SAMPLES = (2, 3)
"""multiples of Psat (Dao, section 5.1)"""
MORE_SAMPLES = (2, 3, 4, 6)
"""where groups differ: what a group costs beside its work is to be told from its work"""
DIFFERENT = 0.05
"""relative difference of the extrapolations in groups and in work, from which more samples are taken"""
RISE = 0.25
"""by how much the second sample is to take longer than the first, relative to it; with half as many groups more it is
0.5, unless a launch, or the filling of caches, takes most of it: then larger samples are taken"""
SHARE = 0.02
"""of the predicted run, that one run of each sample takes together at least: else larger samples are taken, which cost
little. Where Psat is small, its multiples are over before caches are full, and clocks barely tell them apart"""
LONG = 0.01
"""seconds of a sample that are enough, whatever the whole run takes"""
MOST_AT_ONCE = 16
"""by this factor samples are made larger at most, before they are taken again"""
PROTOCOL = Protocol(runs=64, dropped=1, fewest=10, stable=0.01, budget=0.5)
"""how often a sample is run: until its fastest runs agree, since the slope between two samples multiplies what either
is off by four"""
SLACK = 4096
"""bytes behind those that are touched: what compilers load for more work-items at once than there are"""
LEAST_EVICTED, MOST_EVICTED = 2**16, 2**28
"""bytes of other memory that are touched before a sample is run again, as the other groups would: less is no cache, and
so much is more than caches hold that matter"""


@dataclass(frozen=True, slots=True)
class SampledKernel:
    """The samples of all device programs of a kernel."""

    programs: tuple[SampledProgram, ...]
    launching: float
    """seconds that the host takes beside what the device's clock tells"""
    seconds: float
    """what one run of each sample takes together, by the device's clock if it tells"""
    spent: float
    """what all runs, and emptying caches before them, took together, by the wall clock"""
    doubts: tuple[str, ...] = ()
    """where Psat is told differently, why the work of groups is not known, what was made up: in sentences"""

    def notes(self, seconds: float) -> tuple[str, ...]:
        """Return what is to be said of an estimate by these samples, of so many *seconds*: the doubts, and the cost."""
        runs = sum(len(each.samples.seconds) for each in self.programs)
        share = (self.seconds + runs * self.launching) / seconds
        cost = f"samples: one run of each takes {in_percent(share, 2)} of the predicted run; all of them took "
        return (*self.doubts, f"{cost}{duration(self.spent)}")


@dataclass(frozen=True, slots=True)
class SamplingTask:
    """A kernel at one size, of which samples are to be taken on a backend."""

    backend: RunsParts
    case: BenchmarkCase
    kernel: Kernel
    """the case's, with the types and loops that it is run with"""
    sizes: Mapping[str, int]
    """its integer parameters"""
    typical: Typical


def take_samples(
    task: SamplingTask,
    *,
    described: Mapping[str, int] | None = None,
    multiples: Sequence[int] | None = None,
    protocol: Protocol = PROTOCOL,
) -> SampledKernel:
    """Return the samples of each device program of a kernel, none of a kernel that launches nothing.

    Psat is what the runtime says, or *described* (by program) if that is more: too large a sample costs time, too small
    a one is wrong. Samples are 2·Psat and 3·Psat, and where groups differ 4·Psat and 6·Psat, or the same times a factor
    (see :data:`SHARE` and :data:`RISE`). With *multiples* of Psat, which increase, they are just these, but for those
    that are not less than all groups. A program that has too few groups for its samples is run on all of them.

    Raises :class:`MeasurementError` for a kernel that cannot be run, and :class:`BackendError` for a lost device.
    """
    nothing = {argument.name: 0 for argument in task.kernel.loopy_kernel.args}
    programs = task.backend.bound(task.case, nothing).programs
    stated = described or {}
    taken = [_Sampler(task, each, max(each.saturation, stated.get(each.name, 0)), protocol) for each in programs]
    found = [each.samples(multiples) for each in taken]
    gaps = [gap for each in taken for gap in each.gaps]
    return SampledKernel(
        tuple(found),
        max(min(gaps, default=0.0), 0.0),
        sum(sum(each.samples.seconds) for each in found),
        sum(each.spent for each in taken),
        (*_saturation_note(programs, stated), *(each.unknown for each in taken if each.unknown)),
    )


class _Sampler:
    """Takes the samples of one device program."""

    def __init__(self, task: SamplingTask, program: DeviceProgram, saturation: int, protocol: Protocol) -> None:
        self.task, self.program, self.saturation, self.protocol = task, program, saturation, protocol
        self.spent = 0.0
        self.gaps: list[float] = []
        self.unknown = ""
        self._first = self._first_groups()

    # {{{ which groups

    def samples(self, multiples: Sequence[int] | None) -> SampledProgram:
        """Return the samples."""
        if multiples is not None:
            fitting = [each for each in multiples if each * self.saturation < prod(self.program.extents)]
            parts = sub_grids(self.program.extents, self.saturation, fitting) if fitting else None
            return self._run(parts) if parts else self._run_all()
        scale, found = 1, None
        while parts := self._parts(SAMPLES, scale):
            if self._differ(parts):
                parts = self._parts(MORE_SAMPLES, scale) or parts
            found = self._run(parts)
            if not (further := _scale_further(found)):
                return found
            scale *= further
        return found if found is not None and _rises(found) else self._run_all()

    def _parts(self, multiples: Sequence[int], scale: int) -> tuple[Grid, ...] | None:
        return sub_grids(self.program.extents, self.saturation * scale, multiples)

    def _differ(self, parts: Sequence[Grid]) -> bool:
        work = self._work(parts)
        if work is None or not work.sampled[-1]:
            return work is not None and work.total > 0
        in_groups = self.program.groups / self._groups(parts[-1])
        return abs(work.total / work.sampled[-1] / in_groups - 1) > DIFFERENT

    # }}}

    # {{{ running them

    def _run(self, parts: Sequence[Grid]) -> SampledProgram:
        nbytes = self._contents(parts[-1])
        bound = self.task.backend.bound(self.task.case, nbytes)
        evicted = self._others(nbytes)
        timings = self._interleaved(bound, [self.program.cut(part) for part in parts], evicted)
        return self._program([self._groups(part) for part in parts], timings, self._work(parts))

    def _run_all(self) -> SampledProgram:
        bound = self.task.backend.bound(self.task.case, {})
        return self._program([self.program.groups], self._interleaved(bound, [self.program.grids]), None)

    def _program(self, groups: Sequence[int], timings: Sequence[MeasuredTimes], work: Work | None) -> SampledProgram:
        kept = [sorted(self.protocol.kept(_best_clock(timing))) for timing in timings]
        again = [seconds[min(MET_AGAIN, len(seconds)) - 1] / seconds[0] - 1 for seconds in kept]
        samples = Samples(
            groups=tuple(groups),
            seconds=tuple(seconds[0] for seconds in kept),
            saturation=self.saturation,
            total_groups=self.program.groups,
        )
        return SampledProgram(self.program.name, samples, work, max(again))

    def _interleaved(self, bound: BoundParts, cuts: Sequence[Sequence[Grid]], evicted: int = 0) -> list[MeasuredTimes]:
        """Return the times of each of *cuts*, in turns: when the device is slow, it is for all of them."""
        timings, start = [NOTHING for _ in cuts], perf_counter()
        while any(wanted := [self.protocol.further_runs(timing.wall) for timing in timings]):
            for place, runs in enumerate(wanted):
                if runs:
                    timing = bound.time(self.program.name, cuts[place], min(runs, BATCH), evicted)
                    timings[place] = timings[place].followed_by(timing)
        self.spent += perf_counter() - start
        for timing in timings:
            self.gaps += [wall - seconds for wall, seconds in zip(timing.wall, _best_clock(timing), strict=True)]
        return timings

    # }}}

    # {{{ what is known of groups

    def _groups(self, part: Grid) -> int:
        return sum(map(prod, self.program.cut(part)))

    def _first_groups(self) -> FirstGroups | None:
        task = self.task
        try:
            return first_groups(task.kernel, self.program.name, task.sizes, self.program.extents, task.typical)
        except (UncountableError, EngineError) as error:
            self.unknown = f"the groups of {self.program.name} are taken to do the same: {error}"
            return None

    def _work(self, parts: Sequence[Grid]) -> Work | None:
        if self._first is None or self.unknown:
            return None
        try:
            amounts = [self._first.work(part) for part in (*parts, self.program.extents)]
        except (UncountableError, EngineError) as error:
            self.unknown = f"the groups of {self.program.name} are taken to do the same: {error}"
            return None
        return Work(tuple(amounts[:-1]), amounts[-1])

    def _contents(self, part: Grid) -> dict[str, int]:
        """Return how many bytes of each array are needed to run *part*, where that is known."""
        reached = {} if self._first is None else halo(self._first, part)
        return {array: nbytes + SLACK for array, nbytes in reached.items()}

    def _others(self, contents: Mapping[str, int]) -> int:
        """Return how many bytes other groups and launches may touch before the same ones are touched again.

        Of arrays of which nobody knows how much a sample touches, that is nothing.
        """
        whole = array_bytes(self.task.kernel.loopy_kernel, self.task.sizes)
        others = sum(max(nbytes - contents.get(name, nbytes), 0) for name, nbytes in whole.items())
        return min(others, MOST_EVICTED) if others >= LEAST_EVICTED else 0

    # }}}


def _saturation_note(programs: Sequence[DeviceProgram], described: Mapping[str, int]) -> list[str]:
    """Return where the runtime and the device's description tell another Psat, in sentences."""
    told = ((each.name, each.saturation, described.get(each.name, each.saturation)) for each in programs)
    return [
        f"{name}: Psat is {runtime} groups by the runtime, {stated} by the device's description; the larger is taken"
        for name, runtime, stated in told
        if runtime != stated
    ]


def _rises(program: SampledProgram) -> bool:
    """Return whether more groups took longer by so much that a launch alone does not take most of it."""
    first, second = program.samples.seconds[:2]
    return second >= (1 + RISE) * first


def _scale_further(program: SampledProgram) -> int:
    """Return by what factor larger samples are to be taken, 0 if these are large enough."""
    if not _rises(program):
        return 2
    spent, longest = sum(program.samples.seconds), program.samples.seconds[-1]
    missing = min(SHARE * extrapolated(program).seconds / spent, LONG / longest)
    return 0 if missing <= 1 else max(2, min(int(missing), MOST_AT_ONCE))


def _best_clock(timing: MeasuredTimes) -> Sequence[float]:
    """Return the times by the device's clock, which starts with the launch, or by the wall clock if it has none."""
    return timing.wall if timing.device is None else timing.device


# {{{ which groups


def sub_grids(grid: Grid, saturation: int, multiples: Sequence[int]) -> tuple[Grid, ...] | None:
    """Return the parts of *grid* that are as many times *saturation* as *multiples* say, which increase.

    None where the grid has no such parts: the last would be all of it or more, or an axis is too short.
    """
    cut = tuple(_cut(grid, saturation, multiple, multiples[-1]) for multiple in multiples)
    fits = all(part <= whole for part, whole in zip(cut[-1], grid, strict=True))
    return cut if fits and prod(cut[-1]) < prod(grid) else None


def _cut(grid: Grid, saturation: int, multiple: int, most: int) -> Grid:
    length, further = grid[0], grid[1:]
    if most * saturation <= length or prod(further) == 1:
        return (multiple * saturation, *(1 for _ in further))
    rows = -(-saturation // length)
    return (saturation // rows, *_cut(further, rows, multiple, most))


def saturation_notes(
    program: Program, backend: RunsParts, typical: Mapping[str, Any] | None, sizes: Sizes
) -> dict[str, int]:
    """Return device program -> Psat by the occupancy on the described device; none where that is not known."""
    device = description_or_none(backend.environment.slug)
    if device is None:
        return {}
    try:
        launches = timed_kernel(Case(program, sizes, typical), device).launches
        return {each.name: each.execution.concurrent_groups * device.needed("cores") for each in launches}
    except LoopyperfError:  # the runtime's answer will do
        return {}


# }}}
