"""Tests that could not run are reported after the last line, and fail if they are required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUST_TRY = "LOOPYPERF_MUST_TRY"
IN_BROWSER = "tests/explain/pages/test_in_browser.py"
NO_CHROMIUM = "there is no chromium: make browser, as root on Debian, installs it"


def run_tests(*arguments: str, without: tuple[str, ...] = (), **more: str) -> tuple[int, str]:
    """Run tests as if the modules *without* were not installed; return the exit status and the output."""
    lines = f"import sys; sys.modules |= dict.fromkeys({without!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", lines, "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != MUST_TRY} | more
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    return run.returncode, run.stdout


BY_WORKERS_TOO = pytest.mark.parametrize(
    "more", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "by workers"]
)


@BY_WORKERS_TOO
def test_browser_tests_are_reported_without_a_browser(more: tuple[str, ...]) -> None:
    status, shown = run_tests(*more, IN_BROWSER, PATH="")
    assert status == 0, shown
    *_, last = shown.splitlines()
    assert last.startswith("NOT TRIED: ")
    assert last.endswith(f" tests: {NO_CHROMIUM}")


@pytest.mark.slow
def test_nothing_is_reported_if_all_tests_ran() -> None:
    status, shown = run_tests("tests/test_units.py")
    assert status == 0, shown
    assert "NOT TRIED" not in shown


@BY_WORKERS_TOO
def test_required_browser_tests_fail_without_a_browser(more: tuple[str, ...]) -> None:
    status, shown = run_tests(*more, IN_BROWSER, "-k", "scripts", PATH="", LOOPYPERF_MUST_TRY="1")
    assert status == 1, shown
    assert f"{MUST_TRY} is set, but this cannot be tried: {NO_CHROMIUM}" in shown
    assert "NOT TRIED" not in shown


@pytest.mark.parametrize(
    ("file", "module", "status"),
    [("test_notebooks.py", "nbclient", 2), ("test_notebooks.py", "pyopencl", 1), ("test_tutorial.py", "pyopencl", 1)],
)
def test_required_notebooks_and_tutorial_fail_without_modules(file: str, module: str, status: int) -> None:
    only = "03_calibrate or tutorial"
    found, shown = run_tests(f"tests/{file}", "-m", "", "-k", only, without=(module,), LOOPYPERF_MUST_TRY="1")
    assert found == status, shown
    assert f"{MUST_TRY} is set, but this cannot be tried: " in shown


@pytest.mark.slow
def test_tests_of_optional_programs_are_never_required() -> None:
    status, shown = run_tests("tests/machine_code/test_divergence.py", PATH="", LOOPYPERF_MUST_TRY="1")
    assert status == 0, shown
    assert " tests: nvcc is not on the path" in shown
