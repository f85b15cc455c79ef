"""Tests that an archive is resumed after its calibration was killed, ran out of disk or lost its device.

A process that has imported everything forks the calibrations that are killed, so that each takes no longer than its
measurements. They are separate processes, measure on PoCL, and cannot clean up.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import sleep

import pytest

from loopyperf.calibration.calibrate import calibrate
from loopyperf.errors import BackendError
from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Key
from tests.small_campaign import VECTORS, WEIGHTS, seconds, write_kernel_files

from .synthetic import SyntheticBackend, run

KILLS = 20

DRIVER = '''
"""Reads an archive on each line, forks a calibration into it, and answers with its process id; after an empty line it
waits for the latest one and answers with its exit status.
"""

import os, sys
from pathlib import Path

from loopyperf.measurement.backends import opencl
from loopyperf.measurement.protocol import Protocol
from loopyperf.calibration.calibrate import calibrate

kernels = Path(sys.argv[1])
for line in sys.stdin:
    if not line.strip():
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        continue
    archive = Path(line.strip())
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    protocol = Protocol(runs=8, dropped=2, fewest=4, probe_runs=2, overhead_factor=1.0)
    try:
        calibrate(kernels=kernels, archive=archive, save=archive.with_suffix(".fit.json"), protocol=protocol)
    except BaseException as error:
        print(error, file=sys.stderr)
        os._exit(1)
    os._exit(0)
'''


class Calibrations:
    """Calibrations with a small folder of kernels, each in its own process."""

    def __init__(self, folder: Path) -> None:
        kernels = write_kernel_files(folder / "kernels", "empty kernel", "vectors")
        command = [sys.executable, "-W", "ignore", "-c", DRIVER, str(kernels)]
        self._driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, archive: Path) -> int:
        """Start a calibration that writes *archive*, and return its process id."""
        return int(self._response(str(archive)))

    def end(self) -> int:
        """Wait for the latest calibration and return its exit status."""
        return int(self._response(""))

    def close(self) -> None:
        self._driver.communicate()

    def _response(self, line: str) -> str:
        self._driver.stdin.write(line + "\n")
        self._driver.stdin.flush()
        return self._driver.stdout.readline()


@pytest.fixture(scope="module")
def calibrations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calibrations]:
    pytest.importorskip("pyopencl")
    started = Calibrations(tmp_path_factory.mktemp("calibrations"))
    yield started
    started.close()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive.jsonl"


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    return write_kernel_files(tmp_path / "kernels")


def content(archive: Path) -> bytes:
    """Return the complete lines of *archive*, which need not exist yet."""
    return b"".join(line for line in _lines(archive) if line.endswith(b"\n"))


def _lines(archive: Path) -> list[bytes]:
    return archive.read_bytes().splitlines(keepends=True) if archive.exists() else []


def attempt_counts(archive: Path) -> Counter[tuple[Key, int]]:
    """Return the number of records of each attempt at each probe and measurement."""
    return Counter((m.key, m.attempt) for m in read_archive(archive).measurements if m.kind != "yardstick")


# {{{ killed


def killed_at_random(process: int, archive: Path, random: Random) -> bytes:
    """Kill *process* once the archive has grown by a few records or the process has ended.

    Return the content of the archive just before that.
    """
    before = len(content(archive))
    growth = random.randrange(4000)  # a run has about 1,300 bytes, a measurement with its reference time 700
    while len(content(archive)) <= before + growth and Path(f"/proc/{process}/stat").read_text().split()[2] != "Z":
        sleep(0.001)
    sleep(random.uniform(0, 0.05))
    seen = content(archive)
    os.kill(process, signal.SIGKILL)
    return seen


@pytest.mark.slow
def test_calibration_killed_20_times_loses_and_repeats_no_measurement(calibrations, archive):
    random, kills = Random(0), 0
    while kills < KILLS:
        seen = killed_at_random(calibrations.start(archive), archive, random)
        finished = calibrations.end() != -signal.SIGKILL
        # The archive keeps all records from before the kill, every line is readable, and there are no duplicates.
        assert content(archive).startswith(seen)
        assert set(attempt_counts(archive).values()) <= {1}
        kills += not finished
        if finished:
            assert archive.with_suffix(".fit.json").exists()
            archive = archive.with_name(f"{kills}.jsonl")
    calibrations.start(archive)
    assert calibrations.end() == 0
    recording = read_archive(archive)
    assert {m.key[:2] for m in recording.standing} == {
        ("empty kernel", "empty"),
        *(("vectors", each) for each in VECTORS),
    }
    assert {len(m.samples) for m in recording.standing} <= {6, 7, 8}
    assert set(attempt_counts(archive).values()) == {1}
    done, measured = content(archive), attempt_counts(archive)
    calibrations.start(archive)
    assert calibrations.end() == 0
    # A finished calibration only records its start. Only measurements in a slow phase may be repeated.
    assert content(archive).startswith(done)
    assert set(attempt_counts(archive).values()) == {1}
    assert {attempt for _, attempt in attempt_counts(archive).keys() - measured.keys()} <= {2, 3}
    assert {key for key, _ in attempt_counts(archive)} == {key for key, _ in measured}


# }}}


# {{{ out of disk

ON_A_SMALL_DISK = """
import resource, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from tests.small_campaign import device

