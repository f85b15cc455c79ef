"""The hour with a GPU, without one: what is measured first, what is written, and how a run goes on where one ended."""

import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gpu_hour
import pytest
from measurement.synthetic import SyntheticBackend, configuration, kernel_file, linear_time

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.interface import Case, Timing
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.protocol import Protocol
from loopyperf.oracle.validate import with_empty_kernel

ROOT = Path(__file__).parents[2]
PROTOCOL = Protocol(runs=3, dropped=1, fewest=2, probe_runs=2, overhead_factor=1, yardstick_runs=0)


class Failing(SyntheticBackend):
    """A device that runs kernels labelled "broken" wrongly, and is lost at those labelled "lost"."""

    def time(self, case: Case, runs: int) -> Timing:
        if case.configuration.label == "broken":
            raise MeasurementError(f"{case}: wrong results")
        if case.configuration.label == "lost":
            raise BackendError("the device does not answer any more")
        return super().time(case, runs)


class Hour:
    """Runs of the script with two small steps, on a device made of arithmetic, by a clock that tests set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.labels = {"first": ["a", "b"], "second": ["c"]}
        self.opened: list[str] = []
        self.machine = Failing(linear_time)
        monkeypatch.setattr(gpu_hour, "steps", self._steps)
        monkeypatch.setattr(gpu_hour, "opened", self._opened)

    def _steps(self, backend: str) -> Iterator[gpu_hour.Step]:
        for name, labels in self.labels.items():
            files = with_empty_kernel((kernel_file(name, *map(configuration, labels)),))
            yield gpu_hour.Step(name, files, PROTOCOL)

    def _opened(self, backend: str, device: str | None, step: gpu_hour.Step) -> Failing:
        self.opened.append(step.name)
        return self.machine

    def run(self, *options: str) -> list[str]:
        """Run it, and return the lines that it prints."""
        self.machine = Failing(linear_time)
        gpu_hour.main([str(self.folder), "--backend", "synthetic", *options])
        return self._capsys.readouterr().out.splitlines()

    def measured(self, name: str) -> list[str]:
        standing = read_archive(self.folder / f"{name}.jsonl").standing
        return sorted(f"{each.label} {each.sizes['n']}" for each in standing if each.kernel_class != EMPTY_KERNEL)

    def counted(self) -> list[str]:
        """Return how lines begin that say how much there is, the empty kernel's measurements among it."""
        numbers = {name: len(read_archive(self.folder / f"{name}.jsonl").standing) for name in self.labels}
        return [f"{name}: {number}" for name, number in numbers.items()]


@pytest.fixture
def hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hour:
    return Hour(tmp_path / "hour", monkeypatch, capsys)


def each_size(*labels: str) -> list[str]:
    return sorted(f"{label} {n}" for label in labels for n in (16, 32, 64, 128))


# {{{ what is measured


def test_the_most_valuable_comes_first():
    names = [step.name for step in gpu_hour.steps("opencl")]
    assert names == ["calibration", "test-kernels", "microbenchmarks", "ranking"]


def test_on_cuda_the_occupancy_is_swept_after_everything_else():
    steps = list(gpu_hour.steps("cuda"))
    assert [step.name for step in steps[4:]] == [f"occupancy-{each}" for each in gpu_hour.OCCUPANCY]
    assert [step.local_memory for step in steps] == [0] * 4 + list(gpu_hour.OCCUPANCY)


def test_every_step_has_the_empty_kernel_and_others():
    for step in gpu_hour.steps("cuda"):
        names = [file.name for file in step.files]
        if step.name != "microbenchmarks":  # which brings its own
            assert names.count(EMPTY_KERNEL) == 1
        assert len(names) == len(set(names)) > 1


