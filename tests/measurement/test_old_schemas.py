"""Tests of archives of schema 1 (no rules for repeats, caches, order or reference kernel) and 2 (no samples)."""

import json
from pathlib import Path

import pytest

from loopyperf.errors import ArchiveError, IncompatibleRunsError
from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.microbenchmarks.measured_description import described_by
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import SCHEMA, encode

from .synthetic import SyntheticBackend, configuration, kernel_file, run

RECORDED = Path(__file__).parent / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
"""written by schema 1"""
FILES = (
    kernel_file("empty kernel", configuration("group 16", (4, 8), steps=1)),
    kernel_file("scale", configuration("group 16", tuple(range(15, 40)))),
)
OLD_RULES = ("runs", "dropped", "longest_run", "probe_runs", "overhead_factor")


def lines_of_schema_1() -> list[str]:
    """Return the lines of an archive of schema 1 that ends after two measurements."""
    document = json.loads(encode(run()))
    document["schema"] = 1
    document["protocol"] = {name: document["protocol"][name] for name in OLD_RULES}
    sizes = {"empty kernel": 4, "scale": 15}
    seconds = {"empty kernel": 1e-5, "scale": 2e-5}
    measurements = [
        {
            "record": "measurement",
            "run": document["id"],
            "kernel_class": name,
            "label": "group 16",
            "sizes": {"n": sizes[name]},
            "kind": "measurement",
            "samples": [seconds[name]] * 30,
            "taken": "2026-01-01T00:00:00Z",
        }
        for name in ("empty kernel", "scale")
    ]
    return [json.dumps(record, separators=(",", ":")) for record in [document, *measurements]]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join(lines_of_schema_1()) + "\n")
    return path


def test_an_archive_of_schema_1_is_read(path):
    recording = read_archive(path)
    assert [m.key.kernel_class for m in recording.standing] == ["empty kernel", "scale"]
    assert recording.runs[0].schema == SCHEMA
    assert recording.noise_floor is None
    assert {(m.attempt, m.device_samples, m.yardstick) for m in recording.measurements} == {(1, None, None)}


def test_upgraded_protocol_describes_the_measurements(path):
    protocol = read_archive(path).runs[0].protocol
    # Always 30 runs, warm caches, and the order of the files
    assert protocol.further_runs([1e-3] * 26) > 0
    assert (protocol.caches, protocol.seed, protocol.yardstick_runs, protocol.repeats) == ("warm", None, 0, 0)


def test_an_archive_of_schema_1_is_resumed(path):
    before = path.read_bytes()
    backend = SyntheticBackend()
    with Archive(path, run()) as archive:
        measured = run_campaign(backend, FILES, archive)
    assert path.read_bytes().startswith(before)
    assert [n for name, _, n, runs in backend.calls if runs == 12] == [16, 17, 18]
    assert [len(m.samples) for m in measured] == [30, 30, 12, 12, 12]


def test_an_archive_of_schema_1_is_not_resumed_with_cold_caches(path):
    with pytest.raises(IncompatibleRunsError, match=r"protocol\.caches is 'cold' instead of 'warm'"):
        Archive(path, run(Protocol(overhead_factor=1.0, caches="cold")))


def test_a_recorded_archive_of_schema_1_is_still_evaluated():
    assert read_archive(RECORDED).runs[0].schema == SCHEMA
    assert described_by(RECORDED).device.instructions


def test_an_archive_of_schema_2_is_read_and_resumed(path):
    document = json.loads(encode(run()))
    old, *measurements = lines_of_schema_1()
    document |= {"schema": 2, "id": json.loads(old)["id"]}
    path.write_text("\n".join([json.dumps(document, separators=(",", ":")), *measurements]) + "\n")
    before = path.read_bytes()
    with Archive(path, run()) as archive:
        assert (len(archive.completed), archive.samples) == (2, {})
    recording = read_archive(path)
    assert [each.schema for each in recording.runs] == [SCHEMA, SCHEMA]
    assert recording.sampled == ()
    assert path.read_bytes().startswith(before)


def test_unknown_schema_is_rejected(path):
    path.write_text(path.read_text().replace('"schema":1', '"schema":0'))
    with pytest.raises(ArchiveError, match=r"line 1: .*schema 0 does not exist"):
        read_archive(path)


def test_invalid_rules_of_schema_1_are_rejected(path):
    path.write_text(path.read_text().replace('"runs":30', '"runs":"many"'))
    with pytest.raises(ArchiveError, match=r"line 1: .*protocol.runs must be an integer; got 'many'"):
        read_archive(path)
