"""Phases in which the device is slow: they are recognised by the yardstick, waited for, and measured again."""

from dataclasses import dataclass, field

import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement import drift_monitor as watch
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
    """How long was waited; nobody does."""
    waited: list[float] = []
    monkeypatch.setattr(watch, "sleep", waited.append)
    return waited


@dataclass
class Shared(SyntheticBackend):
    """A device that others use too while so many of its measurements go on: *busy* are the first and the one after."""

    busy: tuple[int, int] = (0, 0)
    looks_slow: float = 1
    """looks at the yardstick after each of them that are slow too; then the others have gone"""
    looks: int = field(default=0)
    _last: int = -1

    def __post_init__(self):
        self.seconds = lambda case: linear_time(case) * self.slowdown()
        self.yardstick = lambda _: 100 * LAUNCH * self.slowdown(looking=True)

    def taken(self) -> int:
        return sum(runs >= 8 for *_, runs in self.calls)

    def slowdown(self, looking=False) -> float:
        if self.taken() != self._last:
            self._last, self.looks = self.taken(), 0
        self.looks += looking
        return SLOWER if self.busy[0] <= self.taken() < self.busy[1] and self.looks <= self.looks_slow else 1.0


@dataclass
class Rounds(SyntheticBackend):
    """A device whose yardstick takes a launch, and *each* round its seconds."""

    each: float = TICK

    def time(self, case, runs):
        if case.kernel_class != REFERENCE:
            return super().time(case, runs)
        return MeasuredTimes((LAUNCH + self.each * case.sizes["rounds"],) * runs)


def rounds(path):
    """Return at how many rounds the yardstick was taken at last."""
    return [m.sizes["rounds"] for m in read_archive(path).measurements if m.kind == "yardstick"][-1]


def measure(path, backend, **rules):
    with Archive(path, run(Protocol(**{"overhead_factor": 1.0, **rules}), backend.limits)) as archive:
        return run_campaign(backend, FILES, archive)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples.jsonl"


def attempts(path):
    """Return of each measurement in the archive its n and which attempt it was, in the order of the archive."""
    return [(m.sizes["n"], m.attempt) for m in read_archive(path).measurements if m.kind == "measurement"]


def test_nothing_is_repeated_on_a_steady_device(path):
    measure(path, SyntheticBackend())
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (17, 1), (18, 1)]


def test_what_was_measured_in_a_slow_phase_is_measured_again_at_once(path):
    # The third measurement is slow, and what the yardstick says after it; then the device has recovered.
    measured = measure(path, Shared(busy=(3, 4)))
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (16, 2), (17, 1), (18, 1)]
    assert [m.attempt for m in measured] == [1, 1, 2, 1, 1]


def test_the_take_of_the_fast_device_stands_and_the_other_stays_in_the_archive(path):
    measure(path, Shared(busy=(3, 4)))
    steady = path.with_name("steady.jsonl")
    measure(steady, SyntheticBackend())
    found, expected = read_archive(path), read_archive(steady)
    assert [m.samples for m in found.standing] == [m.samples for m in expected.standing]
    discarded = [m for m in found.measurements if m.kind == "measurement" and m not in found.standing]
    assert [(m.sizes["n"], m.attempt, m.yardstick) for m in discarded] == [(16, 1, SLOWER * 100 * LAUNCH)]


def test_a_slow_device_is_waited_for(path, pauses):
    measure(path, Shared(busy=(3, 4), looks_slow=5))
    assert len(pauses) == 5
    assert attempts(path)[2:4] == [(16, 1), (16, 2)]


def test_the_last_repetition_comes_after_everything_else(path):
    measured = measure(path, Shared(busy=(3, 5)))
    assert attempts(path) == [(4, 1), (15, 1), (16, 1), (16, 2), (17, 1), (18, 1), (16, 3)]
    assert [m.attempt for m in measured] == [1, 1, 3, 1, 1]


