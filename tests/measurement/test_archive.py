"""Tests of writing, reading and resuming measurement archives."""

import gzip
import lzma
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import ArchiveError, IncompatibleRunsError
from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Key, Measurement, Run, Sampled, decode, encode
from loopyperf.models.sampling import SampledProgram, Samples, Work

from .synthetic import run

FIRST = run()


def measurement(n: int = 16, run: Run = FIRST, **changes) -> Measurement:
    fields = {
        "run": run.id,
        "kernel_class": "transpose",
        "label": "tile, group 16x16",
        "sizes": {"n": n},
        "kind": "measurement",
        "samples": tuple(1e-3 / (i + 3) for i in range(5)),
        "taken": datetime.now(UTC),
    }
    return Measurement(**fields | changes)


def sampled(n: int = 16, run: Run = FIRST, **changes) -> Sampled:
    """Samples for the kernel of a measurement: one program with different groups, and one without known work."""
    programs = (
        SampledProgram("first", Samples((2, 3), (1e-6 / 3, 2e-6 / 3), 1, n), Work((2.0, 5.0), 1.5e17), 1 / 7),
        SampledProgram("second", Samples((n,), (1e-5,), 4, n)),
    )
    fields = {
        "run": run.id,
        "kernel_class": "transpose",
        "label": "tile, group 16x16",
        "sizes": {"n": n},
        "programs": programs,
        "launching": 1e-5 / 3,
        "taken": datetime.now(UTC),
    }
    return Sampled(**fields | changes)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "fits" / "samples.jsonl"


@pytest.fixture
def recorded(path) -> tuple[Measurement, ...]:
    """The measurements in the archive at *path*."""
    measurements = tuple(measurement(n) for n in (16, 32, 64))
    with Archive(path, FIRST) as archive:
        for record in measurements:
            archive.append(record)
    return measurements


# {{{ round trips


@given(
    samples=st.lists(st.floats(0, 1e3), min_size=1, max_size=40),
    sizes=st.dictionaries(st.text(min_size=1), st.integers(-(2**63), 2**63 - 1)),
    label=st.text(),
)
def test_record_round_trips(samples, sizes, label):
    record = measurement(samples=tuple(samples), sizes=sizes, label=label)
    line = encode(record)
    assert line.count(b"\n") == 1
    assert record == decode(line)


def test_archive_contains_the_appended_records(path, recorded):
    recording = read_archive(path)
    assert recording.runs == (FIRST,)
    assert recorded == recording.measurements


def test_samples_round_trip_beside_their_measurements(path, recorded):
    again = sampled(32, launching=0.0)
    with Archive(path, run()) as archive:
        for each in (sampled(16), sampled(32), again):
            archive.append_samples(each)
        assert archive.samples == {recorded[0].key: sampled(16, taken=archive.samples[recorded[0].key].taken)} | {
            recorded[1].key: again
        }
    recording = read_archive(path)
    assert recording.measurements == recorded
    assert len(recording.sampled) == 3
    assert recording.samples[recorded[1].key] == again
    assert recording.samples[recorded[0].key].programs == sampled(16).programs
    assert not again.is_whole
    assert sampled(programs=again.programs[1:]).is_whole
    with Archive(path, run()) as archive:
        assert archive.samples == recording.samples


def test_a_measurement_is_on_disk_when_append_returns(path):
    with Archive(path, FIRST) as archive:
        archive.append(measurement())
        assert len(read_archive(path).measurements) == 1


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_compressed_archive_reads_the_same(path, recorded, compress):
    compressed = path.with_suffix(".packed")
    compressed.write_bytes(compress(path.read_bytes()))
    assert read_archive(path) == read_archive(compressed)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_truncated_compressed_archive_is_rejected(path, recorded, compress):
    packed = compress(path.read_bytes())
    path.write_bytes(packed[:-9])
    with pytest.raises(ArchiveError, match="cannot read"):
        read_archive(path)


