"""Tests of the drift monitor: the reference kernel detects slow phases, and measurements in them are repeated."""

from dataclasses import dataclass, field

import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement import drift_monitor as monitor
from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.backends.backend import MeasuredTimes
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import noise_floor, reference_times

from .synthetic import LAUNCH, TICK, SyntheticBackend, configuration, kernel_file, linear_time, run

EMPTY = kernel_file("empty kernel", configuration("group 16", (4,), steps=1))
SCALE = kernel_file("scale", configuration("group 16", tuple(range(15, 40))))
FILES = (EMPTY, SCALE)
SLOWER = 1.5


@pytest.fixture(autouse=True)
def pauses(monkeypatch) -> list[float]:
    """Seconds of each pause; the tests do not sleep."""
    waited: list[float] = []
    monkeypatch.setattr(monitor, "sleep", waited.append)
    return waited


@dataclass
class BusyDevice(SyntheticBackend):
    """A device that other processes slow down from measurement busy[0] until before measurement busy[1]."""

    busy: tuple[int, int] = (0, 0)
    slow_reference_runs: float = 1
    """number of slow reference runs after each of these measurements; later ones are fast"""
    reference_runs: int = field(default=0)
    _last: int = -1

    def __post_init__(self):
        self.seconds = lambda case: linear_time(case) * self.slowdown()
        self.yardstick = lambda _: 100 * LAUNCH * self.slowdown(is_reference=True)

    def taken(self) -> int:
        return sum(runs >= 8 for *_, runs in self.calls)

    def slowdown(self, is_reference=False) -> float:
        if self.taken() != self._last:
            self._last, self.reference_runs = self.taken(), 0
        self.reference_runs += is_reference
        return (
            SLOWER
            if self.busy[0] <= self.taken() < self.busy[1] and self.reference_runs <= self.slow_reference_runs
            else 1.0
        )


@dataclass
class LinearReference(SyntheticBackend):
    """A device whose reference kernel takes a launch and *each* seconds per round."""

    each: float = TICK

    def time(self, case, runs):
        if case.kernel_class != REFERENCE:
            return super().time(case, runs)
        return MeasuredTimes((LAUNCH + self.each * case.sizes["rounds"],) * runs)


def rounds(path):
    """Return the number of rounds of the last reference measurement."""
    return [m.sizes["rounds"] for m in read_archive(path).measurements if m.kind == "yardstick"][-1]


def measure(path, backend, **rules):
    with Archive(path, run(Protocol(**{"overhead_factor": 1.0, **rules}), backend.limits)) as archive:
        return run_campaign(backend, FILES, archive)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples.jsonl"


def attempts(path):
    """Return n and the attempt of each measurement, in the order of the archive."""
    return [(m.sizes["n"], m.attempt) for m in read_archive(path).measurements if m.kind == "measurement"]


def test_nothing_is_repeated_on_a_steady_device(path):
    measure(path, SyntheticBackend())
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (17, 1), (18, 1)]


def test_measurement_in_a_slow_phase_is_repeated_at_once(path):
    # The third measurement and the reference run after it are slow; then the device has recovered.
    measured = measure(path, BusyDevice(busy=(3, 4)))
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (16, 2), (17, 1), (18, 1)]
    assert [m.attempt for m in measured] == [1, 1, 2, 1, 1]


def test_fast_repeat_replaces_the_slow_one_which_stays_in_the_archive(path):
    measure(path, BusyDevice(busy=(3, 4)))
    steady = path.with_name("steady.jsonl")
    measure(steady, SyntheticBackend())
    found, expected = read_archive(path), read_archive(steady)
    assert [m.samples for m in found.standing] == [m.samples for m in expected.standing]
    discarded = [m for m in found.measurements if m.kind == "measurement" and m not in found.standing]
    assert [(m.sizes["n"], m.attempt, m.yardstick) for m in discarded] == [(16, 1, SLOWER * 100 * LAUNCH)]


def test_campaign_waits_for_a_slow_device(path, pauses):
    measure(path, BusyDevice(busy=(3, 4), slow_reference_runs=5))
    assert len(pauses) == 5
    assert attempts(path)[2:4] == [(16, 1), (16, 2)]


def test_last_repeat_comes_after_all_other_measurements(path):
    measured = measure(path, BusyDevice(busy=(3, 5)))
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (16, 2), (17, 1), (18, 1), (16, 3)]
    assert [m.attempt for m in measured] == [1, 1, 3, 1, 1]


