"""The tutorial's script prints what the tutorial shows: the walk of a newcomer, in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, TUTORIAL, steps, steps_of


@pytest.mark.skipif(os.name != "posix", reason="the walk is a script of a Unix shell")
def test_the_walk_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    here = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    walk = subprocess.run(
        ["sh", TUTORIAL / "walk.sh", tmp_path / "walk"],
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        check=False,
    )
    assert walk.returncode == 0, walk.stdout + walk.stderr
    walked = steps(walk.stdout)
    shown = steps_of(TUTORIAL / "index.md")
    assert [step.command for step in shown] == [step.command for step in walked]
    wrong = [made for expected, made in zip(shown, walked, strict=True) if not expected.prints(made.shown)]
    assert not wrong
