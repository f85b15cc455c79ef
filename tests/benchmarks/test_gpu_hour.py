"""The measurement script gpu_hour.py on a synthetic device: order of steps, output, failures, and resumed runs."""

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
from parts.unfinished import UnfinishedConfigurations

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
    """A device that fails for some labels and logs calls to a file, because measurements run in other processes."""

    def __init__(self, calls: Path) -> None:
        super().__init__(linear_time)
        self._call_log = calls

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        label = case.configuration.label
        with self._call_log.open("a") as log:
            log.write(f"{case}, {runs}\n")
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
    """Runs of the script with two small steps on a synthetic device."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.labels = {"first": ["a", "b"], "second": ["c"]}
        self._call_log = folder.with_name("calls")
        monkeypatch.setattr(gpu_hour, "steps", self._steps)
        monkeypatch.setattr(gpu_hour, "opened", lambda *_: Failing(self._call_log))

    def _steps(self) -> Iterator[gpu_hour.Step]:
        for name, labels in self.labels.items():
            files = with_empty_kernel((kernel_file(name, *map(configuration, labels)),))
            yield gpu_hour.Step(name, 1, files, PROTOCOL)

    def run(self, *options: str, status: int = 0) -> list[str]:
        """Run the script and return the lines that it prints, those of standard error last."""
        self._call_log.write_text("")
        assert gpu_hour.main([str(self.folder), "--backend", "synthetic", *options]) == status
        printed = self._capsys.readouterr()
        return [*printed.out.splitlines(), *printed.err.splitlines()]

    def calls(self) -> list[str]:
        """Return the calls to the device in the latest run."""
        return self._call_log.read_text().splitlines()

    def measured(self, name: str) -> list[str]:
        standing = read_archive(self.folder / f"{name}.jsonl").standing
        return sorted(f"{each.label} {each.sizes['n']}" for each in standing if each.kernel_class != EMPTY_KERNEL)

    def summaries(self) -> list[str]:
        """Return what is printed for finished steps, including measurements of the empty kernel."""
        numbers = [len(read_archive(self.folder / f"{name}.jsonl").standing) for name in self.labels]
        return [f"{number} measurements, complete" for number in numbers]


@pytest.fixture
def hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hour:
    return Hour(tmp_path / "hour", monkeypatch, capsys)


def each_size(*labels: str) -> list[str]:
    return sorted(f"{label} {n}" for label in labels for n in (16, 32, 64, 128))


# {{{ steps


def test_steps_are_ordered_by_importance():
    occupancy = [f"occupancy-{each}" for each in gpu_hour.OCCUPANCY]
    names = [step.name for step in gpu_hour.steps()]
    assert names == ["calibration", "test-kernels", "microbenchmarks", *occupancy, "ranking"]
    assert [step.local_memory for step in gpu_hour.steps()] == [0] * 3 + list(gpu_hour.OCCUPANCY) + [0]


def test_occupancy_sweep_includes_the_test_kernels():
    four = {file.name for file in gpu_hour.loaded("test_kernels")}
    assert len(four) == 4
    for step in (step for step in gpu_hour.steps() if step.local_memory):
        assert four < {file.name for file in step.files}


def test_every_step_has_the_empty_kernel_and_other_kernels():
    for step in gpu_hour.steps():
        names = [file.name for file in step.files]
        if step.name != "microbenchmarks":  # has its own empty kernel
            assert names.count(EMPTY_KERNEL) == 1
        assert len(names) == len(set(names)) > 1


def test_unused_local_memory_is_passed_to_the_backend(monkeypatch: pytest.MonkeyPatch):
    requests: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(gpu_hour, "open_backend", lambda name, **options: requests.append((name, options)))
    gpu_hour.opened("cuda", None, 4096)
    gpu_hour.opened("opencl", "H100")
    assert requests == [("cuda", {"dynamic_local_memory": 4096}), ("opencl", {"device": "H100"})]


def test_occupancy_sweep_runs_on_pocl():
    rodinia = next(step for step in gpu_hour.steps() if step.local_memory)
    machine = open_backend("opencl")
    file = next(file for file in rodinia.files if file.name != EMPTY_KERNEL)
    form = file.configurations(machine.limits)[0]
    assert len(machine.time(BenchmarkCase(file.name, form, form.sizes[0]), 2).wall) == 2


# }}}


# {{{ time limits


def test_unused_time_goes_to_the_next_step():
    chosen = [gpu_hour.Step(str(share), share, (), PROTOCOL) for share in (40, 15, 45)]
    # A step may run until the shares of all steps up to it are over: 40, 55 and 100 % of 200 s, starting at 10 s.
    assert gpu_hour.ends(chosen, 10, 200) == pytest.approx([90, 120, 210])


def test_calibration_leaves_time_for_other_steps():
    shares = {step.name: step.share for step in gpu_hour.steps()}
    assert sum(shares.values()) == pytest.approx(100)
    assert 30 <= shares["calibration"] <= 50
    assert shares["ranking"] >= 10


def test_unfinished_step_resumes_if_time_is_left(hour: Hour, monkeypatch: pytest.MonkeyPatch):
    # The first step's 500 s count as over from the start; in the second round it has 1000 s.
    monkeypatch.setattr(gpu_hour, "time_is_up", lambda end: end - time.monotonic() < 750)
    lines = hour.run("--seconds", "1000")
    assert (hour.measured("first"), hour.measured("second")) == (each_size("a", "b"), each_size("c"))
    assert [line.split(" s; ")[1] for line in lines[1:]] == hour.summaries()


# }}}


# {{{ output


def test_each_step_writes_its_own_archive(hour: Hour):
    lines = hour.run()
    archives = ["first.jsonl", "second.jsonl"]
    packed = [f"{name}.xz" for name in archives]
    assert sorted(path.name for path in hour.folder.iterdir()) == sorted([*archives, *packed, "log.txt"])
    assert (hour.measured("first"), hour.measured("second")) == (each_size("a", "b"), each_size("c"))
    assert lines[0] == "measuring Synthetic Device 9000 with backend synthetic for 540 s"
    assert [line.split(": ")[0] for line in lines[1:]] == ["first", "second"]
    assert [line.split(" s; ")[1] for line in lines[1:]] == hour.summaries()
    assert (hour.folder / "log.txt").read_text().splitlines() == lines


def test_only_option_selects_steps(hour: Hour):
    hour.run("--only", "second")
    assert not (hour.folder / "first.jsonl").exists()
    assert hour.measured("second") == each_size("c")


def test_failed_kernel_is_reported_and_skipped(hour: Hour):
    hour.labels["first"].insert(1, "broken")
    lines = hour.run()
    assert hour.measured("first") == each_size("a", "b")
    failed = [line for line in lines if line.startswith("  failed: first, broken: ")]
    assert len(failed) == 1
    assert "wrong results" in failed[0]
    assert hour.measured("second") == each_size("c")


# }}}


# {{{ kernels that terminate their process


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("poison", "CUDA does nothing more in this process"),
        ("crash", "process ended with signal 9"),
        ("hangs", "no progress for 1 s; process killed"),
        ("bug", "ZeroDivisionError: division by zero"),
    ],
)
def test_kernel_that_ends_its_process_is_skipped_after_two_tries(
    hour: Hour, monkeypatch: pytest.MonkeyPatch, label: str, reason: str
):
    monkeypatch.setattr(gpu_hour, "TIMEOUT", 1.0 if label == "hangs" else 60.0)
    hour.labels["first"].insert(1, label)
    lines = hour.run()
    assert len([line for line in lines if reason in line and line.endswith("restarting")]) == 2
    assert hour.measured("first") == each_size("a", "b")
    assert hour.measured("second") == each_size("c")
    assert f"  skipped, started twice without finishing: first, {label}" in lines
    assert any(line.startswith("first: ") and line.endswith("complete") for line in lines)
    # An unexpected error is logged with its traceback.
    assert ("Traceback" in (hour.folder / "log.txt").read_text()) == (label == "bug")
    assert not any("Traceback" in line for line in lines)
    # The next run skips it.
    again = hour.run()
    assert hour.calls() == []
    assert f"  skipped, started twice without finishing: first, {label}" in again


def test_time_limit_does_not_count_as_a_failed_try(hour: Hour, monkeypatch: pytest.MonkeyPatch):
    hour.labels["first"] = ["hangs"]
    monkeypatch.setattr(gpu_hour, "GRACE", 0.5)
    monkeypatch.setattr(gpu_hour, "ends", lambda chosen, begin, seconds: [begin + 2] * len(chosen))
    lines = hour.run("--seconds", "0")
    assert lines[1].endswith(" configurations (out of time)")
    assert UnfinishedConfigurations(hour.folder / "first.jsonl").starts == {}


def test_failed_step_does_not_stop_other_steps(hour: Hour):
    hour.folder.mkdir()
    (hour.folder / "first.jsonl").write_text("a poem\n")
    lines = hour.run(status=1)
    assert hour.measured("second") == each_size("c")
    assert [line for line in lines if line.startswith("gpu_hour.py: first: ")] == lines[-1:]


def test_finished_configurations_are_not_counted_as_started(tmp_path: Path):
    archive = tmp_path / "archive.jsonl"
    for times in (1, 2):
        unfinished = UnfinishedConfigurations(archive)
        unfinished.begin("class", "fine")
        unfinished.begin("class", "fatal")
        assert UnfinishedConfigurations(archive).starts == {("class", "fatal"): times}
    assert UnfinishedConfigurations(archive).skipped == {("class", "fatal")}
    unfinished.finish()
    assert UnfinishedConfigurations(archive).starts == {}


# }}}


# {{{ resumed runs


def test_finished_run_measures_nothing_again(hour: Hour):
    hour.run()
    assert hour.calls()
    assert [line.split(" s; ")[1] for line in hour.run()[1:]] == hour.summaries()
    assert hour.calls() == []


@pytest.mark.parametrize("looks", [1, 2])
def test_run_resumes_after_the_time_limit(hour: Hour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int):
    hour.run()
    whole, archives = hour.calls(), {name: hour.measured(name) for name in hour.labels}
    hour.folder = tmp_path / "in parts"
    # The time is up when a process checks the clock for the second or third time, before its second or third
    # configuration; seven of the nine are of the empty kernel. There is no second round, which would continue.
    clock_checks = count()
    with monkeypatch.context() as short:
        short.setattr(gpu_hour, "time_is_up", lambda end: next(clock_checks) >= looks)
        short.setattr(gpu_hour, "ends", lambda chosen, begin, seconds: [begin + 100] * len(chosen))
        lines = hour.run("--seconds", "0")
    first = hour.calls()
    assert lines[1].endswith(f"; remaining: {9 - looks} of 9 configurations (out of time)")
    hour.run()
    assert {name: hour.measured(name) for name in hour.labels} == archives
    assert 0 < len(first) < len(whole)
    assert sorted(first + hour.calls()) == sorted(whole)


def test_run_without_time_measures_nothing(hour: Hour):
    lines = hour.run("--seconds", "0")
    assert hour.calls() == []
    assert lines[1:] == [
        f"{name}: 0 of 0 s; 0 measurements; remaining: all that are missing (not started, out of time)"
        for name in hour.labels
    ]


# }}}


# {{{ the shell script


def script(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "POCL_MAX_PTHREAD_COUNT": "1"}
    command = ["sh", "benchmarks/gpu_hour.sh", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_shell_script_writes_archives_and_system_information(tmp_path: Path):
    folder = tmp_path / "hour"
    printed = ""
    for _ in range(2):
        # Opening the device takes the whole second, so only measurements before the first check of the clock exist.
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
        (("--backend", "opencl", "--only", "nonsense"), "unknown step 'nonsense'; choose from calibration, test-ker"),
        (("--backend", "bogus"), "unknown backend 'bogus'; choose from cuda, opencl"),
        (("--backend", "cuda"), "backend 'cuda' needs CuPy, "),
    ],
)
def test_invalid_options_print_one_line_and_exit_with_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert gpu_hour.main([str(tmp_path), *options]) == 2
    result = capsys.readouterr()
    assert (result.out, result.err.count("\n")) == ("", 1)
    assert result.err.startswith(f"gpu_hour.py: {message}")


@pytest.mark.slow
def test_shell_script_returns_the_exit_status_of_the_run(tmp_path: Path):
    result = script(tmp_path / "hour", "5", "bogus")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)


# }}}