def test_local_memory_that_nobody_uses_is_asked_of_the_backend(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(gpu_hour, "open_backend", lambda name, **options: asked.append((name, options)))
    gpu_hour.opened("cuda", None, gpu_hour.Step("occupancy-4096", (), PROTOCOL, 4096))
    gpu_hour.opened("opencl", "H100", gpu_hour.Step("calibration", (), PROTOCOL))
    assert asked == [("cuda", {"dynamic_local_memory": 4096}), ("opencl", {"device": "H100"})]


# }}}


# {{{ what a run writes


def test_each_step_is_an_archive_of_its_own(hour: Hour):
    lines = hour.run()
    assert sorted(path.name for path in hour.folder.iterdir()) == ["first.jsonl", "second.jsonl"]
    assert (hour.measured("first"), hour.measured("second")) == (each_size("a", "b"), each_size("c"))
    assert [line.split(" measurements, ")[0] for line in lines] == hour.counted()


def test_steps_can_be_named(hour: Hour):
    hour.run("--only", "second")
    assert hour.opened == ["second"]
    assert [path.name for path in hour.folder.iterdir()] == ["second.jsonl"]


def test_a_kernel_that_fails_is_named_and_left_out(hour: Hour):
    hour.labels["first"].insert(1, "broken")
    lines = hour.run()
    assert hour.measured("first") == each_size("a", "b")
    failed = [line for line in lines if line.startswith("  failed: first, broken: ")]
    assert len(failed) == 1
    assert "wrong results" in failed[0]
    assert lines[-1].startswith("second: ")
    assert hour.measured("second") == each_size("c")


def test_a_device_that_is_lost_ends_a_step_and_not_the_hour(hour: Hour):
    hour.labels["first"].append("lost")
    lines = hour.run()
    assert lines[0] == "first: the device does not answer any more"
    assert hour.measured("second") == each_size("c")


# }}}


# {{{ the next run


def test_a_finished_hour_has_nothing_left_to_measure(hour: Hour):
    hour.run()
    assert hour.machine.calls
    assert [line.split(" measurements, ")[0] for line in hour.run()] == hour.counted()
    assert hour.machine.calls == []


@pytest.mark.parametrize("moments", [3, 4, 5])
def test_a_run_goes_on_where_the_time_was_up(hour: Hour, tmp_path: Path, monkeypatch, moments: int):
    hour.run()
    whole, archives = hour.machine.calls, {name: hour.measured(name) for name in hour.labels}
    hour.folder = tmp_path / "in parts"
    # Whoever looks at the clock moves it by a second, so that a short time is a small number of looks.
    clock = iter(range(10**6))
    monkeypatch.setattr(gpu_hour.time, "monotonic", lambda: float(next(clock)))
    lines = hour.run("--seconds", str(moments))
    first = hour.machine.calls
    assert lines == ["first: the time is up; the archive goes on in the next run"]
    assert not (hour.folder / "second.jsonl").exists()
    hour.run("--seconds", "100000")
    assert {name: hour.measured(name) for name in hour.labels} == archives
    assert 0 < len(first) < len(whole)
    assert len(first) + len(hour.machine.calls) == len(whole)


# }}}


def test_the_shell_script_leaves_compressed_archives_and_what_the_machine_is(tmp_path: Path):
    # No time at all: of the calibration, on PoCL, there is what was measured before the first look at the clock.
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "POCL_MAX_PTHREAD_COUNT": "1"}
    folder = tmp_path / "hour"
    for _ in range(2):
        subprocess.run(
            ["sh", "benchmarks/gpu_hour.sh", str(folder), "0", "opencl"], cwd=ROOT, env=environment, check=True
        )
    names = {path.name for path in folder.iterdir()}
    assert names == {"calibration.jsonl", "calibration.jsonl.xz", "doctor.txt", "log.txt", "nvidia-smi.txt"}
    assert (
        lzma.decompress((folder / "calibration.jsonl.xz").read_bytes()) == (folder / "calibration.jsonl").read_bytes()
    )
    assert read_archive(folder / "calibration.jsonl.xz") == read_archive(folder / "calibration.jsonl")
    assert len(read_archive(folder / "calibration.jsonl").runs) == 2
    assert "OpenCL device: " in (folder / "doctor.txt").read_text()
    assert (folder / "log.txt").read_text().count("the time is up") == 2
