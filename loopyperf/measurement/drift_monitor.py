"""How often a case is timed, and a drift monitor that tracks the device's speed with a reference kernel."""

from collections.abc import Callable, Sequence
from functools import partial
from time import sleep
from typing import TypeVar

import loopy as lp
import numpy as np

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, MeasuredTimes
from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Measurement, reference_times, usual

# {{{ the reference kernel
#
# A kernel with constant work, so that its time shows the device's current speed. (Archives call it "yardstick".)
#
# Each work-item computes x ← x/2 + 1 repeatedly. This is pure arithmetic, whose time repeats within a percent or two on
# an undisturbed device. Anything that slows the cores down (a lower clock, another process on the same core) affects it
# fully.


REFERENCE = "yardstick"
"""kernel class of its records"""
LANES = 64
"""work-items of a group, if the device allows that many"""
GROUPS_ON_CORE = 16
MIN_ROUNDS, MAX_ROUNDS = 2**6, 2**20
"""smallest and largest number of rounds"""
MIN_SECONDS = 2e-4
"""seconds"""
MIN_LAUNCH_RATIO = 4
"""minimum run time, as a multiple of the launch time"""


def reference_kernel(limits: DeviceLimits) -> Configuration:
    """Return the reference kernel for a device with *limits*, at sizes that double the number of rounds."""
    lanes = min(LANES, limits.group_size)
    groups = GROUPS_ON_CORE * limits.cores
    return Configuration(
        label=f"group {lanes}",
        build=partial(repeated_halving, lanes),
        sizes=tuple({"groups": groups, "rounds": rounds} for rounds in doubling(MIN_ROUNDS, 1, MAX_ROUNDS)),
        arguments=partial(arguments, lanes),
        reference=halved,
    )


def cases(limits: DeviceLimits) -> tuple[BenchmarkCase, ...]:
    """Return the reference kernel at each of its sizes, shortest first."""
    configuration = reference_kernel(limits)
    return tuple(BenchmarkCase(REFERENCE, configuration, sizes) for sizes in configuration.sizes)


def repeated_halving(lanes: int) -> lp.TranslationUnit:
    """Return the kernel: out[g, l] starts at 1/2 + l and halves its distance to 2 ``rounds`` times."""
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
    """Return p = 1/2, q = 1, the sizes, and zeros for out; nothing is random."""
    return {
        "p": np.float32(0.5),
        "q": np.float32(1),
        "out": np.zeros((sizes["groups"], lanes), np.float32),
        "groups": np.int32(sizes["groups"]),
        "rounds": np.int32(sizes["rounds"]),
    }


def halved(arguments: Arguments) -> dict[str, Array]:
    """Return out after ``rounds`` rounds: x₀/2ⁿ + 2·(1 − 1/2ⁿ), where x₀ = 1/2 + l."""
    out = np.asarray(arguments["out"])
    left = 0.5 ** min(1000, int(arguments["rounds"]))
    row = (0.5 + np.arange(out.shape[1], dtype=np.float64)) * left + 2 * (1 - left)
    return {"out": np.tile(row.astype(out.dtype), (out.shape[0], 1))}


# }}}


# {{{ drift monitor


BASELINE_RUNS = 4
"""runs of the reference kernel before anything else, as a baseline"""
PAUSE = 0.02
"""seconds between two checks of a slow device"""
LONGEST_WAIT = 25
"""maximum number of consecutive pauses"""


Result = TypeVar("Result")


