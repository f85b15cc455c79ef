"""The few variants that a ranking is unsure of, measured: which is fastest after all, and how good the ranking was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopyperf.calibration.accuracy import regret, spearman
from loopyperf.calibration.fit import Measured
from loopyperf.display import ReportText, Shown, Table, tagged
from loopyperf.errors import BackendError, LoopyperfError, MeasurementError, ParameterError, one_line
from loopyperf.measurement.arguments import verify
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.drift_monitor import measured
from loopyperf.measurement.environment import Array
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.sampled import made_case
from loopyperf.search.task import accepted_sizes
from loopyperf.search.variants import Variant, check_mapping
from loopyperf.units import duration, number_of

PROTOCOL = Protocol(runs=12, dropped=2, fewest=4, budget=0.1)
"""fewer runs than a calibration has: variants that are nearly as fast as each other may be taken for each other"""
TOLERANCE = 1e-4
"""largest relative difference between what two variants write: they add in another order"""


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredRanking(Shown):
    """Variants of a kernel at one size with their measured run times, fastest first."""

    sizes: Mapping[str, Any]
    """values of the kernels' parameters, by name"""
    device: str
    """full name of the device that they ran on"""
    seconds: Mapping[str, float]
    """by name, measured, fastest first"""
    predicted: Mapping[str, float]
    """by name, the seconds that the ranking had"""
    failures: Mapping[str, str]
    """by name, why a variant could not be measured, or that it computes something else than the first one"""
    measurements: tuple[Measured, ...]
    """rows that :func:`loopyperf.fit` takes, in the order in which they were measured"""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names of the variants, fastest first."""
        return tuple(self.seconds)

    @property
    def best(self) -> str:
        """Return the name of the fastest variant; raises :class:`MeasurementError` where none could be measured."""
        return next(iter(self._measured))

    @property
    def regret(self) -> float:
        """Return the measured time of the variant that was predicted to be fastest, over the least measured.

        Raises :class:`MeasurementError` where none could be measured.
        """
        return regret(self._predictions, list(self._measured.values()))

    @property
    def spearman(self) -> float:
        """Return the rank correlation of predicted and measured times, from −1 to 1.

        Raises :class:`MeasurementError` where none could be measured.
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
        """Return the variants with what they take and what was predicted, and who could not be measured."""
        rows = [(name, duration(each), duration(self.predicted[name])) for name, each in self.seconds.items()]
        return ReportText(
            question=f"{tagged(number_of(len(self.seconds), 'variant'), self.sizes)} measured on {self.device}",
            answer=f"{self.best} takes {duration(self.seconds[self.best])}" if self.seconds else "",
            tables=[Table(("variant", "measured", "predicted"), rows)] if rows else [],
            remarks=[f"no measurement: {name}: {reason}" for name, reason in self.failures.items()],
        )


def check_measuring(backend: object, arguments: object, protocol: object) -> None:
    """Raise :class:`ParameterError` if *backend* cannot run kernels, or arguments or protocol have the wrong type."""
    if not isinstance(backend, str) and not callable(getattr(backend, "time", None)):
        raise ParameterError(f"a backend is 'opencl', 'cuda' or an open one, received {backend!r:.80}")
    check_mapping("arguments", "names to arrays", arguments)
    if protocol is not None and not isinstance(protocol, Protocol):
        raise ParameterError(f"protocol is a loopyperf.measurement.protocol.Protocol, received {protocol!r:.80}")


def measured_ranking(
    machine: Backend,
    chosen: Sequence[tuple[Variant, float]],
    sizes: Mapping[str, Any],
    arguments: Mapping[str, Any] | None,
    protocol: Protocol | None,
    typical: Mapping[str, Any] | None,
    are_compared: bool,
) -> MeasuredRanking:
    """Return the *chosen* variants, each with its predicted seconds, measured; see Ranking.measure."""
    agreement = _Agreement()
    found: list[Measured] = []
    failures: dict[str, str] = {}
    for variant, _ in chosen:
        try:
            program = variant.program()
            check = agreement.check if are_compared else _unchecked
            case = made_case(program, accepted_sizes(program, sizes), arguments, variant.name, check)
            rules = protocol or PROTOCOL
            seconds = rules.measured_time(measured(machine, case, rules).wall)
        except BackendError:
            raise  # the device is lost for the others, too
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


@dataclass
class _Agreement:
    """Variants of a kernel compute the same: what the first one wrote is the reference of the others."""

    first: dict[str, Array] = field(default_factory=dict[str, Array])

    def check(self, results: Mapping[str, Array]) -> None:
        """Raise :class:`MeasurementError` for *results* that are not those of the first variant."""
        if self.first:
            verify(results, self.first, TOLERANCE)
        else:
            self.first.update(results)


def _unchecked(_: Mapping[str, Array]) -> None:
    """Take any results."""
