"""Sampling: run a kernel's device programs on their first groups and extrapolate the time of all groups.

A sample is a sub-grid at the origin of the grid, with a multiple of Psat groups. A device launches boxes, and the first
groups in dispatch order (first axis fastest) form a box only if they end with a row. If the largest sample fits into a
row, samples are the start of a row. Otherwise rows are shortened so that Psat is nearly a whole number of rows,

    rows = ⌈Psat / length of the grid⌉,    length = ⌊Psat / rows⌋

and a sample of m·Psat has m times as many rows; the same rule applies along the next axis. So smaller samples are part
of larger ones, and each is smaller than its multiple of Psat by less than one group per row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter

from loopyperf.counts.first_groups import FirstGroups, first_groups, halo
from loopyperf.counts.sizes import Typical
from loopyperf.errors import EngineError, UncountableError
from loopyperf.kernel import Kernel
from loopyperf.measurement.arguments import array_bytes
from loopyperf.measurement.backends.backend import (
    BenchmarkCase,
    BoundParts,
    DeviceProgram,
    Grid,
    MeasuredTimes,
    RunsParts,
)
from loopyperf.measurement.drift_monitor import NO_TIMES
from loopyperf.measurement.protocol import BATCH, REPRODUCED, Protocol
from loopyperf.models.sampling import SampledProgram, Samples, Work, extrapolated
from loopyperf.units import duration, in_percent

SAMPLES = (2, 3)
"""multiples of Psat (Dao, section 5.1)"""
MORE_SAMPLES = (2, 3, 4, 6)
"""multiples of Psat if groups differ, to separate the overhead of a group from its work"""
UNEQUAL_WORK = 0.05
"""relative difference between the extrapolations by groups and by work above which more samples are taken"""
MIN_RISE = 0.25
"""minimum relative increase from the first sample to the second. With half again as many groups it is 0.5, unless the
launch or cache filling dominates; then larger samples are taken"""
MIN_TIME_SHARE = 0.02
"""minimum share of the predicted time for one run of all samples; below it, larger samples are taken, which cost
little. With a small Psat, its multiples end before caches are full, and the clock barely resolves their times"""
LONG_SAMPLE = 0.01
"""seconds that are enough for the largest sample, regardless of the predicted time"""
MAX_GROWTH = 16
"""maximum factor by which samples grow in one step"""
PROTOCOL = Protocol(runs=64, dropped=1, fewest=10, stable=0.01, budget=0.5)
"""repeats of a sample, until its fastest runs agree; the slope between two samples amplifies an error of either by
four"""
EXTRA_BYTES = 4096
"""extra bytes after those that a sample reads; compiled code may load for more work-items than exist"""
MIN_EVICTED, MAX_EVICTED = 2**16, 2**28
"""limits of the bytes of other memory touched before a repeat, as the other groups would; a smaller amount does not
affect caches, and a larger one exceeds all relevant caches"""


@dataclass(frozen=True, slots=True)
class SampledKernel:
    """The samples of all device programs of a kernel."""

    programs: tuple[SampledProgram, ...]
    launching: float
    """launch overhead on the host in seconds, the minimum difference between wall clock and device clock"""
    seconds: float
    """total time of one run of each sample in seconds, by the device clock if available"""
    spent: float
    """total wall-clock time of all runs and cache flushes, in seconds"""
    doubts: tuple[str, ...] = ()
    """notes: conflicting values of Psat, unknown work of groups, generated arguments"""

    def notes(self, seconds: float) -> tuple[str, ...]:
        """Return the notes of an estimate of *seconds* from these samples: the doubts and the cost of sampling."""
        runs = sum(len(program.samples.seconds) for program in self.programs)
        share = (self.seconds + runs * self.launching) / seconds
        cost = f"samples: one run of each takes {in_percent(share, 2)} of the predicted time; all runs took "
        return (*self.doubts, f"{cost}{duration(self.spent)}")


@dataclass(frozen=True, slots=True)
class SamplingTask:
    """A kernel at one size to sample on a backend."""

    backend: RunsParts
    case: BenchmarkCase
    kernel: Kernel
    """kernel of the case, with the types and loops with which it runs"""
    sizes: Mapping[str, int]
    """values of its integer parameters"""
    typical: Typical


def take_samples(
    task: SamplingTask,
    *,
    described: Mapping[str, int] | None = None,
    multiples: Sequence[int] | None = None,
    protocol: Protocol = PROTOCOL,
) -> SampledKernel:
    """Return the samples of each device program of a kernel; none if it launches nothing.

    Psat is the maximum of the runtime's value and *described* (by program), because a sample that is too large only
    costs time and one that is too small is wrong. Samples are 2·Psat and 3·Psat, and also 4·Psat and 6·Psat if groups
    differ, or these times a factor (see :data:`MIN_TIME_SHARE` and :data:`MIN_RISE`). If *multiples* of Psat are given,
    in ascending order, the samples are those with fewer groups than the grid. A program with too few groups for its
    samples is run on all of them.

    Raises :class:`MeasurementError` for a kernel that cannot be run, and :class:`BackendError` for a lost device.
    """
    nothing = {argument.name: 0 for argument in task.kernel.loopy_kernel.args}
    programs = task.backend.bound(task.case, nothing).programs
    published = described or {}
    samplers = [_Sampler(task, each, max(each.saturation, published.get(each.name, 0)), protocol) for each in programs]
    found = [sampler.samples(multiples) for sampler in samplers]
    gaps = [gap for sampler in samplers for gap in sampler.gaps]
    return SampledKernel(
        tuple(found),
        max(min(gaps, default=0.0), 0.0),
        sum(sum(each.samples.seconds) for each in found),
        sum(sampler.spent for sampler in samplers),
        (*_saturation_note(programs, published), *(sampler.unknown for sampler in samplers if sampler.unknown)),
    )


class _Sampler:
    """Sampler of one device program."""

    def __init__(self, task: SamplingTask, program: DeviceProgram, saturation: int, protocol: Protocol) -> None:
        self.task, self.program, self.saturation, self.protocol = task, program, saturation, protocol
        self.spent = 0.0
        self.gaps: list[float] = []
        self.unknown = ""
        self._first = self._first_groups()

    # {{{ choice of sub-grids

    def samples(self, multiples: Sequence[int] | None) -> SampledProgram:
        """Return the samples of *multiples* of Psat, or chosen automatically for None."""
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
        return abs(work.total / work.sampled[-1] / in_groups - 1) > UNEQUAL_WORK

    # }}}

    # {{{ runs

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
        again = [seconds[min(REPRODUCED, len(seconds)) - 1] / seconds[0] - 1 for seconds in kept]
        samples = Samples(
            groups=tuple(groups),
            seconds=tuple(seconds[0] for seconds in kept),
            saturation=self.saturation,
            total_groups=self.program.groups,
        )
        return SampledProgram(self.program.name, samples, work, max(again))

    def _interleaved(self, bound: BoundParts, cuts: Sequence[Sequence[Grid]], evicted: int = 0) -> list[MeasuredTimes]:
        """Return the times of each of *cuts*, run in turns so that a slow phase of the device affects all of them."""
        timings, start = [NO_TIMES for _ in cuts], perf_counter()
        while any(wanted := [self.protocol.further_runs(timing.wall) for timing in timings]):
            for index, runs in enumerate(wanted):
                if runs:
                    timing = bound.time(self.program.name, cuts[index], min(runs, BATCH), evicted)
                    timings[index] = timings[index].followed_by(timing)
        self.spent += perf_counter() - start
        for timing in timings:
            self.gaps += [wall - seconds for wall, seconds in zip(timing.wall, _best_clock(timing), strict=True)]
        return timings

    # }}}

    # {{{ work and memory of groups

    def _groups(self, part: Grid) -> int:
        return sum(map(prod, self.program.cut(part)))

    def _first_groups(self) -> FirstGroups | None:
        task = self.task
        try:
            return first_groups(task.kernel, self.program.name, task.sizes, self.program.extents, task.typical)
        except (UncountableError, EngineError) as error:
            self.unknown = f"work of the groups of {self.program.name} is unknown; assumed equal: {error}"
            return None

    def _work(self, parts: Sequence[Grid]) -> Work | None:
        if self._first is None or self.unknown:
            return None
        try:
            amounts = [self._first.work(part) for part in (*parts, self.program.extents)]
        except (UncountableError, EngineError) as error:
            self.unknown = f"work of the groups of {self.program.name} is unknown; assumed equal: {error}"
            return None
        return Work(tuple(amounts[:-1]), amounts[-1])

    def _contents(self, part: Grid) -> dict[str, int]:
        """Return array -> bytes needed to run *part*, for the arrays for which this is known."""
        reached = {} if self._first is None else halo(self._first, part)
        return {array: nbytes + EXTRA_BYTES for array, nbytes in reached.items()}

    def _others(self, contents: Mapping[str, int]) -> int:
        """Return the bytes that other groups and launches may touch between two uses of the same data.

        Arrays of which a sample touches an unknown part do not count.
        """
        whole = array_bytes(self.task.kernel.loopy_kernel, self.task.sizes)
        others = sum(max(nbytes - contents.get(name, nbytes), 0) for name, nbytes in whole.items())
        return min(others, MAX_EVICTED) if others >= MIN_EVICTED else 0

    # }}}


def _saturation_note(programs: Sequence[DeviceProgram], described: Mapping[str, int]) -> list[str]:
    """Return a note for each program with different values of Psat from the runtime and the device parameters."""
    values = ((each.name, each.saturation, described.get(each.name, each.saturation)) for each in programs)
    return [
        f"{name}: Psat is {runtime} groups from the runtime, {published} from device parameters; using the larger"
        for name, runtime, published in values
        if runtime != published
    ]


def _rises(program: SampledProgram) -> bool:
    """Return whether the time rises enough with the groups that the launch does not dominate."""
    first, second = program.samples.seconds[:2]
    return second >= (1 + MIN_RISE) * first


def _scale_further(program: SampledProgram) -> int:
    """Return the factor by which to enlarge the samples; 0 if they are large enough."""
    if not _rises(program):
        return 2
    spent, longest = sum(program.samples.seconds), program.samples.seconds[-1]
    missing = min(MIN_TIME_SHARE * extrapolated(program).seconds / spent, LONG_SAMPLE / longest)
    return 0 if missing <= 1 else max(2, min(int(missing), MAX_GROWTH))


def _best_clock(timing: MeasuredTimes) -> Sequence[float]:
    """Return the times by the device clock, which starts with the launch, or by the wall clock if there is none."""
    return timing.wall if timing.device is None else timing.device


# {{{ sub-grids


def sub_grids(grid: Grid, saturation: int, multiples: Sequence[int]) -> tuple[Grid, ...] | None:
    """Return the sub-grids of *grid* with these *multiples* (ascending) of *saturation* groups.

    Return None if the largest would not be smaller than the grid, or if an axis is too short.
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


# }}}
