"""Measurements of the points of a space, each archived with the decision that led to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Any

from loopyperf.errors import ArchiveError, BackendError, LoopyperfError, one_line
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.arguments import TOLERANCE, generated_indices_note, verify
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import DriftMonitor, measured
from loopyperf.measurement.environment import Array
from loopyperf.measurement.records import Decision, Measurement
from loopyperf.predict.sampled import made_case
from loopyperf.search.task import accepted_sizes
from loopyperf.search.variants import OfChoice, Variant
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import prepared

MAX_LEADERS = 4
"""points that are measured again in turns"""
ROUNDS = 3
"""turns of each leader"""
LEADING = 1.02
"""time of a leader over the least time, at most"""
SLOW = 1.5
"""time over the least time from which a point is not run more often"""


@dataclass(frozen=True, slots=True)
class Leader:
    """One of the fastest points, with the summary of all its runs that count."""

    name: str
    """name of the point"""
    seconds: float
    """least seconds"""
    median: float
    """median seconds"""
    spread: float
    """relative distance of the median above the least"""
    runs: int
    """number of runs that count"""
    predicted: float
    """seconds predicted before any measurement"""
    is_tie: bool
    """whether its least times of single turns overlap with those of the fastest"""


class Measuring:
    """Measures points on a backend into an archive; points that the archive holds are not measured again."""

    def __init__(
        self,
        machine: Backend,
        archive: Archive,
        space: str,
        sizes: Mapping[str, Any],
        arguments: OfChoice,
        reference: Mapping[str, Array] | None,
    ) -> None:
        """Measure on *machine* into *archive*.

        *space* identifies the space; results are compared with *reference*, or with those of the first point. Raises
        :class:`ArchiveError` if the archive holds decisions on another space.
        """
        if any(each.space != space for each in archive.decisions):
            raise ArchiveError(
                f"{archive.path} is the state of another space, builder or size; pass another path, or the same space"
            )
        self._machine, self._archive, self._space = machine, archive, space
        self._sizes, self._arguments = sizes, arguments
        self._results = dict(reference or {})
        self._protocol = archive.run.protocol
        self._monitor = DriftMonitor(machine, archive)
        self._cases: dict[str, BenchmarkCase] = {}
        self._takes: dict[str, list[Sequence[float]]] = {}
        for measurement in archive.measurements:
            if measurement.kind == "measurement":
                self._takes.setdefault(measurement.label, []).append(measurement.samples)
        self.failures = {each.label: each.failure for each in archive.decisions if each.failure}
        self._kernels = {each.label: each.kernel for each in archive.decisions if each.kernel}
        self.notes: dict[str, None] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Return name -> least seconds of each measured point."""
        return {name: min(map(self._protocol.measured_time, takes)) for name, takes in self._takes.items()}

    def check_kernel(self, variant: Variant) -> None:
        """Raise :class:`ArchiveError` if the times of *variant* in the archive are of another kernel."""
        known = self._kernels.get(variant.name)
        if known is not None and content_key(variant.program()) not in (None, known):
            raise ArchiveError(
                f"{self._archive.path} has the time of another kernel at {variant.name}; pass another path"
            )

    def measure(self, variant: Variant, predicted: float, regret: float | None, first: Variant | None) -> None:
        """Measure *variant*, which took *predicted* seconds by prediction when *regret* might remain.

        *first* is the point whose results are expected if the archive holds measurements but the results are not known.
        Raises :class:`BackendError` if the device is lost.
        """
        if first is not None and not self._results:
            self._machine.time(self._case(first), 1)
        failure = ""
        try:
            case = self._case(variant)
            timing, yardstick = self._monitor.watched(partial(self._timed, case))
            self._record(case, timing, yardstick)
        except BackendError:
            raise  # the device is lost, so other points would fail as well
        except LoopyperfError as error:
            failure = one_line(error)
            if (failed := self._cases.pop(variant.name, None)) is not None:
                failure = failure.removeprefix(f"{failed}: ")  # so that equal reasons are shown once
            self.failures[variant.name] = failure
            if not self._takes:  # the arguments or the reference may be wrong, so a resumed tuning tries again
                return
        self._archive.append_decision(
            Decision(
                run=self._archive.run.id,
                space=self._space,
                label=variant.name,
                predicted=predicted,
                regret=regret,
                failure=failure,
                kernel=self._kernels.get(variant.name, ""),
                taken=datetime.now(UTC),
            )
        )
        seconds = self.seconds
        leading = sorted(self._cases, key=lambda name: seconds.get(name, 0.0))
        self._cases = {name: self._cases[name] for name in leading[:MAX_LEADERS]}  # their arrays take memory

    def leaders(self, variants: Mapping[str, Variant], predicted: Mapping[str, float]) -> tuple[Leader, ...]:
        """Measure the fastest points again, in turns, and return them, fastest first."""
        seconds = self.seconds
        best = min(seconds.values())
        leading = sorted((name for name in seconds if seconds[name] <= LEADING * best), key=seconds.__getitem__)
        leading = leading[:MAX_LEADERS]
        runs = self._protocol.dropped + self._protocol.fewest
        for turn in range(ROUNDS):
            for name in leading:
                if len(self._takes[name]) <= turn + 1:
                    case = self._cases.get(name) or self._case(variants[name])
                    timing, yardstick = self._monitor.watched(
                        partial(self._machine.time, case, min(runs, self._protocol.runs))
                    )
                    self._record(case, timing, yardstick)
        turns = {name: [self._protocol.measured_time(each) for each in self._takes[name]] for name in leading}
        order = sorted(leading, key=lambda name: min(turns[name]))
        return tuple(self._leader(name, predicted[name], min(turns[name]) <= max(turns[order[0]])) for name in order)

    def _leader(self, name: str, predicted: float, is_tie: bool) -> Leader:
        samples = [each for samples in self._takes[name] for each in self._protocol.kept(samples)]
        least, middle = min(samples), median(samples)
        return Leader(name, least, middle, middle / least - 1 if least else 0.0, len(samples), predicted, is_tie)

    def _case(self, variant: Variant) -> BenchmarkCase:
        program = variant.program()
        sizes = accepted_sizes(program, self._sizes)
        arguments = variant.given(self._arguments)
        self._kernels[variant.name] = content_key(program) or ""
        case = self._cases[variant.name] = made_case(program, sizes, arguments, variant.name, self._check)
        self.notes |= dict.fromkeys(generated_indices_note(prepared(program).loopy_kernel, arguments))
        return case

    def _check(self, results: Mapping[str, Array]) -> None:
        """Compare *results* with those expected; the first results are expected from then on."""
        if self._results:
            verify(results, self._results, TOLERANCE)
        else:
            self._results.update(results)

    def _timed(self, case: BenchmarkCase) -> MeasuredTimes:
        """Return the times of *case*, few of them if it is slow compared with the fastest point."""
        limit = SLOW * min(self.seconds.values()) if self._takes else float("inf")

        def further(samples: Sequence[float]) -> int:
            if not samples:
                return min(self._protocol.dropped + 1, self._protocol.runs)
            return 0 if min(samples) > limit else self._protocol.further_runs(samples)

        return measured(self._machine, case, self._protocol, further)

    def _record(self, case: BenchmarkCase, timing: MeasuredTimes, yardstick: float | None) -> None:
        name = case.configuration.label
        takes = self._takes.setdefault(name, [])
        takes.append(timing.wall)
        self._archive.append(
            *self._monitor.records(),
            Measurement(
                run=self._archive.run.id,
                kernel_class=case.kernel_class,
                label=name,
                sizes={size: int(value) for size, value in case.sizes.items()},
                kind="measurement",
                samples=timing.wall,
                device_samples=timing.device,
                attempt=len(takes),
                yardstick=yardstick,
                taken=datetime.now(UTC),
            ),
        )
