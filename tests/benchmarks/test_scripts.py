"""Every script of benchmarks/ can be started: what it asks of the library, and of the other scripts, is there."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from loopyperf.stages.cache import cache_folder

ROOT = Path(__file__).parents[2]
FOR_PYTEST = {"conftest", "test_speed"}
SCRIPTS = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - FOR_PYTEST)


def test_a_script_is_imported_and_says_what_it_is_for(subtests: pytest.Subtests):
    for name in SCRIPTS:
        with subtests.test(name=name):
            assert (import_module(name).__doc__ or "").strip()


def test_there_are_scripts():
    assert {"gpu_hour", "ranking", "titan_v_fit"} <= set(SCRIPTS)


SWITCHES = """
import os, sys
from importlib import import_module
for name in sys.argv[1:]:
    os.environ.pop("LOOPYPERF_CACHE", None)
    for known in [each for each in sys.modules if each.partition(".")[0] in ("parts", *sys.argv[1:])]:
        del sys.modules[known]
    import_module(name)
    print(name, os.environ.get("LOOPYPERF_CACHE"), "loopyperf" in sys.modules)
"""


def test_no_script_reads_the_users_cache_of_answers_or_fills_it(tmp_path: Path):
    beside = {"PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT}", "PATH": "", "HOME": str(tmp_path)}
    # Of measured kernels, and of the simulator alone, nothing is cached.
    asking = sorted({*SCRIPTS} - {"counted_kernels", "simulator_speed"})
    started = [sys.executable, "-c", SWITCHES, *asking]
    said = subprocess.run(started, env=beside, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [f"{name} 0 True" for name in asking]


def test_no_target_of_make_and_no_test_does():
    assert "export LOOPYPERF_CACHE = 0\n" in (ROOT / "Makefile").read_text()
    assert cache_folder() is None
