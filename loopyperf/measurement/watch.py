"""Watching how fast the device is while a campaign runs, by timing the yardstick every so often."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import sleep

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends.interface import Backend, BenchmarkCase
from loopyperf.measurement.noise import usual, yardstick_times
from loopyperf.measurement.records import Measurement
from loopyperf.measurement.yardstick import LAUNCHES, LONG_ENOUGH, YARDSTICK, cases

AT_FIRST = 4
"""times that the yardstick is taken before anything else, so that something is usual"""
PAUSE = 0.02
"""seconds between two looks at a slow device"""
LONGEST_WAIT = 25
"""pauses in a row"""


class Watch:
    """Takes the yardstick on a backend; each time that it is taken goes into an archive.

    The yardstick's rounds are doubled until it takes long beside a launch; a resumed campaign goes on with those of the
    earlier one. A backend that cannot time it, such as an archive from before there was one, is not watched.
    """

    def __init__(self, backend: Backend, archive: Archive) -> None:
        """Watch *backend*, by the protocol of the run of *archive*."""
        self._backend = backend
        self._archive = archive
        self._protocol = archive.run.protocol
        self._patience = self._protocol.patience
        self._pending: list[Measurement] = []
        self._times = list(yardstick_times(archive.measurements)) if self._settled_sizes() else []
        self._latest: float | None = None
        self._case = self._chosen() if self._protocol.yardstick_runs else None
        for _ in range(AT_FIRST):
            self.look()

    @property
    def latest(self) -> float | None:
        """Return the seconds that the yardstick took at last, None if there is none."""
        return self._latest

    def look(self) -> float | None:
        """Take the yardstick and return its seconds, None if there is none.

        Its record waits for what comes next (:meth:`records`): a measurement and its yardstick are written together.
        """
        if self._case is not None:
            self._latest = self._taken(self._case)
            self._times.append(self._latest)
        return self._latest

    def records(self) -> tuple[Measurement, ...]:
        """Return what was taken and is not yet in the archive; who asks writes it down."""
        pending = tuple(self._pending)
        self._pending.clear()
        return pending

    def was_slow(self, measurement: Measurement) -> bool:
        """Return whether the device was slow around *measurement*, by all that is known of the yardstick by now."""
        return measurement.yardstick is not None and self.is_slow(measurement.yardstick)

    def wait(self) -> None:
        """Return once the device is no longer slow, or as far as the protocol's patience goes."""
        for _ in range(LONGEST_WAIT):
            if self._latest is None or not self.is_slow(self._latest) or self._patience < PAUSE:
                return
            sleep(PAUSE)
            self._patience -= PAUSE
            self.look()

    def is_slow(self, seconds: float) -> bool:
        """Return whether the device is slow when the yardstick takes so long, by all that is known of it by now."""
        return bool(self._times) and seconds > usual(self._times) * (1 + self._protocol.slow)

    # {{{ the yardstick's size

    def _chosen(self) -> BenchmarkCase | None:
        """Return the yardstick at the size that it is taken at, None if the backend cannot time it."""
        every = cases(self._backend.limits)
        settled = self._settled_sizes()
        try:
            return next((case for case in every if dict(case.sizes) == settled), None) or self._climbed(every)
        except MeasurementError:
            return None

    def _settled_sizes(self) -> dict[str, int] | None:
        """Return the sizes that an earlier run of the campaign has arrived at, if it came so far."""
        measurements = self._archive.measurements
        if all(each.yardstick is None for each in measurements):
            return None
        return next((each.sizes for each in reversed(measurements) if each.kind == "yardstick"), None)

    def _climbed(self, every: Sequence[BenchmarkCase]) -> BenchmarkCase:
        """Return the yardstick at the first size that takes long; the smallest one takes hardly more than a launch."""
        launch = self._taken(every[0])
        for case in every[1:]:
            if self._taken(case) >= max(LONG_ENOUGH, LAUNCHES * launch):
                return case
        return every[-1]

    def _taken(self, case: BenchmarkCase) -> float:
        timing = self._backend.time(case, self._protocol.yardstick_runs)
        self._pending.append(
            Measurement(
                run=self._archive.run.id,
                kernel_class=YARDSTICK,
                label=case.configuration.label,
                sizes=dict(case.sizes),
                kind="yardstick",
                samples=timing.wall,
                device_samples=timing.device,
                taken=datetime.now(UTC),
            )
        )
        return min(timing.wall)

    # }}}
