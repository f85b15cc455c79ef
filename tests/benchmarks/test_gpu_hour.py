"""The hour with a GPU, without one: what is measured first, what is written, and how a run goes on where one ended."""

import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import gpu_hour
import pytest
from parts.begun import Begun

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.validate import with_empty_kernel
from tests.measurement.synthetic import SyntheticBackend, configuration, kernel_file, linear_time

ROOT = Path(__file__).parents[2]
PROTOCOL = Protocol(runs=3, dropped=1, fewest=2, probe_runs=2, overhead_factor=1, yardstick_runs=0)


class Failing(SyntheticBackend):
    """A device that does what some labels say, and writes down what it was asked: it is asked in other processes."""

    def __init__(self, calls: Path) -> None:
        super().__init__(linear_time)
        self._written = calls

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        label = case.configuration.label
        with self._written.open("a") as written:
            written.write(f"{case}, {runs}\n")
        if label == "broken":
            raise MeasurementError(f"{case}: wrong results")
        if label == "poison":
            raise BackendError(f"{case}: CUDA does nothing more in this process")
        if label == "bug":
            raise ZeroDivisionError("division by zero")
        if label == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if label == "hangs":
            time.sleep(1000)
        return super().time(case, runs)


class Hour:
    """Runs of the script with two small steps, on a device made of arithmetic."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.labels = {"first": ["a", "b"], "second": ["c"]}
        self._written = folder.with_name("calls")
        monkeypatch.setattr(gpu_hour, "steps", self._steps)
        monkeypatch.setattr(gpu_hour, "opened", lambda *_: Failing(self._written))

    def _steps(self) -> Iterator[gpu_hour.Step]:
        for name, labels in self.labels.items():
            files = with_empty_kernel((kernel_file(name, *map(configuration, labels)),))
            yield gpu_hour.Step(name, 1, files, PROTOCOL)

    def run(self, *options: str, status: int = 0) -> list[str]:
        """Run it, and return the lines that it prints, those of standard error at the end."""
        self._written.write_text("")
        assert gpu_hour.main([str(self.folder), "--backend", "synthetic", *options]) == status
        printed = self._capsys.readouterr()
        return [*printed.out.splitlines(), *printed.err.splitlines()]

    def calls(self) -> list[str]:
        """Return what the device was asked in the latest run."""
        return self._written.read_text().splitlines()

    def measured(self, name: str) -> list[str]:
        standing = read_archive(self.folder / f"{name}.jsonl").standing
        return sorted(f"{each.label} {each.sizes['n']}" for each in standing if each.kernel_class != EMPTY_KERNEL)

    def counted(self) -> list[str]:
        """Return what is printed of finished steps; the empty kernel's measurements are among theirs."""
        numbers = [len(read_archive(self.folder / f"{name}.jsonl").standing) for name in self.labels]
        return [f"{number} measurements, all there are" for number in numbers]


@pytest.fixture
def hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hour:
    return Hour(tmp_path / "hour", monkeypatch, capsys)


def each_size(*labels: str) -> list[str]:
    return sorted(f"{label} {n}" for label in labels for n in (16, 32, 64, 128))


# {{{ what is measured


def test_the_most_valuable_comes_first():
    occupancy = [f"occupancy-{each}" for each in gpu_hour.OCCUPANCY]
    names = [step.name for step in gpu_hour.steps()]
    assert names == ["calibration", "test-kernels", "microbenchmarks", *occupancy, "ranking"]


def test_the_occupancy_is_swept_by_local_memory():
    assert [step.local_memory for step in gpu_hour.steps()] == [0] * 3 + list(gpu_hour.OCCUPANCY) + [0]


def test_the_four_test_kernels_are_swept_beside_rodinia():
    four = {file.name for file in gpu_hour.loaded("test_kernels")}
    assert len(four) == 4
    for step in (step for step in gpu_hour.steps() if step.local_memory):
        assert four < {file.name for file in step.files}


def test_every_step_has_the_empty_kernel_and_others():
    for step in gpu_hour.steps():
        names = [file.name for file in step.files]
        if step.name != "microbenchmarks":  # which brings its own
            assert names.count(EMPTY_KERNEL) == 1
        assert len(names) == len(set(names)) > 1


