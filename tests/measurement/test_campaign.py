"""Tests of measurement campaigns on a synthetic backend."""

from dataclasses import replace
from itertools import count, pairwise

import pytest

from loopyperf.errors import IncompatibleRunsError, MeasurementError
from loopyperf.measurement import campaign
from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.campaign import (
    Progress,
    TimeLimit,
    in_random_order,
    one_of_each_class_first,
    plan,
    run_campaign,
)
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.protocol import Protocol

from .synthetic import LAUNCH, LIMITS, TICK, SyntheticBackend, configuration, environment, kernel_file, linear_time, run

# The synthetic kernel takes half a launch and n ticks. A launch takes 10 ticks: n = 5 is the first size to reach that.
SIZES = tuple(range(1, 40))
EMPTY = kernel_file("empty kernel", configuration("group 16", (4, 8, 16), steps=2))
SCALE = kernel_file("scale", configuration("group 16", SIZES), configuration("group 32", SIZES, stride=2))
FILES = (SCALE, EMPTY)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples.jsonl"


def measure(path, backend=None, files=FILES, protocol=None, **options):
    backend = backend or SyntheticBackend()
    with Archive(path, run(protocol, backend.limits)) as archive:
        return run_campaign(backend, files, archive, **options)


def sizes_of(measurements, kernel_class, label="group 16"):
    return [m.sizes["n"] for m in measurements if (m.kernel_class, m.label) == (kernel_class, label)]


def test_empty_kernel_is_measured_first_at_its_smallest_size(path):
    backend = SyntheticBackend()
    measure(path, backend)
    assert backend.calls[0] == ("empty kernel", "group 16", 4, 12)


def test_first_size_takes_at_least_the_launch_overhead(path):
    measurements = measure(path)
    assert sizes_of(measurements, "scale") == [5, 6, 7, 8]
    assert sizes_of(measurements, "scale", "group 32") == [5, 7, 9, 11]


def test_the_overhead_factor_moves_the_first_size(path):
    # three launches are 30 ticks = 5 ticks + 25 ticks
    assert sizes_of(measure(path, protocol=Protocol(overhead_factor=3, seed=None)), "scale") == [25, 26, 27, 28]


def test_default_overhead_factor_is_two(path):
    # two launches are 20 ticks = 5 ticks + 15 ticks
    assert sizes_of(measure(path, protocol=Protocol(seed=None)), "scale") == [15, 16, 17, 18]


def test_the_empty_kernel_is_never_skipped_for_being_short(path):
    measurements = measure(path, protocol=Protocol(overhead_factor=3, seed=None))
    assert sizes_of(measurements, "empty kernel") == [4, 8]


def test_no_size_runs_longer_than_the_protocol_allows(path):
    backend = SyntheticBackend()
    measurements = measure(path, backend, protocol=Protocol(overhead_factor=1.0, longest_run=11 * TICK, seed=None))
    assert sizes_of(measurements, "scale") == [5, 6]
    probed = [n for kernel_class, label, n, _ in backend.calls if (kernel_class, label) == ("scale", "group 16")]
    assert max(probed) == 7  # the first size that runs too long


def test_no_size_needs_more_memory_than_the_device_has(path):
    backend = SyntheticBackend(limits=replace(LIMITS, global_memory=8 * 6))  # n = 6: two arrays of six floats
    assert sizes_of(measure(path, backend), "scale") == [5, 6]
    assert max(n for *_, n, _ in backend.calls) == 6


def test_sizes_of_further_schedules_are_chosen_by_the_same_rules(path):
    longer = tuple({"n": 1, "m": n} for n in SIZES), tuple({"n": n, "m": 0} for n in SIZES)
    several = configuration("group 16", SIZES, further=longer)
    chosen = [m.sizes for m in measure(path, files=(EMPTY, kernel_file("scale", several))) if m.kernel_class == "scale"]
    # At n = 1, no m takes as long as the launch, so the largest one is measured.
    assert chosen == [*({"n": n} for n in (5, 6, 7, 8)), {"n": 1, "m": 39}, *({"n": n, "m": 0} for n in (5, 6, 7, 8))]


def test_a_kernel_is_built_once_for_all_its_size_schedules(path):
    built = []

    def build():
        built.append(1)
        return configuration().build()

    several = configuration("group 16", SIZES, build=build, further=(tuple({"n": n, "m": 0} for n in SIZES),))
    measure(path, files=(EMPTY, kernel_file("scale", several)))
    assert len(built) == 1


def test_probes_and_all_raw_samples_are_archived(path):
    measurements = measure(path)
    recorded = read_archive(path).measurements
    assert all(measurement in recorded for measurement in measurements)
    assert {len(m.samples) for m in recorded if m.kind == "probe"} == {3}
    # The minimum occurs four times in the first eight runs that count.
    assert {len(m.samples) for m in recorded if m.kind == "measurement"} == {12}
    probed = [m.sizes["n"] for m in recorded if m.kind == "probe" and m.key[:2] == ("scale", "group 16")]
    assert probed == [1, 2, 3, 4, 5, 6, 7, 8]


def test_measured_time_is_the_kernel_time(path):
    largest = measure(path)[-1]
    assert Protocol().measured_time(largest.samples) == LAUNCH / 2 + 11 * TICK


def test_a_finished_campaign_measures_nothing_when_resumed(path):
    first = measure(path)
    backend = SyntheticBackend()
    assert first == measure(path, backend)
    assert backend.calls == []


