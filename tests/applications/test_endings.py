"""However an application ends, its record says how far it is complete."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loopyperf.applications.record import read_record

APPLICATION = """
import os, signal, sys, time
import loopy as lp
import numpy as np
from tests.applications.programs import axpy

execute = axpy(lp.ExecutableCTarget()).executor()
x, y = np.ones(100), np.ones(100)
for _ in range(5):
    execute(x=x, y=y, s=1.0)
time.sleep(1.1)
execute(x=x, y=y, s=1.0)
"""


def run(tmp_path, ending, **variables):
    """Return the finished process of a profiled application with this *ending*."""
    program = tmp_path / "app.py"
    program.write_text(APPLICATION + ending)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | variables
    command = [sys.executable, "-m", "loopyperf", "profile", "--device", "nvidia-titan-v", "--parallelize"]
    return subprocess.run(
        [*command, str(program), "--steps", "6"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("ending", "status", "how", "calls"),
    [
        ("assert sys.argv[1:] == ['--steps', '6']", 0, "complete", 6),
        ("raise RuntimeError('boom')", 1, "the program raised RuntimeError: boom", 6),
        ("sys.exit(3)", 3, "the program exited with status 3", 6),
        (
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
            130,
            "interrupted",
            6,
        ),
        ("os._exit(4)", 4, None, 6),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, None, 6),
        ("pid = os.fork(); execute(x=x, y=y, s=1.0)\nif pid: os.waitpid(pid, 0)", 0, "complete", 7),
    ],
    ids=["complete", "raises", "exits", "interrupted", "os._exit", "killed", "forks"],
)
def test_ending(tmp_path, ending, status, how, calls):
    done, record = run(tmp_path, ending), read_record(tmp_path / "app.lpp")
    assert done.returncode == status, done.stderr
    assert (record.end and record.end.how) == how
    assert len(record.events) == calls
    if status in (0, 1, 3):
        assert "axpy(n=100)" in done.stdout
        assert (how == "complete") == ("the record ends" not in done.stdout)


def test_a_record_is_read_in_another_process(tmp_path):
    run(tmp_path, "")
    command = [sys.executable, "-m", "loopyperf", "profile", "--device", "nvidia-titan-v", "--parallelize", "app.lpp"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "100 % of the measured kernel time is predicted" in again.stdout


def test_the_first_of_several_ranks_is_recorded(tmp_path):
    done, record = run(tmp_path, "", PMI_RANK="0", PMI_SIZE="2"), read_record(tmp_path / "app.lpp")
    assert "MPI rank 0 of 2 is profiled" in done.stdout
    assert (record.start.rank, record.start.ranks) == (0, 2)
    (tmp_path / "app.lpp").unlink()
    other = run(tmp_path, "", PMI_RANK="1", PMI_SIZE="2")
    assert (other.returncode, other.stdout, other.stderr) == (0, "", "")
    assert not (tmp_path / "app.lpp").exists()
