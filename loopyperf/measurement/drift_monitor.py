"""How often a case is timed, and how fast the device is meanwhile, by timing a yardstick every so often."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from time import sleep

import loopy as lp
import numpy as np

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, EmptiesCaches, MeasuredTimes
from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Measurement, reference_times, usual

# {{{ the yardstick
#
# A kernel that always does the same, so that its time tells how fast the device is just now.
#
# Each work-item does x ← x/2 + 1 again and again. That is arithmetic alone, whose time repeats to a percent or two
# where nothing disturbs the device; what slows its cores down (a lower clock, a neighbour on the same core) shows in
# full.


REFERENCE = "yardstick"
"""what its records have as class of kernels"""
LANES = 64
"""work-items of a group, if the device holds so many"""
GROUPS_ON_CORE = 16
LEAST, MOST = 2**6, 2**20
"""rounds"""
LONG_ENOUGH = 2e-4
"""seconds"""
LAUNCHES = 4
"""times the duration of a launch that a run of it takes at least"""


def reference_kernel(limits: DeviceLimits) -> Configuration:
    """Return the yardstick for a device with *limits*, on a ladder of rounds that double."""
    lanes = min(LANES, limits.group_size)
    groups = GROUPS_ON_CORE * limits.cores
    return Configuration(
        label=f"group {lanes}",
        build=partial(repeated_halving, lanes),
        sizes=tuple({"groups": groups, "rounds": rounds} for rounds in doubling(LEAST, 1, MOST)),
        arguments=partial(arguments, lanes),
        reference=halved,
    )


def cases(limits: DeviceLimits) -> tuple[BenchmarkCase, ...]:
    """Return the yardstick at each of its sizes, shortest first."""
    configuration = reference_kernel(limits)
    return tuple(BenchmarkCase(REFERENCE, configuration, sizes) for sizes in configuration.sizes)


def repeated_halving(lanes: int) -> lp.TranslationUnit:
    """Return the kernel: out[g, l] begins at 1/2 + l and goes ``rounds`` times half way to 2."""
    knl = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds}}",
        """
        for g, l
            <float32> x = 0.5f + l  {id=first}
            for r
                x = x*p + q         {id=step, dep=first}
            end
            out[g, l] = x           {id=last, dep=step}
        end
        """,
        [
            lp.ValueArg("p, q", np.float32),
            lp.GlobalArg("out", np.float32, shape=("groups", lanes)),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="yardstick",
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"g": "g.0", "l": "l.0"})


def arguments(lanes: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return p = 1/2, q = 1, the sizes, and an out of zeros; nothing is random."""
    return {
        "p": np.float32(0.5),
        "q": np.float32(1),
        "out": np.zeros((sizes["groups"], lanes), np.float32),
        "groups": np.int32(sizes["groups"]),
        "rounds": np.int32(sizes["rounds"]),
    }


def halved(arguments: Arguments) -> dict[str, Array]:
    """Return out after its rounds: x₀/2ⁿ + 2·(1 − 1/2ⁿ) of x₀ = 1/2 + l."""
    out = np.asarray(arguments["out"])
    left = 0.5 ** min(1000, int(arguments["rounds"]))
    row = (0.5 + np.arange(out.shape[1], dtype=np.float64)) * left + 2 * (1 - left)
    return {"out": np.tile(row.astype(out.dtype), (out.shape[0], 1))}


# }}}


# {{{ watch


AT_FIRST = 4
"""times that the yardstick is taken before anything else, so that something is usual"""
PAUSE = 0.02
"""seconds between two looks at a slow device"""
LONGEST_WAIT = 25
"""pauses in a row"""


class DriftMonitor:
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
        self._times = list(reference_times(archive.measurements)) if self._settled_sizes() else []
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
            self._latest = self._next_repeat(self._case)
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
        launch = self._next_repeat(every[0])
        for case in every[1:]:
            if self._next_repeat(case) >= max(LONG_ENOUGH, LAUNCHES * launch):
                return case
        return every[-1]

    def _next_repeat(self, case: BenchmarkCase) -> float:
        timing = self._backend.time(case, self._protocol.yardstick_runs)
        self._pending.append(
            Measurement(
                run=self._archive.run.id,
                kernel_class=REFERENCE,
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


# }}}


# {{{ timing a case as often as the protocol asks for, which may depend on what the runs took so far


NOTHING = MeasuredTimes((), ())
"""of no run"""


def measured(backend: Backend, case: BenchmarkCase, protocol: Protocol) -> MeasuredTimes:
    """Return the times of the runs of a measurement of *case*: as many as the *protocol* needs.

    Raises :class:`MeasurementError` if it cannot be measured, or not with cold caches if the protocol asks for these.
    """
    return _sampled(backend, case, protocol, protocol.further_runs)


def probed(backend: Backend, case: BenchmarkCase, protocol: Protocol) -> MeasuredTimes:
    """Return the times of the few runs that tell how long *case* takes; raises what :func:`measured` raises."""
    return _sampled(backend, case, protocol, protocol.further_probe_runs)


def _sampled(
    backend: Backend, case: BenchmarkCase, protocol: Protocol, further: Callable[[Sequence[float]], int]
) -> MeasuredTimes:
    timing = NOTHING
    while runs := further(timing.wall):
        timing = timing.followed_by(_timed(backend, case, runs, protocol))
    return timing


def _timed(backend: Backend, case: BenchmarkCase, runs: int, protocol: Protocol) -> MeasuredTimes:
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


# }}}