@pytest.mark.parametrize("killed_after", [1, 2, 11])
def test_a_resumed_campaign_measures_only_what_is_missing(path, tmp_path, killed_after):
    class KilledError(Exception):
        pass

    class KilledBackend(SyntheticBackend):
        def time(self, case, runs):
            if len(self.calls) == killed_after and case.kernel_class != REFERENCE:
                raise KilledError
            return super().time(case, runs)

    first, second, whole = KilledBackend(), SyntheticBackend(), SyntheticBackend()
    with pytest.raises(KilledError):
        measure(path, first)
    resumed = measure(path, second)
    undisturbed = measure(tmp_path / "whole.jsonl", whole)
    assert whole.calls[:killed_after] == first.calls
    # If the first run of a probe was the last call, the whole probe is repeated.
    probe_begun = first.calls[-1][-1] == 1
    assert whole.calls[killed_after - probe_begun :] == second.calls
    assert [m.key for m in undisturbed] == [m.key for m in resumed]


def order_of(backend):
    """Return the configurations in the order in which they were first timed."""
    return list(dict.fromkeys(call[:2] for call in backend.calls))


MANY = kernel_file("scale", *(configuration(f"group {number}", SIZES) for number in range(20)))


def test_seed_determines_only_the_order_of_configurations(tmp_path):
    orders, measured = [], []
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        backend = SyntheticBackend()
        measured.append(measure(tmp_path / name, backend, (EMPTY, MANY), Protocol(overhead_factor=1.0, seed=seed)))
        orders.append(order_of(backend))
    as_planned = [("empty kernel", "group 16"), *(("scale", f"group {number}") for number in range(20))]
    assert orders[0] == orders[1] != as_planned
    assert orders[2] not in (orders[0], as_planned)
    assert sorted(orders[0]) == sorted(as_planned)
    assert [m.key for m in measured[0]] == [m.key for m in measured[2]]


def test_sizes_of_a_configuration_are_measured_consecutively(path):
    backend = SyntheticBackend()
    measure(path, backend, (EMPTY, MANY), Protocol(overhead_factor=1.0, seed=0))
    # The first call, of the empty kernel, determines the launch overhead.
    timed = [call[:2] for call in backend.calls[1:]]
    assert sum(one != other for one, other in pairwise(timed)) <= len(set(timed))


def test_an_archive_may_be_resumed_in_another_order(path):
    first = measure(path)
    backend = SyntheticBackend()
    assert first == measure(path, backend, protocol=Protocol(overhead_factor=1.0, seed=3, fewest=20, budget=1.0))
    assert backend.calls == []


def test_progress_counts_configurations(path):
    shown = []
    measure(path, progress=shown.append)
    assert shown == [
        Progress(0, 3, "empty kernel", "group 16"),
        Progress(1, 3, "scale", "group 16"),
        Progress(2, 3, "scale", "group 32"),
        Progress(3, 3, "scale", "group 32"),
    ]


def test_one_configuration_of_each_class_comes_first():
    planned = plan(FILES, LIMITS)
    for seed in range(20):
        order = one_of_each_class_first(in_random_order(planned, seed))
        assert sorted(map(id, order)) == sorted(map(id, planned))
        assert {order[0][0], order[1][0]} == {"empty kernel", "scale"}


def test_after_the_limit_no_configuration_is_started_and_another_campaign_measures_the_rest(path, monkeypatch):
    clock = count()  # one second at each look
    monkeypatch.setattr(campaign, "monotonic", lambda: next(clock))
    limit = TimeLimit(1)
    part = measure(path, limit=limit)
    assert [(name, left.label) for name, left in limit.left_out] == [("scale", "group 16"), ("scale", "group 32")]
    assert {each.kernel_class for each in part} == {"empty kernel"}
    backend = SyntheticBackend()
    assert len(measure(path, backend)) > len(part)
    assert {name for name, *_ in backend.calls} == {"scale"}


def fails_on_group_16(case):
    if case.kernel_class == "scale" and case.configuration.label == "group 16":
        raise MeasurementError(f"{case}: wrong")
    return linear_time(case)


def test_a_kernel_that_fails_ends_the_campaign(path):
    with pytest.raises(MeasurementError, match='scale, "group 16", n=1: wrong'):
        measure(path, SyntheticBackend(fails_on_group_16))


def test_handled_failure_ends_only_its_configuration(path):
    failures = []
    measurements = measure(
        path, SyntheticBackend(fails_on_group_16), on_failure=lambda *failure: failures.append(failure)
    )
    assert [(kernel_class, failed.label) for kernel_class, failed, _ in failures] == [("scale", "group 16")]
    assert sizes_of(measurements, "scale", "group 32") == [5, 7, 9, 11]


def test_the_launch_overhead_may_come_from_the_archive(path):
    measure(path, files=(EMPTY,))
    assert sizes_of(measure(path, files=(SCALE,)), "scale") == [5, 6, 7, 8]


def test_a_campaign_without_an_empty_kernel_is_refused(path):
    with pytest.raises(MeasurementError, match='have no "empty kernel"'):
        measure(path, files=(SCALE,))


def test_an_archive_opened_for_another_device_is_refused(path):
    with pytest.raises(IncompatibleRunsError, match="they differ in driver"):
        measure(path, SyntheticBackend(environment=environment(driver="2.0")))