def test_a_compressed_archive_is_not_appended_to(path, recorded):
    packed = gzip.compress(path.read_bytes())
    path.write_bytes(packed)
    with pytest.raises(ArchiveError, match="compressed"):
        Archive(path, run())
    assert packed == path.read_bytes()


@pytest.mark.parametrize("samples", [(float("nan"),), (float("inf"),), (-1.0,), ()])
def test_invalid_samples_are_not_written(path, samples):
    with Archive(path, FIRST) as archive:
        with pytest.raises(ArchiveError):
            archive.append(measurement(samples=samples))
        archive.append(measurement())
    assert len(read_archive(path).measurements) == 1


def test_keys_do_not_depend_on_the_order_of_sizes():
    assert Key.of("k", "l", {"n": 1, "m": 2}, "probe") == Key.of("k", "l", {"m": 2, "n": 1}, "probe")


def test_a_missing_archive_cannot_be_read(tmp_path):
    with pytest.raises(ArchiveError, match=r"cannot read .*nowhere\.jsonl"):
        read_archive(tmp_path / "nowhere.jsonl")


# }}}


# {{{ killed processes


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch):
    """Skip fsync, with which a thousand openings take seconds; these tests are not about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.usefixtures("no_waiting_for_the_disk")
def test_measurement_of_a_truncated_last_line_is_repeated(path, recorded):
    complete = path.read_bytes()
    last_line = complete.splitlines(keepends=True)[-1]
    second = run()
    for cut in range(1, len(last_line) + 1):
        path.write_bytes(complete[:-cut])
        assert recorded[:-1] == read_archive(path).measurements
        with Archive(path, second) as archive:
            assert {record.key for record in recorded[:-1]} == set(archive.completed)
            archive.append(measurement(64, run=second))
        assert complete[: -len(last_line)] == path.read_bytes()[: len(complete) - len(last_line)]
        assert [record.sizes["n"] for record in read_archive(path).measurements] == [16, 32, 64]


@pytest.mark.usefixtures("no_waiting_for_the_disk")
def test_archive_with_a_truncated_run_can_be_appended_to(path):
    line = encode(FIRST)
    path.parent.mkdir()
    for length in range(len(line)):
        path.write_bytes(line[:length])
        assert read_archive(path).runs == ()
        Archive(path, FIRST).close()
        assert line == path.read_bytes()


def test_a_killed_process_loses_at_most_the_record_it_was_writing(path):
    script = (
        "import sys; from pathlib import Path; from datetime import UTC, datetime\n"
        "from loopyperf.measurement.archive import Archive\n"
        "from loopyperf.measurement.records import Measurement, decode\n"
        "run = decode(sys.argv[2].encode()); archive = Archive(Path(sys.argv[1]), run)\n"
        "for n in range(10**9):\n"
        "    archive.append(Measurement(run=run.id, kernel_class='k', label='l', sizes={'n': n}, kind='probe',\n"
        "                               samples=(1.0,) * 30, taken=datetime.now(UTC)))\n"
        "    print(n, flush=True)\n"
    )
    arguments = [sys.executable, "-c", script, str(path), encode(FIRST).decode()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        announced = [int(next(writer.stdout)) for _ in range(20)]
        with pytest.raises(ArchiveError, match="in use"):
            Archive(path, run())
        writer.send_signal(signal.SIGKILL)
        announced += [int(line) for line in writer.stdout if line.endswith("\n")]
    with Archive(path, run()) as archive:  # the lock ended with the process
        sizes = sorted(record.sizes["n"] for record in archive.completed.values())
    assert list(range(len(sizes))) == sizes
    assert len(announced) <= len(sizes) <= len(announced) + 1


def test_no_record_follows_a_failed_write(path, monkeypatch):
    def disk_is_full(file):
        raise OSError("no space left")

    archive = Archive(path, FIRST)
    archive.append(measurement(16))
    monkeypatch.setattr(os, "fsync", disk_is_full)
    with pytest.raises(ArchiveError, match="no space left"):
        archive.append(measurement(32))
    monkeypatch.undo()
    with pytest.raises(ArchiveError, match="cannot write"):
        archive.append(measurement(64))
    assert read_archive(path).measurements[0].sizes == {"n": 16}
    Archive(path, run()).close()


# }}}


# {{{ errors


def test_error_names_the_corrupt_line(path, recorded):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"32", b"3,2")
    path.write_bytes(b"".join(lines))
    with pytest.raises(ArchiveError, match="line 3"):
        read_archive(path)
    with pytest.raises(ArchiveError, match="line 3"):
        Archive(path, run())


def test_corrupt_last_line_with_a_line_feed_is_rejected(path, recorded):
    path.write_bytes(path.read_bytes()[:-10] + b"\n")
    with pytest.raises(ArchiveError, match="line 4"):
        read_archive(path)


def test_measurement_of_an_unrecorded_run_is_rejected(path, recorded):
    with path.open("ab") as file:
        file.write(encode(measurement(run=run())))
    with pytest.raises(ArchiveError, match="line 5"):
        read_archive(path)


def test_samples_without_a_measurement_are_rejected(path, recorded):
    for unknown in (sampled(128), sampled(label="another"), sampled(run=run())):
        before = path.read_bytes()
        path.write_bytes(before + encode(unknown))
        with pytest.raises(ArchiveError, match=r"line 5: (no measurement precedes|run .* has no earlier record)"):
            read_archive(path)
        path.write_bytes(before)


def test_inconsistent_samples_are_rejected(path, recorded):
    line = encode(sampled())
    assert b'"groups":[2,3]' in line
    path.write_bytes(path.read_bytes() + line.replace(b'"groups":[2,3]', b'"groups":[3,2]'))
    with pytest.raises(ArchiveError, match=r"line 5: .*numbers of groups must increase"):
        read_archive(path)


def test_file_of_another_kind_is_not_truncated(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("do not lose this")
    with pytest.raises(ArchiveError, match="not a measurement archive"):
        Archive(other, FIRST)
    assert other.read_text() == "do not lose this"


def test_archive_with_an_invalid_protocol_is_rejected(path, recorded):
    content = path.read_bytes()
    for valid, invalid, message in (
        (b'"dropped":4', b'"dropped":40', "dropped=40"),
        (b'"caches":"warm"', b'"caches":"cold"', "Invalid enum value 'cold'"),  # written by an earlier version
    ):
        path.write_bytes(content.replace(valid, invalid))
        with pytest.raises(ArchiveError, match=rf"line 1: .*{message}"):
            read_archive(path)


def test_a_refused_archive_is_not_kept_locked(path, recorded):
    with pytest.raises(IncompatibleRunsError):
        Archive(path, run(driver="2.0"))
    Archive(path, run()).close()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (run(driver="535.1"), r"driver is '535\.1' instead of '1\.0'"),
        (run(device="another"), "device is 'another' instead of 'Synthetic Device 9000'"),
        (run(threads=2), "threads is 2 instead of None"),
        (run(Protocol(overhead_factor=1.0, runs=10)), r"protocol\.runs is 10 instead of 30"),
        (
            run(Protocol(overhead_factor=1.0, dropped=2), backend="b"),
            r"backend is 'b' .* protocol\.dropped is 2 instead of 4",
        ),
    ],
)
def test_incompatible_runs_are_not_mixed(path, recorded, other, message):
    before = path.read_bytes()
    with pytest.raises(IncompatibleRunsError, match=f"{message}.*another archive path"):
        Archive(path, other)
    assert before == path.read_bytes()
    with path.open("ab") as file:
        file.write(encode(other))
    with pytest.raises(IncompatibleRunsError, match=message):
        read_archive(path)


# }}}
