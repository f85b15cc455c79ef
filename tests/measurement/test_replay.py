"""Tests of the replay backend."""

import lzma

import pytest

from loopyperf.errors import ArchiveError, MeasurementError
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.campaign import run_campaign

from .synthetic import LIMITS, SyntheticBackend, configuration, environment, kernel_file, run

FILES = (
    kernel_file("empty kernel", configuration("group 16", (4, 8))),
    kernel_file("scale", configuration("group 16", tuple(range(1, 40)))),
)


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "recorded.jsonl"
    with Archive(path, run()) as archive:
        return path, run_campaign(SyntheticBackend(), FILES, archive)


def test_a_replayed_campaign_is_the_recorded_one(tmp_path, recorded):
    path, measurements = recorded
    packed = tmp_path / "recorded.jsonl.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    backend = open_backend("replay", archive=packed)
    with Archive(tmp_path / "replayed.jsonl", run()) as archive:
        replayed = run_campaign(backend, FILES, archive)
    assert [(m.key, m.samples) for m in measurements] == [(m.key, m.samples) for m in replayed]


def test_environment_and_limits_are_the_recorded_ones(recorded):
    backend = open_backend("replay", archive=recorded[0])
    assert (environment(), LIMITS) == (backend.environment, backend.limits)


@pytest.mark.parametrize(
    ("kernel_class", "label", "n", "runs", "held"),
    [
        ("transpose", "group 16", 5, 30, "none"),
        ("scale", "group 64", 5, 30, "none"),
        ("scale", "group 16", 39, 30, "none"),
        ("scale", "group 16", 1, 30, "3"),
        ("scale", "group 16", 6, 13, "3 and 12"),
    ],
)
def test_unrecorded_cases_raise(recorded, kernel_class, label, n, runs, held):
    backend = open_backend("replay", archive=recorded[0])
    with pytest.raises(MeasurementError, match=rf'{kernel_class}, "{label}", n={n} .* has {held};'):
        backend.time(BenchmarkCase(kernel_class, configuration(label), {"n": n}), runs)


def test_an_empty_archive_cannot_be_replayed(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ArchiveError, match="no run to replay"):
        open_backend("replay", archive=tmp_path / "empty.jsonl")
