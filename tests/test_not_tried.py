"""What a run of the tests did not try is said below its last line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "by workers"])
def test_tests_of_pages_are_said_to_be_not_tried_where_there_is_no_browser(more: tuple[str, ...]) -> None:
    asked = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *more, "tests/reports/test_in_browser.py"]
    run = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PATH": ""})
    assert run.returncode == 0, run.stdout
    *_, last = run.stdout.splitlines()
    assert last.startswith("NOT TRIED: ")
    assert last.endswith(" tests: there is no chromium: make browser, as root on Debian, installs it")


def test_nothing_is_said_where_everything_was_tried() -> None:
    asked = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_units.py"]
    run = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout
    assert "NOT TRIED" not in run.stdout