def test_a_device_that_stays_slow_is_not_measured_for_ever(path, pauses):
    # Slow from the third measurement on; the yardsticks of before are too few to stay what is usual.
    backend = Shared(busy=(3, 10**9), looks_slow=float("inf"))
    measure(path, backend, patience=1.0)
    assert max(attempt for _, attempt in attempts(path)) <= 3
    assert sum(pauses) <= 1.0
    again = Shared(busy=(0, 10**9), looks_slow=float("inf"))
    measure(path, again)
    assert max(attempt for _, attempt in attempts(path)) <= 3


def test_repetition_can_be_turned_off(path):
    measure(path, Shared(busy=(3, 4)), repeats=0)
    assert max(attempt for _, attempt in attempts(path)) == 1


def test_each_look_at_the_yardstick_is_in_the_archive_with_its_samples(path):
    measure(path, Shared(busy=(3, 4)))
    recording = read_archive(path)
    taken = [m for m in recording.measurements if m.kind == "yardstick"]
    assert {m.kernel_class for m in taken} == {REFERENCE}
    assert {len(m.samples) for m in taken} == {4}
    # two sizes to find the one that takes long enough, four looks at first, one after each of six measurements, and one
    # that finds the device recovered
    assert len(taken) == 2 + 4 + 6 + 1
    assert max(min(m.samples) for m in taken) == SLOWER * 100 * LAUNCH


def test_the_noise_floor_of_a_steady_device_is_nothing(path):
    measure(path, SyntheticBackend())
    assert read_archive(path).noise_floor == 0.0


def test_slow_looks_whose_takes_were_repeated_are_no_noise(path):
    # Of six takes one was slow, and then measured again: what stands was all taken at one speed.
    measure(path, Shared(busy=(3, 4), looks_slow=20))
    recording = read_archive(path)
    looks = reference_times(recording.measurements)
    assert noise_floor(looks) > 0.1
    assert recording.noise_floor == 0.0


def test_slow_takes_that_stand_are_noise(path):
    measure(path, Shared(busy=(3, 10**9), looks_slow=float("inf")), patience=0.0)
    assert read_archive(path).noise_floor > 0.1


def test_the_pace_is_that_of_a_round_whatever_the_size_of_the_yardstick(path):
    fast, slow = path.with_name("fast.jsonl"), path.with_name("slow.jsonl")
    # The yardstick is to take 200 µs, some 200 ticks beside a launch: at 2 or 8 ticks for 64 rounds, 6400 or 1600.
    measure(fast, Rounds(each=2 * TICK / 64))
    measure(slow, Rounds(each=8 * TICK / 64))
    assert {rounds(fast), rounds(slow)} == {8192, 2048}
    assert read_archive(fast).pace(LAUNCH) == pytest.approx(2 * TICK / 64)
    assert read_archive(slow).pace(LAUNCH) == pytest.approx(8 * TICK / 64)


def test_without_a_yardstick_no_pace_is_known(path):
    measure(path, SyntheticBackend(), yardstick_runs=0)
    assert read_archive(path).pace() is None


def test_without_a_yardstick_there_is_no_noise_floor_and_nothing_is_repeated(path):
    measure(path, Shared(busy=(3, 4)), yardstick_runs=0)
    recording = read_archive(path)
    assert recording.noise_floor is None
    assert {m.kind for m in recording.measurements} == {"probe", "measurement"}
    assert {m.yardstick for m in recording.measurements} == {None}
    assert max(attempt for _, attempt in attempts(path)) == 1


def test_a_device_that_cannot_time_the_yardstick_is_measured_all_the_same(path):
    def fails(backend):
        raise MeasurementError("no such kernel")

    assert len(measure(path, SyntheticBackend(yardstick=fails))) == 5
    assert read_archive(path).noise_floor is None


def test_a_resumed_campaign_takes_the_yardstick_at_the_same_size(path):
    measure(path, SyntheticBackend())
    # By now the yardstick would be long enough at another size only.
    with Archive(path, run(Protocol(overhead_factor=1.0))) as archive:
        more = kernel_file("scale", configuration("group 32", tuple(range(15, 40))))
        run_campaign(SyntheticBackend(yardstick=lambda _: LAUNCH), (EMPTY, more), archive)
    sizes = [m.sizes["rounds"] for m in read_archive(path).measurements if m.kind == "yardstick"]
    assert sizes == [64, 128] + [128] * (len(sizes) - 2)
