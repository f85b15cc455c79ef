"""The tutorial's script, run in a fresh checkout, prints what the tutorial shows within ten minutes."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from tests.documents import ROOT, TUTORIAL, steps, steps_of
from tests.explain.pages.browser import chromium, needs_chromium, watching

SECONDS = 600
"""time limit of all steps (wall clock), because the tutorial promises ten minutes"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the walk is a script of a Unix shell")


@dataclass(frozen=True)
class Walk:
    """Folders, output and duration of a run of the tutorial's script."""

    checkout: Path
    folder: Path
    done: subprocess.CompletedProcess[str]
    seconds: float


def in_git(*options: str) -> list[str]:
    """Return the files of the repository that git lists."""
    listed = subprocess.run(["git", "ls-files", "-z", *options], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split("\0")[:-1]


def check_out(folder: Path) -> None:
    """Copy what a commit of all changes would contain, so that a file unknown to git is missing as in a clone.

    A copy of the last commit would not test the current changes.
    """
    for name in set(in_git()) - set(in_git("--deleted")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """Run the tutorial's script in a fresh checkout, with this environment's Python instead of a second `make env`."""
    pytest.importorskip("pyopencl")
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("only a clone by git knows which files a fresh checkout has")
    checkout, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("walk")
    check_out(checkout)
    subprocess.run([sys.executable, "hatch_build.py"], cwd=checkout, capture_output=True, check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPYPERF_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment |= {"PATH": path, "PYTHONPATH": str(checkout), "COLUMNS": "100"}
    script = checkout / TUTORIAL.relative_to(ROOT) / "walk.sh"
    start = monotonic()
    done = subprocess.run(
        ["sh", script, folder], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    return Walk(checkout, folder, done, monotonic() - start)


def test_script_prints_what_the_tutorial_shows_in_ten_minutes(walk: Walk) -> None:
    unknown = in_git("--others", "--exclude-standard")
    assert walk.done.returncode == 0, f"{walk.done.stdout}{walk.done.stderr}files that git does not have: {unknown}"
    walked = steps(walk.done.stdout)
    shown = steps_of(walk.checkout / TUTORIAL.relative_to(ROOT) / "index.md")
    assert [step.command for step in shown] == [step.command for step in walked]
    wrong = [made for expected, made in zip(shown, walked, strict=True) if not expected.prints(made.shown)]
    assert not wrong
    assert walk.seconds < SECONDS


@needs_chromium
def test_browser_shows_the_report_without_errors(walk: Walk) -> None:
    with chromium() as browser, watching(browser, (walk.folder / "report.html").as_uri()) as watched:
        assert watched.page.title() == "matmul: run time"
        (time,) = watched.texts(".time strong")
        assert time.replace("\N{NO-BREAK SPACE}", " ") in re.findall(
            r"model pipeline: (\S+ ms), bound", walk.done.stdout
        )
        assert watched.texts(".bars .binds")
        assert len(watched.texts("#source .cost .percent")) > 2


def test_fresh_checkout_has_only_files_known_to_git(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a clone by git knows which files a fresh checkout has")
    check_out(tmp_path)
    assert (tmp_path / "loopyperf" / "__init__.py").is_file()
    assert not (tmp_path / ".venv").exists()
    assert list(tmp_path.rglob("__pycache__")) == []