class DriftMonitor:
    """Time the reference kernel on a backend and archive each of its times.

    The kernel's rounds are doubled until it runs much longer than a launch takes; a resumed campaign uses the same
    number of rounds. A backend that cannot time the kernel, such as an older archive without it, is not monitored.
    """

    def __init__(self, backend: Backend, archive: Archive) -> None:
        """Monitor *backend* by the protocol of *archive*'s run."""
        self._backend = backend
        self._archive = archive
        self._protocol = archive.run.protocol
        self._patience = self._protocol.patience
        self._pending: list[Measurement] = []
        self._times = list(reference_times(archive.measurements)) if self._settled_sizes() else []
        self._latest: float | None = None
        self._case = self._chosen() if self._protocol.yardstick_runs else None
        for _ in range(BASELINE_RUNS):
            self.look()

    def look(self) -> float | None:
        """Run the reference kernel and return its time in seconds, None if there is none.

        The record is kept for :meth:`records`, because a measurement and its reference time are written together.
        """
        if self._case is not None:
            self._latest = self._next_repeat(self._case)
            self._times.append(self._latest)
        return self._latest

    def records(self) -> tuple[Measurement, ...]:
        """Return and clear the records that are not yet archived; the caller archives them."""
        pending = tuple(self._pending)
        self._pending.clear()
        return pending

    def was_slow(self, measurement: Measurement) -> bool:
        """Return whether the device was slow around *measurement*, by all reference times so far."""
        return measurement.yardstick is not None and self.is_slow(measurement.yardstick)

    def wait(self) -> None:
        """Wait until the device is no longer slow or the protocol's patience is exhausted."""
        for _ in range(LONGEST_WAIT):
            if self._latest is None or not self.is_slow(self._latest) or self._patience < PAUSE:
                return
            sleep(PAUSE)
            self._patience -= PAUSE
            self.look()

    def watched(self, run: Callable[[], Result]) -> tuple[Result, float | None]:
        """Return the result of *run* and the reference time around it, the longer of before and after.

        It starts when the device is no longer slow, as far as the protocol's patience allows.
        """
        self.wait()
        before = self._latest
        result = run()
        return result, max((each for each in (before, self.look()) if each is not None), default=None)

    def is_slow(self, seconds: float) -> bool:
        """Return whether a reference time of *seconds* means a slow device, by all reference times so far."""
        return bool(self._times) and seconds > usual(self._times) * (1 + self._protocol.slow)

    # {{{ the size of the reference kernel

    def _chosen(self) -> BenchmarkCase | None:
        """Return the reference kernel at the size to use, None if the backend cannot time it."""
        every = cases(self._backend.limits)
        settled = self._settled_sizes()
        try:
            return next((case for case in every if dict(case.sizes) == settled), None) or self._climbed(every)
        except MeasurementError:
            return None

    def _settled_sizes(self) -> dict[str, int] | None:
        """Return the sizes that an earlier run of the campaign selected, if any."""
        measurements = self._archive.measurements
        if all(each.yardstick is None for each in measurements):
            return None
        return next((each.sizes for each in reversed(measurements) if each.kind == "yardstick"), None)

    def _climbed(self, every: Sequence[BenchmarkCase]) -> BenchmarkCase:
        """Return the reference kernel at the first size that takes long enough; the smallest takes about one launch."""
        launch = self._next_repeat(every[0])
        for case in every[1:]:
            if self._next_repeat(case) >= max(MIN_SECONDS, MIN_LAUNCH_RATIO * launch):
                return case
        return every[-1]

    def _next_repeat(self, case: BenchmarkCase) -> float:
        timing = self._backend.time(case, self._protocol.yardstick_runs)
        self._pending.append(case.measurement(self._archive.run.id, "yardstick", timing))
        return min(timing.wall)

    # }}}


# }}}


# {{{ timing a case as often as the protocol requires, which may depend on its times so far


NO_TIMES = MeasuredTimes((), ())
"""times of zero runs"""


def measured(
    backend: Backend,
    case: BenchmarkCase,
    protocol: Protocol,
    further: Callable[[Sequence[float]], int] | None = None,
) -> MeasuredTimes:
    """Time the runs of a measurement of *case*, as many as *further*, by default the *protocol*, requires.

    Raises :class:`MeasurementError` if *case* cannot be measured.
    """
    return _sampled(backend, case, further or protocol.further_runs)


def probed(backend: Backend, case: BenchmarkCase, protocol: Protocol) -> MeasuredTimes:
    """Time the few runs that probe how long *case* takes; raises the errors of :func:`measured`."""
    return _sampled(backend, case, protocol.further_probe_runs)


def _sampled(backend: Backend, case: BenchmarkCase, further: Callable[[Sequence[float]], int]) -> MeasuredTimes:
    timing = NO_TIMES
    while runs := further(timing.wall):
        timing = timing.followed_by(backend.time(case, runs))
    return timing


# }}}
