"""Tests that microbenchmarks of a simulated core recover its device parameters, also from a recorded archive."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from loopyperf.device.description import Device
from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording, ReplayBackend, read_archive
from loopyperf.measurement.microbenchmarks import measured_description
from loopyperf.measurement.microbenchmarks.instruction_benchmarks import Latencies, instructions
from loopyperf.measurement.microbenchmarks.measured_description import (
    MeasuredDescription,
    describe,
    described_by,
    microbenchmark,
)
from loopyperf.measurement.microbenchmarks.pace import SHORT, core_of

from .simulated_core import BARRIER, INSTRUCTIONS, LAUNCH, LIMITS, LOCAL, LOOP, SimulatedCore

FINITE = 1e-3
"""relative error of 1/N: a chain's two runs have the same (W − 1)λ, which equation 1 has once"""
NEVER_BUSY, ALWAYS_BUSY = "div f64", "sqrt f32"


@pytest.fixture(scope="module", autouse=True)
def unlimited() -> Iterator[None]:
    """Let quick runs take as long as they need on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_description, "QUICK_SECONDS", 1e6)
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulated") / "archive.jsonl"
    microbenchmark(SimulatedCore(), archive=path, quick=True)
    return path


@pytest.fixture(scope="module")
def described(archive: Path) -> MeasuredDescription:
    return described_by(archive)


@pytest.fixture(scope="module")
def device(described: MeasuredDescription) -> Device:
    return described.device


def latencies(device: Device, name: str) -> tuple[float, float]:
    kind_and_type = name.rsplit(" ", 1)
    return device.issue_latency(*kind_and_type), device.completion_latency(*kind_and_type)


def test_instruction_latencies_are_recovered(subtests: pytest.Subtests, device: Device) -> None:
    for name in sorted(INSTRUCTIONS.keys() - {NEVER_BUSY, ALWAYS_BUSY}):
        with subtests.test(name=name):
            lambdas = INSTRUCTIONS[name]
            assert latencies(device, name) == pytest.approx((lambdas.issue, lambdas.completion), rel=FINITE)


def test_latency_not_determined_by_any_time_is_absent(device: Device) -> None:
    (division,) = (each for each in device.instructions if each.name == NEVER_BUSY)
    # Λ/λ = 93, so 32 warps do not fill the pipeline
    assert division.issue is None
    assert division.completion == pytest.approx(700, rel=FINITE)


def test_completion_latency_bound_is_labeled_as_an_upper_bound(device: Device) -> None:
    (root,) = (each for each in device.instructions if each.name == ALWAYS_BUSY)
    assert root.completion == pytest.approx(20, rel=FINITE)
    assert "upper bound" in root.source("completion").source
    assert "upper bound" not in root.source("issue").source


def test_barrier_and_loop_latencies_are_recovered(device: Device) -> None:
    assert latencies(device, "barrier") == pytest.approx((BARRIER.issue, BARRIER.completion), rel=FINITE)
    assert latencies(device, "loop") == pytest.approx((LOOP, LOOP), rel=FINITE)


def test_local_memory_latency_and_banks_are_recovered(device: Device) -> None:
    assert latencies(device, "load local b32") == pytest.approx((LOCAL.issue, LOCAL.completion), rel=FINITE)
    local = device.level("local")
    assert (local.banks, local.bank_width) == (32, 4)


def test_memory_levels_are_recovered(device: Device) -> None:
    levels = {level.name: level for level in device.memory}
    assert [(levels[name].size, levels[name].latency) for name in ("L1", "L2")] == [(2**15, 30), (2**20, 200)]
    assert (levels["DRAM"].latency, levels["DRAM"].sustained_bandwidth) == (500, 100e9)
    assert levels["L2"].sustained_bandwidth == 400e9
    # 4 cores · 32 lanes · 4 B per cycle of 1 ns would be 512 GB/s; the bandwidth is 100 GB/s
    assert latencies(device, "load global b32") == pytest.approx((5.12, 500))


def test_possible_cache_level_is_not_reported_as_dram(archive: Path) -> None:
    # 12 MiB is 6 times the cache size reported here; a GPU could have another level in between.
    recording = read_archive(archive)
    run = structs.replace(recording.runs[-1], limits=replace(LIMITS, cache=2**21))
    levels = {level.name: level for level in describe(Recording((run,), recording.measurements)).device.memory}
    assert levels["DRAM"].latency is None
    assert levels["L3"].latency == 500


def test_failing_kernel_does_not_affect_others(tmp_path: Path) -> None:
    class WithoutDouble(SimulatedCore):
        def time(self, case, runs):
            if "f64" in case.configuration.label:
                raise MeasurementError(f"{case}: no double precision")
            return super().time(case, runs)

    described = microbenchmark(WithoutDouble(), archive=tmp_path / "single.jsonl", quick=True)
    assert not [each.name for each in described.device.instructions if "f64" in each.name]
    absent = {refusal.name for refusal in described.refusals}
    assert {"dependent chain, add f64, group 32", "dependent chain, sqrt f64, group 256"} <= absent
    assert latencies(described.device, "mul f32") == pytest.approx((0.5, 6), rel=FINITE)


def test_values_reported_by_the_driver_are_included_with_source(device: Device) -> None:
    assert (device.cores, device.warp_size, device.clock) == (4, 32, 1e9)
    assert (device.limits.work_items_per_group, device.limits.local_memory_per_group) == (1024, 48 * 1024)
    assert (device.level("cache").size, device.level("cache").line) == (2**19, 128)
    assert device.level("DRAM").size == LIMITS.memory
    assert {device.source("cores").source, device.source("clock").source} == {"reported by the driver"}


def test_host_wait_is_recovered(device: Device) -> None:
    assert device.host_wait == pytest.approx(LAUNCH)


def test_given_clock_overrides_the_reported_one(archive: Path, device: Device) -> None:
    faster = described_by(archive, clock=2e9).device
    assert faster.clock == 2e9
    assert faster.source("clock").source == "given by the user"
    assert faster.completion_latency("add", "f32") == pytest.approx(
        2 * device.completion_latency("add", "f32"), rel=1e-3
    )


def test_missing_clock_raises(archive: Path) -> None:
    recording = read_archive(archive)
    silent = structs.replace(recording.runs[-1], limits=replace(LIMITS, clock=None))
    with pytest.raises(MeasurementError, match=r"reports no clock.*--clock"):
        describe(Recording((silent,), recording.measurements))


def test_replayed_archive_gives_the_same_description(
    archive: Path, described: MeasuredDescription, tmp_path: Path
) -> None:
    again = microbenchmark(ReplayBackend(archive), archive=tmp_path / "again.jsonl", quick=True)
    assert again == described


def test_an_archive_without_runs_is_refused() -> None:
    with pytest.raises(MeasurementError, match="has no run"):
        describe(Recording((), ()))


FIRST_SEED, REPEATED = 1000, 40
"""first seed and number of campaigns on one device, each with independent noise"""


@pytest.fixture(scope="module")
def deviations(archive: Path) -> Mapping[tuple[str, str], np.ndarray]:
    """Deviations of each latency in campaigns with 0.5 % noise, in units of its estimated standard error."""
    silent = read_archive(archive)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(FIRST_SEED, FIRST_SEED + REPEATED):
        recording = with_noise(silent, np.random.default_rng(seed))
        for each in instructions(recording, core_of(recording, None)):
            if not isinstance(each, Latencies) or each.name not in INSTRUCTIONS:
                continue
            for what in ("issue", "completion"):
                number, true = getattr(each, what), float(getattr(INSTRUCTIONS[each.name], what))
                if number is not None:
                    found[each.name, what].append((number.value - true) / number.error)
    return {key: np.array(each) for key, each in found.items()}


def with_noise(recording: Recording, rng: np.random.Generator) -> Recording:
    """Return *recording* with 0.5 % noise on each measurement.

    All samples of a measurement have the same noise, because the minimum of independent ones would vary less.
    """
    off = 1 + 0.005 * rng.standard_normal(len(recording.measurements))
    measurements = tuple(
        structs.replace(each, samples=tuple(sample * factor for sample in each.samples))
        for each, factor in zip(recording.measurements, off.tolist(), strict=True)
    )
    return Recording(recording.runs, measurements)


LATENCIES = sorted(
    {(name, what) for name in INSTRUCTIONS for what in ("issue", "completion")} - {(NEVER_BUSY, "issue")}
)


def test_deviations_are_within_the_standard_errors(
    subtests: pytest.Subtests, deviations: Mapping[tuple[str, str], np.ndarray]
):
    for latency in LATENCIES:
        with subtests.test(latency=" ".join(latency)):
            off = deviations[latency]
            assert len(off) == REPEATED
            # 27 of 40 are expected within one standard error. Fewer than 18 occur by chance once in 400 times, and
            # there are 27 latencies. Student's t has long tails for few values, hence 80 % within three.
            assert np.mean(np.abs(off) < 1) >= 0.45
            assert np.mean(np.abs(off) < 3) >= 0.8
            # The median of 40 has an error of 0.2: the correction for the loop is neither too large nor missing.
            assert abs(np.median(off)) < 0.6


def test_standard_errors_do_not_exceed_the_noise(deviations: Mapping[tuple[str, str], np.ndarray]):
    # Two thirds are expected. The latencies of a campaign share the loop's error, hence half to four fifths.
    within = np.mean([np.mean(np.abs(off) < 1) for off in deviations.values()])
    assert 0.55 <= within <= 0.8


def test_short_protocol_keeps_enough_samples_for_the_scatter() -> None:
    assert SHORT.runs - SHORT.dropped >= 8
