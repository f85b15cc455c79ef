"""Timing a case as often as the protocol asks for, which may depend on what the runs took so far."""

from collections.abc import Callable, Sequence

from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.interface import Backend, BenchmarkCase, EmptiesCaches, Timing
from loopyperf.measurement.protocol import Protocol

NOTHING = Timing((), ())
"""of no run"""


def measured(backend: Backend, case: BenchmarkCase, protocol: Protocol) -> Timing:
    """Return the times of the runs of a measurement of *case*: as many as the *protocol* needs.

    Raises :class:`MeasurementError` if it cannot be measured, or not with cold caches if the protocol asks for these.
    """
    return _sampled(backend, case, protocol, protocol.further_runs)


def probed(backend: Backend, case: BenchmarkCase, protocol: Protocol) -> Timing:
    """Return the times of the few runs that tell how long *case* takes; raises what :func:`measured` raises."""
    return _sampled(backend, case, protocol, protocol.further_probe_runs)


def _sampled(
    backend: Backend, case: BenchmarkCase, protocol: Protocol, further: Callable[[Sequence[float]], int]
) -> Timing:
    timing = NOTHING
    while runs := further(timing.wall):
        timing = timing.followed_by(_timed(backend, case, runs, protocol))
    return timing


def _timed(backend: Backend, case: BenchmarkCase, runs: int, protocol: Protocol) -> Timing:
    if protocol.caches == "warm":
        return backend.time(case, runs)
    if not isinstance(backend, EmptiesCaches):
        raise MeasurementError(
            f"the backend {backend.environment.backend!r} cannot empty the caches of {backend.environment.device}; "
            'measure with a protocol of caches="warm"'
        )
    timing = NOTHING
    for _ in range(runs):
        backend.empty_caches()
        timing = timing.followed_by(backend.time(case, 1))
    return timing