def test_local_memory_that_nobody_uses_is_asked_of_the_backend(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(gpu_hour, "open_backend", lambda name, **options: asked.append((name, options)))
    gpu_hour.opened("cuda", None, 4096)
    gpu_hour.opened("opencl", "H100")
    assert asked == [("cuda", {"dynamic_local_memory": 4096}), ("opencl", {"device": "H100"})]


def test_the_occupancy_sweep_can_be_rehearsed_on_pocl():
    rodinia = next(step for step in gpu_hour.steps() if step.local_memory)
    machine = open_backend("opencl", dynamic_local_memory=rodinia.local_memory)
    file = next(file for file in rodinia.files if file.name != EMPTY_KERNEL)
    form = file.configurations(machine.limits)[0]
    assert len(machine.time(BenchmarkCase(file.name, form, form.sizes[0]), 2).wall) == 2


# }}}


# {{{ shares of the time


def test_what_a_step_leaves_over_goes_to_the_next():
    chosen = [gpu_hour.Step(str(share), share, (), PROTOCOL) for share in (40, 15, 45)]
    # Each may go on until all shares up to its own are over: 40, 55 and 100 of 100, of 200 s from the tenth on.
    assert gpu_hour.ends(chosen, 10, 200) == pytest.approx([90, 120, 210])


def test_the_measurements_that_fits_are_made_of_leave_time_for_the_others():
    shares = {step.name: step.share for step in gpu_hour.steps()}
    assert sum(shares.values()) == pytest.approx(100)
    assert 30 <= shares["calibration"] <= 50
    assert shares["ranking"] >= 10


def test_a_step_that_had_too_little_goes_on_where_time_is_left(hour: Hour, monkeypatch: pytest.MonkeyPatch):
    # The first step has the first 500 s, and is told that they are over; then there are 1000 for it.
    monkeypatch.setattr(gpu_hour, "time_is_up", lambda end: end - time.monotonic() < 750)
    lines = hour.run("--seconds", "1000")
    assert (hour.measured("first"), hour.measured("second")) == (each_size("a", "b"), each_size("c"))
    assert [line.split(" s; ")[1] for line in lines[1:]] == hour.counted()


# }}}


# {{{ what a run writes


def test_each_step_is_an_archive_of_its_own(hour: Hour):
    lines = hour.run()
    archives = ["first.jsonl", "second.jsonl"]
    packed = [f"{name}.xz" for name in archives]
    assert sorted(path.name for path in hour.folder.iterdir()) == sorted([*archives, *packed, "log.txt"])
    assert (hour.measured("first"), hour.measured("second")) == (each_size("a", "b"), each_size("c"))
    assert lines[0] == "measuring on Synthetic Device 9000 through synthetic for 540 s"
    assert [line.split(": ")[0] for line in lines[1:]] == ["first", "second"]
    assert [line.split(" s; ")[1] for line in lines[1:]] == hour.counted()
    assert (hour.folder / "log.txt").read_text().splitlines() == lines


def test_steps_can_be_named(hour: Hour):
    hour.run("--only", "second")
    assert not (hour.folder / "first.jsonl").exists()
    assert hour.measured("second") == each_size("c")


def test_a_kernel_that_fails_is_named_and_left_out(hour: Hour):
    hour.labels["first"].insert(1, "broken")
    lines = hour.run()
    assert hour.measured("first") == each_size("a", "b")
    failed = [line for line in lines if line.startswith("  failed: first, broken: ")]
    assert len(failed) == 1
    assert "wrong results" in failed[0]
    assert hour.measured("second") == each_size("c")


# }}}


# {{{ kernels that end their process


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("poison", "CUDA does nothing more in this process"),
        ("crash", "its process ended with signal 9"),
        ("hangs", "it told nothing for 1 s, and was ended"),
        ("bug", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_kernel_that_ends_its_process_is_met_twice_and_then_left_out(
    hour: Hour, monkeypatch: pytest.MonkeyPatch, label: str, reason: str
):
    monkeypatch.setattr(gpu_hour, "SILENCE", 1.0 if label == "hangs" else 60.0)
    hour.labels["first"].insert(1, label)
    lines = hour.run()
    assert len([line for line in lines if reason in line and line.endswith("begun again")]) == 2
    assert hour.measured("first") == each_size("a", "b")
    assert hour.measured("second") == each_size("c")
    assert f"  left out, since it was begun twice and never finished: first, {label}" in lines
    assert any(line.startswith("first: ") and line.endswith("all there are") for line in lines)
    # The next run does not meet it again.
    again = hour.run()
    assert hour.calls() == []
    assert f"  left out, since it was begun twice and never finished: first, {label}" in again


def test_what_the_end_of_the_time_breaks_off_is_not_to_blame(hour: Hour, monkeypatch: pytest.MonkeyPatch):
    hour.labels["first"] = ["hangs"]
    monkeypatch.setattr(gpu_hour, "GRACE", 0.5)
    monkeypatch.setattr(gpu_hour, "ends", lambda chosen, begin, seconds: [begin + 2] * len(chosen))
    lines = hour.run("--seconds", "0")
    assert lines[1].endswith(" configurations (the time was up)")
    assert Begun(hour.folder / "first.jsonl").times == {}


def test_an_error_that_is_none_of_ours_is_in_the_log_with_its_trace(hour: Hour):
    hour.labels["first"].append("bug")
    lines = hour.run()
    assert not any("Traceback" in line for line in lines)
    assert "Traceback" in (hour.folder / "log.txt").read_text()


def test_a_step_that_cannot_go_on_ends_itself_and_not_the_hour(hour: Hour):
    hour.folder.mkdir()
    (hour.folder / "first.jsonl").write_text("a poem\n")
    lines = hour.run(status=1)
    assert hour.measured("second") == each_size("c")
    assert [line for line in lines if line.startswith("gpu_hour.py: first: ")] == lines[-1:]


def test_what_was_finished_is_not_counted_as_begun(tmp_path: Path):
    archive = tmp_path / "archive.jsonl"
    for times in (1, 2):
        begun = Begun(archive)
        begun.begin("class", "fine")
        begun.begin("class", "fatal")
        assert Begun(archive).times == {("class", "fatal"): times}
    assert Begun(archive).skipped == {("class", "fatal")}
    begun.finish()
    assert Begun(archive).times == {}


# }}}


# {{{ the next run


def test_a_finished_hour_has_nothing_left_to_measure(hour: Hour):
    hour.run()
    assert hour.calls()
    assert [line.split(" s; ")[1] for line in hour.run()[1:]] == hour.counted()
    assert hour.calls() == []


@pytest.mark.parametrize("looks", [1, 2])
def test_a_run_goes_on_where_the_time_was_up(hour: Hour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int):
    hour.run()
    whole, archives = hour.calls(), {name: hour.measured(name) for name in hour.labels}
    hour.folder = tmp_path / "in parts"
    # The time is up when a process looks at the clock for the second or third time, before its second or third
    # configuration; seven are of the empty kernels. There is no second round, which would go on.
    moments = count()
    with monkeypatch.context() as short:
        short.setattr(gpu_hour, "time_is_up", lambda end: next(moments) >= looks)
        short.setattr(gpu_hour, "ends", lambda chosen, begin, seconds: [begin + 100] * len(chosen))
        lines = hour.run("--seconds", "0")
    first = hour.calls()
    assert lines[1].endswith(f"; left to do: {9 - looks} of 9 configurations (the time was up)")
    hour.run()
    assert {name: hour.measured(name) for name in hour.labels} == archives
    assert 0 < len(first) < len(whole)
    assert sorted(first + hour.calls()) == sorted(whole)


def test_without_time_nothing_is_begun(hour: Hour):
    lines = hour.run("--seconds", "0")
    assert hour.calls() == []
    assert lines[1:] == [
        f"{name}: 0 of 0 s; 0 measurements; left to do: whatever is not there (there was no time for it)"
        for name in hour.labels
    ]


# }}}


# {{{ the shell script


def script(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "POCL_MAX_PTHREAD_COUNT": "1"}
    command = ["sh", "benchmarks/gpu_hour.sh", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_shell_script_leaves_compressed_archives_and_what_the_machine_is(tmp_path: Path):
    folder = tmp_path / "hour"
    printed = ""
    for _ in range(2):
        # The second is over when the device is open: there is what was measured before the first look at the clock.
        finished = script(folder, "1", "opencl", "--only", "microbenchmarks")
        assert finished.returncode == 0, finished.stderr
        printed += finished.stdout
    names = {path.name for path in folder.iterdir()}
    assert names == {"microbenchmarks.jsonl", "microbenchmarks.jsonl.xz", "doctor.txt", "log.txt", "nvidia-smi.txt"}
    packed, archive = folder / "microbenchmarks.jsonl.xz", folder / "microbenchmarks.jsonl"
    assert lzma.decompress(packed.read_bytes()) == archive.read_bytes()
    assert read_archive(packed) == read_archive(archive)
    assert len(read_archive(archive).runs) == 2
    assert "OpenCL device: " in (folder / "doctor.txt").read_text()
    assert (folder / "log.txt").read_text() == printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backend", "opencl", "--only", "nonsense"), "no step is called nonsense; there are calibration, test-ker"),
        (("--backend", "bogus"), "unknown backend 'bogus'; choose from cuda, opencl"),
        (("--backend", "cuda"), "backend 'cuda' needs CuPy, "),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_a_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert gpu_hour.main([str(tmp_path), *options]) == 2
    refused = capsys.readouterr()
    assert (refused.out, refused.err.count("\n")) == ("", 1)
    assert refused.err.startswith(f"gpu_hour.py: {message}")


def test_the_shell_script_has_the_status_of_what_it_runs(tmp_path: Path):
    refused = script(tmp_path / "hour", "5", "bogus")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


# }}}