def test_repeats_on_a_permanently_slow_device_are_limited(path, pauses):
    # Slow from the third measurement on. The earlier reference times are too few to remain the usual time.
    backend = BusyDevice(busy=(3, 10**9), slow_reference_runs=float("inf"))
    measure(path, backend, patience=1.0)
    assert max(attempt for _, attempt in attempts(path)) <= 3
    assert sum(pauses) <= 1.0
    again = BusyDevice(busy=(0, 10**9), slow_reference_runs=float("inf"))
    measure(path, again)
    assert max(attempt for _, attempt in attempts(path)) <= 3


def test_repeats_can_be_turned_off(path):
    measure(path, BusyDevice(busy=(3, 4)), repeats=0)
    assert max(attempt for _, attempt in attempts(path)) == 1


def test_each_reference_measurement_is_archived_with_its_samples(path):
    measure(path, BusyDevice(busy=(3, 4)))
    recording = read_archive(path)
    taken = [m for m in recording.measurements if m.kind == "yardstick"]
    assert {m.kernel_class for m in taken} == {REFERENCE}
    assert {len(m.samples) for m in taken} == {4}
    # two sizes to find the one that takes long enough, four runs at first, one after each of six measurements, and one
    # that detects the recovery of the device
    assert len(taken) == 2 + 4 + 6 + 1
    assert max(min(m.samples) for m in taken) == SLOWER * 100 * LAUNCH


def test_noise_floor_of_a_steady_device_is_zero(path):
    measure(path, SyntheticBackend())
    assert read_archive(path).noise_floor == 0.0


def test_noise_floor_ignores_slow_phases_that_were_repeated(path):
    # One of six measurements was slow and repeated, so all that were kept ran at the same speed.
    measure(path, BusyDevice(busy=(3, 4), slow_reference_runs=20))
    recording = read_archive(path)
    reference_runs = reference_times(recording.measurements)
    assert noise_floor(reference_runs) > 0.1
    assert recording.noise_floor == 0.0


def test_noise_floor_includes_slow_measurements_that_were_kept(path):
    measure(path, BusyDevice(busy=(3, 10**9), slow_reference_runs=float("inf")), patience=0.0)
    assert read_archive(path).noise_floor > 0.1


def test_pace_per_round_does_not_depend_on_the_reference_size(path):
    fast, slow = path.with_name("fast.jsonl"), path.with_name("slow.jsonl")
    # The reference kernel should take 200 µs, about 200 ticks: 6400 or 1600 rounds at 2 or 8 ticks per 64 rounds.
    measure(fast, LinearReference(each=2 * TICK / 64))
    measure(slow, LinearReference(each=8 * TICK / 64))
    assert {rounds(fast), rounds(slow)} == {8192, 2048}
    assert read_archive(fast).pace(LAUNCH) == pytest.approx(2 * TICK / 64)
    assert read_archive(slow).pace(LAUNCH) == pytest.approx(8 * TICK / 64)


def test_no_pace_without_a_reference_kernel(path):
    measure(path, SyntheticBackend(), yardstick_runs=0)
    assert read_archive(path).pace() is None


def test_no_noise_floor_and_no_repeats_without_a_reference_kernel(path):
    measure(path, BusyDevice(busy=(3, 4)), yardstick_runs=0)
    recording = read_archive(path)
    assert recording.noise_floor is None
    assert {m.kind for m in recording.measurements} == {"probe", "measurement"}
    assert {m.yardstick for m in recording.measurements} == {None}
    assert max(attempt for _, attempt in attempts(path)) == 1


def test_campaign_continues_if_the_reference_kernel_fails(path):
    def fails(backend):
        raise MeasurementError("no such kernel")

    assert len(measure(path, SyntheticBackend(yardstick=fails))) == 5
    assert read_archive(path).noise_floor is None


def test_resumed_campaign_keeps_the_reference_size(path):
    measure(path, SyntheticBackend())
    # With these times, a new campaign would choose another size.
    with Archive(path, run(Protocol(overhead_factor=1.0))) as archive:
        more = kernel_file("scale", configuration("group 32", tuple(range(15, 40))))
        run_campaign(SyntheticBackend(yardstick=lambda _: LAUNCH), (EMPTY, more), archive)
    sizes = [m.sizes["rounds"] for m in read_archive(path).measurements if m.kind == "yardstick"]
    assert sizes == [64, 128] + [128] * (len(sizes) - 2)
