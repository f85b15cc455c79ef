"""Measurements of variants into an archive, and the result of measuring the fastest ones of a ranking."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from loopyperf.calibration.accuracy import regret, spearman
from loopyperf.calibration.fit import Measured
from loopyperf.display import ReportText, Table, Tabular, tagged
from loopyperf.errors import ArchiveError, BackendError, LoopyperfError, MeasurementError, ParameterError, one_line
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.arguments import TOLERANCE, generated_indices_note, verify
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import DriftMonitor, measured
from loopyperf.measurement.environment import Array
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Decision, Run
from loopyperf.predict.sampled import made_case
from loopyperf.search.task import accepted_sizes
from loopyperf.search.variants import OfChoice, Variant, check_mapping
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import prepared
from loopyperf.units import duration, number_of

PROTOCOL = Protocol(runs=12, dropped=2, fewest=4, budget=0.1)
"""fewer runs than in a calibration; nearly equal variants may be confused"""
MAX_LEADERS = 4
"""points that are measured again in turns"""
ROUNDS = 3
"""turns of each leader"""
LEADER_RATIO = 1.02
"""time of a leader over the least time, at most"""
SLOW_RATIO = 1.5
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
    """Measures variants on a backend into an archive."""

    def __init__(
        self,
        machine: Backend,
        archive: Archive,
        space: str,
        sizes: Mapping[str, Any],
        arguments: OfChoice,
        reference: Mapping[str, Array] | None,
        *,
        are_compared: bool = True,
    ) -> None:
        """Measure on *machine* into *archive*.

        *space* identifies the set of variants; results are compared with *reference*, or with those of the first
        variant, unless *are_compared* is False. Raises
        :class:`ArchiveError` if the archive holds decisions on another space.
        """
        if any(decision.space != space for decision in archive.decisions):
            raise ArchiveError(
                f"{archive.path} is the state of another space, builder or size; pass another path, or the same space"
            )
        self._machine, self._archive, self._space = machine, archive, space
        self._sizes, self._arguments = sizes, arguments
        self._results, self._are_compared = dict(reference or {}), are_compared
        self._protocol = archive.run.protocol
        self._monitor = DriftMonitor(machine, archive)
        self._cases: dict[str, BenchmarkCase] = {}
        self._takes: dict[str, list[Sequence[float]]] = {}
        for measurement in archive.measurements:
            if measurement.kind == "measurement":
                self._takes.setdefault(measurement.label, []).append(measurement.samples)
        self.failures = {decision.label: decision.failure for decision in archive.decisions if decision.failure}
        self._kernels = {decision.label: decision.kernel for decision in archive.decisions if decision.kernel}
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

    def measure(self, variant: Variant, first: Variant | None = None) -> BenchmarkCase | None:
        """Measure *variant*; return it with its arguments, or None for a reason in :attr:`failures`.

        *first* is the variant whose results are expected if the archive holds measurements but the results are not
        known. Raises :class:`BackendError` if the device is lost.
        """
        if first is not None and not self._results:
            self._machine.time(self._case(first), 1)
        case = None
        try:
            case = self._case(variant)
            timing, yardstick = self._monitor.watched(partial(self._timed, case))
            self._record(case, timing, yardstick)
        except BackendError:
            raise  # the device is lost, so other variants would fail as well
        except LoopyperfError as error:
            self._cases.pop(variant.name, None)
            # without the name of the case, so that equal reasons are shown once
            self.failures[variant.name] = one_line(error).removeprefix(f"{case}: ")
            return None
        seconds = self.seconds
        leading = sorted(self._cases, key=lambda name: seconds.get(name, 0.0))
        self._cases = {name: self._cases[name] for name in leading[:MAX_LEADERS]}  # their arrays take memory
        return case

    def record_decision(self, name: str, predicted: float, regret: float | None) -> None:
        """Archive that the variant *name* was selected, predicted to take *predicted* seconds.

        *regret* is what might remain before. Before the first success, a failure is not archived: the arguments or the
        reference may be wrong, so a resumed tuning tries again.
        """
        if name in self.failures and not self._takes:
            return
        decision = Decision(
            run=self._archive.run.id,
            space=self._space,
            label=name,
            predicted=predicted,
            regret=regret,
            failure=self.failures.get(name, ""),
            kernel=self._kernels.get(name, ""),
            taken=datetime.now(UTC),
        )
        self._archive.append_decision(decision)

    def leaders(self, variants: Mapping[str, Variant], predicted: Mapping[str, float]) -> tuple[Leader, ...]:
        """Measure the fastest points again, in turns, and return them, fastest first."""
        seconds = self.seconds
        best = min(seconds.values())
        leading = sorted((name for name in seconds if seconds[name] <= LEADER_RATIO * best), key=seconds.__getitem__)
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
        if self._results and self._are_compared:
            verify(results, self._results, TOLERANCE)
        elif not self._results:
            self._results.update(results)

    def _timed(self, case: BenchmarkCase) -> MeasuredTimes:
        """Return the times of *case*, few of them if it is slow compared with the fastest point."""
        limit = SLOW_RATIO * min(self.seconds.values()) if self._takes else float("inf")

        def further(samples: Sequence[float]) -> int:
            if not samples:
                return min(self._protocol.dropped + 1, self._protocol.runs)
            return 0 if min(samples) > limit else self._protocol.further_runs(samples)

        return measured(self._machine, case, self._protocol, further)

    def _record(self, case: BenchmarkCase, timing: MeasuredTimes, yardstick: float | None) -> None:
        takes = self._takes.setdefault(case.configuration.label, [])
        takes.append(timing.wall)
        measurement = case.measurement(self._archive.run.id, "measurement", timing, len(takes), yardstick)
        self._archive.append(*self._monitor.records(), measurement)


@contextmanager
def measuring_into(
    path: str | os.PathLike[str] | None,
    machine: Backend,
    protocol: Protocol | None,
    space: str,
    sizes: Mapping[str, Any],
    arguments: OfChoice,
    reference: Mapping[str, Array] | None = None,
    *,
    are_compared: bool = True,
) -> Generator[Measuring]:
    """Yield what measures into the archive at *path*, by default a temporary one; see :class:`Measuring`."""
    run = Run.start(machine.environment, machine.limits, protocol or PROTOCOL)
    with TemporaryDirectory() as folder, Archive(path or Path(folder) / "archive.jsonl", run) as archive:
        yield Measuring(machine, archive, space, sizes, arguments, reference, are_compared=are_compared)


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredRanking(Tabular):
    """Variants of a kernel at one size with measured run times, fastest first."""

    sizes: Mapping[str, Any]
    """values of the kernels' parameters, by name"""
    device: str
    """short name of the device"""
    seconds: Mapping[str, float]
    """variant -> measured seconds, fastest first"""
    predicted: Mapping[str, float]
    """variant -> predicted seconds"""
    failures: Mapping[str, str]
    """variant -> reason why it was not measured, or why its results differ from those of the first variant"""
    measurements: tuple[Measured, ...]
    """rows for :func:`loopyperf.fit`, in the order of measurement"""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names of the variants, fastest first."""
        return tuple(self.seconds)

    @property
    def best(self) -> str:
        """Return the name of the fastest variant; raises :class:`MeasurementError` if none could be measured."""
        return next(iter(self._measured))

    @property
    def regret(self) -> float:
        """Return the measured time of the variant that was predicted to be fastest, over the least measured time.

        Raises :class:`MeasurementError` if none could be measured.
        """
        return regret(self._predictions, list(self._measured.values()))

    @property
    def spearman(self) -> float:
        """Return the rank correlation of predicted and measured times, from −1 to 1.

        Raises :class:`MeasurementError` if none could be measured.
        """
        return spearman(self._predictions, list(self._measured.values()))

    @property
    def _measured(self) -> Mapping[str, float]:
        if not self.seconds:
            reasons = "; ".join(dict.fromkeys(self.failures.values()))
            raise MeasurementError(f"none of {len(self.failures)} variants could be measured: {reasons}")
        return self.seconds

    @property
    def _predictions(self) -> list[float]:
        return [self.predicted[name] for name in self.seconds]

    def report_text(self) -> ReportText:
        """Return a table of measured and predicted times, and the reasons why variants were not measured."""
        rows = [(name, duration(each), duration(self.predicted[name])) for name, each in self.seconds.items()]
        return ReportText(
            question=f"{tagged(number_of(len(self.seconds), 'variant'), self.sizes)} measured on {self.device}",
            answer=f"{self.best} takes {duration(self.seconds[self.best])}" if self.seconds else "",
            tables=[Table(("variant", "measured", "predicted"), rows)] if rows else [],
            remarks=[f"not measured: {name}: {reason}" for name, reason in self.failures.items()],
        )


def check_measuring(backend: object, arguments: object, protocol: object) -> None:
    """Raise :class:`ParameterError` if *backend* cannot run kernels, or arguments or protocol have the wrong type."""
    if not isinstance(backend, str) and not callable(getattr(backend, "time", None)):
        raise ParameterError(f"backend must be 'opencl', 'cuda' or an open backend, got {backend!r:.80}")
    check_mapping("arguments", "names to arrays", arguments)
    if protocol is not None and not isinstance(protocol, Protocol):
        raise ParameterError(f"protocol must be a loopyperf.measurement.protocol.Protocol, got {protocol!r:.80}")


def measured_ranking(
    machine: Backend,
    chosen: Sequence[tuple[Variant, float]],
    sizes: Mapping[str, Any],
    arguments: Mapping[str, Any] | None,
    protocol: Protocol | None,
    typical: Mapping[str, Any] | None,
    are_compared: bool,
) -> MeasuredRanking:
    """Measure the *chosen* variants, pairs of a variant and its predicted seconds; see Ranking.measure."""
    rows: list[Measured] = []
    with measuring_into(None, machine, protocol, "", sizes, arguments, are_compared=are_compared) as measuring:
        for variant, _ in chosen:
            if (case := measuring.measure(variant)) is not None:
                seconds = measuring.seconds[variant.name]
                row = Measured(variant.program(), case.sizes, seconds, case.kernel_class, variant.name, typical or {})
                rows.append(row)
    return MeasuredRanking(
        sizes=dict(sizes),
        device=machine.environment.slug,
        seconds={row.label: row.seconds for row in sorted(rows, key=lambda row: row.seconds)},
        predicted={variant.name: seconds for variant, seconds in chosen},
        failures=measuring.failures,
        measurements=tuple(rows),
    )
