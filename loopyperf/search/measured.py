"""Measurement of a ranking's fastest variants, and the accuracy of the ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopyperf.calibration.accuracy import regret, spearman
from loopyperf.calibration.fit import Measured
from loopyperf.display import ReportText, Table, Tabular, tagged
from loopyperf.errors import BackendError, LoopyperfError, MeasurementError, ParameterError, one_line
from loopyperf.measurement.arguments import TOLERANCE, verify
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.drift_monitor import measured
from loopyperf.measurement.environment import Array
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.sampled import made_case
from loopyperf.search.task import accepted_sizes
from loopyperf.search.variants import Variant, check_mapping
from loopyperf.units import duration, number_of

PROTOCOL = Protocol(runs=12, dropped=2, fewest=4, budget=0.1)
"""fewer runs than in a calibration; nearly equal variants may be confused"""


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
    first: dict[str, Array] = {}

    def check(results: Mapping[str, Array]) -> None:
        """Compare *results* with those of the first variant."""
        if first and are_compared:
            verify(results, first, TOLERANCE)
        first.update({} if first else results)

    found: list[Measured] = []
    failures: dict[str, str] = {}
    for variant, _ in chosen:
        try:
            program = variant.program()
            case = made_case(program, accepted_sizes(program, sizes), arguments, variant.name, check)
            rules = protocol or PROTOCOL
            seconds = rules.measured_time(measured(machine, case, rules).wall)
        except BackendError:
            raise  # the device is lost, so other variants would fail as well
        except LoopyperfError as error:
            failures[variant.name] = one_line(error)
            continue
        found.append(Measured(program, case.sizes, seconds, case.kernel_class, variant.name, typical or {}))
    return MeasuredRanking(
        sizes=dict(sizes),
        device=machine.environment.slug,
        seconds={row.label: row.seconds for row in sorted(found, key=lambda row: row.seconds)},
        predicted={variant.name: seconds for variant, seconds in chosen},
        failures=failures,
        measurements=tuple(found),
    )
