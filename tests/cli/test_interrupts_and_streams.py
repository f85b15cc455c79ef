"""Tests of commands that end early: interrupted or terminated, or whose output cannot be encoded."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import loopyperf as lpp
from loopyperf.cli import main, measuring
from loopyperf.cli.progress import RESUME_NOTE
from tests.cli.runner import run

ROOT = Path(__file__).parents[2]
DOUBLED = f"{ROOT / 'tests' / 'kernels.py'}:doubled"


def interrupted(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


def test_interrupt_gives_one_line_and_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpp, "estimate", interrupted)
    ended = run("estimate", DOUBLED, "--set", "n=64")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", "Interrupted\n")


def test_interrupt_on_a_terminal_starts_a_new_line(tmp_path: Path) -> None:
    file = tmp_path / "interrupting.py"
    file.write_text("raise KeyboardInterrupt", encoding="utf-8")
    screen, terminal = os.openpty()
    started = [sys.executable, "-m", "loopyperf", "estimate", f"{file}:f"]
    subprocess.run(started, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=terminal, check=False)
    assert os.read(screen, 1000) == b"\r\nInterrupted\r\n"


@pytest.mark.parametrize(
    ("command", "module", "works"),
    [
        ("calibrate", lpp, "calibrate"),
        ("microbenchmark", measuring, "run_microbenchmarks"),
        ("validate", lpp, "validate"),
    ],
)
def test_interrupted_campaign_says_how_to_resume(
    command: str, module: object, works: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, works, interrupted)
    ended = run(command)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", f"Interrupted: {RESUME_NOTE}\n")


def run_with_module(module: str, source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return how a command ends if *source* replaces a *module* that it imports."""
    (folder / f"{module}.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    started = [sys.executable, "-m", "loopyperf", "estimate", "nowhere.py:f"]
    return subprocess.run(started, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["click", "islpy"])
def test_interrupt_during_imports_gives_one_line_and_status_130(module: str, tmp_path: Path) -> None:
    ended = run_with_module(module, "raise KeyboardInterrupt", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted\n")


@pytest.mark.parametrize("module", ["click", "islpy"])
def test_import_error_gives_one_line_and_status_1(module: str, tmp_path: Path) -> None:
    ended = run_with_module(module, "raise ImportError('it is torn\\n\\nto pieces')", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert ended.stderr.startswith("Error: loopyperf cannot start: it is torn to pieces; ")


def test_os_error_gives_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise OSError(28, "No space left on device", "fit.json")

    monkeypatch.setattr(lpp, "estimate", refused)
    with pytest.raises(SystemExit) as ended:
        main(["estimate", DOUBLED, "--set", "n=64"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("Error: fit.json: No space left on device")


# {{{ environment


def run_estimate(**variables: str) -> subprocess.CompletedProcess[bytes]:
    """Return how an estimate ends with these environment *variables*."""
    words = ["estimate", DOUBLED, "--set", "n=65536", "--device", "nvidia-v100", "--model", "roofline"]
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    environment |= {"PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-m", "loopyperf", *words], env=environment, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def printed() -> str:
    """Return the output of an estimate."""
    return run_estimate(PYTHONIOENCODING="utf-8").stdout.decode()


def test_ascii_output_replaces_other_characters(printed: str) -> None:
    plain = run_estimate(PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stderr) == (0, b"")
    assert "µs" in printed
    assert plain.stdout.decode("ascii").split() == printed.encode("ascii", "backslashreplace").decode().split()


def test_unwritable_cache_gives_an_estimate_and_one_warning(printed: str) -> None:
    ended = run_estimate(PYTHONIOENCODING="utf-8", HOME="/proc", LOOPYPERF_CACHE="")
    assert ended.returncode == 0
    assert ended.stdout.decode() == printed
    assert ended.stderr.startswith(b"Warning: cannot write caches to /proc/")
    assert ended.stderr.count(b"\n") == 1


def test_python_imports_loopy_without_a_writable_cache() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": "/proc"}
    words = [sys.executable, "-c", "import loopyperf as lpp, loopy; print(lpp.load_device('nvidia-v100').slug)"]
    ended = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout.split()) == (0, [b"nvidia-v100"])


HANGING = """
import itertools, os
def spin():
    open(str(os.getpid()), "w").close()
    sum(itertools.repeat(1, 10**11))
variants = {"one": spin, "other": spin}
"""
"""computes in C code, where Python handles no signals"""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)],
)
def test_terminated_command_leaves_no_workers(number: int, status: int, tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    words = ["rank", "hanging.py:variants", "--set", "n=64", "--device", "nvidia-v100", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has children ignore it
    command = subprocess.Popen(
        [sys.executable, "-m", "loopyperf", *words], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    )
    signal.signal(signal.SIGHUP, inherited)
    try:
        wait_until(lambda: len(workers(tmp_path)) == 2)
        command.send_signal(number)
        _, message = command.communicate(timeout=60)
    finally:
        command.kill()  # its workers compute without end
    assert (command.returncode, message) == (status, b"Terminated\n")
    wait_until(lambda: not any(is_alive(each) for each in workers(tmp_path)))


def workers(folder: Path) -> list[int]:
    return [int(each.name) for each in folder.iterdir() if each.name.isdecimal()]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until *holds* returns true; fail after *seconds*."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


# }}}