from loopyperf.measurement.protocol import Protocol
from loopyperf.calibration.calibrate import calibrate

most = int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
try:
    calibrate(device(), kernels=Path(sys.argv[2]), archive=Path(sys.argv[3]), protocol=Protocol(overhead_factor=1))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_archive_is_resumed_after_a_full_disk(archive, kernels):
    script = [sys.executable, "-W", "ignore", "-c", ON_A_SMALL_DISK, str(Path(__file__).parents[1])]
    for most in (300, 3001, 8003):  # in the middle of a run's line, of the first measurements, of later ones
        printed = subprocess.run(
            [*script, str(kernels), str(archive), str(most)], capture_output=True, text=True, check=True
        ).stdout
        assert printed.startswith(f"ArchiveError cannot write {archive}: ")
        assert printed.endswith("earlier records are safe\n")
        assert archive.stat().st_size <= most
        assert set(attempt_counts(archive).values()) <= {1}
    kept = content(archive)
    fit = calibrate(
        SyntheticBackend(seconds),
        kernels=kernels,
        archive=archive,
        protocol=Protocol(overhead_factor=1),
        model="linear",
    )
    assert content(archive).startswith(kept)
    assert set(attempt_counts(archive).values()) == {1}
    assert fit.weights == pytest.approx(WEIGHTS, rel=1e-9)  # as small_campaign's tests have it


# }}}


# {{{ lost device


class Lost(SyntheticBackend):
    """A device that stops responding after twenty calls."""

    def time(self, case, runs):
        if len(self.calls) >= 20:
            raise BackendError("does not answer any more")
        return super().time(case, runs)


def test_archive_is_resumed_after_a_lost_device(archive, kernels):
    lost, found = Lost(seconds), SyntheticBackend(seconds)
    with pytest.raises(BackendError, match="does not answer any more"):
        calibrate(lost, kernels=kernels, archive=archive)
    kept = content(archive)
    assert len(read_archive(archive).standing) > 1
    calibrate(found, kernels=kernels, archive=archive)
    assert content(archive).startswith(kept)
    assert set(attempt_counts(archive).values()) == {1}


def test_lost_device_is_not_reported_as_a_failing_kernel(archive, kernels):
    # A failing kernel does not prevent measuring the others; a lost device does.
    failures = []
    with Archive(archive, run()) as records, pytest.raises(BackendError, match="does not answer any more"):
        run_campaign(
            Lost(seconds), load_kernel_files(kernels), records, on_failure=lambda *failure: failures.append(failure)
        )
    assert failures == []
    assert read_archive(archive).standing


# }}}
